"""Three real daemons over TCP: killed, paused, stopped, restarted. Nothing that was committed is lost."""

import time
from collections.abc import Callable

import pytest
from cluster import Cluster, Node, free_ports

NAME = "ssl.cipher.suites"
Start = Callable[..., Cluster]


def test_three_nodes_elect_commit_and_agree(start: Start) -> None:
    cluster = start()
    leader = cluster.wait_leader()
    for number in range(20):
        cluster.commit(NAME, f"value-{number}", broker=str(number))
    cluster.wait_caught_up()
    views = [node.describe() for node in cluster]
    assert {view.leader_id for view in views} == {leader.node_id}
    assert {view.role for view in views} == {"leader", "follower"}
    assert all(view.whole and not view.alarms for view in views)
    with leader.client() as client:
        assert client.get_configs(broker="7") == {NAME: "value-7"}


def test_images_of_all_nodes_have_one_hash(start: Start) -> None:
    cluster = start(settings={"metadata.max.idle.interval.ms": "0"})
    cluster.wait_leader()
    for number in range(5):
        cluster.commit(NAME, f"value-{number}", broker=str(number))
    assert len(cluster.image_hashes()) == 1


@pytest.mark.covers("D-08")
def test_a_killed_leader_is_replaced_without_waiting_for_the_fetch_timeout(start: Start) -> None:
    cluster = start(settings={"controller.quorum.fetch.timeout.ms": "20000"})
    leader = cluster.wait_leader()
    cluster.commit(NAME, "before", broker="1")
    cluster.wait_caught_up()
    survivors = [node for node in cluster if node is not leader]
    marks = {node.node_id: node.mark() for node in survivors}
    leader.kill()
    took_s = cluster.commit(NAME, "after", broker="2")
    assert took_s < 20, "the closed connections tell, not the fetch timeout of 20 s"
    assert any(
        node.count("election") and node.wait_for("peer_lost", since=marks[node.node_id]) for node in survivors
    )
    with cluster.wait_leader(but=leader).client() as client:
        assert client.get_configs(broker="1") == {NAME: "before"}


def test_a_killed_leader_comes_back_as_a_follower_and_catches_up(start: Start) -> None:
    cluster = start()
    leader = cluster.wait_leader()
    cluster.commit(NAME, "one", broker="1")
    cluster.wait_caught_up()
    leader.kill()
    cluster.commit(NAME, "two", broker="1")
    leader.start()
    leader.wait_for("transition", where=lambda line: line["to"] == "follower", since=leader.mark())
    cluster.wait_caught_up()
    view = leader.describe()
    assert view.role == "follower"
    assert view.whole


def test_all_killed_and_started_again_keep_what_was_committed(start: Start) -> None:
    cluster = start()
    cluster.wait_leader()
    for number in range(10):
        cluster.commit(NAME, str(number), broker=str(number))
    for node in cluster:
        node.kill()
    for node in cluster:
        node.start()
    cluster.commit(NAME, "later", broker="99")
    with cluster.wait_leader().client() as client:
        for number in range(10):
            assert client.get_configs(broker=str(number)) == {NAME: str(number)}


@pytest.mark.covers("D-11", "D-13")
def test_a_paused_leader_is_replaced_and_steps_back_when_it_wakes(start: Start) -> None:
    cluster = start()
    leader = cluster.wait_leader()
    cluster.wait_caught_up()
    mark = leader.mark()
    leader.pause()
    others = [node for node in cluster if node is not leader]
    for node in others:
        node.wait_for("leader_changed", where=lambda line: line["leader"] not in (-1, leader.node_id))
    leader.resume()
    leader.wait_for("transition", since=mark, where=lambda line: line["from"] == "leader")
    cluster.commit(NAME, "after", broker="1")
    cluster.wait_caught_up()
    assert leader.describe().role == "follower"


@pytest.mark.covers("D-40")
def test_a_paused_leader_is_replaced_without_waiting_for_the_fetch_timeout(start: Start) -> None:
    cluster = start(settings={"controller.quorum.fetch.timeout.ms": "20000"})
    leader = cluster.wait_leader()
    cluster.commit(NAME, "before", broker="1")
    cluster.wait_caught_up()
    time.sleep(1)  # its rhythm is heard
    others = [node for node in cluster if node is not leader]
    began = time.monotonic()
    leader.pause()
    for node in others:
        node.wait_for("leader_changed", where=lambda line: line["leader"] not in (-1, leader.node_id))
    assert time.monotonic() - began < 20, "its silence tells, not the fetch timeout of 20 s"
    assert any(node.count("leader_suspected") for node in others)
    leader.resume()
    cluster.wait_caught_up()


@pytest.mark.covers("D-01")
def test_a_paused_follower_says_so_and_does_not_disturb_the_leader(start: Start) -> None:
    cluster = start()
    leader = cluster.wait_leader()
    cluster.wait_caught_up()
    follower = next(node for node in cluster if node is not leader)
    epoch = leader.describe().epoch
    mark = follower.mark()
    follower.pause()
    time.sleep(2.0)  # the pause itself is what is tested: longer than every timer
    follower.resume()
    follower.wait_for("stall", since=mark)
    cluster.commit(NAME, "after", broker="2")
    cluster.wait_caught_up()
    assert leader.describe().epoch == epoch
    assert leader.describe().role == "leader"


