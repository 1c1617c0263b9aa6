"""`metrics`: the latest of each node's log, whatever else is in it."""

import json
from pathlib import Path

from kraftd.cli.metrics import Tail
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
