"""Brokers attached to a measured system: what their metadata says, when a round begins, and what is told."""

import asyncio
import signal
import struct
from pathlib import Path

import attached
import msgspec
import pytest
from attached import ALL, BROKER_IDS, Attached, snapshots
from load_round import Round, round_of
from loads_table import ATTACHED_COLUMNS, COLUMNS, Measured, attached_cells, table
from peers.brokers import Seen, metadata_request, metadata_seen
from peers.cluster import Cluster, Load, Node

LOAD = Load(changes=2_000, changes_per_s=1_000.0, p50_ms=1.0, p99_ms=2.0, max_ms=3.0, client_us=4.0)


def text(words: str) -> bytes:
    return struct.pack(">h", len(words)) + words.encode()


def numbers(*of: int) -> bytes:
    return struct.pack(f">{len(of)}i", *of)


def metadata(unfenced: int, topics: dict[str, list[int]]) -> bytes:
    """An answer of Kafka's Metadata 0: of each topic how many replicas of each partition are in sync."""
    frame = numbers(1, unfenced)
    for broker_id in range(unfenced):
        frame += numbers(broker_id) + text("127.0.0.1") + numbers(9092)
    frame += numbers(len(topics))
    for name, partitions in topics.items():
        frame += b"\0\0" + text(name) + numbers(len(partitions))
        for index, in_sync in enumerate(partitions):
            frame += b"\0\0" + numbers(index, 1, 3, 1, 2, 3, in_sync, *range(in_sync))
    return numbers(len(frame)) + frame


def test_metadata_tells_who_is_unfenced_and_how_many_replicas_are_in_sync() -> None:
    assert metadata_seen(metadata(3, {"a": [3, 2], "long-name": [0, 1, 3]})) == Seen(3, 9)
    assert metadata_seen(metadata(0, {})) == Seen(0, 0)


def test_metadata_is_asked_of_all_topics_in_version_0() -> None:
    assert metadata_request() == bytes([0, 0, 0, 14, 0, 3, 0, 0, 0, 0, 0, 1, 255, 255, 0, 0, 0, 0])


async def settle(answers: dict[int, list[Seen | None]]) -> int:
    """Let brokers settle that say this one after the other; how often they were asked."""
    asked = 0

    class Scripted(Attached):
        async def _seen(self, node: Node) -> Seen | None:
            nonlocal asked
            asked += 1
            return answers[node.index].pop(0)

    await Scripted([Node(index, Path(), [], 1) for index in answers]).settled()
    return asked


def test_a_round_begins_when_every_broker_says_that_all_are_unfenced_and_in_sync() -> None:
    fenced, shrunk = Seen(2, ALL.in_sync), Seen(3, ALL.in_sync - 1)
    assert Seen(3, 3_000) == ALL
    said: dict[int, list[Seen | None]] = {11: [None, fenced, shrunk, ALL], 12: [ALL], 13: [shrunk, ALL]}
    assert asyncio.run(settle(said)) == 7


def test_brokers_that_never_settle_end_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(attached, "PATIENCE_S", 0.0)
    monkeypatch.setattr(Node, "tail", lambda _: "its last words")
    with pytest.raises(RuntimeError, match=r"broker 11 sees Seen\(unfenced=2.*(?s:.)its last words"):
        asyncio.run(settle({11: [Seen(2, 0)] * 3}))


class Recorded(Node):
    """A process that is only asked to stop and to go on."""

    def __init__(self, index: int, said: list[tuple[int, int]]) -> None:
        super().__init__(index, Path(), [], 1)
        self._said = said

    def signal(self, number: int) -> None:
        self._said.append((self.index, number))


class Led(Cluster):
    """A cluster whose first node leads."""

    async def wait_leader(self, limit_s: float = 60) -> Node:
        return self.nodes[0]


class Quick(Attached):
    """Brokers that settle at once, and note when."""

    said: list[tuple[int, int]]

    async def settled(self) -> None:
        self.said.append((0, 0))


def test_brokers_stop_and_go_on_with_their_controllers() -> None:
    said: list[tuple[int, int]] = []
    cluster = Led(Path())
    cluster.nodes = [Recorded(1, said)]
    cluster.guests = guests = Quick([Recorded(broker_id, said) for broker_id in BROKER_IDS])
    guests.said = said
    cluster.pause()
    assert said == [(each, signal.SIGSTOP) for each in (1, *BROKER_IDS)]
    said.clear()
    assert asyncio.run(cluster.wake()) is cluster.nodes[0]
    assert said == [*((each, signal.SIGCONT) for each in (1, *BROKER_IDS)), (0, 0)]


def test_snapshots_are_counted_of_all_nodes_and_only_whole_ones(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    for index in (1, 2):
        folder = tmp_path / f"n{index}" / "data" / "__cluster_metadata-0"
        folder.mkdir(parents=True)
        cluster.nodes.append(Node(index, tmp_path / f"n{index}", [], 1))
        for name in ("07-1.checkpoint", "09-1.checkpoint.part", "01-1.checkpoint.deleted", "00.log"):
            (folder / name).touch()
    assert {path.name for path in snapshots(cluster)} == {"07-1.checkpoint"}
    assert len(snapshots(cluster)) == 2


def with_brokers(us: float, written: int) -> Round:
    seen = round_of(LOAD, 1, {1: 0.2, 2: 0.1, 3: 0.1}, {})
    return msgspec.structs.replace(seen, brokers_us=us, snapshots=written)


def test_what_brokers_cost_and_how_many_snapshots_were_written_is_told_of_those_that_have_any() -> None:
    attached_rounds = [with_brokers(10.0, 4), with_brokers(30.0, 6), with_brokers(20.0, 9)]
    alone = [round_of(LOAD, 1, {1: 0.2, 2: 0.1, 3: 0.1}, {})] * 3
    assert list(attached_cells(attached_rounds)) == ["20", "6"]
    assert list(attached_cells(alone)) == ["", ""]
    both = Measured("two cores", {}, "no perf", {"1": {"kraftd": attached_rounds, "etcd": alone}})
    assert [column.header for column in table(both, "c").columns] == [*COLUMNS, *ATTACHED_COLUMNS]
    etcd = Measured("two cores", {}, "no perf", {"1": {"etcd": alone}})
    assert [column.header for column in table(etcd, "c").columns] == list(COLUMNS)
