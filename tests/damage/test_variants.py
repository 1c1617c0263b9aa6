"""Of each damaged variant of a real log only what is true is said, once a cause, by all commands alike."""

from pathlib import Path

import pytest

from kraftd.logtools.finding import find_fleet
from kraftd.logtools.node_files import by_cluster
from kraftd.replay.cluster_scan import survey_clusters
from tests.damage.damaged_node import DamagedNode
from tests.damage.variants import VARIANTS, Said, Truth
from tests.unit.cli.kraftctl import Kraftctl

SEGMENT = ".log"


@pytest.fixture
def kraftctl(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Kraftctl:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    return Kraftctl(capsys)


def fits(sentence: str, said: Said) -> bool:
    """Whether a sentence is the one that is meant."""
    return (
        said.file in sentence
        and said.words in sentence
        and (said.byte < 0 or f"at byte {said.byte}" in sentence)
        and (said.offset < 0 or f"offset {said.offset}" in sentence)
    )


def judge(sentences: list[str], wanted: tuple[Said, ...]) -> list[str]:
    """What is wrong with what was said: sentences nobody wanted, and wanted ones that were not said."""
    left = list(wanted)
    wrong = []
    for sentence in sentences:
        found = next((said for said in left if fits(sentence, said)), None)
        if found is None:
            wrong.append(f"false, or once too often: {sentence}")
        else:
            left.remove(found)
    return wrong + [f"not said: {said}" for said in left]


@pytest.mark.parametrize("name", VARIANTS)
def test_only_what_is_true_is_said(kraftctl: Kraftctl, name: str, tmp_path: Path) -> None:
    truth = VARIANTS[name](DamagedNode(tmp_path / "node"))
    wrong = [
        *(f"verify: {text}" for text in verify(kraftctl, truth)),
        *(f"dump: {text}" for text in dump(kraftctl, truth)),
        *(f"state: {text}" for text in state(kraftctl, truth)),
        *(f"replay: {text}" for text in replay(tmp_path, truth)),
    ]
    assert not wrong, "\n".join(wrong)


def verify(kraftctl: Kraftctl, truth: Truth) -> list[str]:
    outcome = kraftctl("log", "verify", "node", "-o", "json")
    if outcome.code not in (0, 1) or not outcome.out:
        return [f"exit {outcome.code}: {outcome.err}"]
    [log] = outcome.data["logs"]
    wrong = judge(log["problems"], truth.problems)
    if truth.notes:
        wrong += [
            f"not said: {note}" for note in truth.notes if not any(fits(one, note) for one in log["notes"])
        ]
    twice = [text for text in (*log["problems"], *log["notes"]) for said in truth.problems
             if said.file and text.count(said.file) > 1]  # fmt: skip
    wrong += [f"names a file twice: {text}" for text in twice]
    if outcome.code != bool(truth.problems):
        wrong.append(f"exit {outcome.code}")
    return wrong


def dump(kraftctl: Kraftctl, truth: Truth) -> list[str]:
    outcome = kraftctl("log", "dump", "node")
    told = [
        line for line in (outcome.out + outcome.err).splitlines() if line.startswith(("Damaged", "kraftctl"))
    ]
    wanted = tuple(said._replace(offset=-1) for said in truth.problems)
    wrong = judge(told, wanted if truth.in_segments else ())
    if outcome.code != (bool(truth.problems) and truth.in_segments):
        wrong.append(f"exit {outcome.code}")
    return wrong


def state(kraftctl: Kraftctl, truth: Truth) -> list[str]:
    outcome = kraftctl("log", "state", "node", "-o", "json")
    found = (outcome.code, outcome.data["offset"] if outcome.out else -1)
    return [] if found == truth.state else [f"exit {found[0]} at offset {found[1]}: {outcome.err}"]


def replay(home: Path, truth: Truth) -> list[str]:
    [(cluster_id, nodes)] = by_cluster(find_fleet([home / "node"])[0]).items()
    [survey] = survey_clusters(cluster_id, nodes)
    told = [
        f"{one.file} at byte {one.position_bytes}, offset {one.offset}: {one.text}"
        for one in survey.problems
        if one.is_fault
    ]
    return judge(told, truth.problems if truth.replay is None else truth.replay)