@pytest.mark.covers("D-09")
def test_a_leader_told_to_stop_hands_over_and_ends_with_code_0(start: Start) -> None:
    cluster = start(settings={"controller.quorum.fetch.timeout.ms": "20000"})
    leader = cluster.wait_leader()
    cluster.commit(NAME, "before", broker="1")
    cluster.wait_caught_up()
    assert leader.stop() == 0
    assert leader.wait_for("may_stop")["handed_over"] is True
    assert leader.wait_for("stopped")
    took_s = cluster.commit(NAME, "after", broker="1")
    assert took_s < 20, "the farewell tells, not the fetch timeout of 20 s"


@pytest.mark.covers("D-09")
def test_resign_to_a_named_voter(start: Start) -> None:
    cluster = start()
    leader = cluster.wait_leader()
    cluster.commit(NAME, "before", broker="1")
    cluster.wait_caught_up()
    target = max(node.node_id for node in cluster if node is not leader)
    with leader.client() as client:
        response = client.resign(to=target)
    assert response.error_code == 0, response.error_message
    assert response.successor == target
    cluster[target].wait_for("leader_changed", where=lambda line: line["leader"] == target)
    cluster.commit(NAME, "after", broker="1")
    assert cluster.wait_leader().node_id == target


def test_a_node_that_does_not_lead_says_so(start: Start) -> None:
    cluster = start()
    follower = cluster.wait_follower(cluster.wait_leader())
    with follower.client() as client:
        assert client.set_config(NAME, "x", broker="1") == 41
        assert client.resign().error_code != 0
        with pytest.raises(OSError, match="error 41"):
            client.get_configs(broker="1")


def test_without_a_majority_every_request_is_answered_and_status_says_why(start: Start) -> None:
    cluster = start(settings={"request.timeout.ms": "1500"})
    leader = cluster.wait_leader()
    cluster.commit(NAME, "before", broker="1")
    for node in cluster:
        if node is not leader:
            node.kill()
    with leader.client() as client:
        assert client.set_config(NAME, "during", broker="1") in (7, 41), "a response, never silence"
    leader.wait_for("transition", where=lambda line: line["from"] == "leader")
    view = leader.describe()
    assert view.leader_id == -1
    assert view.why_not_following


def test_nodes_may_start_in_any_order_and_far_apart(start: Start) -> None:
    cluster = start(start=False)
    cluster[3].start()
    cluster[3].wait_for("peer_unreachable", where=lambda line: line["peer"] == 1)
    assert cluster[3].describe().leader_id == -1
    cluster[1].start()
    leader = cluster.wait_leader()
    cluster.commit(NAME, "two of three", broker="1")
    cluster[2].start()
    cluster[2].wait_for("leader_changed", where=lambda line: line["leader"] == leader.node_id)
    cluster.wait_caught_up()
    assert cluster[3].count("peer_unreachable") <= 4, "an outage is one line, not one an attempt"


def test_one_controller_by_itself(start: Start) -> None:
    cluster = start(1)
    leader = cluster.wait_leader()
    cluster.commit(NAME, "alone", broker="1")
    leader.kill()
    leader.start()
    cluster.wait_leader()
    with leader.client() as client:
        assert client.get_configs(broker="1") == {NAME: "alone"}
    assert leader.stop() == 0


def test_static_voters_are_the_quorum_whatever_the_bootstrap_servers_beside_them_are(start: Start) -> None:
    (port,) = free_ports(1)
    cluster = start(settings={"controller.quorum.bootstrap.servers": f"127.0.0.1:{port}"})
    leader = cluster.wait_leader()
    cluster.commit(NAME, "one", broker="1")
    cluster.wait_caught_up()
    assert [node.count("bootstrap_servers_unused") for node in cluster] == [1, 1, 1]
    assert not any(f":{port}" in str(line) for node in cluster for line in node.events), "nobody tried it"
    leader.kill()
    cluster.commit(NAME, "two", broker="1")


def test_a_key_that_only_articles_have_is_warned_about_with_the_key_that_has_its_place(start: Start) -> None:
    old, new = (
        "metadata.snapshot.min.changed_records.ratio",
        "metadata.log.max.record.bytes.between.snapshots",
    )
    node = next(iter(start(1, settings={old: "0.5", "my.own": "1"})))
    warning = node.wait_for("unknown_keys")
    assert (warning["level"], warning["keys"], warning["instead"]) == ("warning", [old, "my.own"], {old: new})


@pytest.mark.covers("OBS-01")
def test_an_observer_finds_the_quorum_by_its_bootstrap_servers_and_follows(start: Start) -> None:
    cluster = start()
    leader = cluster.wait_leader()
    cluster.commit(NAME, "seen by all", broker="1")
    cluster.wait_caught_up()
    observer = Node(cluster, 9, free_ports(1)[0], 0)
    cluster.configure(observer, controller_quorum_voters="")
    text = observer.config_path.read_text()
    observer.config_path.write_text(f"{text}controller.quorum.bootstrap.servers={cluster.bootstrap}\n")
    cluster.format(observer)
    cluster.nodes[9] = observer
    observer.start()
    observer.wait_for("transition", where=lambda line: line["to"] == "follower")
    cluster.wait_caught_up(observer)
    view = observer.describe()
    assert (view.role, view.is_voter, view.leader_id) == ("observer", False, leader.node_id)
    assert len(cluster.image_hashes(observer, leader)) == 1
    leader.kill()
    cluster.commit(NAME, "after", broker="1")
    cluster.wait_caught_up(observer)
