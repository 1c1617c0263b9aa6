"""Who and what may knock at a node's port: strangers, impostors, garbage, the slow. None of it matters."""

import json
import os
import shutil
import socket
import struct
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from cluster import Client, Cluster, Node, free_ports

from kraftd.net.handshake import Identity
from kraftd.protocol.messages import (
    ApiVersionsRequest,
    DescribeConfigsRequest,
    DescribeConfigsRequestDescribeConfigsResource,
    ListConfigsRequest,
    VoteRequest,
)
from kraftd.protocol.msgpack_codec import MSGPACK
from kraftd.types import uuid_text

NAME = "ssl.cipher.suites"
Start = Callable[..., Cluster]


def drain(connection: socket.socket) -> bytes:
    """Read until the other end closes."""
    data = b""
    while True:
        try:
            part = connection.recv(65_536)
        except ConnectionResetError:
            return data
        if not part:
            return data
        data += part


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
        struct.pack(">I", 0x7FFFFFFF) + b"\x95",
        struct.pack(">IHHI", 20, 18, 3, 1) + bytes(12),
        struct.pack(">I", 4) + b"\xdd\xff\xff\xff",
        struct.pack(">I", 64) + b"\x95" * 64,
        struct.pack(">I", 0),
        struct.pack(">I", 996) + b"\x95\x12\x00\x01" + b"\x91" * 990 + b"\xc0\xc0",
    ],
    ids=["http", "tls", "oversized", "kafka", "array bomb", "nested", "empty", "as deep as the stack"],
)
def test_garbage_on_the_port_ends_its_connection_and_nothing_else(start: Start, garbage: bytes) -> None:
    node = start(1).wait_leader()
    with socket.create_connection(("127.0.0.1", node.port), timeout=10) as connection:
        connection.sendall(garbage + bytes(64))
        assert drain(connection) == b""
    assert node.wait_for("bad_frame")["reason"]
    with node.client() as client:
        assert client.set_config(NAME, "still here", broker="1") == 0


def test_an_oversized_request_after_the_handshake_is_refused(start: Start) -> None:
    node = start(1).wait_leader()
    with node.client() as client:
        client.socket.sendall(struct.pack(">I", 64 << 20) + b"\x95")
        assert drain(client.socket) == b""
    assert node.is_running


def test_a_flood_of_garbage_is_one_line_in_the_log(start: Start) -> None:
    node = start(1).wait_leader()
    for _ in range(50):
        with socket.create_connection(("127.0.0.1", node.port), timeout=10) as connection:
            connection.sendall(b"nonsense nonsense nonsense")
            drain(connection)
    assert node.count("bad_frame") == 1


def test_a_client_that_asks_and_never_reads_is_closed(start: Start) -> None:
    cluster = start(1)
    node = cluster.wait_leader()
    for broker in range(50):
        with node.client() as client:
            client.set_configs([(NAME, "x" * 1_000)], broker=str(broker))
    request = b"".join(MSGPACK.encode_request(1, 1, "slow", ListConfigsRequest()))
    with node.client() as slow:
        slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        slow.socket.settimeout(None)  # a busy node reads slowly, too: only it may end this
        mark = node.mark()
        with suppress(ConnectionError):
            while True:
                slow.socket.sendall(request * 8)
        node.wait_for("slow_connection_closed", since=mark)
    with node.client() as client:
        assert client.set_config(NAME, "still here", broker="1") == 0


@pytest.mark.covers("D-14")
@pytest.mark.parametrize("greets", [False, True], ids=["strangers", "clients"])
def test_a_flood_of_short_requests_leaves_others_their_share(start: Start, greets: bool) -> None:
    node = start(1).wait_leader()
    ask = b"".join(MSGPACK.encode_request(4, 1, "flood", ApiVersionsRequest()))
    with ExitStack() as open_:
        for _ in range(100):
            if greets:
                flood = open_.enter_context(node.client()).socket
            else:
                flood = open_.enter_context(socket.create_connection(("127.0.0.1", node.port), timeout=10))
            flood.setblocking(False)
            with suppress(BlockingIOError, ConnectionError):
                while True:
                    flood.send(ask * 1_000)
        with node.client() as client:
            assert client.set_config(NAME, "in between", broker="1") == 0
    with node.client() as client:
        assert client.set_config(NAME, "after", broker="1") == 0
    assert node.count("bad_frame") <= 1


