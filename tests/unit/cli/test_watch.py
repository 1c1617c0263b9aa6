"""What `kraftctl watch` makes of a log: where a snapshot comes first, what it replaces, what is told."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from kraftd.cli.failures import CommandError, ExitCode
from kraftd.cli.log_stream import LogEnds, LogStream, Part, WholeSnapshot
from kraftd.cli.watch import change_lines, record_lines
from kraftd.metadata.image import EMPTY, to_records
from kraftd.metadata.image_builder import apply_all
from kraftd.records.batch import BatchView, encode_batch, scan
from kraftd.records.frame import AnyRecord, encode_record
from kraftd.records.messages import BeginTransactionRecord, ConfigRecord, EndTransactionRecord
from kraftd.records.snapshot import encode_snapshot
from kraftd.types import OffsetAndEpoch
from tests.unit.cli.kraftctl import Kraftctl


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
