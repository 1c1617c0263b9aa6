"""Which broker or observer lives behind a link over which nobody could catch up, and so may be brought near.

A leader cuts its log at the oldest of the snapshots that the retention holds, as D-22 says; what a replica
downloads stays for a fetch timeout after its last piece. A broker that was told of a snapshot loads it piece
by piece, one a round trip, and meanwhile the log goes on. What was written meanwhile, and what is written
while it reads that, it must have read before the next snapshot takes the place of it; else it is told of that
one, and begins anew. Where a piece and a fetch are a few hundred bytes, and a round trip takes a tenth of a
second, that is more than the link carries: whoever is there comes back on a quiet day only.

Seed 10264 drew pieces of 300 bytes and 103 ms. A snapshot of 24,697 bytes took 8.8 s, in which 1,894 bytes a
second were written, 45 % of what such fetches carry. To read these took 7.2 s, and 6.2 s later they were cut
away.

Seed 272966 loads for 7.8 s, and writes a snapshot of 12,800 bytes as often as once a second: what came
meanwhile is more than may stay for who loads, and the snapshot goes while it is loaded.

At times the disks alone are too slow: seed 240885 has a snapshot of 110 pieces, each read and synced in
19 ms, and another one every 2 s. Then the disks become faster, too.

Entered by `run_until`: with brokers that are not back in time, or do not publish what is committed, and with
observers that do not have it. A voter's lease does not end. Nothing is drawn here, and who is
back in time is not looked at: no other seed is another for it. Not here: a link that carries enough; whoever
is not back behind such a one is a violation.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import msgspec

from kraftd.types import Offset

if TYPE_CHECKING:
    from tests.sim.node import SimNode
    from tests.sim.world import Shape, World

BROUGHT_NEAR = "a broker was too far away"
READS_A_SYNC = 4
"""How many pieces are read in the time of a sync."""
FAST_SYNC_US = 200
"""The fastest that is drawn."""


class Link(msgspec.Struct, frozen=True):
    """What a broker needs of its link to the leader, and how long it is given. Times in microseconds."""

    piece_us: int
    """How long a piece of a snapshot takes: it is asked for once the one before it is written."""
    pieces: int
    """How many a snapshot has."""
    load: float
    """How many round trips a second the log needs, of those there are."""
    until_cut_us: float
    """How long the log behind a snapshot stays once that is loaded."""
    lease_us: float
    """How long a snapshot stays that is being loaded."""

    @property
    def catching_up_us(self) -> float:
        """How long it takes to read what was written since the snapshot, and what is written meanwhile."""
        if self.load >= 1:
            return float("inf")
        return self.pieces * self.piece_us * self.load / (1 - self.load)

    @property
    def is_too_long(self) -> bool:
        """Whether nobody catches up behind it."""
        is_loaded = self.pieces * self.piece_us <= self.lease_us
        return not is_loaded or self.catching_up_us > self.until_cut_us


class Written(msgspec.Struct, frozen=True):
    """What was committed within a time."""

    sizes: tuple[int, ...]
    """Of the batches, in bytes."""
    took_us: int

    @property
    def bytes_a_us(self) -> float:
        """How fast the log grew."""
        return sum(self.sizes) / self.took_us


def fetches(sizes: Iterable[int], fetch_bytes: int) -> int:
    """How many fetches carry batches of these sizes: each as many as there is room for, but at least one."""
    number = room = 0
    for size in sizes:
        if size > room:
            number += 1
            room = max(fetch_bytes, size)
        room -= size
    return number


def link_of(shape: "Shape", written: Written, snapshot_bytes: int, latency_us: int) -> Link | None:
    """What a link of this latency, there and back, must carry; None if the log stays for ever.

    Args:
        shape: How the cluster was drawn.
        written: What was committed lately.
        snapshot_bytes: The size of the newest snapshot.
        latency_us: Of both directions together, without jitter.
    """
    if not written.sizes:
        return None
    interval_us = shape.snapshot_bytes / written.bytes_a_us
    if shape.snapshot_interval_ms:
        interval_us = min(interval_us, shape.snapshot_interval_ms * 1_000)
    leased_bytes = snapshot_bytes + interval_us * written.bytes_a_us
    older = float("inf")  # snapshots beside the newest that are kept, with the log behind them
    if shape.retention_bytes >= 0:
        older = min(older, max(0, shape.retention_bytes - snapshot_bytes) // leased_bytes)
    if shape.retention_ms >= 0:
        older = min(older, shape.retention_ms * 1_000 // interval_us)
    if older == float("inf"):
        return None
    # What stays for observers alone is no more than the retention (D-24): the snapshots that came since, too.
    lease_us = float("inf")
    if shape.retention_bytes >= 0:
        lease_us = (1 + shape.retention_bytes // leased_bytes) * interval_us
    round_trip_us = latency_us + shape.jitter_us  # each way takes half the jitter, on average
    piece_bytes = min(shape.snapshot_chunk_bytes, shape.fetch_bytes)
    return Link(
        piece_us=round_trip_us + shape.fsync_us // READS_A_SYNC + shape.fsync_us,
        pieces=-(-snapshot_bytes // piece_bytes),
        load=fetches(written.sizes, shape.fetch_bytes) * round_trip_us / written.took_us,
        until_cut_us=shape.timing.fetch_timeout_ms * 1_000 + (1 + older) * interval_us,
        lease_us=lease_us,
    )


def run_until(
    world: "World", condition: Callable[[], bool], away: Callable[[], Iterable[int]], limit_us: int
) -> bool:
    """Run until something holds, or so much time is over; then once more, if a link was shortened.

    Args:
        world: Healed.
        condition: What is to hold.
        away: The brokers and observers for which it does not.
        limit_us: How long it may take, each time.

    Returns:
        Whether it holds.
    """
    since, began_us = world.auditor.committed[0], world.now_us
    if world.run_until(condition, limit_us):
        return True
    return bool(bring_near(world, away(), since, world.now_us - began_us)) and world.run_until(
        condition, limit_us
    )


def bring_near(world: "World", replica_ids: Iterable[int], since: Offset, took_us: int) -> list[int]:
    """Shorten the links over which nobody could catch up; with slow disks, of all machines, speed these up.

    Args:
        world: Healed; its log has gone on since.
        replica_ids: Who is not back, brokers or observers.
        since: Where the committed log ended when they began to come back.
        took_us: How long ago that was.

    Returns:
        Whose links they are.
    """
    leader = next((node for node in world.nodes.values() if node.is_leader), None)
    snapshot_bytes = 0 if leader is None else _newest_bytes(leader)
    if leader is None or not snapshot_bytes:
        return []
    batches = world.ledger.batches(since, world.ledger.end_offset)
    written = Written(tuple(batch.size_bytes for batch in batches), took_us)
    network, near = world.network, []
    for replica_id in replica_ids:
        latency_us = network.link(leader.id, replica_id).base_us + network.link(replica_id, leader.id).base_us
        link = link_of(world.shape, written, snapshot_bytes, latency_us)
        if link is not None and link.is_too_long:
            near.append(replica_id)
            for node_id in world.node_ids:
                if node_id == replica_id:
                    continue
                for way in (network.link(node_id, replica_id), network.link(replica_id, node_id)):
                    way.base_us = min(way.base_us, world.shape.latency_us[0])
            nearest = link_of(world.shape, written, snapshot_bytes, 2 * world.shape.latency_us[0])
            if nearest is not None and nearest.is_too_long:
                world.shape.fsync_us = min(world.shape.fsync_us, FAST_SYNC_US)
            world.statistics[BROUGHT_NEAR] += 1
            world.tell(replica_id, "brought_near", latency_us=latency_us, load=round(link.load, 2))
    return near


def _newest_bytes(node: "SimNode") -> int:
    newest = None if node.directory is None else node.directory.snapshots.newest
    return 0 if newest is None else newest.size_bytes
