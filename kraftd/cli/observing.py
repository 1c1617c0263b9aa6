"""Copies the committed log of a running quorum, of kraftd or of Kafka, as an observer gets it.

`copied_log` finds the active controller, fetches from it over Kafka's wire without an id, so that it is
counted nowhere, and writes what comes as a node's directory with a manifest: a snapshot first, where the
controller sends one, and the batches behind it, up to the high watermark of the first response. Whatever
reads directories reads that.

A fetch that a new leader refuses begins anew with that leader: nothing of an unfinished copy is kept.
"""

import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import msgspec

from kraftd.cli.active_controller import ask_controller
from kraftd.cli.client import KafkaConnection, error_name, raise_for
from kraftd.cli.failures import CommandError, RefusedError, UnhealthyError
from kraftd.cli.output import to_json
from kraftd.cli.waiting import answered
from kraftd.errors import CorruptBatchError, ErrorCode
from kraftd.logtools.manifest import MANIFEST, MANIFEST_FORMAT, Manifest
from kraftd.protocol import messages as m
from kraftd.records import names
from kraftd.records.batch import scan
from kraftd.types import METADATA_TOPIC, METADATA_TOPIC_ID, NO_NODE, Endpoint, Offset, OffsetAndEpoch

_REQUEST_TIMEOUT_MS = 10_000
_FETCH_BYTES = 1 << 20
_WAIT_MS = 500
_LEADER_MOVED = frozenset({ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH})
"""Errors that tell the leader's epoch."""
_NOT_A_CONTROLLER = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


def copied_log(bootstrap: Sequence[Endpoint], folder: Path, timeout_ms: int) -> None:
    """Write what the active controller has committed into a folder.

    Raises:
        NotConnectedError: No node answers.
        UnhealthyError: None of them is the active controller, or it changed again and again.
        RefusedError: It does not serve fetches.
        CommandError: What it sent is damaged.
    """

    def copy(controller: KafkaConnection) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        (folder / names.LOG_DIRECTORY).mkdir(parents=True)
        _Copy(controller, folder).run()

    ask_controller(bootstrap, copy, timeout_ms, changes=False)


