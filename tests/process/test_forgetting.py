"""A quorum whose nodes take each other for old copies of their directories, and the way out of it."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from cluster import Cluster, Node
from msgspec.structs import replace

from kraftd.storage import Disk, OsFileSystem
from kraftd.storage.sidecar import Sidecar, load_durable_sidecar
from kraftd.types import FORGET_PEERS

NAME = "ssl.cipher.suites"
FORGED = 2**31 - 1
Start = Callable[..., Cluster]


def poison(node: Node) -> None:
    """What two forged greetings left, in an older release: starts of the others that never were."""
    disk, path = Disk(OsFileSystem()), node.directory / "kraftd.state"
    sidecar = Sidecar(disk, path, load_durable_sidecar(disk, path))
    forged = tuple(
        replace(peer, start_counter=FORGED, start_id=os.urandom(16)) for peer in sidecar.local_state.peers
    )
    assert len(forged) == 2
    sidecar.save_twice(replace(sidecar.local_state, peers=forged))
    sidecar.close()


def wait_doubts(marks: dict[Node, int]) -> None:
    """Wait until a majority takes the others for old copies, or itself, because one of them said so.

    The third may go on to campaign, and then nobody asks it for a vote that it could refuse.
    """
    deadline = time.monotonic() + 60
    while sum(map(has_doubts, marks, marks.values())) < 2:
        assert time.monotonic() < deadline, [node.last_lines() for node in marks]
        time.sleep(0.01)


def has_doubts(node: Node, mark: int) -> bool:
    return any(
        "old copy" in line.get("reason", "") or line.get("alarm") == "not_whole"
        for line in node.events[mark:]
    )


def wait_advice(*nodes: Node) -> None:
    """Wait until `status` tells why there is no leader, and what to do, and see that a log warns of it."""
    bootstrap = ",".join(f"127.0.0.1:{node.port}" for node in nodes)
    command = [sys.executable, "-m", "kraftd.cli.main", "status", "-o", "json"]
    deadline = time.monotonic() + 60
    reason = ""
    while FORGET_PEERS not in reason:
        assert time.monotonic() < deadline, reason
        done = subprocess.run(
            [*command, "--bootstrap-controller", bootstrap], capture_output=True, check=True, timeout=60
        )
        reason = json.loads(done.stdout)["no_leader_reason"] or ""
    warned = [line for node in nodes for line in node.events if line["event"] == "doubtful_voter"]
    assert warned
    assert all(line["level"] == "warning" and FORGET_PEERS in line["text"] for line in warned)


def forget_peers(*nodes: Node) -> list[Any]:
    done = subprocess.run(
        [sys.executable, "-m", "kraftd.cli.main", "forget-peers", "-o", "json"]
        + [str(node.directory) for node in nodes],
        capture_output=True,
        check=True,
        timeout=60,
    )
    found: list[Any] = json.loads(done.stdout)["directories"]
    return found


@pytest.mark.covers("D-06")
def test_a_poisoned_quorum_elects_again_once_it_forgot_who_the_others_were(start: Start) -> None:
    cluster = start(3)
    cluster.wait_leader()
    cluster.commit(NAME, "kept", broker="1")
    cluster.wait_caught_up()
    for node in cluster:
        node.stop()
    marks = {}
    for node in cluster:
        poison(node)
        marks[node] = node.mark()
        node.start()
    wait_doubts(marks)
    assert cluster.leader() is None
    wait_advice(*cluster)
    for node in cluster:
        node.stop()
    for node, done in zip(cluster, forget_peers(*cluster), strict=True):
        assert (done["node_id"], done["directory"]) == (node.node_id, str(node.directory))
        starts = [peer["start_counter"] for peer in done["forgotten"]]
        assert starts == [FORGED, FORGED] or done["counts_again"], "who was told so doubts itself, not others"
    for node in cluster:
        node.start()
    with cluster.wait_leader().client() as client:
        assert client.get_configs(broker="1") == {NAME: "kept"}
    cluster.commit(NAME, "new", broker="1")
    cluster.wait_caught_up()


@pytest.mark.covers("D-06")
def test_a_member_that_the_others_took_for_an_old_copy_counts_again_once_all_forgot(start: Start) -> None:
    """Node 1 led while its memory of 2 and 3 was forged: both came to believe it of themselves."""
    cluster = start(3)
    leader = cluster.wait_leader()
    cluster.commit(NAME, "kept", broker="1")
    cluster.wait_caught_up()
    follower = next(node for node in cluster if node is not leader)
    follower.stop()
    (follower.directory / "kraftd.state").unlink()
    mark = follower.mark()
    follower.start()
    follower.wait_for("alarm", since=mark, where=lambda line: line["alarm"] == "not_whole")
    follower.kill()
    for node in cluster.running():
        node.stop()
    counts_again = {done["node_id"]: done["counts_again"] for done in forget_peers(*cluster)}
    assert counts_again == {node.node_id: node is follower for node in cluster}
    follower.start()
    other = next(node for node in cluster if node not in (leader, follower))
    other.start()
    assert cluster.wait_leader() in (follower, other), "each needs the other's vote"
    cluster.commit(NAME, "new", broker="1")


def test_a_running_node_does_not_forget(start: Start) -> None:
    cluster = start(1)
    node = cluster.wait_leader()
    with pytest.raises(subprocess.CalledProcessError) as refused:
        forget_peers(node)
    assert refused.value.returncode == 1
    assert b"another process holds it: stop that one" in refused.value.stderr
    assert refused.value.stderr.count(b"\n") == 1
