"""Attacks by way of snapshots: FetchSnapshot of what is not there, too often, and by who reads nothing.

A quorum of their own writes snapshots often, of a large image.
"""

import contextlib
import struct
import time
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import NamedTuple

from kraftd.records import names
from kraftd.types import OffsetAndEpoch
from tests.hostile import wire
from tests.hostile.attacks_costly import fill_image
from tests.hostile.client import Line
from tests.hostile.ground import CLIENT, OBSERVER, WRONG_AFTER_S, Ground, attack, unharmed
from tests.kafka_frames import uvarint

OFTEN = {"settings": {"metadata.log.max.record.bytes.between.snapshots": "2000000"}}
RETAINED_BYTES, SEGMENT_BYTES = 25_000, 16_384
SHORT = {
    "settings": {
        "metadata.log.max.record.bytes.between.snapshots": "50000",
        "metadata.max.retention.bytes": str(RETAINED_BYTES),
        "metadata.log.segment.bytes": str(SEGMENT_BYTES),
        "metadata.log.segment.min.bytes": "1024",
    }
}
HEAD = b"\0\x3b\0\0\0\0\0\1\xff\xff\0"
"""Of FetchSnapshot, version 0."""

MEBIBYTE = 1 << 20
WRITTEN_S = 60.0
SERVED_S = 10.0
"""Within how long a piece of a snapshot is promised."""
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


def wait_for_snapshots(ground: Ground) -> None:
    """Wait until the leader, which comes last, has written two snapshots."""
    deadline, seen = time.monotonic() + WRITTEN_S, set[OffsetAndEpoch]()
    with ground.open(ground.leader_id, timeout_s=20.0) as line:
        line.greet(software="preparation")
        while len(seen := seen | set(snapshots_of(line))) < 2:
            assert time.monotonic() < deadline, "the leader writes no snapshots"
            time.sleep(0.2)


@attack(OBSERVER, setup=SHORT, prepare=wait_for_snapshots)
def downloads_that_are_left(ground: Ground) -> None:
    """Under ever new ids a byte of each snapshot is taken, so that none is cleaned."""
    client, line = ground.client(ground.leader_id), ground.observer(ground.leader_id)
    epoch, folder = ground.facts.epoch, ground.leader.directory / wire.METADATA_TOPIC_DIRECTORY
    snapshots: list[OffsetAndEpoch] = []
    before = (0, 0)
    for number in ground.lasting(0.05):
        with unharmed():
            for each in snapshots:
                piece_of(line, each, 0, epoch=epoch, replica_id=1_000 + number, max_bytes=1)
            if number % 5:
                continue
            snapshots = snapshots_of(client)
        newest, kept = _kept_before_the_newest(folder)
        # What its cleaner has looked at already, and one segment that begins before and ends behind.
        if newest == before[0] and min(kept, before[1]) > 2 * RETAINED_BYTES + SEGMENT_BYTES:
            ground.fail(f"{kept:,} bytes from before the newest snapshot, with {RETAINED_BYTES:,} retained")
            break
        before = newest, kept


def _kept_before_the_newest(folder: Path) -> tuple[int, int]:
    """The end of the newest snapshot, and the bytes of older ones and of the segments that it stands for."""
    snapshots = sorted(folder.glob("*-*.checkpoint"))
    segments = sorted(folder.glob(f"*{names.LOG}"))
    if len(snapshots) < 2:
        return 0, 0  # the log goes as far as the one before the last
    newest = names.parse_snapshot_name(snapshots[-1].name)
    assert newest is not None
    ends = [int(path.stem) for path in segments[1:]]
    old = [path for path, end in zip(segments, ends, strict=False) if end <= newest.offset]
    return newest.offset, sum(_size_of(path) for path in (*snapshots[:-1], *old))


def _size_of(path: Path) -> int:
    with contextlib.suppress(OSError):
        return path.stat().st_size
    return 0


@attack(CLIENT, setup=OFTEN, prepare=write_snapshots)
def slots_that_are_kept(ground: Ground) -> None:
    """Four clients ask for a snapshot again and again, and take nothing; a fifth has to get some of it."""
    snapshot, epoch = newest_snapshot(ground), ground.facts.epoch
    others = [ground.client(ground.leader_id, timeout_s=WRONG_AFTER_S) for _ in range(4)]
    size = piece_of(others[0], snapshot, 0, epoch=epoch, replica_id=1_000, max_bytes=0).size
    fifth = ground.client(ground.leader_id, timeout_s=WRONG_AFTER_S)

    def is_served() -> bool:
        for number, line in enumerate(others):
            at, most = (size, 1) if number % 2 else (0, 0)
            piece_of(line, snapshot, at, epoch=epoch, replica_id=1_000 + number, max_bytes=most)
        return bool(piece_of(fifth, snapshot, 0, epoch=epoch, replica_id=2_000).data)

    ground.wait(
        "a fifth got bytes of a snapshot while four clients ask for none",
        is_served,
        promised_s=SERVED_S,
        pause_s=0.0,
    )


@attack(CLIENT, setup=OFTEN, prepare=write_snapshots)
def comparisons_without_end(ground: Ground) -> None:
    """20 clients say 2,000 times each that they have all of a snapshot but the last byte, and have not."""
    snapshot, epoch = newest_snapshot(ground), ground.facts.epoch
    victim = ground.client(ground.leader_id, timeout_s=WRONG_AFTER_S)
    size = piece_of(victim, snapshot, 0, epoch=epoch, max_bytes=0).size
    wrong = piece_request(snapshot, size - 1, epoch=epoch, prefix_checksum=1)
    for number in range(20):
        with unharmed():
            line = ground.line(ground.leader_id, host=2 + number % 3, timeout_s=0.2)
            line.greet(software="attacker")
            line.send(wire.request("FetchSnapshot", wrong) * 2_000)

    def is_served() -> bool:
        return bool(piece_of(victim, snapshot, 0, epoch=epoch, max_bytes=1_000).data)

    waits = [
        ground.wait("a piece of a snapshot came", is_served, promised_s=SERVED_S) for _ in ground.lasting(0.1)
    ]
    ground.note(f"a piece of a snapshot came after {max(waits):.2f} s at most")


class Piece(NamedTuple):
    """What a request for a piece of a snapshot is answered with."""

    error: int
    size: int
    data: bytes


def piece_request(
    snapshot: OffsetAndEpoch,
    position: int,
    *,
    epoch: int,
    replica_id: int = -1,
    max_bytes: int = MEBIBYTE,
    prefix_checksum: int = -1,
) -> wire.Values:
    """A request for a piece of a snapshot, on our own wire."""
    partition = {
        "CurrentLeaderEpoch": epoch,
        "SnapshotId": {"EndOffset": snapshot.offset, "Epoch": snapshot.epoch},
        "Position": position,
        "PrefixChecksum": prefix_checksum,
    }
    topics = [{"Name": wire.METADATA_TOPIC, "Partitions": [partition]}]
    return {"ReplicaId": replica_id, "MaxBytes": max_bytes, "Topics": topics}


def piece_of(line: Line, snapshot: OffsetAndEpoch, position: int, **options: int) -> Piece:
    """Ask for a piece of a snapshot.

    Raises:
        OSError: The node closed the connection, or is silent.
    """
    line.send(wire.request("FetchSnapshot", piece_request(snapshot, position, **options)))
    _, body, *records = line.receive()
    partition = wire.response("FetchSnapshot", body)["Topics"][0]["Partitions"][0]
    return Piece(partition["ErrorCode"], partition["Size"], b"".join(records))


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
