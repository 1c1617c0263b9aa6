"""Brokers and controllers are killed, paused and stopped under load: nothing acknowledged is lost.

Each test ends with what it hurt in sync again, so that the next begins with a whole cluster.
"""

import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.brokers.clients import create_topic, partitions_of, produce, read_all, wait_isr, wait_until
from tests.brokers.cluster import STARTED, BrokerCluster
from tests.brokers.complaints import AFTER_A_FAULT, AFTER_A_LOST_DIRECTORY, WHILE_ALL_ARE_UP, judged
from tests.brokers.conftest import CONTROLLER_SETTINGS
from tests.brokers.load import Steady, altering, longest_pause, producing
from tests.brokers.quorums import Controller, wait_leader
from tests.interop.peer import Kafka
from tests.process.cluster import Node


@pytest.fixture(autouse=True)
def is_judged(cluster: BrokerCluster, request: pytest.FixtureRequest) -> Iterator[None]:
    """Brokers complain of the fault, and of nothing else that they would not on Kafka's controllers."""
    lost: tuple[str, ...] = ()
    if request.function is test_a_failing_directory_takes_its_replicas_alone:
        # Each task of the broker that meets the directory says so in its own words, and names it.
        lost = (*AFTER_A_LOST_DIRECTORY, re.escape(str(failing_directory(cluster))))
    with judged(cluster, *WHILE_ALL_ARE_UP, *AFTER_A_FAULT, *lost):
        yield


def test_a_killed_broker_is_fenced_and_comes_back(cluster: BrokerCluster) -> None:
    create_topic(cluster, "killed", partitions=6)
    with producing(cluster, "killed"):
        cluster[12].kill()
        wait_isr(cluster, "killed", 2, without=12)
    cluster[12].start()
    wait_isr(cluster, "killed", 3)
    produce(cluster, "killed", ["whole again"])


def test_a_broker_paused_beyond_its_session_is_fenced_and_comes_back(cluster: BrokerCluster) -> None:
    create_topic(cluster, "paused", partitions=6)
    with producing(cluster, "paused"):
        cluster[13].pause()
        wait_isr(cluster, "paused", 2, without=13)
        cluster[13].resume()
        wait_isr(cluster, "paused", 3)


def test_a_broker_that_stops_in_order_leads_nothing_when_it_goes(cluster: BrokerCluster) -> None:
    create_topic(cluster, "in-order", partitions=6)
    broker = cluster[11]
    with producing(cluster, "in-order"):
        since = broker.mark()
        assert broker.stop() == 143
        broker.wait_for("controlled shutdown", since=since)
        found = partitions_of(cluster, "in-order")
        assert all(each.leader in (12, 13) and sorted(each.isr) == [12, 13] for each in found.values())
    broker.start()
    wait_isr(cluster, "in-order", 3)


def test_preferred_leaders_are_elected_by_kafkas_tool(kafka: Kafka, cluster: BrokerCluster) -> None:
    """Broker 11 was away, and leads nothing before somebody asks for it; nor can it be elected meanwhile."""
    create_topic(cluster, "preferred", assignment=[[11, 12, 13], [11, 13, 12], [12, 11, 13]])

    def elect(*what: str) -> str:
        at = ("--bootstrap-server", f"127.0.0.1:{cluster[12].port}", "--election-type", "preferred")
        return kafka.run("org.apache.kafka.tools.LeaderElectionCommand", *at, *what)

    def leaders() -> list[int]:
        found = partitions_of(cluster, "preferred")
        return [found[number].leader for number in range(3)]

    one = ("--topic", "preferred", "--partition", "0")
    cluster[11].stop()
    wait_isr(cluster, "preferred", 2, without=11)
    with pytest.raises(AssertionError, match="PreferredLeaderNotAvailableException"):
        elect(*one)
    cluster[11].start()
    wait_isr(cluster, "preferred", 3)
    assert leaders() == [12, 13, 12]
    assert "Successfully completed leader election (PREFERRED) for partitions preferred-0" in elect(*one)
    wait_until(lambda: leaders() == [11, 13, 12], lambda: f"of 0 alone: {leaders()}")
    assert "Valid replica already elected for partitions preferred-0" in elect(*one)
    elect("--all-topic-partitions")
    wait_until(lambda: leaders() == [11, 11, 12], lambda: f"of all: {leaders()}")
    produce(cluster, "preferred", ["led again"])


