"""`resign`: who led, who leads, and how long nobody did."""

import threading

import msgspec
import pytest

from kraftd.cli.failures import ExitCode
from kraftd.errors import ErrorCode
from kraftd.protocol.messages import (
    DescribeNodeResponsePeer,
    ResignLeaderRequest,
    ResignLeaderResponse,
)
from kraftd.types import NO_NODE
from tests.unit.cli.kraftctl import Kraftctl, Outcome
from tests.unit.cli.scripted import ScriptedQuorum


def resigns(quorum: ScriptedQuorum, successor: int, after_s: float = 0.0) -> None:
    """Let the leader hand over when asked; the successor leads the next epoch after a while."""

    def answer(_: ResignLeaderRequest) -> ResignLeaderResponse:
        quorum.change(2, role="resigned", leader_id=NO_NODE)
        threading.Timer(after_s, quorum.lead, (successor, 8)).start()
        return ResignLeaderResponse(epoch=7, leader_id=2, successor=successor)

    quorum.nodes[2].responses[ResignLeaderRequest] = answer


def resign(kraftctl: Kraftctl, quorum: ScriptedQuorum, *more: object) -> Outcome:
    return kraftctl("resign", "--bootstrap-controller", quorum.bootstrap, *more)


def test_old_and_new_leader_epoch_and_the_time_between(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    resigns(quorum, successor=3, after_s=0.05)
    outcome = resign(kraftctl, quorum, "--wait", "-o", "json")
    assert outcome.code == 0
    assert outcome.data == {
        "old_leader_id": 2,
        "new_leader_id": 3,
        "successor_id": 3,
        "old_epoch": 7,
        "epoch": 8,
        "leaderless_ms": outcome.data["leaderless_ms"],
    }
    assert 40 <= outcome.data["leaderless_ms"] < 1_000


def test_the_table_has_a_label_for_each(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    resigns(quorum, successor=1)
    outcome = resign(kraftctl, quorum)
    assert [line.split(":")[0] for line in outcome.out.splitlines()] == [
        "OldLeader",
        "NewLeader",
        "OldEpoch",
        "LeaderEpoch",
        "LeaderlessMs",
    ]
    assert "NewLeader:              1" in outcome.out


def test_the_leader_is_found_from_any_node_and_told_whom(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    resigns(quorum, successor=3)
    kraftctl("resign", "--to", 3, "--bootstrap-controller", quorum.nodes[1].address)
    [request] = [seen for seen in quorum.nodes[2].seen if isinstance(seen, ResignLeaderRequest)]
    assert request.to == 3


def test_a_target_that_does_not_catch_up_is_4_and_the_leader_leads_on(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    quorum.nodes[2].responses[ResignLeaderRequest] = lambda _: ResignLeaderResponse(
        error_code=ErrorCode.INVALID_REQUEST, error_message="node 3 is 500 records behind", epoch=7
    )
    outcome = resign(kraftctl, quorum, "--to", 3)
    assert outcome.code == 4
    assert outcome.err == "kraftctl: node 2 leads on: node 3 is 500 records behind\n"


def test_a_leader_that_lost_the_lead_meanwhile_does_not_lead_on(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    quorum.nodes[2].responses[ResignLeaderRequest] = lambda _: ResignLeaderResponse(
        error_code=ErrorCode.NOT_CONTROLLER, error_message="lost the leadership while handing over", epoch=8
    )
    outcome = resign(kraftctl, quorum, "--to", 3)
    assert outcome.code == 5
    assert outcome.err == "kraftctl: node 2: lost the leadership while handing over\n"


def test_a_successor_the_leader_is_not_connected_to_is_4(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    peers = quorum.views[2].peers
    gone = tuple(msgspec.structs.replace(peer, connected=False, note="connection refused") for peer in peers)
    quorum.change(2, peers=gone)
    outcome = resign(kraftctl, quorum, "--to", 3)
    assert outcome.code == 4
    assert outcome.err == "kraftctl: node 2 leads on: it is not connected to node 3 (connection refused)\n"
    assert not any(isinstance(seen, ResignLeaderRequest) for seen in quorum.nodes[2].seen)


def test_that_a_broker_is_no_voter_is_for_the_leader_to_say(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    """The leader names whoever fetches from it; of brokers it knows no address, and connects to none."""
    quorum.change(2, peers=(*quorum.views[2].peers, DescribeNodeResponsePeer(node_id=11)))
    quorum.nodes[2].responses[ResignLeaderRequest] = lambda request: ResignLeaderResponse(
        error_code=ErrorCode.INVALID_REQUEST, error_message=f"{request.to} is not another voter", epoch=7
    )
    outcome = resign(kraftctl, quorum, "--to", 11)
    assert (outcome.code, outcome.err) == (4, "kraftctl: node 2 leads on: 11 is not another voter\n")


def test_a_successor_that_is_damaged_is_4_and_what_is_wrong_with_it_is_told(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    quorum.change(3, whole=False, alarms=("not_whole: data/1.log at byte 17: bad checksum",))
    outcome = resign(kraftctl, quorum, "--to", 3)
    assert outcome.code == 4
    assert outcome.err == (
        "kraftctl: node 2 leads on: node 3 does not count: not_whole: data/1.log at byte 17: bad checksum\n"
    )
    assert not any(isinstance(seen, ResignLeaderRequest) for seen in quorum.nodes[2].seen)


def test_a_damaged_process_under_a_voters_id_does_not_keep_that_voter_from_leading(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    resigns(quorum, successor=3)
    second = quorum.stranger(3, whole=False)
    named = f"{second.address},{quorum.bootstrap}"
    assert kraftctl("resign", "--to", 3, "--bootstrap-controller", named).code == 0


def test_asking_for_the_leader_itself_changes_nothing(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    outcome = resign(kraftctl, quorum, "--to", 2)
    assert outcome.code == 0
    assert outcome.out == "node 2 leads already, epoch 7\n"


def test_without_a_leader_it_is_5(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    quorum.lead(NO_NODE)
    outcome = resign(kraftctl, quorum)
    assert outcome.code == 5
    assert outcome.err.startswith(
        "kraftctl: no leader: nobody campaigns; nothing was changed; kraftctl status "
    )


def test_waiting_in_vain_is_5(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    resigns(quorum, successor=3, after_s=60)
    outcome = resign(kraftctl, quorum, "--wait", "--timeout-ms", 200)
    assert outcome.code == 5
    assert "NewLeader:              none yet" in outcome.out
    assert outcome.err == "kraftctl: no new leader within 200 ms; kraftctl status shows why\n"


def test_a_node_that_claims_to_lead_an_absurd_epoch_is_not_the_new_leader(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    quorum.change(1, role="leader", leader_id=1, epoch=1 << 30)

    def answer(_: ResignLeaderRequest) -> ResignLeaderResponse:
        def take_over() -> None:
            quorum.change(3, role="leader", leader_id=3, epoch=8)
            quorum.change(2, role="follower", leader_id=3, epoch=8)

        quorum.change(2, role="resigned", leader_id=NO_NODE)
        threading.Timer(0.05, take_over).start()
        return ResignLeaderResponse(epoch=7, leader_id=2, successor=3)

    quorum.nodes[2].responses[ResignLeaderRequest] = answer
    outcome = resign(kraftctl, quorum, "--wait", "-o", "json")
    assert (outcome.data["old_leader_id"], outcome.data["old_epoch"]) == (2, 7)
    assert (outcome.data["new_leader_id"], outcome.data["epoch"]) == (3, 8)


def test_a_second_process_under_a_voters_id_does_not_hide_the_leader(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    resigns(quorum, successor=3)
    second = quorum.stranger(2, role="prospective", leader_id=NO_NODE, epoch=1 << 30)
    named = f"{second.address},{quorum.bootstrap}"
    outcome = kraftctl("resign", "--wait", "--bootstrap-controller", named, "-o", "json")
    assert outcome.code == 0
    assert (outcome.data["old_leader_id"], outcome.data["new_leader_id"]) == (2, 3)


@pytest.mark.parametrize("to", ["-1", "99999999999999999999", str(1 << 31), "x", ""])
def test_what_can_be_no_voter_is_a_usage_error(kraftctl: Kraftctl, quorum: ScriptedQuorum, to: str) -> None:
    outcome = resign(kraftctl, quorum, "--to", to)
    assert outcome.code == 64
    assert len(outcome.err.splitlines()) == 1
    assert not any(node.seen for node in quorum.nodes.values())


def test_a_leader_that_is_lost_before_it_answers_may_have_handed_over(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    quorum.nodes[2].responses[ResignLeaderRequest] = lambda _: None
    outcome = resign(kraftctl, quorum)
    assert outcome.code == ExitCode.UNHEALTHY
    assert outcome.err == (
        f"kraftctl: whether node 2 leads on is unknown: {quorum.nodes[2].address}: the node closed the "
        "connection without a response; look with status before repeating it\n"
    )
