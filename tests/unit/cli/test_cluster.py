"""What `status` and `health` say of brokers and topics: named, and no fault of the quorum's."""

import pytest

from kraftd.types import NO_NODE
from tests.unit.cli.kraftctl import Kraftctl
from tests.unit.cli.scripted import ScriptedQuorum

TROUBLED = {
    "active_broker_count": 3,
    "fenced_broker_count": 18,
    "fenced_brokers": tuple(range(4, 20)),
    "stopping_broker_count": 1,
    "topic_count": 2,
    "partition_count": 9,
    "offline_partition_count": 1,
    "offline_partitions": ("orders-3",),
}


def lines_of(text: str) -> dict[str, str]:
    pairs = [line.partition(":") for line in text.splitlines()]
    return {name: value.strip() for name, colon, value in pairs if colon}


def test_a_quorum_without_brokers_says_nothing_of_them(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    for command in ("status", "health"):
        assert "Brokers" not in kraftctl(command, "--bootstrap-controller", quorum.bootstrap).out


@pytest.mark.parametrize("leader", [2, NO_NODE])
def test_status_names_what_the_newest_image_says_is_fenced_or_offline(
    kraftctl: Kraftctl, quorum: ScriptedQuorum, leader: int
) -> None:
    quorum.lead(leader)
    quorum.change(1, active_broker_count=99)
    quorum.change(3, applied_offset=150, **TROUBLED)
    shown = lines_of(kraftctl("status", "--bootstrap-controller", quorum.bootstrap).out)
    assert shown["ActiveBrokers"] == "3, 1 of them shutting down"
    assert shown["Topics"] == "2, of 9 partitions"
    assert shown["FencedBrokers"] == "18: 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, and 7 more"
    assert shown["OfflinePartitions"] == "1: orders-3"
    data = kraftctl("status", "--bootstrap-controller", quorum.bootstrap, "-o", "json").data
    numbers = (
        "active_brokers",
        "fenced_brokers",
        "stopping_brokers",
        "topics",
        "partitions",
        "offline_partitions",
    )
    assert [data[name] for name in numbers] == [3, 18, 1, 2, 9, 1]
    assert data["fenced_broker_ids"] == list(range(4, 20))
    assert data["offline_partition_names"] == ["orders-3"]


def test_what_is_in_trouble_is_named_as_far_as_a_line_has_room(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    names = tuple(f"a-topic-of-some-length-{number}" for number in range(16))
    for node_id in quorum.nodes:
        quorum.change(node_id, **{**TROUBLED, "offline_partition_count": 5_000, "offline_partitions": names})
    for command in ("status", "health"):
        out = kraftctl(command, "--bootstrap-controller", quorum.bootstrap).out
        told = f"5000: {names[0]}, and 4999 more"
        assert lines_of(out)["OfflinePartitions"] == told
        assert max(map(len, out.splitlines())) <= 80


def test_health_names_them_and_stays_what_it_is(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    """A container restarts what is not healthy, and no controller's restart brings a broker back."""
    for node_id in quorum.nodes:
        quorum.change(node_id, **TROUBLED)
    outcome = kraftctl("health", "--bootstrap-controller", quorum.bootstrap)
    assert outcome.code == 0
    shown = lines_of(outcome.out)
    assert shown["OfflinePartitions"] == "1: orders-3"
    assert shown["FencedBrokers"].startswith("18: 4, 5")
    assert "Topics" not in shown
    data = kraftctl("health", "--bootstrap-controller", quorum.bootstrap, "-o", "json").data
    assert (data["healthy"], data["problems"], data["offline_partitions"]) == (True, [], 1)


def test_an_alarm_of_the_controller_is_a_fault(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    alarm = "FenceBroker: broker 4 is left out: KeyError at controller/x.py:1; tried again in 2000 ms"
    quorum.change(2, alarms=(alarm,))
    outcome = kraftctl("health", "--bootstrap-controller", quorum.bootstrap, "-o", "json")
    assert (outcome.code, outcome.data["problems"]) == (5, [f"node 2: {alarm}"])
    assert alarm in kraftctl("status", "--bootstrap-controller", quorum.bootstrap).out


def test_nobody_there_to_tell_is_null(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    for node in quorum.nodes.values():
        node.close()
    outcome = kraftctl("status", "--bootstrap-controller", quorum.bootstrap, "-o", "json")
    assert (outcome.code, outcome.data["active_brokers"], outcome.data["fenced_broker_ids"]) == (
        2,
        None,
        None,
    )
