"""Log lines: JSON with the promised keys, one for each thing that happened, and repeats counted."""

import io
import json
import subprocess
import sys
from typing import Any

import pytest

from kraftd.net.rate_limited_logger import RateLimitedLogger
from kraftd.raft.effects import AlarmCleared, Alarmed, ElectionEnded, StateChanged, VoteAnswered, Warned
from kraftd.runtime.observability import RaftNoticeLogger
from kraftd.runtime.observability import open_logger as open_logger_to


def open_logger(node_id: int, *, stream: io.StringIO, for_people: bool = False) -> Any:
    return open_logger_to(node_id, lambda line: stream.write(line + "\n"), for_people=for_people)


def lines(*news: Any) -> list[dict[str, Any]]:
    stream = io.StringIO()
    notice_logger = RaftNoticeLogger(open_logger(7, stream=stream), lambda: 0.0)
    for each in news:
        notice_logger.log_notice(each)
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_one_json_object_with_its_keys_in_front() -> None:
    (line,) = lines(StateChanged("follower", "prospective", 5, "leader lost"))
    assert list(line)[:4] == ["timestamp", "level", "event", "node"]
    assert len(line["timestamp"]) == len("2026-01-31T12:34:56.789Z")
    assert line["timestamp"].endswith("Z")
    assert {key: line[key] for key in line if key != "timestamp"} == {
        "level": "info",
        "event": "transition",
        "node": 7,
        "from": "follower",
        "to": "prospective",
        "epoch": 5,
        "reason": "leader lost",
    }


def test_an_election_says_who_asked_who_granted_and_who_refused_and_why() -> None:
    election, vote = lines(
        ElectionEnded(6, True, False, [1], [(2, "its log is longer")], [3], 40),
        VoteAnswered(2, 6, True, False, "it is behind us"),
    )
    assert election["event"] == "election"
    assert election["refused"] == [{"node_id": 2, "reason": "its log is longer"}]
    assert (election["granted"], election["outstanding"], election["took_ms"]) == ([1], [3], 40)
    assert (vote["event"], vote["candidate"], vote["granted"], vote["reason"]) == (
        "vote",
        2,
        False,
        "it is behind us",
    )


def test_on_a_terminal_fields_stand_in_the_order_in_which_they_were_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    stream = io.StringIO()
    RaftNoticeLogger(open_logger(7, stream=stream, for_people=True), lambda: 0.0).log_notice(
        StateChanged("follower", "prospective", 5, "lost")
    )
    (line,) = stream.getvalue().splitlines()
    assert line.endswith("node=7 from=follower to=prospective epoch=5 reason=lost")


def test_on_a_terminal_a_trace_keeps_its_lines() -> None:
    stream = io.StringIO()
    open_logger(7, stream=stream, for_people=True).critical(
        "fatal", reason="a bug", exception="Traceback\n  here"
    )
    assert "Traceback\n  here" in stream.getvalue()


def test_warnings_and_alarms_have_levels() -> None:
    warned, alarmed, cleared = lines(
        Warned("stall", "late"), Alarmed("not_whole", "gone"), AlarmCleared("not_whole")
    )
    assert (warned["level"], warned["event"]) == ("warning", "stall")
    assert (alarmed["level"], alarmed["event"], alarmed["alarm"]) == ("error", "alarm", "not_whole")
    assert (cleared["event"], cleared["alarm"]) == ("alarm_cleared", "not_whole")


def test_repeats_are_counted_not_written() -> None:
    stream = io.StringIO()
    now_s = [0.0]
    limited_logger = RateLimitedLogger(open_logger(1, stream=stream), lambda: now_s[0])
    for _ in range(5):
        limited_logger.warning("bad_frame", key="10.0.0.1", reason="noise")
    limited_logger.warning("bad_frame", key="10.0.0.2", reason="noise")
    now_s[0] = 61.0
    limited_logger.warning("bad_frame", key="10.0.0.1", reason="noise")
    written = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line.get("repeated") for line in written] == [None, None, 4]


def test_a_member_without_a_quorum_does_not_fill_the_log() -> None:
    stream = io.StringIO()
    now_s = [0.0]
    notice_logger = RaftNoticeLogger(open_logger(1, stream=stream), lambda: now_s[0])
    for attempt in range(100):
        now_s[0] = attempt / 10
        notice_logger.log_notice(StateChanged("unattached", "prospective", 5, "election timeout"))
        notice_logger.log_notice(ElectionEnded(5, True, False, [1], [], [2, 3], attempt))
        notice_logger.log_notice(StateChanged("prospective", "unattached", 5, "no majority would elect it"))
    assert len(stream.getvalue().splitlines()) == 3
    now_s[0] = 11.0
    notice_logger.log_notice(StateChanged("unattached", "prospective", 5, "election timeout"))
    notice_logger.log_notice(StateChanged("unattached", "prospective", 6, "election timeout"))
    *_, repeated, new = (json.loads(line) for line in stream.getvalue().splitlines())
    assert repeated["repeated"] == 99
    assert "repeated" not in new, "another epoch is news"


def test_a_node_starts_without_what_it_does_not_show() -> None:
    program = (
        "import sys, kraftd.runtime.daemon\n"
        "print(*sorted({'pygments', 'rich'} & {name.partition('.')[0] for name in sys.modules}))\n"
        "import rich.console"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
