"""Files: segments, the log, the election file, the sidecar, a node's directory (D-02..D-06, D-15, D-17).

Synchronous and free of threads; the disk is reached by one interface, `FileSystem`. A daemon enters by
`NodeDirectory.open`; tools by `format_directory` and `forget_peers`, and, only to look, by
`Log.open(…, read_only=True)`, `survey_snapshots`, `read_sidecar`, `read_bootstrap`, `judge_election` and
`lost_log`. Seven values leave the loop's thread: a `FlushJob`, a `ReaderView`, a `SegmentCheck`, a
`PresenceCheck`, a `SnapshotWriter`, a `SnapshotReader` and a `Removal`. A module imports from its own line
and from those below it:

    formatting  forgetting          before the first start; making stopped nodes forget the other voters
    node_directory                  all that one node keeps on disk; opened in the order that keeps promises
    opening                         its steps, file by file
    log                             the log: appended to, flushed, truncated, cut, read by offset
    log_start                       where an opened log begins, by the snapshots beside it
    recovery  log_scan              a start: torn ends cut, damage told from them
    unread_segments                 what a start takes as it is, and reading that afterwards
    segment_chain  log_reader       the files of the log; batches read back
    election_store  presence        `quorum-state`; is the directory still ours
    snapshot_files                  which snapshots there are, and which are read
    bootstrap                       what a new cluster begins with, in files of the form of a snapshot
    snapshots                       a snapshot written, proved and named
    sidecar  flush                  `kraftd.state`, what has no place in Kafka's files; a flush as a value
    epoch_checkpoint                `leader-epoch-checkpoint`
    batch_scanner                   the sound batches of a segment
    segment  segment_index          one `.log` file; its `.index` and `.timeindex`
    removal                         files that go when nobody reads them any more; what a crash leaves
    damage  disk  filesystem        what was lost, in words; the disk and its first failure; every system call
"""

from kraftd.storage.damage import Damage
from kraftd.storage.disk import Disk, StorageFailure
from kraftd.storage.filesystem import Access, FileSystem, OsFileSystem
from kraftd.storage.flush import FlushJob
from kraftd.storage.formatting import Formatted, format_directory
from kraftd.storage.log import Log, Opened
from kraftd.storage.log_reader import DamagedReadError, OffsetOutOfRangeError, ReaderView
from kraftd.storage.log_start import OpenReport
from kraftd.storage.node_directory import NodeDirectory
from kraftd.storage.segment import LogConfig
from kraftd.storage.sidecar import SidecarState

__all__ = [
    "Access",
    "Damage",
    "DamagedReadError",
    "Disk",
    "FileSystem",
    "FlushJob",
    "Formatted",
    "Log",
    "LogConfig",
    "NodeDirectory",
    "OffsetOutOfRangeError",
    "OpenReport",
    "Opened",
    "OsFileSystem",
    "ReaderView",
    "SidecarState",
    "StorageFailure",
    "format_directory",
]
