"""A slice of the attacks, each cut short: nobody ends, nothing durable changes, who led before leads after.

Attacks that need nothing of their own share a quorum as long as it is held. How fast things are is for
`make hostile`: a loaded machine must not fail a test.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.hostile.attacks import ALL
from tests.hostile.ground import PATIENT, PLAIN, Attack
from tests.hostile.judge import play
from tests.hostile.quorum import Quorum

SECONDS = 0.6
CALM_S = 0.2
RATE = 120.0

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.xdist_group("hostile")]

Stand = Callable[[Attack], Quorum]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Quorum]]:
    """The quorum that attacks share, if there is one now."""
    quorums: list[Quorum] = []
    yield quorums
    for quorum in quorums:
        quorum.close()


@pytest.fixture
def stand(shared: list[Quorum], tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stand]:
    """A quorum for one attack: the shared one, or one of its own if the attack needs a special one."""
    own: list[Quorum] = []

    def make(attack: Attack) -> Quorum:
        if attack.setup is PLAIN and attack.prepare is None and shared:
            return shared[0]
        settings = {**PATIENT, **attack.setup.get("settings", {})}
        quorum = Quorum(tmp_path / "quorum", rate=RATE, **{**attack.setup, "settings": settings})
        (shared if attack.setup is PLAIN and attack.prepare is None else own).append(quorum)
        return quorum

    yield make
    for quorum in own:
        quorum.close()


@pytest.mark.parametrize("name", ALL)
def test_the_attack_is_held(name: str, stand: Stand, shared: list[Quorum]) -> None:
    attack = ALL[name]
    quorum = stand(attack)
    restart = attack.section.startswith("2")
    report = play(quorum, attack, seconds=SECONDS, calm_s=CALM_S, restart=restart)
    print(report.row(), *report.slow, *report.notes, sep="\n")
    if report.wrong and quorum in shared:
        shared.remove(quorum)
        quorum.close()
    assert report.wrong == []
