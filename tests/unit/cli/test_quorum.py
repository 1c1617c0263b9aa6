"""`status`, `replication`, `health`: the truth about a quorum, led or not, with nodes down or paused."""

import contextlib
import socket
import socketserver
import threading

import pytest

from kraftd.cli.failures import ExitCode
from kraftd.cli.survey import NAMED_BY_ONE_MAX, NAMED_MAX
from kraftd.cli.times import age_text
from kraftd.errors import ErrorCode
from kraftd.protocol.messages import (
    DescribeNodeRequest,
    DescribeNodeResponse,
    DescribeNodeResponsePeer,
    ListConfigsRequest,
    ListConfigsResponse,
)
from kraftd.types import FORGET_PEERS, NO_NODE, REPORTED_BY_OTHERS
from tests.unit.cli.kraftctl import Kraftctl, Outcome
from tests.unit.cli.scripted import ScriptedBroker, ScriptedQuorum

FOREIGN = "no room\x1b]0;title\x07\x1b[2J\nNode 9 is well"
"""What would set a terminal's title, clear it, and add a line."""


def status(kraftctl: Kraftctl, quorum: ScriptedQuorum, *more: str) -> Outcome:
    return kraftctl("--bootstrap-controller", quorum.bootstrap, "status", *more)


def test_with_a_leader_status_begins_as_kafkas(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    outcome = status(kraftctl, quorum)
    assert outcome.code == 0
    ports = {node_id: node.port for node_id, node in quorum.nodes.items()}
    head, _, rows = outcome.out.partition("\n\n")
    assert head.splitlines() == [
        "ClusterId:              test-cluster",
        "LeaderId:               2",
        "LeaderEpoch:            7",
        "HighWatermark:          101",
        "MaxFollowerLag:         1",
        "MaxFollowerLagTimeMs:   10",
        "CurrentVoters:          [1,2,3]",
        "CurrentObservers:       []",
    ]
    assert rows.splitlines()[0].split() == [
        "Node",
        "Endpoint",
        "Role",
        "Epoch",
        "Leader",
        "Vote",
        "LEO",
        "HW",
        "Lag",
    ]
    assert [row.split() for row in rows.splitlines()[1:]] == [
        ["1", f"127.0.0.1:{ports[1]}", "follower", "7", "2", "2", "101", "101", "1"],
        ["2", f"127.0.0.1:{ports[2]}", "leader", "7", "2", "2", "102", "101", "0"],
        ["3", f"127.0.0.1:{ports[3]}", "follower", "7", "2", "2", "103", "101", "0"],
    ]


def test_it_is_said_once_why_there_is_no_snapshot_and_that_is_healthy(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    due = "none is due yet: {} of 100 bytes of log, and less than 3600000 ms"
    failed = "no snapshot was written at offset 40: no room"
    quorum.change(1, why_no_snapshot=due.format(40))
    quorum.change(2, why_no_snapshot=due.format(44))
    quorum.change(3, why_no_snapshot=failed, alarms=(f"{failed}",))
    first, second, third, gap, told = status(kraftctl, quorum).out.splitlines()[-5:]
    assert first.endswith("  1")
    assert "snapshot" not in second
    assert third.count(failed) == 1
    assert (gap, told) == ("", f"No snapshot on 1,2 ({due.format(40)})")
    quorum.change(3, why_no_snapshot=None, alarms=())
    assert kraftctl("--bootstrap-controller", quorum.bootstrap, "health").code == 0


def test_age_and_size_of_the_newest_snapshot_are_told_below_the_table(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    for node_id, age_ms in ((1, 119_999), (2, 119_000), (3, 119_500)):
        quorum.change(node_id, snapshot_offset=3_053, snapshot_bytes=4_711, snapshot_age_ms=age_ms)
    out = status(kraftctl, quorum).out
    assert out.endswith("\n\nSnapshot on 1,2,3 (at offset 3053: 4711 bytes, 119 s old)\n")
    quorum.change(2, snapshot_offset=2_000, snapshot_bytes=17, snapshot_age_ms=7_200_000)
    quorum.change(3, snapshot_offset=-1, snapshot_bytes=-1, snapshot_age_ms=-1, why_no_snapshot="not due")
    quorum.nodes[1].close()
    assert status(kraftctl, quorum).out.splitlines()[-2:] == [
        "Snapshot on 2 (at offset 2000: 17 bytes, 2 h old)",
        "No snapshot on 3 (not due)",
    ]


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0 s"), (119_999, "119 s"), (120_000, "2 min"), (7_200_000, "2 h"), (172_800_000, "2 d")],
)
def test_an_age_is_told_in_one_unit(ms: int, text: str) -> None:
    assert age_text(ms) == text


@pytest.mark.usefixtures("terminal")
def test_a_quorum_with_snapshots_fits_in_80_columns(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    for node_id in (1, 2, 3):
        size = 1_234_567_890
        quorum.change(node_id, snapshot_offset=size, snapshot_bytes=size, snapshot_age_ms=7_100_000)
    assert max(map(len, status(kraftctl, quorum).out.splitlines())) <= 80


def test_it_is_said_once_how_authorizers_can_be_got_around(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    for node_id in (1, 2, 3):
        quorum.change(node_id, why_forgeable="a forged Envelope passes")
    assert status(kraftctl, quorum).out.endswith("\n\nBeware of 1,2,3 (a forged Envelope passes)\n")


def test_what_a_node_says_stays_on_its_line(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    quorum.change(1, why_no_snapshot=FOREIGN)
    quorum.change(2, why_forgeable=FOREIGN)
    safe = repr(FOREIGN)[1:-1]
    outcome = status(kraftctl, quorum)
    assert outcome.out.endswith(f"\n\nNo snapshot on 1 ({safe})\nBeware of 2 ({safe})\n")
    assert status(kraftctl, quorum, "-o", "json").data["nodes"][0]["why_no_snapshot"] == FOREIGN


@pytest.mark.usefixtures("terminal")
def test_a_quorum_without_snapshots_fits_in_80_columns(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    for node_id in (1, 2, 3):
        due = "none is due yet: 7039 of 20971520 bytes of log, and less than 3600000 ms"
        quorum.change(node_id, why_no_snapshot=due, log_end_offset=12_345_678, high_watermark=12_345_678)
    assert max(map(len, status(kraftctl, quorum).out.splitlines())) <= 80


@pytest.mark.usefixtures("terminal")
def test_a_broken_quorum_fits_in_80_columns(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    for node_id in (1, 2):
        quorum.nodes[node_id].close()
    quorum.lead(NO_NODE, epoch=9)
    for command in (("status",), ("health", "--timeout-ms", 1), ("topics", "list", "--timeout-ms", 1)):
        outcome = kraftctl(*command, "--bootstrap-controller", quorum.bootstrap)
        lines = (outcome.out + outcome.err).splitlines()
        assert max(map(len, lines)) <= 80
        if command == ("status",):
            assert lines.count("  connection refused, nothing listens there") == 2
    assert lines == [
        "kraftctl: no leader: no majority: 1 of 3 voters answer, 2 are needed; kraftctl",
        "  status shows every node's view",
    ]


def test_one_node_is_enough_to_find_all(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    outcome = kraftctl("status", "--bootstrap-controller", quorum.nodes[3].address, "-o", "json")
    assert [node["node_id"] for node in outcome.data["nodes"]] == [1, 2, 3]
    assert outcome.data["leader_id"] == 2


def test_a_node_under_two_names_is_one_row(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    port = quorum.nodes[1].port
    outcome = kraftctl("status", "--bootstrap-controller", f"localhost:{port}", "-o", "json")
    assert [node["node_id"] for node in outcome.data["nodes"]] == [1, 2, 3]


@pytest.mark.usefixtures("patient")
def test_a_dead_node_is_a_row_and_costs_no_time(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    quorum.nodes[1].close()
    outcome = status(kraftctl, quorum)
    assert outcome.code == 0
    [row] = [line for line in outcome.out.splitlines() if line.startswith("1 ")]
    assert row.split()[2] == "unreachable"
    assert row.endswith("connection refused, nothing listens there")


def test_a_paused_node_is_a_row(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    quorum.nodes[1].silent = True
    data = status(kraftctl, quorum, "-o", "json").data
    assert data["leader_id"] == 2
    assert data["nodes"][0] == {
        "node_id": 1,
        "endpoint": quorum.nodes[1].address,
        "reachable": False,
        "refuses": False,
        "busy": False,
        "silent": True,
        "error": "no response within 1000 ms",
    } | dict.fromkeys(
        data["nodes"][1].keys() - {"node_id", "endpoint", "reachable", "refuses", "busy", "silent", "error"}
    )
    row = status(kraftctl, quorum).out.splitlines()[-3]
    assert row.split()[2] == "silent"


def test_without_a_leader_every_node_still_speaks(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    quorum.lead(NO_NODE, epoch=9)
    quorum.change(
        1, epoch=11, voted_id=1, role="candidate", why_not_following="2 and 3 refused: log too short"
    )
    outcome = status(kraftctl, quorum)
    assert outcome.code == 0
    head, _, rows = outcome.out.partition("\n\n")
    assert "LeaderId:               none" in head
    assert "LeaderEpoch:            9" in head
    assert "Reason:                 2 and 3 refused: log too short" in head
    first, second, third = rows.splitlines()[1:]
    assert first.split()[2:9] == ["candidate", "11", "-", "1", "101", "101", "2"]
    assert third.split()[2:9] == ["unattached", "9", "-", "-", "103", "101", "0"]
    assert second.endswith("nobody campaigns")


def test_a_lost_majority_is_named_as_the_reason(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    quorum.lead(NO_NODE)
    quorum.nodes[1].close()
    quorum.nodes[2].close()
    data = status(kraftctl, quorum, "-o", "json").data
    assert data["no_leader_reason"] == "no majority: 1 of 3 voters answer, 2 are needed"
    assert [node["reachable"] for node in data["nodes"]] == [False, False, True]


def test_members_that_do_not_know_each_other_again_are_the_reason_whoever_else_has_one(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    doubt = "not counted by 1: another directory, or an older start, than known there"
    quorum.lead(NO_NODE)
    quorum.change(3, why_not_following=f"waiting 900 ms before the next election; {doubt}; {FORGET_PEERS}")
    data = kraftctl("status", "--bootstrap-controller", quorum.bootstrap, "-o", "json").data
    assert data["no_leader_reason"].endswith(f"; {doubt}; {FORGET_PEERS}")
    outcome = kraftctl("health", "--bootstrap-controller", quorum.bootstrap)
    assert outcome.code == 5
    assert FORGET_PEERS in outcome.out.splitlines()[0]


def test_a_member_that_others_take_for_an_old_copy_is_the_reason(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    alarm = f"not_whole: {REPORTED_BY_OTHERS}2: this directory was replaced or restored, but {FORGET_PEERS}"
    quorum.lead(NO_NODE)
    quorum.change(
        2, whole=False, alarms=(alarm,), why_not_following=alarm.replace("not_whole", "not counted")
    )
    out = kraftctl("status", "--bootstrap-controller", quorum.bootstrap).out
    assert f"node 2 is not counted, because others know another as it; {FORGET_PEERS}" in out


def test_a_node_does_not_choose_how_many_connections_leave_us(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    """One of the nodes names thousands of others: its neighbours are asked all the same, and it is named."""
    crowd = socket.create_server(("127.0.0.1", 0))
    met: list[socket.socket] = []

    def meet() -> None:
        with contextlib.suppress(OSError):
            while True:
                met.append(crowd.accept()[0])
                met[-1].close()

    meeting = threading.Thread(target=meet)
    meeting.start()
    port = crowd.getsockname()[1]
    strangers = tuple(
        DescribeNodeResponsePeer(node_id=at, host=f"127.1.{at // 250}.{at % 250 + 1}", port=port)
        for at in range(10, 2_010)
    )
    quorum.change(1, peers=(*strangers, *quorum.views[1].peers))
    data = kraftctl("status", "--bootstrap-controller", quorum.bootstrap, "-o", "json").data
    crowd.shutdown(socket.SHUT_RDWR)
    crowd.close()
    meeting.join()
    assert data["leader_id"] == 2
    assert len(data["nodes"]) == 3 + NAMED_BY_ONE_MAX
    assert data["nodes"][0]["troubles"] == ["names 2002 other nodes, of which 32 were asked"]


def test_nodes_that_name_each_other_do_not_either(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    named = [
        quorum.stranger(
            1,
            peers=tuple(
                DescribeNodeResponsePeer(node_id=1_000 * first + at, host=f"127.1.{first}.{at}", port=1)
                for at in range(1, NAMED_BY_ONE_MAX + 1)
            ),
        )
        for first in range(1, 9)
    ]
    peers = [DescribeNodeResponsePeer(node_id=1, host="127.0.0.1", port=node.port) for node in named]
    quorum.change(1, peers=(*peers, *quorum.views[1].peers))
    data = kraftctl("status", "--bootstrap-controller", quorum.bootstrap, "-o", "json").data
    assert data["leader_id"] == 2
    silent = [node for node in data["nodes"] if not node["reachable"]]
    assert len(silent) == NAMED_MAX - len(named), (
        "eight that answer, and no more than that of those they name"
    )


def test_followers_of_a_leader_that_is_gone_are_no_leader(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    quorum.nodes[2].close()
    data = status(kraftctl, quorum, "-o", "json").data
    assert data["leader_id"] == NO_NODE
    assert data["no_leader_reason"].startswith("node 1 follows node 2, which cannot be asked: ")


def test_of_two_leaders_the_one_that_a_majority_follows_is_right(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    quorum.change(1, role="leader", leader_id=1, epoch=8)
    assert status(kraftctl, quorum, "-o", "json").data["leader_id"] == 2
    quorum.change(3, leader_id=1, epoch=8)
    assert status(kraftctl, quorum, "-o", "json").data["leader_id"] == 1


ODD = 1 << 30
ODD_CLAIMS = {
    "it leads": {"role": "leader", "leader_id": 3},
    "it leads, and is alone": {"role": "leader", "leader_id": 3, "peers": ()},
    "it knows no leader": {"role": "unattached", "leader_id": NO_NODE, "why_not_following": "waits"},
    "it follows one that is not": {"leader_id": 99},
    "it is no voter": {"role": "observer", "is_voter": False},
}


@pytest.mark.parametrize("claim", ODD_CLAIMS.values(), ids=ODD_CLAIMS)
def test_one_node_in_an_absurd_epoch_does_not_hide_the_leader(
    kraftctl: Kraftctl, quorum: ScriptedQuorum, claim: dict[str, object]
) -> None:
    quorum.change(3, epoch=ODD, **claim)
    outcome = status(kraftctl, quorum)
    assert "LeaderId:               2" in outcome.out
    assert "LeaderEpoch:            7" in outcome.out
    [row] = [line for line in outcome.out.splitlines() if line.startswith("3 ")]
    assert f"speaks of epoch {ODD}, but node 2 leads epoch 7" in row
    health = kraftctl("health", "--bootstrap-controller", quorum.bootstrap, "-o", "json")
    assert (health.code, health.data["leader_id"], health.data["leader_epoch"]) == (5, 2, 7)
    assert [node["healthy"] for node in health.data["nodes"]] == [True, True, False]
    assert f"speaks of epoch {ODD}" in health.data["nodes"][2]["problems"][0]
    assert kraftctl("configs", "list", "--bootstrap-controller", quorum.bootstrap).code == 0


SECOND_PROCESSES = {
    "it is prospective": {"role": "prospective", "leader_id": NO_NODE, "epoch": ODD},
    "it leads": {"role": "leader", "leader_id": 3, "epoch": ODD},
    "it is of an old epoch": {"role": "unattached", "leader_id": NO_NODE, "epoch": 1},
    "it is no voter": {"role": "observer", "is_voter": False, "leader_id": NO_NODE},
}


@pytest.mark.parametrize("claim", SECOND_PROCESSES.values(), ids=SECOND_PROCESSES)
@pytest.mark.parametrize("comes_first", [True, False])
def test_a_second_process_under_the_leaders_id_does_not_hide_the_leader(
    kraftctl: Kraftctl, quorum: ScriptedQuorum, claim: dict[str, object], comes_first: bool
) -> None:
    """Whoever answers first: the others wait until it has answered, or it waits for node 3."""
    quorum.lead(3)
    second = quorum.stranger(3, **claim)
    first, later = (second, quorum.nodes[3]) if comes_first else (quorum.nodes[3], second)
    heard = threading.Event()
    early, late = first.responses[DescribeNodeRequest], later.responses[DescribeNodeRequest]
    first.responses[DescribeNodeRequest] = lambda request: (early(request), heard.set())[0]
    later.responses[DescribeNodeRequest] = lambda request: (heard.wait(), late(request))[1]
    named = f"{quorum.bootstrap},{second.address}"

    data = kraftctl("status", "--bootstrap-controller", named, "-o", "json").data
    assert (data["leader_id"], data["leader_epoch"], data["no_leader_reason"]) == (3, 7, None)
    twins = [node for node in data["nodes"] if node["node_id"] == 3]
    addresses = sorted([quorum.nodes[3].address, second.address])
    assert [node["endpoint"] for node in twins] == addresses
    for twin in twins:
        assert f"two processes answer as node 3: {' and '.join(addresses)}" in twin["troubles"]
    health = kraftctl("health", "--bootstrap-controller", named, "-o", "json")
    assert (health.code, health.data["leader_id"], health.data["leader_epoch"]) == (5, 3, 7)
    assert [node["healthy"] for node in health.data["nodes"]] == [True, True, False, False]
    assert kraftctl("configs", "list", "--bootstrap-controller", named).code == 0


@pytest.mark.parametrize("comes_first", [True, False])
def test_a_node_of_another_cluster_is_named_and_counts_for_nothing(
    kraftctl: Kraftctl, quorum: ScriptedQuorum, comes_first: bool
) -> None:
    quorum.lead(3)
    foreign = quorum.stranger(3, cluster_id="another-cluster", epoch=ODD, role="leader", image_hash="ff")
    order = [foreign.address, quorum.bootstrap] if comes_first else [quorum.bootstrap, foreign.address]
    named = ",".join(order)
    data = kraftctl("status", "--bootstrap-controller", named, "-o", "json").data
    assert (data["cluster_id"], data["leader_id"], data["leader_epoch"]) == ("test-cluster", 3, 7)
    [row] = [node for node in data["nodes"] if node["endpoint"] == foreign.address]
    assert row["error"] == "a node 3 of another cluster answers: another-cluster, not test-cluster"
    health = kraftctl("health", "--bootstrap-controller", named, "-o", "json")
    assert health.code == 5
    assert [node["endpoint"] for node in health.data["nodes"] if not node["healthy"]] == [foreign.address]
    assert health.data["problems"] == [f"node 3: {row['error']}"]


def test_one_node_in_an_absurd_epoch_and_no_leader_is_no_leader(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    quorum.lead(NO_NODE, epoch=7)
    quorum.change(3, epoch=ODD, role="leader", leader_id=3)
    data = status(kraftctl, quorum, "-o", "json").data
    assert (data["leader_id"], data["leader_epoch"]) == (NO_NODE, 7)
    assert data["no_leader_reason"] == "nobody campaigns"
    assert kraftctl("health", "--bootstrap-controller", quorum.bootstrap, "--timeout-ms", 200).code == 5


def test_a_leader_whose_followers_have_not_heard_of_it_leads(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    quorum.lead(NO_NODE, epoch=8)
    quorum.change(2, role="leader", leader_id=2)
    assert status(kraftctl, quorum, "-o", "json").data["leader_id"] == 2


DAMAGE = [f"segment {at}: a batch that does not match its checksum" for at in range(20)]


@pytest.mark.parametrize("command", ["status", "health"])
def test_damage_is_told_once_and_in_short(kraftctl: Kraftctl, quorum: ScriptedQuorum, command: str) -> None:
    text = "; ".join(DAMAGE)
    quorum.lead(NO_NODE)
    for node_id in (1, 2, 3):
        quorum.change(
            node_id,
            whole=False,
            alarms=(f"not_whole: {text}",) if node_id == 3 else (),
            why_not_following=f"not counted: {text if node_id == 3 else f'node {node_id} forgot'}",
        )
    more = ("--timeout-ms", 200) if command == "health" else ()
    out = kraftctl(command, "--bootstrap-controller", quorum.bootstrap, *more).out
    assert [out.count(text) for text in DAMAGE] == [1, 1, 1] + [0] * 17
    assert "and 17 more" in out


@pytest.mark.parametrize("command", ["status", "health"])
def test_only_places_of_damage_are_left_out(kraftctl: Kraftctl, quorum: ScriptedQuorum, command: str) -> None:
    """Advice is no place, and a list of places hides no other alarm, however it is written."""
    advice = "this copy does not count until it is restored"
    stuck = "apply_stuck: offset 7: no such topic; it is left out; a new version may apply it; restart then"
    damage = "; ".join(f"{place}; {advice}" for place in DAMAGE)
    alarms = (f"not_whole: {damage}", stuck, "zeal: too much", "zest: too little")
    quorum.change(3, whole=False, alarms=alarms)
    out = kraftctl(command, "--bootstrap-controller", quorum.bootstrap).out
    told = "; ".join([f"not_whole: {DAMAGE[0]}", *DAMAGE[1:3], "and 17 more", advice, *alarms[1:]])
    assert told in out


def test_damage_that_was_cut_is_told_once(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    """An alarm and a reason of the same damage are cut at the same length, and do not begin alike."""
    text = "; ".join(DAMAGE)
    quorum.lead(NO_NODE)
    quorum.change(
        3,
        whole=False,
        alarms=(f"not_whole: {text}"[:500] + "…",),
        why_not_following=f"not counted: {text}"[:500] + "…",
    )
    assert status(kraftctl, quorum).out.count(DAMAGE[0]) == 1


def test_a_deposed_leader_that_has_not_heard_is_no_leader(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    for node_id in (1, 3):
        quorum.change(node_id, role="candidate", leader_id=NO_NODE, epoch=8, why_not_following="an election")
    data = status(kraftctl, quorum, "-o", "json").data
    assert (data["leader_id"], data["leader_epoch"], data["no_leader_reason"]) == (NO_NODE, 8, "an election")


@pytest.mark.parametrize(
    ("alarms", "note"),
    [
        ((), "not whole: neither votes nor counts"),
        (("damage: segment 0 at byte 61",), "damage: segment 0 at byte 61"),
    ],
)
def test_a_node_that_is_not_whole_says_so(
    kraftctl: Kraftctl, quorum: ScriptedQuorum, alarms: tuple[str, ...], note: str
) -> None:
    quorum.change(3, whole=False, alarms=alarms, why_not_following="it is not counted")
    [row] = [line for line in status(kraftctl, quorum).out.splitlines() if line.startswith("3 ")]
    assert row.endswith(f"  {note}")


def test_nobody_answering_is_a_table_and_2(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    quorum.close()
    outcome = status(kraftctl, quorum)
    assert outcome.code == 2
    assert outcome.out.count("unreachable") == 3
    at = ", ".join(sorted(node.address for node in quorum.nodes.values()))
    assert outcome.err == (
        f"kraftctl: no node answers: {at}: connection refused, nothing listens there; "
        "check that they run, and the ports that were named\n"
    )


def test_the_verdict_says_what_is_wrong_with_nodes(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    quorum.change(3, alarms=("disk_full: 1 MiB is left",))
    outcome = kraftctl("health", "--bootstrap-controller", quorum.bootstrap)
    assert outcome.code == 5
    assert outcome.out.splitlines()[0] == "NOT healthy: node 3: disk_full: 1 MiB is left"
    quorum.nodes[1].close()
    first = kraftctl("health", "--bootstrap-controller", quorum.bootstrap).out.splitlines()[0]
    assert first.startswith(
        "NOT healthy: nodes 1 and 3: connection refused, nothing listens there; disk_full"
    )


def test_an_http_port_in_place_of_the_quorums_is_told_as_such(kraftctl: Kraftctl) -> None:
    class Refusing(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1 << 16)
            self.request.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    server = socketserver.TCPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    outcome = kraftctl("replication", "--bootstrap-controller", f"127.0.0.1:{server.server_address[1]}")
    server.shutdown()
    server.server_close()
    assert outcome.code == 2
    assert "it does not speak kraftd's protocol: this is HTTP, which is not spoken here" in outcome.err


def test_nodes_that_do_not_answer_for_different_reasons_are_told_apart(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    quorum.close()
    at = quorum.nodes[1].address
    outcome = kraftctl("replication", "--timeout-ms", 100, "--bootstrap-controller", f"{at},nobody.invalid:1")
    assert outcome.code == 2
    assert (
        f"no node answers: {at}: connection refused, nothing listens there; nobody.invalid:1: " in outcome.err
    )


@pytest.mark.parametrize(
    ("command", "code"),
    [("status", 4), ("health", 5), ("replication", 4), ("resign", 4)],
)
def test_a_broker_of_kafka_is_told_as_such(kraftctl: Kraftctl, command: str, code: int) -> None:
    broker = ScriptedBroker(1)
    patience = () if command == "status" else ("--timeout-ms", 100)
    outcome = kraftctl(command, *patience, "--bootstrap-controller", broker.address)
    broker.close()
    assert outcome.code == code
    assert f"{broker.address} is a broker of Kafka, which " in outcome.out + outcome.err
    assert "unreachable" not in outcome.out
    assert "with --bootstrap-controller" in outcome.out + outcome.err


def refuse(quorum: ScriptedQuorum, *node_ids: int) -> None:
    """Let these nodes tell nothing, as to somebody without the right."""
    no = DescribeNodeResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    for node_id in node_ids:
        quorum.nodes[node_id].responses[DescribeNodeRequest] = lambda _: no


REFUSED = "CLUSTER_AUTHORIZATION_FAILED (31)"


def test_nodes_that_refuse_are_a_table_and_4(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    """One that is not reached has a row, and does not make them unreachable."""
    refuse(quorum, 1, 2)
    quorum.nodes[3].close()
    outcome = status(kraftctl, quorum)
    assert outcome.code == ExitCode.REFUSED
    assert "every node that answered refused to tell" in outcome.out
    rows = [line.split()[2] for line in outcome.out.splitlines()[-3:]]
    assert sorted(rows) == ["refuses", "refuses", "unreachable"]
    at = [quorum.nodes[node_id].address for node_id in (1, 2)]
    assert outcome.err == f"kraftctl: {', '.join(at)}: {REFUSED}\n"
    data = status(kraftctl, quorum, "-o", "json").data
    assert [node["refuses"] for node in data["nodes"]] == [True, True, False]


@pytest.mark.parametrize(
    "command", [("replication",), ("brokers", "pending", 1), ("resign",), ("export", 1, "out")]
)
def test_who_may_not_ask_who_leads_is_refused(
    kraftctl: Kraftctl, quorum: ScriptedQuorum, command: tuple[object, ...]
) -> None:
    refuse(quorum, 1, 2, 3)
    outcome = kraftctl("--bootstrap-controller", quorum.bootstrap, *command)
    assert outcome.code == ExitCode.REFUSED
    assert REFUSED in outcome.err
    assert "no node answers" not in outcome.err


def keep_out(quorum: ScriptedQuorum, *node_ids: int) -> None:
    """Let these nodes have no room for a connection, or some again if they had none."""
    for node_id in node_ids:
        node = quorum.nodes[node_id]
        node.refusal = "" if node.refusal else "too many connections"
        node.refusal_code = ErrorCode.THROTTLING_QUOTA_EXCEEDED


FULL = "connection refused by the node: too many connections"


def test_a_node_without_room_is_neither_silent_nor_a_refusal(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    """It may have some in a moment."""
    keep_out(quorum, 1, 2)
    quorum.nodes[3].close()
    outcome = status(kraftctl, quorum)
    assert outcome.code == ExitCode.UNHEALTHY
    assert "no node that answered could tell" in outcome.out
    rows = [line.split()[2] for line in outcome.out.splitlines()[-3:]]
    assert sorted(rows) == ["busy", "busy", "unreachable"]
    at = sorted(quorum.nodes[node_id].address for node_id in (1, 2))
    assert sorted(outcome.err.removeprefix("kraftctl: ").partition(": ")[0].split(", ")) == at
    assert outcome.err.endswith(f": {FULL}\n")
    data = status(kraftctl, quorum, "-o", "json").data
    assert sorted(node["busy"] for node in data["nodes"]) == [False, True, True]
    for command in (("watch",), ("export", 1, "out"), ("resign",)):
        outcome = kraftctl("--bootstrap-controller", quorum.bootstrap, *command)
        assert outcome.code == ExitCode.UNHEALTHY
        assert FULL in outcome.err


def test_a_node_without_room_cannot_be_exported_now(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    keep_out(quorum, 1)
    outcome = kraftctl("--bootstrap-controller", quorum.bootstrap, "export", 1, "out")
    assert outcome.code == ExitCode.UNHEALTHY
    assert outcome.err.startswith(f"kraftctl: node 1 at {quorum.nodes[1].address}: {FULL};")


def test_a_refusal_is_told_before_that_another_node_has_no_room(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    refuse(quorum, 1)
    keep_out(quorum, 2, 3)
    outcome = status(kraftctl, quorum)
    assert outcome.code == ExitCode.REFUSED
    assert outcome.err == f"kraftctl: {quorum.nodes[1].address}: {REFUSED}\n"


def test_the_leader_is_looked_for_until_there_is_room(
    kraftctl: Kraftctl, quorum: ScriptedQuorum, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pause(_: float) -> None:
        keep_out(quorum, 1, 2, 3)

    keep_out(quorum, 1, 2, 3)
    monkeypatch.setattr("kraftd.cli.survey.time.sleep", pause)
    assert kraftctl("--bootstrap-controller", quorum.bootstrap, "replication").code == ExitCode.OK


def test_a_node_that_has_just_started_says_that_it_cannot_tell_yet(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    loading = DescribeNodeResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    for node in quorum.nodes.values():
        node.responses[DescribeNodeRequest] = lambda _: loading
    outcome = status(kraftctl, quorum)
    assert outcome.code == ExitCode.UNHEALTHY
    assert "it has not read all that is committed yet, and so does not know who may ask" in outcome.err


def test_a_node_that_refuses_the_handshake_says_why(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    quorum.nodes[1].refusal = "too many connections from your address"
    assert "too many connections from your address" in status(kraftctl, quorum).out


def test_replication_has_kafkas_columns_and_order(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    outcome = kraftctl("replication", "--bootstrap-controller", quorum.bootstrap)
    header, *rows = [line.split("\t") for line in outcome.out.splitlines()]
    assert [cell.strip() for cell in header] == [
        "NodeId",
        "DirectoryId",
        "LogEndOffset",
        "Lag",
        "LastFetchTimestamp",
        "LastCaughtUpTimestamp",
        "Status",
        "",
    ]
    assert [(row[0].strip(), row[3].strip(), row[6].strip()) for row in rows] == [
        ("2", "0", "Leader"),
        ("1", "1", "Follower"),
        ("3", "-1", "Follower"),
    ]
    assert len({tuple(map(len, line)) for line in [header, *rows]}) == 1


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("more", [(), ("--human-readable",)])
def test_replication_fits_in_80_columns(
    kraftctl: Kraftctl, quorum: ScriptedQuorum, more: tuple[str, ...]
) -> None:
    outcome = kraftctl("replication", "--bootstrap-controller", quorum.bootstrap, *more)
    lines = outcome.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].split()[-1] in ("Status", "DirectoryId")
    assert "\t" not in outcome.out


def test_replication_tells_ages_if_asked(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    outcome = kraftctl("replication", "--human-readable", "--bootstrap-controller", quorum.bootstrap)
    assert outcome.out.count(" ms ago") == 6


def test_replication_without_a_leader_ends_with_5(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    quorum.lead(NO_NODE)
    outcome = kraftctl("replication", "--timeout-ms", 200, "--bootstrap-controller", quorum.bootstrap)
    assert outcome.code == 5
    assert outcome.err.startswith("kraftctl: no leader: ")


def test_health_of_a_sound_quorum_is_0(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    outcome = kraftctl("health", "--bootstrap-controller", quorum.bootstrap, "-o", "json")
    assert outcome.code == 0
    assert outcome.data["healthy"]
    assert outcome.data["read_ms"] >= 0
    assert any(isinstance(request, ListConfigsRequest) for request in quorum.nodes[2].seen)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"whole": False}, "not whole"),
        ({"alarms": ("divergence below the high watermark",)}, "divergence below the high watermark"),
        ({"leader_id": NO_NODE, "role": "unattached", "why_not_following": "cut off"}, "cut off"),
        ({"leader_id": 1}, "follows node 1, but node 2 leads"),
    ],
)
def test_a_named_node_that_is_not_sound_is_5(
    kraftctl: Kraftctl, quorum: ScriptedQuorum, fields: dict[str, object], problem: str
) -> None:
    quorum.change(3, **fields)
    outcome = kraftctl("health", "--bootstrap-controller", quorum.bootstrap)
    assert outcome.code == 5
    assert problem in outcome.out


def test_different_images_of_the_same_records_are_5(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    quorum.change(1, image_hash="aa", applied_offset=50)
    quorum.change(2, image_hash="bb")
    quorum.change(3, image_hash="bb")
    assert kraftctl("health", "--bootstrap-controller", quorum.bootstrap).code == 0
    quorum.change(3, image_hash="cc")
    outcome = kraftctl("health", "--bootstrap-controller", quorum.bootstrap)
    assert outcome.code == 5
    assert "nodes 2 and 3 hold different images at offset 101" in outcome.out


def test_health_is_of_the_nodes_named(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    quorum.nodes[3].close()
    assert kraftctl("health", "--bootstrap-controller", quorum.nodes[1].address).code == 0
    assert kraftctl("health", "--bootstrap-controller", quorum.bootstrap).code == 5


def test_a_node_may_be_named_otherwise_than_its_peers_know_it(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    """As in a container, that asks itself at localhost."""
    named = f"localhost:{quorum.nodes[1].port}"
    assert kraftctl("health", "--bootstrap-controller", named).code == 0
    quorum.change(1, whole=False)
    outcome = kraftctl("health", "--bootstrap-controller", named, "-o", "json")
    assert outcome.code == 5
    assert [(node["node_id"], node["endpoint"]) for node in outcome.data["nodes"]] == [(1, named)]


def test_a_quorum_that_answers_no_read_is_5(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    quorum.nodes[2].responses[ListConfigsRequest] = lambda _: ListConfigsResponse(error_code=7)
    outcome = kraftctl("health", "--timeout-ms", 200, "--bootstrap-controller", quorum.bootstrap)
    assert outcome.code == 5
    assert "REQUEST_TIMED_OUT" in outcome.out


def test_health_without_anyone_is_5(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    quorum.close()
    assert kraftctl("health", "--timeout-ms", 200, "--bootstrap-controller", quorum.bootstrap).code == 5


def test_a_node_that_dies_while_it_is_asked_is_a_row(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    quorum.nodes[1].responses[DescribeNodeRequest] = lambda _: None
    data = status(kraftctl, quorum, "-o", "json").data
    assert data["nodes"][0]["node_id"] == 1
    assert data["nodes"][0]["error"] == "the node closed the connection without a response"
