"""The table of attacks has each attack once, and the page of promises tells how many there are."""

import re
from pathlib import Path

from tests.hostile.attacks import ALL
from tests.hostile.ground import ATTACKS

PROMISES = Path(__file__).parents[2] / "docs" / "promises.md"


def test_every_attack_is_in_the_table() -> None:
    assert ALL == ATTACKS


def test_the_page_tells_how_many_there_are() -> None:
    assert re.findall(r"(\d+) attacks on three real processes", PROMISES.read_text(encoding="utf-8")) == [
        str(len(ALL))
    ]
