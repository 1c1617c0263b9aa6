"""Small metadata logs for tests, written batch by batch as a node would."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from kraftd.logtools.finding import find_log
from kraftd.logtools.points import Point
from kraftd.logtools.state import state_at
from kraftd.metadata.image import to_records
from kraftd.records import epoch_checkpoint, meta_properties, names, quorum_state
from kraftd.records.batch import encode_batch, encode_control_batch
from kraftd.records.control import AnyControl, encode_control
from kraftd.records.frame import AnyRecord, encode_record
from kraftd.records.messages import (
    ConfigRecord,
    FeatureLevelRecord,
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeMessageVoter,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    VotersRecord,
    VotersRecordEndpoint,
    VotersRecordVoter,
)
from kraftd.records.snapshot import encode_snapshot
from kraftd.types import Election, EpochEntry, OffsetAndEpoch

T0 = 1_700_000_000_000
ORDERS = b"orders".ljust(16, b"\1")


class LogMaker:
    """A node's directory with a log that grows. A batch a second, all in one segment until `roll`."""

    def __init__(self, home: Path, node_id: int = 1, start: int = 0) -> None:
        self.home = home
        self.log = home / names.LOG_DIRECTORY
        self.log.mkdir(parents=True)
        properties = meta_properties.MetaProperties("cluster", node_id, bytes(15) + bytes([node_id]))
        (home / names.META_PROPERTIES).write_bytes(meta_properties.encode(properties))
        self.end = start
        self.epoch = 0
        self.seconds = 0
        self.epochs: list[EpochEntry] = []
        self.segment = self.log / names.segment_name(start)
        self.segment.touch()

    def lead(self, leader_id: int, epoch: int) -> "LogMaker":
        """A new leader; it is voted by 1, 2 and 3."""
        voters = tuple(LeaderChangeMessageVoter(voter_id=n) for n in (1, 2, 3))
        change = encode_control(LeaderChangeMessage(leader_id=leader_id, voters=voters))
        self.epoch = epoch
        self.epochs.append(EpochEntry(epoch, self.end))
        (self.log / names.EPOCH_CHECKPOINT).write_bytes(epoch_checkpoint.encode(self.epochs))
        election = quorum_state.encode(Election(epoch, leader_id), version=0)
        (self.log / names.QUORUM_STATE).write_bytes(election)
        self._append(encode_control_batch(self.end, epoch, self._now(), [change]), 1)
        return self

    def voters(self, *ids: int) -> "LogMaker":
        """From here on these vote, and the log says so."""
        self._append(
            encode_control_batch(
                self.end, self.epoch, self._now(), [encode_control(one) for one in dynamic(*ids)]
            ),
            2,
        )
        return self

    def batch(self, *records: AnyRecord, at_ms: int | None = None) -> "LogMaker":
        """One batch."""
        values = [encode_record(record) for record in records]
        now = self._now()
        data = encode_batch(self.end, self.epoch, now if at_ms is None else at_ms, values)
        self._append(data, len(records))
        return self

    def roll(self) -> "LogMaker":
        """A new segment."""
        self.segment = self.log / names.segment_name(self.end)
        self.segment.touch()
        return self

    def snapshot(self, *extra: AnyRecord, voters: tuple[int, ...] = ()) -> Path:
        """A snapshot of the state at the end; with records in it that the log does not make."""
        image = state_at(find_log(self.home), Point("", self.end)).image
        records = [*to_records(image), *extra]
        return write_snapshot(
            self.log, OffsetAndEpoch(self.end, self.epoch), records, self._now(), voters=voters
        )

    def copy(self, home: Path, node_id: int) -> "LogMaker":
        """Another node with the same log so far."""
        other = LogMaker(home, node_id, self.end)
        shutil.copytree(self.log, other.log, dirs_exist_ok=True)
        if other.segment != self.segment:
            (other.log / other.segment.name).unlink(missing_ok=True)
        other.segment = other.log / self.segment.name
        other.epoch, other.seconds, other.epochs = self.epoch, self.seconds, list(self.epochs)
        return other

    def _append(self, data: bytes, count: int) -> None:
        with self.segment.open("ab") as file:
            file.write(data)
        self.end += count

    def _now(self) -> int:
        self.seconds += 1
        return T0 + 1_000 * self.seconds


def write_snapshot(
    directory: Path,
    snapshot_id: OffsetAndEpoch,
    records: Sequence[AnyRecord],
    now_ms: int,
    voters: tuple[int, ...] = (),
) -> Path:
    values = [encode_record(one) for one in records]
    pieces = encode_snapshot(
        values, snapshot_id.epoch, now_ms, last_contained_timestamp_ms=now_ms, quorum=dynamic(*voters)
    )
    path = directory / names.snapshot_name(snapshot_id)
    path.write_bytes(b"".join(pieces))
    return path


def dynamic(*ids: int) -> list[AnyControl]:
    """The control records that say who votes."""
    voters = tuple(
        VotersRecordVoter(
            voter_id=n,
            voter_directory_id=bytes([n]) * 16,
            endpoints=(VotersRecordEndpoint(name="CONTROLLER", host="localhost", port=9090 + n),),
        )
        for n in ids
    )
    return [KRaftVersionRecord(kraft_version=1), VotersRecord(voters=voters)] if ids else []


def config(value: str | None, name: str = "retention.ms", topic: str = "orders") -> ConfigRecord:
    return ConfigRecord(resource_type=2, resource_name=topic, name=name, value=value)


def broker(node_id: int, epoch: int = 1) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(broker_id=node_id, broker_epoch=epoch, incarnation_id=bytes([epoch]) * 16)


def partition(number: int = 0, leader: int = 1) -> PartitionRecord:
    return PartitionRecord(
        partition_id=number,
        topic_id=ORDERS,
        replicas=(1, 2, 3),
        isr=(1, 2, 3),
        leader=leader,
        leader_epoch=0,
        partition_epoch=0,
    )


def moved(number: int = 0, **changes: object) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=number, topic_id=ORDERS, **changes)


def orders(home: Path) -> LogMaker:
    """0 leader 1; 1 version; 2-3 brokers; 4-6 orders, 2 partitions; 7 config; 8 leader 2; 9 moved; 10 ISR."""
    made = LogMaker(home).lead(1, 1)
    made.batch(FeatureLevelRecord(name="metadata.version", feature_level=30))
    made.batch(broker(1), broker(2))
    made.batch(TopicRecord(name="orders", topic_id=ORDERS), partition(0), partition(1))
    made.batch(config("1000"))
    made.lead(2, 3)
    made.batch(moved(0, leader=2))
    made.batch(moved(1, isr=(1, 2)))
    return made
