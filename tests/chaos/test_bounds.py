"""The judge of logs that are cut: what is wrong with snapshots, states and sizes is seen, and no more."""

from pathlib import Path

import pytest

from kraftd.records.batch import BatchView
from tests.chaos.bounds import LARGEST_BYTES, Sizes, complaints
from tests.chaos.ledger import Ledger
from tests.chaos.verdict import read_log
from tests.unit.logtools.logs import LogMaker, config, orders


class Nodes:
    """Two nodes with the same log, cut behind a snapshot, and all that was committed."""

    def __init__(self, folder: Path) -> None:
        whole = orders(folder / "node-1")
        self.snapshot = whole.snapshot()
        whole.roll().batch(config("2000"))
        whole.copy(folder / "node-2", 2)
        self.directories = {1: folder / "node-1", 2: folder / "node-2"}
        self.told: list[BatchView] = read_log(whole.home)
        self.start = whole.end - 1
        for directory in self.directories.values():
            next(directory.rglob("00000000000000000000.log")).unlink()

    def judge(self) -> list[str]:
        logs = {node_id: read_log(directory) for node_id, directory in self.directories.items()}
        return list(complaints(self.directories, logs, self.told))

    def snapshot_of(self, node_id: int) -> Path:
        return next(self.directories[node_id].rglob(self.snapshot.name))


@pytest.fixture
def nodes(tmp_path: Path) -> Nodes:
    return Nodes(tmp_path)


def test_logs_that_were_cut_in_order_are_not_accused(nodes: Nodes) -> None:
    assert nodes.judge() == []


def test_a_snapshot_that_is_gone_is_missed(nodes: Nodes) -> None:
    nodes.snapshot_of(2).unlink()
    begins, state = nodes.judge()
    assert begins == f"the log of node 2 begins at {nodes.start}, and its snapshots are ()"
    assert state.startswith("the state of node 2 cannot be had: ")


def test_a_damaged_snapshot_is_told_where(nodes: Nodes) -> None:
    data = nodes.snapshot_of(1).read_bytes()
    nodes.snapshot_of(1).write_bytes(data[:-1])
    assert nodes.judge()[0].startswith(f"node 1: {nodes.snapshot_of(1)}")


def test_a_snapshot_that_tells_something_else_is_another_state(nodes: Nodes, tmp_path: Path) -> None:
    other = orders(tmp_path / "other")
    nodes.snapshot_of(2).write_bytes(other.snapshot(config("1", topic="unasked")).read_bytes())
    differs, state = nodes.judge()
    assert differs == f"nodes 1 and 2 have different snapshots {nodes.snapshot.name}"
    assert state.startswith("the files of node 2 lead to another state")


def test_a_node_that_keeps_too_much_is_named(nodes: Nodes) -> None:
    sizes = Sizes(nodes.directories)
    sizes.look()
    assert list(sizes.complaints()) == []
    (nodes.snapshot.parent / "00000000000000000001.log.deleted").write_bytes(bytes(LARGEST_BYTES))
    sizes.look()
    (complaint,) = sizes.complaints()
    assert complaint.startswith("node 1 had 6,")


def test_the_ledger_misses_what_nobody_told_and_names_who_disagree(tmp_path: Path) -> None:
    maker = LogMaker(tmp_path / "a").lead(1, 1)
    maker.batch(config("1")).batch(config("2"))
    other = LogMaker(tmp_path / "b").lead(1, 1)
    other.batch(config("1")).batch(config("3"))
    ours, theirs = read_log(maker.home), read_log(other.home)
    ledger = Ledger()
    ledger.tell(1, ours[:1])
    ledger.tell(2, ours[2:])
    assert ledger.up_to(3) == (ours[:1], "nobody told the batch at 1, and 3 are committed")
    ledger.tell(1, ours)
    assert ledger.up_to(3) == (ours, "")
    assert ledger.disagreements == []
    ledger.tell(3, theirs)
    (complaint,) = ledger.disagreements
    assert complaint.startswith("the logs of nodes 2 and 3 differ: ")
