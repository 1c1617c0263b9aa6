"""One round of load on one system, with what its nodes spent for each change."""

from collections.abc import Mapping
from typing import Any

import msgspec
from attached import snapshots
from counters import cpu_s, grown, kernel_counts, scraped
from peers.cluster import Cluster, Load, Node, Work

TRIES = 3


class Round(msgspec.Struct, frozen=True):
    """What was seen; what a change costs is a mean, over all nodes unless another is named."""

    changes_per_s: float
    p50_ms: float
    p99_ms: float
    max_ms: float
    leader_us: float
    """CPU of the leader."""
    follower_us: float
    """CPU of a follower."""
    client_us: float
    turns: float | None = None
    """Of the loops."""
    messages: float | None = None
    """Frames written to sockets."""
    fsyncs: float | None = None
    syscalls: float | None = None
    brokers_us: float | None = None
    """CPU of all attached brokers."""
    snapshots: int | None = None
    """That all nodes wrote in the round, where brokers are attached."""


async def load_round(cluster: Cluster, work: Work, *, counted: bool) -> Round:
    """Wake a system, write to it for a while, and pause it again.

    With `counted` the kernel counts system calls and fsyncs, at some cost to each: not for the speed.
    A round in which the leadership moved is done again.

    Raises:
        RuntimeError: A response was not the good one, or less was committed than answered.
    """
    try:
        for left in reversed(range(TRIES)):
            leader = await cluster.wake()
            try:
                return await _measured(cluster, leader, work, counted=counted)
            except RuntimeError:
                if left == 0 or await cluster.wait_leader() is leader:
                    raise
        raise AssertionError
    finally:
        cluster.pause()


async def _measured(cluster: Cluster, leader: Node, work: Work, *, counted: bool) -> Round:
    guests = () if cluster.guests is None else cluster.guests.nodes
    pages = [await scraped(node.page_port) for node in cluster.nodes]
    written, guests_s = snapshots(cluster), sum(cpu_s(node.pid) for node in guests)
    spent_s = {node.index: cpu_s(node.pid) for node in cluster.nodes}
    kernel: Mapping[str, float] = {}
    if counted:
        async with kernel_counts([node.pid for node in cluster.nodes]) as kernel:
            load = await cluster.load(work)
    else:
        load = await cluster.load(work)
    spent_s = {node.index: cpu_s(node.pid) - spent_s[node.index] for node in cluster.nodes}
    guests_s = sum(cpu_s(node.pid) for node in guests) - guests_s
    later = [await scraped(node.page_port) for node in cluster.nodes]
    counts = {**counted_of(cluster.counts, list(zip(pages, later, strict=True))), **kernel}
    seen = round_of(load, leader.index, spent_s, counts)
    if not guests:
        return seen
    return msgspec.structs.replace(
        seen,
        brokers_us=1e6 * guests_s / load.changes,
        snapshots=len(snapshots(cluster) - written),
    )


def counted_of(
    names: Mapping[str, str], pages: list[tuple[dict[str, float], dict[str, float]]]
) -> dict[str, float]:
    """What the nodes counted together between two looks at their pages, where all of them count it."""
    found = {}
    for what, name in names.items():
        growths = [grown(before, after, name) for before, after in pages]
        known = [each for each in growths if each is not None]
        if known and len(known) == len(growths):
            found[what] = sum(known)
    return found


def round_of(load: Load, leader: int, spent_s: Mapping[int, float], counts: Mapping[str, float]) -> Round:
    """The figures of a round; `spent_s` has the CPU of each node."""
    others = [spent for index, spent in spent_s.items() if index != leader]
    per_change: dict[str, Any] = {name: count / load.changes for name, count in counts.items()}
    return Round(
        changes_per_s=load.changes_per_s,
        p50_ms=load.p50_ms,
        p99_ms=load.p99_ms,
        max_ms=load.max_ms,
        leader_us=1e6 * spent_s[leader] / load.changes,
        follower_us=1e6 * sum(others) / len(others) / load.changes,
        client_us=load.client_us,
        **per_change,
    )
