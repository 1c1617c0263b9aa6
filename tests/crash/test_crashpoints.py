"""A slice of the crash points, and whether they see what they should."""

import pytest

from kraftd.storage import Disk
from tests.crash.crashpoints import QUICK, Enumerator, Task, main
from tests.crash.protocols import PROTOCOLS


@pytest.mark.covers("D-02", "D-03", "D-04", "D-05", "D-06")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_recovery_keeps_what_was_promised(protocol: str) -> None:
    counted = Enumerator(Task(protocol, 0), bounds=QUICK).run(refusals=())
    assert counted.holes == []
    assert counted.states > counted.crashes


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_so_it_does_in_other_scripts_and_after_refused_syncs(protocol: str) -> None:
    assert Enumerator(Task(protocol, len(PROTOCOLS[protocol]) - 1), bounds=QUICK).run().holes == []


def test_a_hole_is_seen_and_its_name_leads_back_to_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    task = Task("election file and sidecar", 0)
    monkeypatch.setattr(Disk, "sync_directory", lambda *_: None)
    holes = Enumerator(task, bounds=QUICK).run(refusals=()).holes
    assert holes
    killed = next(hole.state for hole in holes if hole.state.endswith("/killed"))
    assert main(["--state", killed]) == 1
    assert killed in capsys.readouterr().out
    monkeypatch.undo()
    assert main(["--state", killed]) == 0


def test_a_state_within_a_recovery_has_a_name_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.crash.crashpoints.judge", lambda *_, **__: "judged")
    names = [
        hole.state for hole in Enumerator(Task("append", 0)).run(refusals=()).holes if "/again/" in hole.state
    ]
    assert names
    found = Enumerator(Task("append", 0), names[-1]).run().holes
    assert [hole.state for hole in found] == [names[-1]]
