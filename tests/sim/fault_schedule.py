"""When does what go wrong? The fault schedule of a seed.

A seed draws which classes of fault it has, and how often each ("swarm": clusters that suffer from a few
things find more than those that suffer from all). Every class has a stream of entries of its own, and every
entry its own chance: leaving one out changes nothing about the others, which is what the shrinker lives on.

An entry is named `<fault>#<number>`. `Options.keep` says which are carried out.

Not here: the faults themselves (`faults`).
"""

from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from tests.sim.world import World

PACE = (1.0, 2.0, 4.0, 8.0)
"""By what the mean time between two faults of a class is multiplied, on a seed."""

FIRST_US = 1_000_000


class Entry(msgspec.Struct, frozen=True):
    """A fault that was, or would have been, carried out."""

    name: str
    at_us: int
    fired: bool

    def __str__(self) -> str:
        return f"{self.at_us / 1_000_000:9.3f} s  {self.name}{'' if self.fired else '  (nothing to harm)'}"


class FaultSchedule:
    """The faults of one world."""

    def __init__(
        self, world: "World", faults: "tuple[type[Any], ...] | None" = None, name: str = "troubles"
    ) -> None:
        """Draw what the world suffers from: of all faults, or of some, by a stream of chance of that name."""
        if faults is None:
            from tests.sim.faults import FAULTS  # the faults know the world, which knows this

            faults = FAULTS
        self._world = world
        shape = world.derive(name)  # another name would draw other faults for each seed
        pace = shape.choice(PACE)
        drawn = [kind for kind in faults if shape.random() < kind.on_part]
        needed = {need for kind in drawn for need in kind.needs}
        self._streams = [
            _Stream(kind(), kind.mean_s * pace, world.derive(f"fault {kind.name}"))
            for kind in faults
            if kind in drawn or kind in needed
        ]

    def start(self) -> None:
        """Let them happen from now on."""
        for stream in self._streams:
            self._plan(stream)

    def _plan(self, stream: "_Stream") -> None:
        delay_us = int(stream.random.expovariate(1.0 / stream.mean_s) * 1_000_000)
        first_us = 0 if stream.number else FIRST_US
        self._world.at_us(self._world.now_us + first_us + delay_us, self._happen, stream)

    def _happen(self, stream: "_Stream") -> None:
        world = self._world
        if world.is_calm:
            return
        stream.number += 1
        name = f"{stream.fault.name}#{stream.number}"
        keep = world.options.keep
        if keep is None or name in keep:
            before, world.random = world.random, world.derive(name)
            fired = stream.fault.apply(world)
            world.random = before
            world.schedule.append(Entry(name, world.now_us, fired))
            world.tell(0, "fault", name=name, fired="yes" if fired else "no")
            if fired:
                world.statistics[f"fault: {stream.fault.name}"] += 1
                world.count("fault", 0, name.encode())
        self._plan(stream)


class _Stream:
    def __init__(self, fault: Any, mean_s: float, random: Random) -> None:
        self.fault, self.mean_s, self.random = fault, mean_s, random
        self.number = 0