def test_a_node_of_another_cluster_is_refused_with_one_clear_line(start: Start) -> None:
    cluster = start()
    cluster.wait_leader()
    stranger = cluster[3]
    stranger.stop()
    shutil.rmtree(stranger.directory)
    other = uuid_text(os.urandom(16))
    cluster.format(stranger, cluster_id=other)
    mark = cluster[1].mark()
    stranger.start()
    line = cluster[1].wait_for("peer_refused", since=mark)
    assert other in line["reason"]
    assert cluster.cluster_id in line["reason"]
    seen = stranger.wait_for("peer_unreachable", where=lambda line: cluster.cluster_id in line["reason"])
    assert seen["reason"].startswith("refused: ")
    cluster.commit(NAME, "untouched", broker="1")
    assert cluster[1].count("peer_refused") == 1


def test_the_same_directory_cannot_be_used_twice(start: Start) -> None:
    cluster = start(1)
    cluster.wait_leader()
    second = Node(cluster, 1, free_ports(1)[0], 0)
    second.config_path = cluster.folder / "second.properties"
    cluster.configure(second)
    second.start()
    assert second.wait_exit() == 1
    assert "another process holds it" in second.wait_for("fatal")["reason"]


@pytest.mark.covers("D-06")
def test_a_second_node_with_an_id_in_use_is_refused_with_one_clear_line(start: Start) -> None:
    cluster = start()
    leader = cluster.wait_leader()
    cluster.wait_caught_up()
    original = next(node for node in cluster if node is not leader)
    double = Node(cluster, original.node_id, free_ports(1)[0], 0)
    double.directory = cluster.folder / "double"
    double.config_path = cluster.folder / "double.properties"
    cluster.configure(double)
    double.config_path.write_text(
        double.config_path.read_text().replace(
            f"{original.node_id}@127.0.0.1:{original.port}", f"{original.node_id}@127.0.0.1:{double.port}"
        )
    )
    cluster.format(double)
    mark = leader.mark()
    double.start()
    line = leader.wait_for("peer_refused", since=mark)
    assert f"node {original.node_id} at 127.0.0.1:{original.port} did not confirm" in line["reason"]
    double.wait_for("peer_unreachable", where=lambda line: "did not confirm this node" in line["reason"])
    cluster.commit(NAME, "untouched", broker="1")
    assert leader.describe().role == "leader"
    assert original.describe().whole
    assert leader.count("peer_refused") == 1
    double.kill()


@pytest.mark.covers("D-06")
def test_a_wiped_voter_comes_back_uncounted_and_rejoins(start: Start) -> None:
    cluster = start()
    leader = cluster.wait_leader()
    for number in range(10):
        cluster.commit(NAME, str(number), broker=str(number))
    cluster.wait_caught_up()
    wiped = next(node for node in cluster if node is not leader)
    wiped.kill()
    shutil.rmtree(wiped.directory)
    cluster.format(wiped)
    wiped.start()
    wiped.wait_for("alarm", where=lambda line: line["alarm"] == "not_whole")
    cluster.wait_caught_up(wiped)
    assert not wiped.describe().whole, "it follows, but nobody counts on it before a leader it did not elect"
    with leader.client() as client:
        client.resign(to=next(n.node_id for n in cluster if n not in (leader, wiped)))
    cluster.commit(NAME, "after", broker="1")
    wiped.wait_for("alarm_cleared", where=lambda line: line["alarm"] == "not_whole")
    assert wiped.describe().whole
    cluster.commit(NAME, "later", broker="2")
    cluster.wait_caught_up(wiped)


