"""Fixtures of the command line's tests."""

from collections.abc import Iterator

import pytest

from kraftd.cli.survey import survey
from tests.unit.cli.kraftctl import Kraftctl
from tests.unit.cli.scripted import ScriptedQuorum


@pytest.fixture
def kraftctl(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Kraftctl:
    monkeypatch.delenv("KRAFTD_BOOTSTRAP", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    return Kraftctl(capsys)


@pytest.fixture
def terminal(kraftctl: Kraftctl, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both streams are a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    kraftctl.is_on_terminal = True


@pytest.fixture
def quorum() -> Iterator[ScriptedQuorum]:
    quorum = ScriptedQuorum()
    yield quorum
    quorum.close()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for a silent node waits for longer than a test may take."""
    monkeypatch.setattr(survey, "__defaults__", (3_600_000,))
