"""The corpus is whole and fits the code, and the runner tells what became of every mutant."""

import builtins
import dis
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType

import pytest

from tests.sabotage import detectors, run
from tests.sabotage.corpus import MUTANTS
from tests.sabotage.detectors import DETECTORS, Detector, NotSoundError
from tests.sabotage.history import COMPLETE, ROWS, Row
from tests.sabotage.mutant import RAN, MisfitError, Mutant, changed, mutant

ROOT = Path(__file__).parents[2]
NAMES = {mutant.name for mutant in MUTANTS}
RULES = {f"D-{number:02}" for number in range(1, 21)}

every = pytest.mark.parametrize("one", MUTANTS, ids=lambda one: one.name)


def exists(test: str) -> bool:
    path, _, names = test.partition("[")[0].partition("::")
    name = names.rpartition("::")[2]
    text = (ROOT / path).read_text(encoding="utf-8") if (ROOT / path).is_file() else ""
    return bool(text) and (not name or re.search(rf"def {name}\b", text) is not None)


@every
def test_a_mutant_fits_the_code_as_it_is(one: Mutant) -> None:
    assert changed(one.edits)
    assert one.detector in DETECTORS
    assert one.text.endswith(".")
    assert bool(one.where) == (DETECTORS[one.detector].unit == "test")
    assert [test for test in one.where if not exists(test)] == []


@every
def test_a_mutant_speaks_of_names_that_exist(one: Mutant) -> None:
    """Otherwise it is caught by an exception, and nothing is shown."""
    for function, code in changed(one.edits):
        known = {*function.__globals__, *vars(builtins), RAN}
        loads = [*loaded(code)]
        assert {name for way, name in loads if way == "LOAD_GLOBAL"} - known == set()
        assert {name for way, name in loads if way != "LOAD_GLOBAL"} - words_of_kraftd() == set()


def loaded(code: CodeType) -> Iterator[tuple[str, str]]:
    """The names that a function and those inside it look up, and how."""
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_ATTR", "LOAD_METHOD"):
            yield step.opname, step.argval
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from loaded(inner)


@cache
def words_of_kraftd() -> frozenset[str]:
    """Whatever an attribute may be called: the words of the package, and what Python's own values have."""
    words = {name for kind in (list, dict, set, str, bytes, bytearray) for name in dir(kind)}
    for path in (ROOT / "kraftd").rglob("*.py"):
        words.update(re.findall(r"\w+", path.read_text(encoding="utf-8")))
    return frozenset(words)


def test_names_are_told_once_and_there_are_enough_of_the_rules() -> None:
    assert len(NAMES) == len(MUTANTS)
    of_rules = [one for one in MUTANTS if one.source in RULES]
    assert len(of_rules) >= 15


@pytest.mark.parametrize("one", ROWS, ids=lambda one: f"{one.tag}-{one.source}")
def test_every_bug_of_history_is_played_or_says_what_it_waits_for(one: Row) -> None:
    assert set(one.mutants) <= NAMES
    assert [test for test in one.tests if not exists(test)] == []
    assert bool(one.mutants or one.tests) != bool(one.waits or one.never)
    if one.starred and not (one.waits or one.never):
        assert one.mutants


def test_the_history_of_elections_of_the_log_and_of_snapshots_is_complete() -> None:
    assert [len(rows) for rows in COMPLETE] == [25, 27, 15, 22]
    starred = [one for one in ROWS if one.starred]
    assert sum(bool(one.mutants) for one in starred) >= 45


# --- mutants that are no good -------------------------------------------------------------------------------

POLL = "kraftd.raft.leader:LeaderRole.poll"


@pytest.mark.parametrize(
    ("target", "old", "new", "complaint"),
    [
        ("kraftd.raft.leader:LeaderRole.pol", "a", "b", "is gone"),
        ("kraftd.raft.lead:LeaderRole.poll", "a", "b", "is gone"),
        ("kraftd.raft.leader:RequestKind", "a", "b", "no plain function"),
        (POLL, "no such line", "b", "0 times, not once"),
        (POLL, "leader_state", "b", "times, not once"),
        (POLL, "if leader_state is None:", "if leader_state is None:", "not once"),
        (POLL, "if leader_state is None:", "if leader_state is None", "no Python"),
    ],
)
def test_a_mutant_that_does_not_fit_says_why(target: str, old: str, new: str, complaint: str) -> None:
    with pytest.raises(MisfitError, match=complaint):
        changed(mutant("x", "x", "x", "chaos", (target, old, new)).edits)