def test_an_unformatted_directory_is_refused_with_the_command_that_helps(start: Start) -> None:
    cluster = start(1, start=False)
    shutil.rmtree(cluster[1].directory)
    cluster[1].start()
    assert cluster[1].wait_exit() == 1
    assert "kraftctl format" in cluster[1].wait_for("fatal")["reason"]


def test_a_port_that_is_taken_is_one_clear_line(start: Start) -> None:
    cluster = start(1, start=False)
    with socket.create_server(("127.0.0.1", cluster[1].port)):
        cluster[1].start()
        assert cluster[1].wait_exit() == 1
    reason = f"cannot listen on 127.0.0.1:{cluster[1].port}: Address already in use; see listeners"
    assert cluster[1].wait_for("fatal")["reason"] == reason


def test_a_bad_configuration_names_every_mistake(tmp_path: Path, start: Start) -> None:
    cluster = start(1, start=False)
    node = cluster[1]
    node.config_path.write_text("process.roles=controller\nnode.id=x\n")
    node.start()
    assert node.wait_exit() == 1
    text = node.last_lines()
    assert "node.id: 'x'" in text
    assert "log.dirs: missing" in text


def test_health_and_metrics_pages(start: Start) -> None:
    cluster = start(3, http=True)
    leader = cluster.wait_leader()
    cluster.commit(NAME, "x", broker="1")
    cluster.wait_caught_up()
    for node in cluster:
        assert get(node, "/livez")[0] == 200
        status, body = get(node, "/readyz")
        assert status == 200, body
        assert {check["name"] for check in json.loads(body)["checks"]} >= {
            "leader",
            "high_watermark",
            "whole",
        }
        assert get(node, "/readyz/leader")[0] == 200
        assert get(node, "/readyz/nonsense")[0] == 404
    status, body = get(leader, "/metrics")
    assert status == 200
    assert 'kafka_server_raftmetrics_current_state{current_state="leader"} 1.0' in body
    assert "kafka_controller_kafkacontroller_activecontrollercount 1.0" in body
    assert "kafka_server_raftmetrics_high_watermark" in body
    for node in cluster:
        if node is not leader:
            node.kill()
    leader.wait_for("transition", where=lambda line: line["from"] == "leader")
    assert get(leader, "/livez")[0] == 200, "a restart would not help"
    status, body = get(leader, "/readyz")
    assert status == 503
    assert not next(check for check in json.loads(body)["checks"] if check["name"] == "leader")["ok"]
    assert get(leader, "/readyz?exclude=leader&exclude=contact")[0] == 200


def get(node: Node, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{node.http_port}{path}", timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_client_may_not_vote(start: Start) -> None:
    node = start(1).wait_leader()
    with Client(node.port) as client:
        assert client.node.error_code == 0
        response = client.ask(VoteRequest(cluster_id=Identity(None, "x").cluster_id))
        assert response.error_code == 31
    assert node.describe().role == "leader"


def test_every_version_of_every_api_is_answered_or_its_connection_closed(start: Start) -> None:
    cluster = start(1)
    node = cluster.wait_leader()
    cluster.commit(NAME, "x", broker="1")
    for api in MSGPACK.apis.values():
        if api.name in ("Handshake", "ResignLeader"):
            continue
        for version in range(api.min_version, api.max_version + 1):
            request = api.request()
            if api.name == "DescribeConfigs":
                resource = DescribeConfigsRequestDescribeConfigsResource(
                    resource_type=4, resource_name="1", configuration_keys=None
                )
                request = DescribeConfigsRequest(resources=(resource,))
            with node.client() as client:
                response = client.ask(request, version)
            assert type(response).__name__ == f"{api.name}Response"
    assert node.count("unencodable_reply") == 0
    cluster.commit(NAME, "still here", broker="1")