def test_a_broker_started_again_at_once_comes_back(cluster: BrokerCluster) -> None:
    """Perhaps before its old session is over: then it is refused until that is (see `test_refusals`).

    A replica that nothing was written to yet has no topic id on the disk, and a broker that finds such a one
    puts it aside as a stray.
    """
    create_topic(cluster, "at-once", assignment=[[12, 11, 13], [11, 12, 13], [13, 12, 11]])
    values = [f"{number}" for number in range(100)]
    produce(cluster, "at-once", values)
    broker = cluster[12]
    broker.kill()
    broker.start()
    broker.wait_for(STARTED, since=broker.began)
    wait_isr(cluster, "at-once", 3)
    assert sorted(read_all(cluster, "at-once")) == sorted(values)


def test_a_failing_directory_takes_its_replicas_alone(cluster: BrokerCluster) -> None:
    create_topic(cluster, "directory", partitions=6, config={"segment.bytes": "1048576"})
    broker = cluster[13]
    first, second = (held_by(directory) for directory in cluster.directories(13))
    wait_until(lambda: len(first() | second()) == 6, lambda: f"broker 13 has {first()} and {second()}")
    wait_isr(cluster, "directory", 3)  # a replica whose directory is just being made fails in other ways
    there = second()
    assert 0 < len(there) < 6, "both directories hold some"
    failing = failing_directory(cluster)
    aside = failing.with_name("aside")
    failing.rename(aside)  # what is open can be written on; the next segment cannot
    for _ in range(4):
        produce(cluster, "directory", ["x" * 700_000] * 6, partitioner="random")

    def is_out() -> bool:
        found = partitions_of(cluster, "directory")
        return {number for number, each in found.items() if 13 not in each.isr} == there

    wait_until(is_out, lambda: f"{there} without 13: {partitions_of(cluster, 'directory')}")
    assert broker.is_running
    produce(cluster, "directory", ["all the same"])
    broker.stop()
    shutil.rmtree(failing, ignore_errors=True)
    aside.rename(failing)
    broker.start()
    wait_isr(cluster, "directory", 3)


def failing_directory(cluster: BrokerCluster) -> Path:
    """The one of broker 13 that fails."""
    return cluster.directories(13)[1]


def held_by(directory: Path) -> Callable[[], set[int]]:
    """What asks which partitions of `directory`, the topic, lie in a directory."""
    return lambda: {int(path.name.rpartition("-")[2]) for path in directory.glob("directory-?")}


@pytest.mark.parametrize("how", ["kill", "pause", "stop", "resign"])
def test_admin_goes_on_without_the_active_controller(cluster: BrokerCluster, how: str) -> None:
    topic = f"controller-{how}"
    create_topic(cluster, topic, partitions=1)
    leader = wait_leader(cluster.quorum)
    with producing(cluster, topic), altering(cluster, topic) as succeeded:
        began = time.monotonic()
        take_away(leader, how)
        wait_leader(cluster.quorum, but=leader)
        count = len(succeeded)
        # A broker gives up on a paused controller when `controller.socket.timeout.ms` is over.
        wait_until(lambda: len(succeeded) > count + 20, lambda: "changes at the next controller", 120)
        print(f"{how}: no change succeeded for {longest_pause(succeeded, began) * 1000:.0f} ms")
    if how == "pause":
        leader.resume()


def take_away(leader: Controller, how: str) -> None:
    if how == "resign":
        if not isinstance(leader, Node):
            pytest.skip("Kafka's controllers are not asked to resign")
        with leader.client() as client:
            client.resign()
    else:
        getattr(leader, how)()


def test_producing_goes_on_without_any_controller(
    cluster: BrokerCluster, request: pytest.FixtureRequest
) -> None:
    """For longer than a broker's session; and nobody is fenced for a silence that no controller heard."""
    create_topic(cluster, "alone", partitions=3)
    with producing(cluster, "alone") as steady:
        for controller in cluster.quorum:
            controller.kill()
        go_on(steady, request.config.getoption("--outage-s"))
        fenced = fencings(cluster)
        for controller in cluster.quorum:
            controller.start()
        wait_leader(cluster.quorum)
        go_on(steady, 2 * int(CONTROLLER_SETTINGS["broker.session.timeout.ms"]) / 1_000)
        assert fencings(cluster) == fenced
        found = partitions_of(cluster, "alone")
        assert all(len(each.isr) == 3 and each.leader == each.replicas[0] for each in found.values()), found
    create_topic(cluster, "after-alone", partitions=1)
    assert all(broker.is_running for broker in cluster)


def go_on(steady: Steady, seconds: float) -> None:
    """Wait until so much time is over, in which values are acknowledged all the while."""
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        steady.wait_more(10)


def fencings(cluster: BrokerCluster) -> int:
    """How many brokers our controllers have fenced so far; Kafka's do not say it in a line of ours."""
    return sum(each.count("broker_fenced") for each in cluster.quorum if isinstance(each, Node))
