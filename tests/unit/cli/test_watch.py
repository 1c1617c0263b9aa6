"""What `kraftctl watch` makes of a log: where a snapshot comes first, what it replaces, what is told."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from kraftd.cli.failures import CommandError, ExitCode, NotConnectedError, RefusedError
from kraftd.cli.log_stream import LogEnds, LogStream, Part, WholeSnapshot
from kraftd.cli.watch import change_lines, record_lines
from kraftd.errors import ErrorCode
from kraftd.metadata.image import EMPTY, to_records
from kraftd.metadata.image_builder import apply_all
from kraftd.protocol.messages import (
    DescribeNodeRequest,
    DescribeNodeResponse,
    DescribeNodeResponsePeer,
    ExportManifestRequest,
    ExportManifestResponse,
    FetchCommittedRequest,
    FetchCommittedResponse,
)
from kraftd.records.batch import BatchView, encode_batch, scan
from kraftd.records.frame import AnyRecord, encode_record
from kraftd.records.messages import BeginTransactionRecord, ConfigRecord, EndTransactionRecord
from kraftd.records.snapshot import encode_snapshot
from kraftd.types import Endpoint, OffsetAndEpoch
from tests.unit.cli.kraftctl import Kraftctl
from tests.unit.cli.scripted import ScriptedNode


def config(value: str) -> ConfigRecord:
    return ConfigRecord(resource_type=4, resource_name="", name="log.retention.ms", value=value)


def batch(offset: int, *records: AnyRecord) -> BatchView:
    (view,) = scan(encode_batch(offset, 1, 1_000 + offset, [encode_record(one) for one in records]))
    return view


def snapshot(offset: int, *records: AnyRecord) -> WholeSnapshot:
    values = [encode_record(one) for one in to_records(apply_all(EMPTY, records, 0))]
    data = b"".join(encode_snapshot(values, 1, 5, last_contained_timestamp_ms=900 + offset))
    return WholeSnapshot(OffsetAndEpoch(offset, 1), 900 + offset, tuple(scan(data)))


class Log(LogStream):
    """A log of these parts, and the snapshots beside it; it ends."""

    def __init__(self, *parts: Part, snapshots: Sequence[WholeSnapshot] = ()) -> None:
        super().__init__((), lambda _: None)
        self._parts = parts
        self._snapshots = {one.id: one for one in snapshots}
        self.began_at = -1

    def follow(self, offset: int) -> Iterator[Part]:
        self.began_at = offset
        yield from (one for one in self._parts if isinstance(one, WholeSnapshot) or one.end_offset > offset)

    def snapshot(
        self, choose: Callable[[Sequence[OffsetAndEpoch]], OffsetAndEpoch | None]
    ) -> WholeSnapshot | None:
        chosen = choose(sorted(self._snapshots, key=lambda one: one.log_order))
        return None if chosen is None else self._snapshots[chosen]


@pytest.mark.parametrize("offset", [-1, 1 << 63])
def test_no_log_begins_at_a_number_that_is_no_offset(kraftctl: Kraftctl, offset: int) -> None:
    outcome = kraftctl("--bootstrap-controller", "127.0.0.1:1", "watch", "--from", offset)
    assert outcome.code == ExitCode.USAGE
    assert f"{offset} is not in the range" in outcome.err


@pytest.mark.parametrize(("more", "told"), [((), ""), ((7,), ""), ((8,), "8"), ((9, "--changes"), "9")])
def test_that_nothing_is_committed_yet_at_an_offset_is_told(
    kraftctl: Kraftctl, monkeypatch: pytest.MonkeyPatch, more: tuple[object, ...], told: str
) -> None:
    log = Log()
    monkeypatch.setattr(log, "ends", lambda: LogEnds(0, 7))
    monkeypatch.setattr("kraftd.cli.watch.LogStream", lambda *_: log)
    begin = ("--from",) * bool(more)
    outcome = kraftctl("--bootstrap-controller", "127.0.0.1:1", "watch", *begin, *more)
    line = f"kraftctl: waiting for offset {told}: what is committed ends before 7\n"
    assert outcome == (0, "", line if told else "")


def changed(log: LogStream, begin: int, *, start: int = 0) -> list[dict[str, Any]]:
    return list(change_lines(log, LogEnds(start, 99), begin, show_secrets=False))


def told(lines: Sequence[dict[str, Any]]) -> list[tuple[str, int, object]]:
    return [(line["kind"], line["offset"], line.get("after")) for line in lines]


def test_records_begin_with_the_offset_that_was_asked_for_also_inside_a_batch() -> None:
    log = Log(batch(0, config("1"), config("2")), batch(2, config("3")))
    assert [line["offset"] for line in record_lines(log, 1, show_secrets=False)] == [1, 2]


def test_records_of_a_snapshot_have_no_offset_of_the_log() -> None:
    log = Log(snapshot(7, config("7")), batch(7, config("8")))
    lines = list(record_lines(log, 3, show_secrets=False))
    assert [(line["kind"], line["offset"]) for line in lines] == [
        ("snapshot", 7),
        *[("record", -1)] * 3,  # a header, a config and a footer
        ("record", 7),
    ]
    assert lines[0]["timestamp"] == 907


def test_changes_are_told_from_the_offset_on_and_not_before() -> None:
    log = Log(batch(0, config("1")), batch(1, config("2")), batch(2, config("3")))
    assert told(changed(log, 2)) == [("change", 2, "3")]
    assert told(changed(log, 0))[0] == ("change", 0, "1")


def test_changes_are_told_on_top_of_the_newest_snapshot_that_holds_none_of_them() -> None:
    log = Log(
        batch(6, config("7")), snapshots=[snapshot(3, config("3")), snapshot(6, config("6")), snapshot(8)]
    )
    (line,) = changed(log, 6, start=2)
    assert log.began_at == 6
    assert (line["before"], line["after"]) == ("6", "7")


def test_changes_across_a_snapshot_are_what_differs_between_two_images() -> None:
    """The reader was away while the log was cut: what changed twice is told once, what did not is not."""
    other = ConfigRecord(resource_type=4, resource_name="", name="num.partitions", value="5")
    log = Log(batch(0, config("1"), other), snapshot(9, config("4"), other), batch(9, config("5")))
    assert told(changed(log, 0))[-3:] == [("snapshot", 9, None), ("change", -1, "4"), ("change", 9, "5")]


def test_what_a_transaction_changes_is_told_when_it_ends() -> None:
    log = Log(
        batch(0, BeginTransactionRecord(), config("1")),
        batch(2, config("2")),
        batch(3, EndTransactionRecord()),
    )
    assert told(changed(log, 0)) == [("change", 3, "2")]


def test_a_record_that_cannot_follow_is_told_with_its_offset() -> None:
    with pytest.raises(CommandError, match="the records at offset 4 cannot follow"):
        changed(Log(batch(4, EndTransactionRecord())), 0)


# --- nodes that say no -----------------------------------------------------------------------------------

DENIED = FetchCommittedResponse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "this needs ClusterAction on Cluster")
BROKEN = FetchCommittedResponse(ErrorCode.UNKNOWN_SERVER_ERROR, "the log cannot be read at offset 7 here")
COMMITTED = (
    FetchCommittedResponse(high_watermark=1, start_offset=0),
    encode_batch(0, 1, 1_000, [encode_record(config("1"))]),
)
STARTING = FetchCommittedResponse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "it does not know yet")
GONE = None
"""The node closes the connection instead of answering."""


class PausedForeverError(Exception):
    """The reader has asked in vain so often that it would go on for ever."""


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., list[ScriptedNode]]]:
    """Makes nodes: each says what is given, one after the other, and the last for ever; of the others they
    know nothing. There are no pauses between, and the tenth ends the test.
    """
    made: list[ScriptedNode] = []
    pauses = itertools.count(1)

    def make(*scripts: Sequence[object]) -> list[ScriptedNode]:
        for node_id, script in enumerate(scripts, 1):
            node = ScriptedNode(node_id)
            said = itertools.chain(script, itertools.repeat(script[-1]))
            node.responses[FetchCommittedRequest] = lambda _, said=said: next(said)
            node.responses[DescribeNodeRequest] = lambda _: DescribeNodeResponse()
            made.append(node)
        return made

    def pause(_: float) -> None:
        if next(pauses) == 10:
            raise PausedForeverError

    monkeypatch.setattr("kraftd.cli.log_stream.time.sleep", pause)
    yield make
    for node in made:
        node.close()


def stream_of(nodes: Sequence[ScriptedNode], told: list[str]) -> LogStream:
    return LogStream([Endpoint("127.0.0.1", node.port) for node in nodes], told.append)


@pytest.mark.parametrize("more", [(), ("--from", 5), ("--changes",)])
def test_a_reader_without_the_right_is_refused_once(
    kraftctl: Kraftctl, nodes: Callable[..., list[ScriptedNode]], more: tuple[object, ...]
) -> None:
    (node,) = nodes([DENIED])
    outcome = kraftctl("--bootstrap-controller", node.address, "watch", *more)
    assert outcome == (
        ExitCode.REFUSED,
        "",
        f"kraftctl: {node.address}: this needs ClusterAction on Cluster\n",
    )


def test_the_log_begins_where_a_node_says_that_does_not_refuse(
    nodes: Callable[..., list[ScriptedNode]],
) -> None:
    told: list[str] = []
    later = FetchCommittedResponse(ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark=9, start_offset=4)
    assert stream_of(nodes([DENIED], [later]), told).ends() == LogEnds(4, 9)


@pytest.mark.parametrize(
    ("scripts", "error", "text"),
    [
        (([GONE], [BROKEN]), CommandError, "cannot be read"),
        (([BROKEN], [GONE], [DENIED]), RefusedError, "ClusterAction"),
        (([GONE],), NotConnectedError, "no node answers"),
    ],
)
def test_of_nodes_that_all_fail_the_one_that_answers_is_told(
    nodes: Callable[..., list[ScriptedNode]],
    scripts: Sequence[Sequence[object]],
    error: type[CommandError],
    text: str,
) -> None:
    with pytest.raises(error, match=text) as raised:
        stream_of(nodes(*scripts), []).ends()
    assert type(raised.value) is error


def test_a_right_that_is_taken_away_ends_the_reader(nodes: Callable[..., list[ScriptedNode]]) -> None:
    """Each node is asked, since one may not know yet that the right was given."""
    told: list[str] = []
    made = nodes([COMMITTED, DENIED], [DENIED])
    with pytest.raises(RefusedError, match=f"{made[1].address}: this needs"):
        list(stream_of(made, told).follow(0))
    assert told == []


@pytest.mark.parametrize(
    "scripts",
    [
        ([DENIED], [GONE]),
        ([DENIED], [BROKEN]),
        ([DENIED, COMMITTED, DENIED], [COMMITTED, DENIED, GONE]),
        ([DENIED, BROKEN], [GONE, DENIED, GONE]),
        ([COMMITTED, GONE, STARTING],),
    ],
    ids=["down", "broken", "granted", "refuses-no-more", "restarts"],
)
def test_a_node_that_may_serve_later_is_asked_on(
    nodes: Callable[..., list[ScriptedNode]], scripts: Sequence[Sequence[object]]
) -> None:
    with pytest.raises(PausedForeverError):
        list(stream_of(nodes(*scripts), []).follow(0))


def test_a_snapshot_that_cannot_be_had_is_asked_for_on(
    nodes: Callable[..., list[ScriptedNode]],
) -> None:
    """Its node gives records, and another snapshot is written sooner or later."""
    cut = FetchCommittedResponse(ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark=9, start_offset=4)
    (node,) = nodes([cut])
    why = ExportManifestResponse(ErrorCode.POLICY_VIOLATION, "more files than an export lists")
    node.responses[ExportManifestRequest] = lambda _: why
    with pytest.raises(PausedForeverError):
        list(stream_of([node], []).follow(0))


# --- nodes that are lost ---------------------------------------------------------------------------------

CLOSED = "the node closed the connection without a response"
REFUSED = "connection refused, nothing listens there"


def committed(offset: int) -> tuple[FetchCommittedResponse, bytes]:
    data = encode_batch(offset, 1, 1_000, [encode_record(config(str(offset)))])
    return FetchCommittedResponse(high_watermark=offset + 1, start_offset=0), data


def names(node: ScriptedNode, *others: ScriptedNode) -> None:
    """Let a node tell of others."""
    peers = tuple(DescribeNodeResponsePeer(node_id=n.node_id, host="127.0.0.1", port=n.port) for n in others)
    node.responses[DescribeNodeRequest] = lambda _: DescribeNodeResponse(peers=peers)


def follow(nodes: Sequence[ScriptedNode], told: list[str]) -> list[int]:
    """The offsets that are read from these nodes until there have been too many pauses."""
    offsets = []
    with pytest.raises(PausedForeverError):
        for part in stream_of(nodes, told).follow(0):
            assert isinstance(part, BatchView)
            offsets.append(part.base_offset)
    return offsets


def test_a_lost_node_is_gone_on_from_at_one_that_it_told_of(
    nodes: Callable[..., list[ScriptedNode]],
) -> None:
    named, down, other = nodes([committed(0), GONE], [GONE], [committed(1), committed(2), GONE])
    names(named, down, other)
    down.close()
    told: list[str] = []
    assert follow([named], told) == [0, 1, 2]
    lost = f"{named.address}: {CLOSED}; {down.address}: {REFUSED}; going on at offset 1 from {other.address}"
    assert told[0] == lost


def test_a_node_that_has_nothing_to_begin_with_is_not_the_only_one_that_is_asked(
    nodes: Callable[..., list[ScriptedNode]],
) -> None:
    named, other = nodes([BROKEN], [committed(4)])
    names(named, other)
    assert stream_of([named], []).ends() == LogEnds(0, 5)


def test_who_must_not_ask_for_the_nodes_reads_from_those_that_were_named(
    nodes: Callable[..., list[ScriptedNode]],
) -> None:
    (node,) = nodes([committed(0), GONE])
    node.responses[DescribeNodeRequest] = lambda _: DescribeNodeResponse(
        error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    )
    assert follow([node], []) == [0]


def test_that_nobody_answers_is_told_once(nodes: Callable[..., list[ScriptedNode]]) -> None:
    first, second = nodes([committed(0), GONE], [GONE])
    names(first, second)
    second.close()
    told: list[str] = []
    assert follow([first], told) == [0]
    why = f"{second.address}: {REFUSED}; {first.address}: {CLOSED}"
    assert told == [f"no node answers: {why}; asking on, to go on at offset 1"]


def test_that_nobody_answers_is_told_anew_only_when_something_changes(
    nodes: Callable[..., list[ScriptedNode]],
) -> None:
    (node,) = nodes([GONE, GONE, STARTING, STARTING, committed(0), GONE, GONE])
    told: list[str] = []
    assert follow([node], told) == [0]
    at = node.address
    assert told == [
        f"no node answers: {at}: {CLOSED}; asking on, to go on at offset 0",
        f"no node tells what is committed: {at}: it does not know yet; asking on, to go on at offset 0",
        f"going on at offset 0 from {at}",
        f"no node answers: {at}: {CLOSED}; asking on, to go on at offset 1",
    ]


def test_a_node_of_another_cluster_does_not_go_on_with_the_log(
    nodes: Callable[..., list[ScriptedNode]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It listens where the node listened that was named: an address was given away."""
    named, other = nodes([committed(0), GONE], [committed(1), GONE])
    names(named, other)
    monkeypatch.setattr(other, "cluster_id", "another")
    told: list[str] = []
    assert follow([named], told) == [0]
    (line,) = told
    assert f"{other.address}: a node of another cluster answers: another, not test-cluster" in line


def test_the_nodes_are_asked_for_again_while_one_is_read_from(
    nodes: Callable[..., list[ScriptedNode]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controllers of before may all have been replaced by then."""
    monkeypatch.setattr("kraftd.cli.log_stream._NODES_TOLD_EVERY_S", 0)
    named, gone, new = nodes([committed(0), committed(1), GONE], [GONE], [committed(2), GONE])
    gone.close()
    peers = iter([(gone,), (gone,), *[(new,)] * 9])

    def described(_: DescribeNodeRequest) -> DescribeNodeResponse:
        names(named, *next(peers))
        said = named.responses[DescribeNodeRequest](_)
        named.responses[DescribeNodeRequest] = described
        return said

    named.responses[DescribeNodeRequest] = described
    told: list[str] = []
    assert follow([named], told) == [0, 1, 2]
    assert told[0] == f"{named.address}: {CLOSED}; going on at offset 2 from {new.address}"
