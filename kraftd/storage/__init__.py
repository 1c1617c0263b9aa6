"""Files: segments, the log, the election file, the sidecar, a node's directory (D-02..D-06, D-15, D-17).

Synchronous and free of threads, over one file-system seam. A daemon enters by `NodeDirectory.open`, tools by
`format_directory` and `Log.open(…, read_only=True)`. Three values leave the loop's thread:
a `FlushJob`, a `ReaderView` and a `PresenceCheck`.
"""

from kraftd.storage.damage import Damage
from kraftd.storage.disk import Disk, StorageFailure
from kraftd.storage.filesystem import Access, FileSystem, OsFileSystem
from kraftd.storage.flush import FlushJob
from kraftd.storage.formatting import Formatted, format_directory
from kraftd.storage.log import Log, LogConfig, Opened, OpenReport
from kraftd.storage.log_reader import DamagedReadError, OffsetOutOfRangeError, ReaderView
from kraftd.storage.node_directory import NodeDirectory
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
