"""Every sentence that is said of a damaged variant stands in the table, with its meaning and what to do."""

import re
from pathlib import Path

import pytest

from tests.damage.damaged_node import DamagedNode
from tests.damage.variants import VARIANTS
from tests.fixtures import ROOT
from tests.unit.cli.kraftctl import Kraftctl

TABLE = ROOT / "docs" / "log-problems.md"


def sentences() -> list[re.Pattern[str]]:
    """The first cells of the tables; N, X and Y stand for numbers, an ellipsis for anything."""
    cells = [line.split("|")[1].strip() for line in TABLE.read_text().splitlines() if line.startswith("| ")]
    return [re.compile(pattern_of(cell)) for cell in cells if cell not in ("sentence", "---")]


def pattern_of(cell: str) -> str:
    escaped = re.escape(cell).replace("…", ".*")
    return re.sub(r"\b[NXY]\b", "-?[0-9a-f]+", escaped)


KNOWN = sentences()


@pytest.mark.parametrize("name", list(VARIANTS)[::3])
def test_what_is_said_is_explained(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    VARIANTS[name](DamagedNode(tmp_path / "node"))
    [log] = Kraftctl(capsys)("log", "verify", "node", "-o", "json").data["logs"]
    said = [text.partition(": ")[2] for text in (*log["problems"], *log["notes"])]
    assert [text for text in said if not any(known.fullmatch(text) for known in KNOWN)] == []
