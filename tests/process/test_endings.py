"""How a node ends: with one clear line and a non-zero code, whatever it was that nobody expected."""

import contextlib
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from cluster import Client, Cluster, KafkaClient

from kraftd.errors import ErrorCode
from kraftd.metadata.feature_levels import SUPPORTED
from kraftd.protocol.kafka_codec import KAFKA
from kraftd.protocol.messages import (
    BrokerRegistrationRequest,
    BrokerRegistrationRequestFeature,
    BrokerRegistrationRequestListener,
    DescribeClusterRequest,
    DescribeEventsRequest,
    DescribeNodeRequest,
    DescribeQuorumRequest,
    EnvelopeRequest,
    ExportChunkRequest,
    ExportManifestRequest,
    FetchCommittedRequest,
    IncrementalAlterConfigsRequest,
)
from kraftd.protocol.principal import ANONYMOUS
from kraftd.records import names
from tests.principals import encode_principal

BOMB = Path(__file__).parent / "bomb.py"
HANGING_DISK = Path(__file__).parent / "hanging_disk.py"
NAME = "ssl.cipher.suites"
SEGMENT = f"{names.LOG_DIRECTORY}/{0:020}.log"
Start = Callable[..., Cluster]


@pytest.mark.covers("D-17", "RSG-14")
@pytest.mark.parametrize(
    "place",
    [
        "handler",
        "oserror",
        "raft",
        "executor",
        "storage",
        "apply",
        "timer",
        "soon",
        "thread",
        "plain-thread",
        "task",
        "busy-task",
        "main-task",
    ],
)
def test_an_unexpected_exception_ends_the_process(start: Start, place: str) -> None:
    cluster = start(1, command=(sys.executable, str(BOMB), place))
    node = cluster[1]
    node.wait_for("started")
    if place in ("handler", "oserror", "raft"):
        with contextlib.suppress(OSError), node.client(5.0) as client:
            client.ask(DescribeQuorumRequest())
    assert node.wait_exit() == 1
    assert "boom" in node.wait_for("fatal")["reason"]


def _registration(cluster: Cluster) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        broker_id=7,
        cluster_id=cluster.cluster_id,
        incarnation_id=b"incarnation of 7",
        listeners=(BrokerRegistrationRequestListener("PLAINTEXT", "localhost", 9092),),
        features=tuple(
            BrokerRegistrationRequestFeature(each.name, each.min_level, each.max_level) for each in SUPPORTED
        ),
        log_dirs=(b"a directory of 7",),
    )


ENVELOPE = EnvelopeRequest(
    request_data=b"".join(KAFKA.encode_request(1, 1, "a-client", IncrementalAlterConfigsRequest()))[4:],
    request_principal=encode_principal(ANONYMOUS),
    client_host_address=bytes((127, 0, 0, 1)),
)
IN_A_REQUEST: Mapping[str, tuple[Callable[[Cluster], Any], bool]] = {
    "describe-cluster": (lambda _: DescribeClusterRequest(endpoint_type=2), True),
    "envelope": (lambda _: ENVELOPE, True),
    "registration": (_registration, True),
    "describe-node": (lambda _: DescribeNodeRequest(), False),
    "describe-events": (lambda _: DescribeEventsRequest(), False),
    "export": (lambda _: ExportManifestRequest(), False),
    "chunk": (lambda _: ExportChunkRequest(name=SEGMENT, max_bytes=100), False),
    "fetch-committed": (lambda _: FetchCommittedRequest(offset=0, max_bytes=100), False),
}
"""By place: the request that comes by there, and whether it comes on Kafka's wire."""


@pytest.mark.covers("D-14", "D-17")
@pytest.mark.parametrize("place", IN_A_REQUEST)
def test_an_unexpected_exception_in_a_request_costs_that_request(start: Start, place: str) -> None:
    """The same connection asks once more, and is answered: nobody else noticed anything."""
    cluster = start(1, command=(sys.executable, str(BOMB), place))
    node = cluster[1]
    node.wait_for("leader_changed", where=lambda line: line["leader"] == 1)
    request_of, is_kafkas = IN_A_REQUEST[place]
    request = request_of(cluster)
    with (KafkaClient if is_kafkas else Client)(node.port) as client:
        if place == "chunk":
            client.ask(ExportManifestRequest())
        assert client.ask(request).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert client.ask(request).error_code == ErrorCode.NONE
    line = node.wait_for("decision_failed")
    assert (line["kind"], line["error"]) == (request.NAME, "BombError: boom")
    assert node.count("decision_failed") == 1
    with node.client() as client:
        assert client.ask(DescribeEventsRequest()).decision_errors == 1
    assert node.is_running
    assert node.stop() == 0


