"""`kraftctl` as its own process against real daemons: led, leaderless, with nodes killed and paused."""

import json
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cluster import Cluster, Node

from kraftd.protocol.limits import PAGE_BYTES_MAX
from kraftd.protocol.messages import ListConfigsRequest
from kraftd.protocol.msgpack_codec import MSGPACK

Start = Callable[..., Cluster]

ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if name not in ("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "KRAFTD_BOOTSTRAP")
}


class Outcome(NamedTuple):
    code: int
    out: str
    err: str
    cpu_s: float
    """What it cost, however busy the machine is with other things."""

    @property
    def data(self) -> Any:
        return json.loads(self.out)


def kraftctl(bootstrap: str, *arguments: object) -> Outcome:
    command = [sys.executable, "-m", "kraftd.cli.main", *map(str, arguments)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        command,
        env=ENVIRONMENT | {"KRAFTD_BOOTSTRAP": bootstrap},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert "Traceback" not in done.stderr
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Outcome(done.returncode, done.stdout, done.stderr, cpu_s)


def settled(start: Start) -> Cluster:
    """Three nodes that all follow one leader and have caught up with it."""
    cluster = start()
    for node in cluster:
        node.wait_for("started")
    cluster.wait_leader()
    for node in cluster:
        node.wait_for("leader_changed", where=lambda line: line["leader"] > 0)
    cluster.wait_caught_up()
    return cluster


def rows(outcome: Outcome) -> dict[int, dict[str, Any]]:
    return {node["node_id"]: node for node in outcome.data["nodes"]}


def test_status_is_what_the_nodes_are(start: Start) -> None:
    cluster = settled(start)
    leader = cluster.wait_leader()
    outcome = kraftctl(f"127.0.0.1:{cluster[1].port}", "status", "-o", "json")
    assert outcome.code == 0
    assert outcome.data["cluster_id"] == cluster.cluster_id
    assert outcome.data["leader_id"] == leader.node_id
    assert [voter["id"] for voter in outcome.data["current_voters"]] == [1, 2, 3]
    assert {node["role"] for node in rows(outcome).values()} == {"leader", "follower"}
    assert {node["leader_id"] for node in rows(outcome).values()} == {leader.node_id}


def test_status_as_a_whole_process_costs_a_third_of_a_second(start: Start) -> None:
    cluster = settled(start)
    cluster.wait_leader()
    cheapest = min(kraftctl(cluster.bootstrap, "status").cpu_s for _ in range(5))
    assert cheapest < 0.35


def test_without_a_majority_the_survivor_says_why(start: Start) -> None:
    cluster = settled(start)
    before = cluster[3].mark()
    cluster[1].kill()
    cluster[2].kill()
    cluster[3].wait_for("transition", since=before, where=lambda line: line["to"] != "follower")
    outcome = kraftctl(cluster.bootstrap, "status", "-o", "json")
    assert outcome.code == 0
    assert outcome.data["leader_id"] == -1
    assert outcome.data["no_leader_reason"] == "no majority: 1 of 3 voters answer, 2 are needed"
    assert [node["reachable"] for node in rows(outcome).values()] == [False, False, True]
    assert kraftctl(cluster.bootstrap, "health", "--timeout-ms", 500).code == 5
    assert kraftctl(cluster.bootstrap, "replication", "--timeout-ms", 500).code == 5
    refused = kraftctl(cluster.bootstrap, "configs", "set", "log.retention.ms=1", "--timeout-ms", 500)
    assert refused.code == 5
    assert refused.err.startswith("kraftctl: no leader: no majority: ")


def test_a_paused_node_is_a_row_and_the_rest_is_still_told(start: Start) -> None:
    cluster = settled(start)
    leader = cluster.wait_leader()
    paused = next(node for node in cluster if node is not leader)
    paused.pause()
    try:
        outcome = kraftctl(cluster.bootstrap, "status", "-o", "json")
    finally:
        paused.resume()
    assert outcome.data["leader_id"] == leader.node_id
    assert rows(outcome)[paused.node_id]["error"] == "no response within 1000 ms"


def test_resign_hands_over_to_whom_it_is_told(start: Start) -> None:
    cluster = settled(start)
    old = cluster.wait_leader()
    target = next(node for node in cluster if node is not old)
    outcome = kraftctl(cluster.bootstrap, "resign", "--to", target.node_id, "--wait", "-o", "json")
    assert outcome.code == 0, outcome.err
    assert outcome.data["old_leader_id"] == old.node_id
    assert outcome.data["new_leader_id"] == target.node_id
    assert outcome.data["epoch"] > outcome.data["old_epoch"]
    assert 0 <= outcome.data["leaderless_ms"] < 1_000
    assert cluster.wait_leader() is target


def test_resigning_to_a_node_that_is_down_is_refused(start: Start) -> None:
    cluster = settled(start)
    leader = cluster.wait_leader()
    target = next(node for node in cluster if node is not leader)
    target.kill()
    outcome = kraftctl(cluster.bootstrap, "resign", "--to", target.node_id, "--timeout-ms", 1_000)
    assert outcome.code == 4
    assert "leads on: " in outcome.err
    assert cluster.wait_leader() is leader


def test_configs_are_set_listed_got_and_deleted(start: Start) -> None:
    cluster = settled(start)
    cluster.wait_leader()
    assert kraftctl(cluster.bootstrap, "configs", "set", "log.retention.ms=1000").code == 0
    assert kraftctl(cluster.bootstrap, "configs", "set", "--broker", 7, "background.threads=4").code == 0
    listed = kraftctl(cluster.bootstrap, "configs", "list", "-o", "json").data
    assert [(row["entity"], row["name"], row["value"]) for row in listed] == [
        ("cluster", "log.retention.ms", "1000"),
        ("cluster", "min.insync.replicas", "1"),
        ("broker 7", "background.threads", "4"),
    ]
    assert kraftctl(cluster.bootstrap, "configs", "delete", "--broker", 7, "background.threads").code == 0
    [got] = kraftctl(
        cluster.bootstrap, "configs", "get", "--broker", 7, "log.retention.ms", "-o", "json"
    ).data
    assert (got["value"], got["source"]) == ("1000", "DYNAMIC_DEFAULT_BROKER_CONFIG")
    refused = kraftctl(cluster.bootstrap, "configs", "set", "log.retention.ms=soon")
    assert refused.code == 4
    assert "log.retention.ms must be a whole number" in refused.err


def test_a_change_waits_for_the_next_leader(start: Start) -> None:
    cluster = settled(start)
    cluster.wait_leader().kill()
    outcome = kraftctl(cluster.bootstrap, "configs", "set", "log.retention.ms=1")
    assert outcome.code == 0, outcome.err


def test_health_follows_the_quorum(start: Start) -> None:
    cluster = settled(start)
    leader = cluster.wait_leader()
    assert kraftctl(cluster.bootstrap, "health").code == 0
    follower = next(node for node in cluster if node is not leader)
    follower.kill()
    assert kraftctl(cluster.bootstrap, "health").code == 5
    assert kraftctl(f"127.0.0.1:{leader.port}", "health").code == 0


def test_an_export_of_a_busy_node_is_a_whole_log(start: Start, tmp_path: Path) -> None:
    cluster = settled(start)
    leader = cluster.wait_leader()
    stop = threading.Event()
    writer = threading.Thread(target=write_until, args=(leader, stop))
    writer.start()
    try:
        outcomes = [
            kraftctl(cluster.bootstrap, "export", source, tmp_path / f"out-{at}", "-o", "json")
            for at, source in enumerate([1, 2, 3, f"127.0.0.1:{leader.port}", leader.directory])
        ]
    finally:
        stop.set()
        writer.join()
    for at, outcome in enumerate(outcomes):
        assert outcome.code == 0, outcome.err
        out = tmp_path / f"out-{at}"
        found = kraftctl("", "info", out, "-o", "json").data
        assert found["problems"] == []
        assert found["log"]["end_offset"] == outcome.data["log_end_offset"] > 10
        assert kraftctl("", "log", "dump", out, "--type", "LeaderChange").code == 0


def write_until(leader: Node, stop: threading.Event) -> None:
    with leader.client() as client:
        number = 0
        while not stop.is_set():
            client.set_config("log.retention.ms", str(number), broker=str(number % 50))
            number += 1


def test_the_log_of_a_running_node_can_be_followed(start: Start) -> None:
    cluster = settled(start)
    leader = cluster.wait_leader()
    command = [sys.executable, "-m", "kraftd.cli.main", "log", "dump", "-f", "-o", "json", "--type", "Config"]
    with subprocess.Popen(
        [*command, str(leader.directory)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT
    ) as follower:
        cluster.commit("ssl.cipher.suites", "seen", broker="3")
        for text in follower.stdout:
            line = json.loads(text)
            if line["kind"] == "record" and line["data"]["value"] == "seen":
                break
        follower.kill()
    assert (line["type"], line["data"]["resourceName"]) == ("CONFIG_RECORD", "3")


@pytest.mark.parametrize("command", ["status", "replication", "health", "resign"])
def test_a_port_that_is_no_node_of_ours_ends_in_one_line(command: str) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=answer_http, args=(server,), daemon=True).start()
        outcome = kraftctl(f"127.0.0.1:{server.getsockname()[1]}", command)
    assert outcome.code == (5 if command == "health" else 2)
    assert "it does not speak kraftd's protocol" in outcome.out + outcome.err


def answer_http(server: Any) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        connection.close()


def known(text: str) -> str:
    """A name that Kafka defines, of one listener's TLS: its value is told."""
    return f"listener.name.{text}.ssl.protocol"


def test_more_configs_than_one_response_holds_are_listed_and_got(start: Start) -> None:
    cluster = settled(start)
    leader = cluster.wait_leader()
    expected = {}
    with leader.client() as client:
        for broker in range(8):
            pairs = [(known(f"{broker}-{number:03}"), "v" * 1_000) for number in range(250)]
            assert client.set_configs(pairs, broker=str(broker)) == 0
            expected |= {(f"broker {broker}", name): value for name, value in pairs}
    outcome = kraftctl(cluster.bootstrap, "configs", "list", "-o", "json")
    assert outcome.code == 0, outcome.err
    found = {(row["entity"], row["name"]): row["value"] for row in outcome.data}
    assert found == expected | {("cluster", "min.insync.replicas"): "1"}
    assert len(outcome.data) == len(found)
    names = [name for entity, name in expected if entity == "broker 3"]
    got = kraftctl(
        cluster.bootstrap,
        "configs",
        "get",
        "--broker",
        3,
        *names,
        *names[:100],
        "-o",
        "json",
    )
    assert [row["name"] for row in got.data] == [*names, *names[:100]]
    assert {row["value"] for row in got.data} == {"v" * 1_000}
    only = kraftctl(cluster.bootstrap, "configs", "list", "--broker", 3, "-o", "json")
    assert [row["name"] for row in only.data] == names


def test_many_who_ask_for_everything_cost_a_page_each(start: Start) -> None:
    """64 listings at once of an image of 4 MB: each is answered with one page of it."""
    cluster = start(1)
    leader = cluster.wait_leader()
    with leader.client() as client:
        for broker in range(16):
            pairs = [(known(f"{number:03}"), "v" * 1_000) for number in range(250)]
            assert client.set_configs(pairs, broker=str(broker)) == 0
        before = rss_bytes(leader)
        sizes = [
            sum(len(entry.value) for entry in client.ask(ListConfigsRequest()).entries) for _ in range(3)
        ]
        assert all(100_000 < size <= PAGE_BYTES_MAX for size in sizes)
        for number in range(64):
            client.socket.sendall(b"".join(MSGPACK.encode_request(1, 100 + number, "", ListConfigsRequest())))
        for _ in range(64):
            client._frame()
        assert rss_bytes(leader) - before < 64 * 2 * PAGE_BYTES_MAX


def rss_bytes(node: Node) -> int:
    [line] = [
        line for line in Path(f"/proc/{node.process.pid}/status").read_text().splitlines() if "VmHWM" in line
    ]
    return int(line.split()[1]) * 1_024


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("configs", "get", "log.\udcff"), 64),
        (("configs", "set", "a\nb=1", "--force"), 64),
        (("resign", "--to", "99999999999999999999"), 64),
        (("resign", "--to", "-1"), 64),
    ],
)
def test_what_can_be_no_name_or_node_is_a_usage_error(arguments: tuple[str, ...], code: int) -> None:
    outcome = kraftctl("127.0.0.1:1", *arguments)
    assert outcome.code == code
    assert len(outcome.err.splitlines()) == 1
    assert "bug" not in outcome.err


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ((), "none is registered"),
        (("--replication-factor", 3), "none is registered"),
        (("--partitions", 10_001), "at most 10000 partitions"),
        (("--replica-assignment", "1"), "Broker 1 is not registered"),
    ],
)
def test_a_topic_that_cannot_be_had_is_refused_in_one_line(
    start: Start, how: tuple[object, ...], reason: str
) -> None:
    cluster = settled(start)
    outcome = kraftctl(cluster.bootstrap, "topics", "create", "words", *how)
    assert outcome.code == 4
    (line,) = outcome.err.splitlines()
    assert line.startswith("kraftctl: topic words was not created: ")
    assert reason in line
