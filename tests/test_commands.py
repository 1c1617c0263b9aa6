"""The tools among the tests say in one line what they cannot do, and take no interruption for a bug."""

from collections.abc import Callable, Sequence

import pytest

from tests import commands
from tests.crash import crashpoints, matrix
from tests.sabotage import run as sabotage
from tests.sim import run as sim
from tests.sim import world
from tests.sim.loop import SimLoop

Tool = Callable[[Sequence[str]], int]


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        (sim.main, "--seed abc"),
        (sim.main, "--seeds 0"),
        (sim.main, "--seeds -3"),
        (sim.main, "--hours nan"),
        (sim.main, "--hours 0"),
        (sim.main, "--seeds 1 --jobs 0"),
        (sim.main, "--seed 1 --seeds 2"),
        (sim.main, ""),
        (sabotage.main, "no-such-mutant"),
        (crashpoints.main, "--state nowhere"),
        (crashpoints.main, "--state nowhere/0/1"),
        (crashpoints.main, "--jobs -1"),
        (matrix.main, "--cell nowhere --jobs 1"),
    ],
)
def test_what_makes_no_sense_is_told_in_one_line(
    tool: Tool, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        tool(words.split())
    told = capsys.readouterr()
    assert (ended.value.code, told.out, told.err.count("\n")) == (2, "", 1)


def test_an_interruption_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> int:
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as ended:
        commands.run(interrupted)
    assert ended.value.code == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_an_interruption_is_no_death_of_a_simulated_node(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = 0
    iterate = SimLoop._iterate

    def interrupted(loop: SimLoop) -> None:
        nonlocal turns
        turns += 1
        if turns == 100:
            raise KeyboardInterrupt
        iterate(loop)

    monkeypatch.setattr(SimLoop, "_iterate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        world.World(1).attempt()
