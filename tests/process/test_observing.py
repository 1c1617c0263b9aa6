"""`kraftctl log state --from`: the log of a running quorum, without its directories."""

from collections.abc import Callable
from pathlib import Path

import pytest
from cluster import Cluster

from tests.process.test_kraftctl import kraftctl, settled

Start = Callable[..., Cluster]


@pytest.mark.covers("OBS-08", "FREQ-24")
def test_every_node_leads_to_the_log_of_the_leader(start: Start) -> None:
    cluster = settled(start)
    cluster.commit("log.cleaner.threads", "3")
    leader = cluster.wait_leader()
    for node in cluster:
        found = kraftctl("", "log", "state", "--from", f"127.0.0.1:{node.port}", "-o", "json")
        assert found.code == 0, found.err
        read = kraftctl("", "log", "state", leader.directory, "--at", found.data["offset"], "-o", "json")
        assert found.data["hash"] == read.data["hash"]
        assert "log.cleaner.threads" in found.out
        assert found.data["offset"] == found.data["known_committed_offset"] > 0
        assert (found.data["cluster_id"], found.data["leader_id"]) == (cluster.cluster_id, leader.node_id)
        at = kraftctl("", "log", "state", "--from", f"127.0.0.1:{node.port}", "--at", 1, "-o", "json")
        assert (at.data["offset"], at.data["leader_id"]) == (1, leader.node_id)


def test_without_a_leader_it_says_so(start: Start) -> None:
    cluster = settled(start)
    last, *others = cluster
    mark = last.mark()
    for node in others:
        node.kill()
    last.wait_for("transition", since=mark, where=lambda line: line["to"] in ("prospective", "resigned"))
    found = kraftctl("", "log", "state", "--from", f"127.0.0.1:{last.port}", "--timeout-ms", 1_000)
    assert (found.code, found.err.count("\n")) == (5, 1), found.err


def test_a_directory_or_a_quorum_and_not_both(tmp_path: Path) -> None:
    for arguments in ((), (tmp_path, "--from", "127.0.0.1:1")):
        found = kraftctl("", "log", "state", *arguments)
        assert (found.code, found.err.count("\n")) == (64, 1)
        assert "name either DIR or --from HOST:PORT" in found.err
    nobody = kraftctl("", "log", "state", "--from", "127.0.0.1:1")
    assert (nobody.code, nobody.err.count("\n")) == (2, 1)