# --- the runner ---------------------------------------------------------------------------------------------


def add(a: int, b: int) -> int:
    """What the mutants below change."""
    if a > 40:
        return 0
    if a > 50:
        return -1
    return a + b


def look(_: Mutant, number: int) -> None:
    """A detector that sees the sum of its seed and 2."""
    if number == 13:
        raise AssertionError("Unlucky: thirteen")
    assert add(number, 2) == number + 2, "Sums: two and two"


HERE = f"{__name__}:add"
SUBTLE = ("a + b", "a + b + (a == 7)")


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The detector above, under a name of its own."""
    monkeypatch.setitem(detectors.DETECTORS, "toy", Detector("a toy", lambda _: 12, look, "seed"))


def toy_mutant(*edit: str) -> Mutant:
    return mutant("toy", "here", "A toy.", "toy", (HERE, *edit))  # type: ignore[arg-type]


def find_one(one: Mutant, **options: object) -> run.Finding:
    (found,) = run.findings([one], jobs=1, **options)  # type: ignore[arg-type]
    return found


@pytest.mark.usefixtures("toy")
def test_a_caught_mutant_tells_by_whom_and_after_how_many_seeds() -> None:
    found = find_one(toy_mutant(*SUBTLE))
    assert (found.caught, found.by, found.tries) == (True, "Sums", 7)
    assert add(7, 2) == 9, "the mutant stays in its own process"


@pytest.mark.usefixtures("toy")
def test_one_that_nobody_notices_is_missed_and_the_run_fails() -> None:
    found = find_one(toy_mutant("a + b", "b + a"))
    assert (found.caught, found.by) == (False, "nobody noticed")
    assert "MISSED  toy" in run.summary([found])


@pytest.mark.usefixtures("toy")
def test_one_that_never_ran_is_an_error_and_not_a_survivor() -> None:
    assert "never ran" in find_one(toy_mutant("return -1", "return -2")).by


@pytest.mark.usefixtures("toy")
def test_a_detector_that_fails_without_the_mutant_too_has_caught_nothing() -> None:
    found = find_one(toy_mutant("a + b", "a + b + 0"), first=5)
    assert not found.caught
    assert found.by == "without the mutant the same try fails too: Unlucky"


@pytest.mark.usefixtures("toy")
def test_one_that_does_not_fit_any_more_is_an_error() -> None:
    assert "does not fit" in find_one(toy_mutant("a - b", "a + b")).by


@pytest.mark.usefixtures("toy")
def test_a_detector_that_dies_has_caught_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    dies = Detector("dies", lambda _: 1, lambda *_: __import__("os")._exit(3), "seed")
    monkeypatch.setitem(detectors.DETECTORS, "toy", dies)
    assert find_one(toy_mutant(*SUBTLE)).by == "the detector's process ended with 3"


def test_a_test_that_does_not_exist_has_caught_nothing() -> None:
    one = mutant("x", "x", "X.", "tests", where=("tests/sabotage/nowhere.py",))
    with pytest.raises(NotSoundError):
        DETECTORS["tests"].look(one, 1)


def test_only_the_parameters_that_failed_are_asked_once_more(tmp_path: Path) -> None:
    (tmp_path / "test_sums.py").write_text(
        "import pytest\n"
        "from pathlib import Path\n"
        f"from {__name__} import add\n"
        "@pytest.mark.parametrize('number', [1, 7, 9])\n"
        "def test_sum(number):\n"
        f"    with Path({str(tmp_path / 'asked')!r}).open('a') as asked:\n"
        "        asked.write(f'{number}\\n')\n"
        "    assert add(number, 2) == number + 2\n"
    )
    where = (f"{tmp_path / 'test_sums.py'}::test_sum",)
    found = find_one(mutant("sums", "x", "X.", "tests", (HERE, *SUBTLE), where=where))
    assert found.caught, str(found)
    assert found.by.startswith("test_sum[7]: ")
    assert (tmp_path / "asked").read_text().split() == ["1", "7", "7"]


def test_without_an_uncaught_mutant_the_run_succeeds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(detectors.DETECTORS, "toy", Detector("a toy", lambda _: 12, look, "seed"))
    monkeypatch.setattr(run, "MUTANTS", (toy_mutant(*SUBTLE),))
    assert run.main(["--jobs", "1", "toy"]) == 0
    assert "1 of 1 mutants caught" in capsys.readouterr().out
    monkeypatch.setattr(run, "MUTANTS", (toy_mutant("a + b", "b + a"),))
    assert run.main(["--jobs", "1"]) == 1
