"""A slice of the matrix of faults, and whether it sees what it should."""

import pytest

from kraftd.storage.epoch_checkpoint import KnownEpochs
from tests.crash.matrix import BASES, Verdict, verdicts_of


def holes_of(verdicts: list[tuple[object, Verdict]]) -> list[str]:
    return [f"{cell}: {verdict.hole}" for cell, verdict in verdicts if verdict.hole]


@pytest.mark.covers("D-05", "D-06")
@pytest.mark.parametrize("base", BASES)
def test_one_fault_loses_nothing_silently(base: str) -> None:
    verdicts = verdicts_of(base, every=61)
    assert len(verdicts) > 30
    assert holes_of(verdicts) == []


@pytest.mark.slow
@pytest.mark.parametrize("base", BASES)
def test_nor_do_many_more(base: str) -> None:
    verdicts = verdicts_of(base, every=11)
    assert len(verdicts) > 150
    assert holes_of(verdicts) == []


def test_a_hole_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KnownEpochs, "agree_to", lambda *_: 1)
    verdicts = verdicts_of("stopped", "stopped/00000000000000000026.log/last batch, leader epoch")
    assert any("wrong bytes" in verdict.hole for _, verdict in verdicts)
