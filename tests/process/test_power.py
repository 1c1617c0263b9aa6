"""A voter whose machine loses its power, and one that can only be reached one way: both count (D-37).

Each node is on a machine of its own (`machines.py`). That a voter counts is seen by a commit that needs it,
while the third one is paused.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Node
from machines import Machines, what_is_missing

NAME = "ssl.cipher.suites"


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    """Three controllers with default settings, each on its own machine."""
    if missing := what_is_missing():
        pytest.skip(missing)
    cluster = Machines(tmp_path / "cluster")
    yield cluster
    for node in cluster:
        print(f"--- node {node.node_id} said last:\n{node.last_lines(40)}")
    cluster.close()


def roles(cluster: Machines) -> tuple[Node, Node, Node]:
    """The leader and the two others, all caught up."""
    leader = cluster.wait_leader()
    cluster.commit(NAME, "before", broker="1")
    cluster.wait_caught_up()
    voter, third = (node for node in cluster if node is not leader)
    return leader, voter, third


@pytest.mark.covers("D-37")
@pytest.mark.parametrize("outage_s", [3, 20])
def test_a_voter_whose_machine_lost_its_power_counts_again(machines: Machines, outage_s: int) -> None:
    leader, voter, third = roles(machines)
    epoch = leader.describe().epoch
    machines.cut_power(voter)
    time.sleep(outage_s)  # the outage itself is what is tested: too short for TCP to notice it everywhere
    with leader.client() as client:
        assert client.set_config(NAME, "during", broker="1") == 0
        machines.restore_power(voter)
        mark = voter.mark()
        restarted = time.monotonic()
        voter.start()
        voter.wait_for("started", since=mark)
        third.pause()
        listens = time.monotonic()
        assert client.set_config(NAME, "after", broker="1") == 0
    counted = time.monotonic()
    print(
        f"after {outage_s} s without power a voter counted {1000 * (counted - restarted):.0f} ms after its "
        f"restart, {1000 * (counted - listens):.0f} ms after it took connections"
    )
    view = leader.describe()
    assert (view.role, view.epoch) == ("leader", epoch), "it counted before the leader gave up on a majority"


@pytest.mark.covers("D-37")
def test_a_confirmed_voter_that_can_be_reached_one_way_only_stays_counted(machines: Machines) -> None:
    leader, voter, third = roles(machines)
    epoch = leader.describe().epoch
    mark = leader.mark()
    # Nothing may be on the way when the port is closed: the voter's kernel then finds the leader's connection
    # dead by its keep-alive and resets it. One that has sent something tries for a quarter of an hour.
    leader.pause()
    time.sleep(0.15)  # and it may not be suspected: that takes 450 ms
    machines.close_port(leader, to=voter)
    leader.resume()
    for event in ("peer_lost", "peer_unreachable"):
        leader.wait_for(event, since=mark, where=lambda line: line["peer"] == voter.node_id)
    third.pause()
    with leader.client() as client:
        assert client.set_config(NAME, "one way", broker="1") == 0
        time.sleep(4)  # longer than every timer of the quorum
        assert client.set_config(NAME, "one way still", broker="1") == 0
    view = leader.describe()
    assert (view.role, view.epoch) == ("leader", epoch)
    assert voter.count("peer_lost") == 0, "the voter's own connection is the one that it was confirmed on"
