"""The table of all attacks, by name: those that once succeeded first, in the order of their sections."""

from tests.hostile import (
    attacks_claims,
    attacks_costly,
    attacks_frames,
    attacks_kafka,
    attacks_known,
    attacks_snapshots,
    attacks_work,
)
from tests.hostile.ground import ATTACKS, Attack

MODULES = (
    attacks_known,
    attacks_costly,
    attacks_claims,
    attacks_frames,
    attacks_kafka,
    attacks_work,
    attacks_snapshots,
)

ALL: dict[str, Attack] = {
    attack.name: attack
    for module in MODULES
    for attack in ATTACKS.values()
    if attack.play.__module__ == module.__name__
}
