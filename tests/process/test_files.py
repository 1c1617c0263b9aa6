"""Files that run out, and files that are taken away under a running node."""

import shutil
import socket
import sys
import time
import urllib.request
from collections.abc import Callable

from cluster import Cluster, Node

NAME = "ssl.cipher.suites"
Start = Callable[..., Cluster]

FILES_MAX = 512
SMALL_SEGMENTS = {"metadata.log.segment.bytes": "4096", "metadata.log.segment.min.bytes": "1024"}


def with_files(count: int) -> tuple[str, ...]:
    """The daemon, with so many files at most."""
    return ("sh", "-c", f'ulimit -n {count}; exec "$@"', "sh", sys.executable, "-m", "kraftd")


def segments_of(node: Node) -> int:
    return len(list((node.directory / "__cluster_metadata-0").glob("*.log")))


def hold_half_requests(node: Node, count: int) -> list[socket.socket]:
    """Connections to the pages that begin a request and never end it."""
    held = []
    for _ in range(count):
        visitor = socket.socket()
        visitor.setblocking(False)
        visitor.connect_ex(("127.0.0.1", node.http_port))
        held.append(visitor)
    return held


def test_half_requests_to_the_pages_take_no_file_from_the_log(start: Start) -> None:
    cluster = start(3, http=True, settings=SMALL_SEGMENTS, command=with_files(FILES_MAX))
    leader = cluster.wait_leader()
    held = [visitor for node in cluster for visitor in hold_half_requests(node, 490)]
    before = {node: segments_of(node) for node in cluster}
    deadline = time.monotonic() + 60
    while any(segments_of(node) < before[node] + 5 for node in cluster):
        for visitor in held:
            try:
                visitor.send(b"G")
            except OSError:
                continue
        cluster.commit(NAME, "x" * 1_000, broker="1")
        assert time.monotonic() < deadline
    assert len(cluster.running()) == 3
    assert cluster.leader() is leader
    with urllib.request.urlopen(f"http://127.0.0.1:{leader.http_port}/livez", timeout=10) as response:
        assert response.status == 200
    for visitor in held:
        visitor.close()


def test_connections_of_both_ports_are_counted_together(start: Start) -> None:
    """As many connections to both ports as there are files: the log rolls, and clients come back after."""
    cluster = start(1, http=True, settings=SMALL_SEGMENTS, command=with_files(FILES_MAX))
    node = cluster.wait_leader()
    held = hold_half_requests(node, FILES_MAX)
    with node.client() as client:
        for _ in range(FILES_MAX):
            held.append(socket.create_connection(("127.0.0.1", node.port)))
        before = segments_of(node)
        while segments_of(node) < before + 5:
            assert client.set_config(NAME, "x" * 1_000, broker="1") == 0
    for visitor in held:
        visitor.close()
    cluster.commit(NAME, "done", broker="1")
    assert node.count("fatal") == 0


def test_a_limit_of_files_that_is_too_small_is_refused_in_one_line(start: Start) -> None:
    cluster = start(1, http=True, command=with_files(200))
    assert cluster[1].wait_exit() == 1
    reason = cluster[1].wait_for("fatal")["reason"]
    assert reason.startswith("this process may open 200 files, but needs ")
    assert cluster[1].count("fatal") == 1
    assert "Traceback" not in cluster[1].last_lines(50)


def test_a_leader_whose_directory_is_removed_hands_over_and_says_so(start: Start) -> None:
    cluster = start(3)
    leader = cluster.wait_leader()
    cluster.wait_caught_up()
    cluster.commit(NAME, "x", broker="1")
    shutil.rmtree(leader.directory / "__cluster_metadata-0")
    assert leader.wait_exit() == 1
    lost = leader.wait_for("fatal")["reason"]
    assert "is gone, or is another file now" in lost
    told = [line for line in leader.events if lost in line.values()]
    assert [line["event"] for line in told] == ["fatal"], "once, with what to do"
    assert not any("damaged" in str(line) for line in leader.events)
    assert cluster.wait_leader() is not leader
    follower = next(node for node in cluster if node is not leader)
    assert follower.wait_for(
        "leader_changed", where=lambda line: line["leader"] not in (-1, leader.node_id)
    ), "it did not wait for the connection to close"
    cluster.commit(NAME, "y", broker="1")
    leader.start()
    assert leader.wait_exit() == 1
    assert "the log is gone: kraftd.state knows that it held records" in leader.last_lines(1)


def test_a_follower_whose_disk_is_not_mounted_any_more_ends(start: Start) -> None:
    cluster = start(3)
    leader = cluster.wait_leader()
    follower = next(node for node in cluster if node is not leader)
    cluster.wait_caught_up()  # or a write of its own notices first
    follower.directory.rename(follower.directory.with_name("elsewhere"))
    assert follower.wait_exit() == 1
    assert "is gone, or is another file now" in follower.wait_for("fatal")["reason"]
    follower.start()
    assert follower.wait_exit() == 1
    assert "its disk is not mounted" in follower.last_lines(1)
    cluster.commit(NAME, "still", broker="1")
    assert cluster.leader() is leader


def test_of_two_processes_on_one_directory_the_one_without_the_lock_ends(start: Start) -> None:
    cluster = start(1)
    node = cluster.wait_leader()
    cluster.commit(NAME, "x", broker="1")
    (node.directory / ".lock").unlink()
    assert node.wait_exit() == 1
    assert "another process may use the directory" in node.wait_for("fatal")["reason"]
    assert node.count("fatal") == 1
    mark = node.mark()
    node.start()
    node.wait_for("started", since=mark)
    cluster.commit(NAME, "y", broker="1")