@pytest.mark.covers("D-14", "D-17")
@pytest.mark.parametrize("place", ["framing", "codec", "handshake", "encoding"])
def test_an_unexpected_exception_between_bytes_and_messages_costs_one_connection(
    start: Start, place: str
) -> None:
    cluster = start(1, command=(sys.executable, str(BOMB), place))
    node = cluster[1]
    node.wait_for("started")
    with pytest.raises(OSError, match="closed"):
        node.client(5.0)
    assert "boom" in node.wait_for("connection_broken")["reason"]
    node = cluster.wait_leader()
    cluster.commit(NAME, "still here", broker="1")
    assert node.is_running


@pytest.mark.covers("D-03", "D-17")
def test_a_disk_that_refuses_a_flush_ends_the_process_and_is_not_asked_again(start: Start) -> None:
    cluster = start(1, command=(sys.executable, str(BOMB), "fsync"))
    node = cluster[1]
    assert node.wait_exit() == 1
    assert "Input/output error" in node.wait_for("fatal")["reason"]
    assert node.count("fatal") == 1


def test_the_first_signal_hands_over_and_the_second_stops_at_once(start: Start) -> None:
    cluster = start(settings={"kraftd.shutdown.timeout.ms": "60000"})
    leader = cluster.wait_leader()
    for node in cluster:
        if node is not leader:
            node.pause()
    leader.signal(signal.SIGTERM)
    leader.wait_for("stopping")
    leader.signal(signal.SIGTERM)
    assert leader.wait_exit(5.0) == 128 + signal.SIGTERM
    assert leader.wait_for("stopped_at_once")


def test_a_terminal_that_is_closed_stops_the_node_in_order(start: Start) -> None:
    """Its shell and the kernel send a SIGHUP each: the second one does not stop at once."""
    # These tests may run under `nohup` themselves.
    command = ("env", "--default-signal=HUP", sys.executable, "-m", "kraftd")
    cluster = start(settings={"kraftd.shutdown.timeout.ms": "60000"}, command=command)
    leader = cluster.wait_leader()
    others = [node for node in cluster if node is not leader]
    for node in others:
        node.pause()
    leader.signal(signal.SIGHUP)
    assert leader.wait_for("stopping")["signal"] == "SIGHUP"
    leader.signal(signal.SIGHUP)
    for node in others:
        node.resume()
    assert leader.wait_exit() == 0
    assert (leader.count("stopped"), leader.count("stopped_at_once")) == (1, 0)


def test_a_node_that_was_started_by_nohup_outlives_its_terminal(start: Start) -> None:
    cluster = start(1, command=("nohup", sys.executable, "-m", "kraftd"))
    node = cluster.wait_leader()
    node.signal(signal.SIGHUP)
    cluster.commit(NAME, "x", broker="1")
    assert node.stop() == 0
    assert node.wait_for("stopping")["signal"] == "SIGTERM"


@pytest.mark.parametrize("place", ["flush", "close", "barrier"])
def test_the_second_signal_stops_at_once_while_the_disk_hangs(start: Start, place: str) -> None:
    cluster = start(1, command=(sys.executable, str(HANGING_DISK), place))
    node = cluster[1]
    node.wait_for("disk_hangs" if place == "barrier" else "started")
    node.signal(signal.SIGTERM)
    node.wait_for("stopping")
    node.wait_for("disk_hangs")
    node.signal(signal.SIGTERM)
    assert node.wait_exit(5.0) == 128 + signal.SIGTERM
    assert node.wait_for("stopped_at_once")["signal"] == "SIGTERM"


def test_a_clean_stop_leaves_a_directory_that_opens_without_a_warning(start: Start) -> None:
    cluster = start(1)
    node = cluster.wait_leader()
    cluster.commit(NAME, "x", broker="1")
    assert node.stop() == 0
    mark = node.mark()
    node.start()
    node.wait_for("started", since=mark)
    cluster.wait_leader()
    assert node.count("directory") == 0
    assert node.stop() == 0


def test_wrong_usage_is_64(start: Start) -> None:
    cluster = start(1, start=False)
    cluster.command = (sys.executable, "-m", "kraftd", "begin")
    cluster[1].start()
    assert cluster[1].wait_exit() == 64
