"""`metrics`: the latest of each node's log, whatever else is in it."""

import io
import json
from pathlib import Path

import pytest

from kraftd.cli.metrics import Line, Tail, picture
from tests.unit.cli.kraftctl import Kraftctl


def line(event: str, node: int, second: int, **fields: object) -> str:
    head = {"timestamp": f"2026-01-01T00:00:{second:02}.000Z", "level": "info", "event": event, "node": node}
    return json.dumps(head | fields) + "\n"


def log(path: Path, node: int, *lines: str) -> Path:
    path.write_text(line("started", node, 0) + "".join(lines))
    return path


def test_one_column_a_node_and_one_row_a_metric(kraftctl: Kraftctl, tmp_path: Path) -> None:
    first = log(
        tmp_path / "1",
        1,
        line("metrics", 1, 1, **{"current-state": "follower", "high-watermark": 3}),
        "Traceback: not JSON\n",
        line(
            "metrics", 1, 11, **{"current-state": "leader", "high-watermark": 7, "commit-latency-avg": 1.25}
        ),
        line("transition", 1, 12, to="leader"),
    )
    second = log(
        tmp_path / "2", 2, line("metrics", 2, 9, **{"current-state": "follower", "high-watermark": 6})
    )
    outcome = kraftctl("metrics", first, second)
    assert outcome.code == 0
    assert [row.split() for row in outcome.out.splitlines()] == [
        ["metric", "node", "1", "node", "2"],
        ["timestamp", "2026-01-01T00:00:11.000Z", "2026-01-01T00:00:09.000Z"],
        ["last", "event", "transition", "2026-01-01T00:00:12.000Z", "started", "2026-01-01T00:00:00.000Z"],
        ["current-state", "leader", "follower"],
        ["high-watermark", "7", "6"],
        ["commit-latency-avg", "1.25", "-"],
    ]


def test_what_there_is_of_each_broker_is_a_row_for_each(kraftctl: Kraftctl, tmp_path: Path) -> None:
    states = {"broker-registration-state": {"11": 30, "12": 10}, "time-since-last-heartbeat-received-ms": {}}
    first = log(tmp_path / "1", 1, line("metrics", 1, 1, **states))
    second = log(tmp_path / "2", 2, line("metrics", 2, 1, **{"broker-registration-state": {"11": 30}}))
    assert [row.split() for row in kraftctl("metrics", first, second).out.splitlines()[3:]] == [
        ["broker-registration-state", "11", "30", "30"],
        ["broker-registration-state", "12", "10", "-"],
    ]
    assert kraftctl("metrics", first, "-o", "json").data[0]["metrics"] == states


def test_json_keeps_numbers(kraftctl: Kraftctl, tmp_path: Path) -> None:
    file = log(tmp_path / "1", 1, line("metrics", 1, 1, **{"high-watermark": 3, "ratio": 0.5}))
    [entry] = kraftctl("metrics", "-o", "json", file).data
    assert entry["node"] == 1
    assert entry["metrics"] == {"high-watermark": 3, "ratio": 0.5}


def test_a_log_without_metrics_says_when_there_will_be_some(kraftctl: Kraftctl, tmp_path: Path) -> None:
    outcome = kraftctl("metrics", "--once", log(tmp_path / "1", 1))
    assert outcome.code == 1
    assert "ten seconds after its start" in outcome.err


def test_what_is_no_file_is_told_as_such(kraftctl: Kraftctl) -> None:
    outcome = kraftctl("metrics", "--once", "/dev/null")
    assert outcome == (
        1,
        "",
        "kraftctl: /dev/null is a character device; name a file that holds a node's stderr\n",
    )


def test_the_newest_metrics_are_found_in_a_long_log(tmp_path: Path) -> None:
    noise = line("vote", 1, 3, why="x" * 200) * 20_000
    tail = Tail(log(tmp_path / "1", 1, line("metrics", 1, 2, n=1), noise))
    tail.catch_up()
    assert tail.data()["metrics"] == {"n": 1}


def test_what_is_appended_is_taken_in_whole_lines(tmp_path: Path) -> None:
    path = log(tmp_path / "1", 1, line("metrics", 1, 1, n=1))
    tail = Tail(path)
    tail.catch_up()
    new = line("metrics", 1, 2, n=2)
    for part, seen in ((new[:30], 1), (new[30:], 2)):
        with path.open("a") as file:
            file.write(part)
        tail.catch_up()
        assert tail.data()["metrics"] == {"n": seen}


def test_rotation_and_truncation_are_followed(tmp_path: Path) -> None:
    path = log(tmp_path / "1", 1, line("metrics", 1, 1, n=1))
    tail = Tail(path)
    tail.catch_up()
    path.rename(tmp_path / "1.old")
    tail.catch_up()
    log(path, 1, line("metrics", 1, 2, n=2), line("vote", 1, 3) * 5)
    tail.catch_up()
    assert tail.data()["metrics"] == {"n": 2}
    log(path, 1, line("metrics", 1, 4, n=3))
    tail.catch_up()
    assert tail.data()["metrics"] == {"n": 3}


LONG = ("election-latency-avg", "election-latency-max", "commit-latency-avg")