class _Copy:
    """One attempt, at one controller."""

    def __init__(self, controller: KafkaConnection, folder: Path) -> None:
        self._controller = controller
        self._folder = folder
        self._log = folder / names.LOG_DIRECTORY
        self._epoch, self._leader_id = 0, NO_NODE
        self._position = OffsetAndEpoch(0, 0)
        self._start: Offset = 0

    def run(self) -> None:
        """Copy snapshot and batches, then write the manifest."""
        partition = self._fetch()
        answered()
        if partition.snapshot_id.end_offset >= 0:
            self._load(OffsetAndEpoch(partition.snapshot_id.end_offset, partition.snapshot_id.epoch))
            partition = self._fetch()
        end = partition.high_watermark
        if end < 0:
            raise UnhealthyError(f"{self._controller.endpoint}: it leads, but has committed nothing yet")
        with (self._log / names.segment_name(self._start)).open("wb") as segment:
            segment.write(self._committed(partition, end))
            while self._position.offset < end:
                segment.write(self._committed(self._fetch(), end))
        self._write_manifest(end)

    def _fetch(self) -> m.FetchResponsePartitionData:
        """Fetch at the position, in the leader's epoch, which a first refusal tells."""
        partition = self._fetch_once()
        if partition.error_code in _LEADER_MOVED and self._epoch != partition.current_leader.leader_epoch:
            if self._position.offset:
                raise UnhealthyError(f"{self._controller.endpoint}: the leader changed during the copy")
            self._epoch = partition.current_leader.leader_epoch
            self._leader_id = partition.current_leader.leader_id
            partition = self._fetch_once()
        self._check(partition.error_code)
        if partition.diverging_epoch.end_offset >= 0:
            raise UnhealthyError(f"{self._controller.endpoint}: its log was truncated during the copy")
        return partition

    def _fetch_once(self) -> m.FetchResponsePartitionData:
        partition = m.FetchRequestFetchPartition(
            current_leader_epoch=self._epoch,
            fetch_offset=self._position.offset,
            last_fetched_epoch=self._position.epoch,
            partition_max_bytes=_FETCH_BYTES,
        )
        topic = m.FetchRequestFetchTopic(
            topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=(partition,)
        )
        request = m.FetchRequest(max_wait_ms=_WAIT_MS, max_bytes=_FETCH_BYTES, topics=(topic,))
        response = self._controller.call(request, m.FetchResponse, _REQUEST_TIMEOUT_MS)
        self._check(response.error_code)
        return response.responses[0].partitions[0]

    def _load(self, snapshot_id: OffsetAndEpoch) -> None:
        """Copy a snapshot, and go on behind it."""
        with (self._log / names.snapshot_name(snapshot_id)).open("wb") as file:
            while True:
                partition = self._fetch_snapshot(snapshot_id, file.tell())
                file.write(cast("bytes", partition.unaligned_records))
                if file.tell() >= partition.size:
                    break
                if not partition.unaligned_records:
                    raise CommandError(f"{self._controller.endpoint}: a piece of its snapshot is empty")
        self._position, self._start = snapshot_id, snapshot_id.offset

    def _fetch_snapshot(
        self, snapshot_id: OffsetAndEpoch, position: int
    ) -> m.FetchSnapshotResponsePartitionSnapshot:
        partition = m.FetchSnapshotRequestPartitionSnapshot(
            current_leader_epoch=self._epoch,
            snapshot_id=m.FetchSnapshotRequestSnapshotId(snapshot_id.offset, snapshot_id.epoch),
            position=position,
        )
        topic = m.FetchSnapshotRequestTopicSnapshot(METADATA_TOPIC, (partition,))
        request = m.FetchSnapshotRequest(max_bytes=_FETCH_BYTES, topics=(topic,))
        response = self._controller.call(request, m.FetchSnapshotResponse, _REQUEST_TIMEOUT_MS)
        self._check(response.error_code)
        found = response.topics[0].partitions[0]
        self._check(found.error_code)
        return found

    def _check(self, error_code: int) -> None:
        """End the attempt for an error: another may succeed if the leader or the snapshot is another."""
        if error_code in _NOT_A_CONTROLLER:
            text = "it has no metadata log to be fetched: name a controller, not a broker"
            raise RefusedError(f"{self._controller.endpoint}: {text}")
        if error_code == ErrorCode.SNAPSHOT_NOT_FOUND:
            raise UnhealthyError(f"{self._controller.endpoint}: {error_name(error_code)}")
        raise_for(error_code, None, str(self._controller.endpoint))

    def _committed(self, partition: m.FetchResponsePartitionData, end: Offset) -> bytes:
        """Of batches that were fetched, those below the end; the position is behind them then.

        Kafka cuts what it sends to the size that it sends at most, also within a batch, unless that is the
        first: the part is dropped, and fetched again as a whole.
        """
        kept = []
        try:
            for batch in scan(cast("bytes", partition.records or b"")):
                if batch.end_offset > end:
                    break
                kept.append(bytes(batch.raw))
                self._position = OffsetAndEpoch(batch.end_offset, batch.epoch)
        except CorruptBatchError as error:
            if error.torn and kept:
                return b"".join(kept)
            raise CommandError(f"{self._controller.endpoint}: what it sent is damaged: {error}") from error
        return b"".join(kept)

    def _write_manifest(self, end: Offset) -> None:
        manifest = Manifest(
            format=MANIFEST_FORMAT,
            cluster_id=self._cluster_id(),
            node_id=self._leader_id,
            directory_id=None,
            epoch=self._epoch,
            leader_id=self._leader_id,
            high_watermark=end,
            log_start_offset=self._start,
            log_end_offset=end,
            exported_at_ms=time.time_ns() // 1_000_000,
        )
        (self._folder / MANIFEST).write_text(to_json(msgspec.to_builtins(manifest)) + "\n")

    def _cluster_id(self) -> str | None:
        """What the controller says that it belongs to; one before Kafka 3.7 says nothing."""
        version = self._controller.version_of(m.DescribeClusterRequest)
        if not version:
            return None
        request = m.DescribeClusterRequest(endpoint_type=2)
        response = self._controller.call(request, m.DescribeClusterResponse, _REQUEST_TIMEOUT_MS)
        return response.cluster_id or None
