"""Attacks by way of snapshots: FetchSnapshot of what is not there, too often, and by who reads nothing.

A quorum of their own writes snapshots often, of a large image.
"""

import struct
import time
from collections.abc import Iterator
from pathlib import PurePath

from kraftd.records import names
from kraftd.types import OffsetAndEpoch
from tests.hostile import wire
from tests.hostile.attacks_costly import fill_image
from tests.hostile.client import Line
from tests.hostile.ground import CLIENT, OBSERVER, Ground, attack, unharmed
from tests.kafka_frames import uvarint

OFTEN = {"settings": {"metadata.log.max.record.bytes.between.snapshots": "2000000"}}
HEAD = b"\0\x3b\0\0\0\0\0\1\xff\xff\0"
"""Of FetchSnapshot, version 0."""

MEBIBYTE = 1 << 20
WRITTEN_S = 60.0
EDGES_32 = (0, 1, -1, (1 << 31) - 1, -(1 << 31))
EDGES_64 = (0, 1, -1, (1 << 63) - 1, -(1 << 63))


def frame(
    snapshot: OffsetAndEpoch,
    position: int,
    *,
    epoch: int,
    replica_id: int = -1,
    max_bytes: int = MEBIBYTE,
    topics: int = 1,
) -> bytes:
    """A whole frame that asks for a piece of a snapshot, for so many topics."""
    partition = struct.pack(">iiqi", 0, epoch, snapshot.offset, snapshot.epoch) + b"\0"
    partition += struct.pack(">q", position) + b"\0"
    name = wire.METADATA_TOPIC.encode()
    topic = uvarint(len(name) + 1) + name + b"\2" + partition + b"\0"
    body = HEAD + struct.pack(">ii", replica_id, max_bytes) + uvarint(topics + 1) + topic * topics + b"\0"
    return len(body).to_bytes(4, "big") + body


def snapshots_of(line: Line) -> list[OffsetAndEpoch]:
    """What the node at the other end has, the newest last."""
    ids = (
        names.parse_snapshot_name(PurePath(each["Name"]).name) for each in line.ask("ExportManifest")["Files"]
    )
    return sorted((one for one in ids if one is not None and one.offset > 0), key=lambda one: one.log_order)


def newest_snapshot(ground: Ground) -> OffsetAndEpoch:
    """The leader's, which is there (`write_snapshots`)."""
    return snapshots_of(ground.client(ground.leader_id))[-1]


def write_snapshots(ground: Ground) -> None:
    """Fill the image, and wait until the leader, which comes last, has written a snapshot of it."""
    fill_image(ground)
    deadline = time.monotonic() + WRITTEN_S
    with ground.open(ground.leader_id, timeout_s=20.0) as line:
        line.greet(software="preparation")
        while not snapshots_of(line):
            assert time.monotonic() < deadline, "the leader writes no snapshot"
            time.sleep(0.2)


@attack(CLIENT, setup=OFTEN, prepare=write_snapshots)
def snapshots_that_nobody_reads(ground: Ground) -> None:
    """60 clients with tiny buffers ask for a snapshot's first MiB 500 times each, and read nothing."""
    snapshot, epoch = newest_snapshot(ground), ground.facts.epoch
    for number in range(60):
        with unharmed():
            line = ground.line(ground.leader_id, host=2 + number % 3, buffers=2_048, timeout_s=0.2)
            line.send(frame(snapshot, 0, epoch=epoch, replica_id=1_000 + number) * 500)
    for _ in ground.lasting(0.1):
        pass


@attack(OBSERVER, setup=OFTEN, prepare=write_snapshots)
def downloads_that_are_left(ground: Ground) -> None:
    """Under ever new ids a byte of a snapshot is taken, which keeps it from being cleaned, and no more."""
    snapshot, epoch = newest_snapshot(ground), ground.facts.epoch
    for number in ground.lasting(0.0):
        with unharmed(), ground.open(ground.leader_id, host=2 + number % 50) as line:
            line.send(frame(snapshot, 0, epoch=epoch, replica_id=1_000 + number, max_bytes=1))
            line.receive()


@attack(CLIENT, setup=OFTEN, prepare=write_snapshots)
def snapshots_that_never_were(ground: Ground) -> None:
    """Ids, positions, sizes and epochs at their edges, of no topic, of one, of two."""
    frames = list(_impossible(newest_snapshot(ground), ground.facts.epoch))
    for number in ground.lasting(0.0):
        with unharmed():
            line = ground.line(ground.node_ids[number % 3], timeout_s=0.5)
            for step in range(50):
                line.send(frames[(number * 50 + step) % len(frames)])
            line.drain(0.01)


def _impossible(snapshot: OffsetAndEpoch, epoch: int) -> Iterator[bytes]:
    for topics in (0, 1, 2):
        for position in EDGES_64:
            yield frame(snapshot, position, epoch=epoch, topics=topics)
        for size in EDGES_32:
            yield frame(snapshot, 0, epoch=epoch, max_bytes=size, topics=topics)
        for other in EDGES_32:
            yield frame(snapshot, 0, epoch=other, replica_id=other, topics=topics)
            yield frame(OffsetAndEpoch(snapshot.offset, other), 0, epoch=epoch, topics=topics)
        for offset in EDGES_64:
            yield frame(OffsetAndEpoch(offset, snapshot.epoch), 0, epoch=epoch, topics=topics)