def entries(count: int, metrics: int) -> list[Line]:
    by_class = {"by-class": ["client", 1234567890123]}
    names = [*LONG, *(f"metric-number-{at}" for at in range(metrics - len(LONG)))]
    return [
        {
            "file": str(node),
            "node": node,
            "timestamp": "2026-01-01T00:00:11.000Z",
            "event": "leader_changed",
            "event_timestamp": "2026-01-01T00:00:10.500Z",
            "metrics": {name: at + node for at, name in enumerate(names)} | by_class,
        }
        for node in range(1, count + 1)
    ]


def test_where_a_table_does_not_fit_each_node_has_a_block(
    kraftctl: Kraftctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = [
        log(tmp_path / str(node), node, line("metrics", node, 9, **dict.fromkeys(LONG, node)))
        for node in (1, 2, 3)
    ]
    kraftctl.is_on_terminal = True
    monkeypatch.setenv("COLUMNS", "80")
    out = kraftctl("metrics", "--once", *logs).out
    blocks = [block.splitlines() for block in out.split("\n\n")]
    assert [block[0].split() for block in blocks] == [["metric", "node", str(node)] for node in (1, 2, 3)]
    assert [row.split() for row in blocks[1][3:]] == [[name, "2"] for name in LONG]
    assert max(map(len, out.splitlines())) <= 80
    monkeypatch.setenv("COLUMNS", "160")
    assert len(kraftctl("metrics", "--once", *logs).out.splitlines()) == 6


def test_live_the_names_are_whole_and_what_is_left_out_is_said() -> None:
    lines = picture(entries(3, 48), 80, 24).splitlines()
    assert len(lines) == 23
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["metric", "node", "1", "node", "2", "node", "3"]
    assert lines[1].split() == ["timestamp", *["00:00:11.000Z"] * 3]
    assert lines[2].split() == ["last", "event", *["leader_changed"] * 3]
    assert [row.split()[0] for row in lines[3:6]] == [*LONG]
    assert lines[-1] == "30 more: kraftctl metrics --once FILE… shows all"
    *_, last, more = picture(entries(3, 48), 80, 60).splitlines()
    assert last.split() == ["by-class", *['["client",1234567…'] * 3]
    assert more == "cells cut at …: kraftctl metrics --once FILE… shows all"


def test_live_a_table_that_fits_is_whole() -> None:
    text = picture(entries(2, 10), 120, 24)
    assert "…" not in text
    assert "2026-01-01T00:00:11.000Z" in text
    assert len(text.splitlines()) == 14


def test_live_no_screen_is_too_small() -> None:
    lines = picture(entries(9, 48), 20, 2).splitlines()
    assert len(lines) == 2
    assert lines[-1].endswith("shows all")


@pytest.mark.parametrize("odd", [b'{"event": "\xff"}', b"\xff\xfe", b'{"event": ' + b"[" * 100_000])
def test_what_is_no_line_of_a_node_is_passed_over(kraftctl: Kraftctl, tmp_path: Path, odd: bytes) -> None:
    file = tmp_path / "1"
    file.write_bytes(line("metrics", 1, 1, lag=3).encode() + odd + b"\n" + line("stopped", 1, 2).encode())
    [entry] = kraftctl("metrics", "-o", "json", file).data
    assert (entry["event"], entry["metrics"]) == ("stopped", {"lag": 3})


class NotingFile(io.BytesIO):
    """A file that notes its longest read."""

    longest = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        NotingFile.longest = max(NotingFile.longest, len(data))
        return data


EVENTS = "".join(line("transition", 1, at % 60, to="follower") for at in range(200))
METRICS = line("metrics", 1, 30, lag=3)
LAST = line("stopped", 1, 59)


@pytest.mark.parametrize(
    ("text", "lag"),
    [
        (EVENTS + LAST, None),
        (METRICS + EVENTS + LAST, 3),
        (EVENTS + METRICS + LAST, 3),
        (EVENTS + METRICS + EVENTS + LAST, 3),
        (EVENTS + line("metrics", 1, 30, lag=3, more="x" * 800) + EVENTS + LAST, 3),
        (METRICS + "x" * 20_000 + "\n" + LAST, 3),
        (METRICS + "x" * 20_000, 3),
    ],
    ids=["none", "first", "last", "between", "long", "one-long-line", "no-end"],
)
@pytest.mark.parametrize("shift", [0, 1, 5, 9, 77])
def test_a_long_log_is_read_a_piece_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, lag: int | None, shift: int
) -> None:
    """Wherever in a piece a line begins, and whether there are metrics or not."""
    monkeypatch.setattr("kraftd.cli.metrics._PIECE_BYTES", 1_000)
    monkeypatch.setattr("kraftd.cli.metrics.open_to_read", lambda path: NotingFile(path.read_bytes()))
    monkeypatch.setattr(NotingFile, "longest", 0)
    file = tmp_path / "1"
    file.write_text("\n" * shift + text)
    tail = Tail(file)
    tail.catch_up()
    assert tail.metrics.get("lag") == lag
    assert tail.data()["event"] == ("stopped" if text.endswith(LAST) else None)
    assert NotingFile.longest < 1_010
    assert len(tail._remainder) <= 1_000
    with file.open("a") as appended:
        appended.write("\n" + line("metrics", 1, 31, lag=4))
    tail.catch_up()
    assert tail.metrics["lag"] == 4
