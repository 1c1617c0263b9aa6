"""The judge of attacks sees a decision that raised, by the line that a node logs of one."""

from kraftd.controller.failures import failure_line
from tests.hostile.judge import DEFECTS_TOLD, raised


def test_a_decision_that_raised_is_seen() -> None:
    told = failure_line("CreateTopics", None, KeyError("no such thing"))
    line = {"level": "warning", "event": told.name, "node": 1, **told.fields}
    others = [{"event": "started", "node": 1}, {"event": "bad_frame", "node": 1}]
    assert raised(others) == []
    assert raised([others[0], line, others[1]]) == [line]
    assert len(raised([line] * 100)) == DEFECTS_TOLD
