"""The faults that real daemons suffer, one after the other and two at a time.

Entered by `Nemesis.run`, with the faults of the controllers (`faults_of`) or others. A fault is a function
that does its harm, says so in one line, and undoes it. The kinds are dealt like cards: all of them, in random
order, before any comes again; so a short run has seen each. Which nodes, how long and how much is the seed's
choice; what a node was just doing is not, so a seed makes runs alike, not equal.
"""

import asyncio
import contextlib
import random
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from kraftd.types import NodeId
from tests.chaos.links import Pair, Pipe
from tests.chaos.quorum import NODES, SLOW_TO_NOTICE, Quorum
from tests.chaos.scene import LONG_S, Fault, Scene, hand_over
from tests.chaos.snapshot_faults import SNAPSHOT_FAULTS
from tests.chaos.untrusted_input import pester

AT_ONCE = 2
"""How many faults may be under way together."""

LEAD_S = 5.0
"""How long a node is helped to the lead."""

GAP_S = (0.4, 1.6)
"""Pause after the beginning of a fault, before the next."""

FREE_PAGES = (0, 3)
"""What a full disk has left: the write that fails may be any."""


async def kill(scene: Scene) -> None:
    """SIGKILL, and a start after a while."""
    await _end(scene, signal.SIGKILL)


async def stop(scene: Scene) -> None:
    """SIGTERM: a leader hands over first."""
    await _end(scene, signal.SIGTERM)


async def pause(scene: Scene) -> None:
    """SIGSTOP for longer or shorter than the others are patient, then SIGCONT."""
    quorum, node_id, length_s = scene.quorum, scene.victim(), scene.length_s()
    async with quorum.held[node_id], quorum.paused(node_id):
        scene.say(f"SIGSTOP {scene.called(node_id)} for {length_s:.1f} s")
        await asyncio.sleep(length_s)


async def restart_all(scene: Scene) -> None:
    """All nodes end, and start in their own time."""
    quorum, rng = scene.quorum, scene.rng
    number = rng.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM))
    async with contextlib.AsyncExitStack() as stack:
        for node_id in NODES:
            await stack.enter_async_context(quorum.held[node_id])
        scene.say(f"{number.name} all nodes")
        async with asyncio.TaskGroup() as tasks:
            for node_id in NODES:
                tasks.create_task(quorum.end(node_id, number))
        for node_id in rng.sample(NODES, len(NODES)):
            quorum.let_run(node_id)
            await asyncio.sleep(rng.uniform(0, 0.2))
        for node_id in NODES:
            await quorum.started(node_id)


async def partition(scene: Scene) -> None:
    """Two groups hear nothing of each other, or two nodes do not."""
    group, others, what = _two_sides(scene)
    between = scene.quorum.network.between
    pairs = [*between(group, others), *between(others, group)]
    await cut(scene, pairs, f"partition {what}", scene.length_s())


async def one_way_partition(scene: Scene) -> None:
    """One side is heard, and hears nothing."""
    group, others, what = _two_sides(scene)
    if scene.rng.random() < 0.5:
        group, others = others, group
    unheard, deaf = ("+".join(map(str, side)) for side in (group, others))
    pairs = list(scene.quorum.network.between(group, others))
    await cut(scene, pairs, f"one-way partition {what}: {deaf} cannot hear {unheard}", scene.length_s())


async def two_leaders(scene: Scene) -> None:
    """The node that is slow to notice gets the lead and goes deaf: until it notices, two nodes lead."""
    quorum = scene.quorum
    (node_id,) = SLOW_TO_NOTICE
    others = [other for other in NODES if other != node_id]
    async with quorum.held[node_id]:
        scene.hurts(node_id)
        with contextlib.suppress(TimeoutError):  # other faults may not let it lead
            async with asyncio.timeout(LEAD_S):
                while quorum.leader != node_id:
                    await hand_over(quorum, node_id)
                    await asyncio.sleep(0.05)
        between = quorum.network.between
        pairs = [*between(others, [node_id])]
        is_heard = scene.rng.random() < 0.5
        if not is_heard:
            pairs += between([node_id], others)
        what = f"{scene.called(node_id)} got the lead and goes deaf{'' if is_heard else ' and dumb'}"
        await cut(scene, pairs, what, scene.rng.uniform(*LONG_S))


async def delay(scene: Scene) -> None:
    """Everything that one node sends and gets, or all nodes do, takes longer."""
    quorum, rng = scene.quorum, scene.rng
    low_s, length_s = rng.uniform(0.005, 0.15), rng.uniform(0.5, 2)
    high_s = low_s * rng.uniform(1, 3)
    node_id = scene.victim()
    everywhere = rng.random() < 0.3
    ways = [way for pair, way in quorum.network.ways.items() if everywhere or node_id in pair]
    where = "between all nodes" if everywhere else f"around {scene.called(node_id)}"
    scene.say(f"delay {where} of {low_s * 1e3:.0f} to {high_s * 1e3:.0f} ms for {length_s:.1f} s")
    slownesses = [way.slow(low_s, high_s) for way in ways]
    await asyncio.sleep(length_s)
    for way, slowness in zip(ways, slownesses, strict=True):
        way.hasten(slowness)


async def reset(scene: Scene) -> None:
    """The connections of one node end, with FIN or RST."""
    network, gently = scene.quorum.network, scene.rng.random() < 0.5
    pipes: list[Pipe] = []
    while not pipes:
        node_id = scene.victim()
        await network.used.wait()
        pipes = [pipe for pipe in network.pipes if node_id in (pipe.source, pipe.target)]
    scene.say(f"{'close' if gently else 'reset'} {len(pipes)} connections of {scene.called(node_id)}")
    for pipe in pipes:
        pipe.reset(gently=gently)


async def full_disk(scene: Scene) -> None:
    """No room for a while: the node ends, and cannot start until there is."""
    quorum, rng, node_id = scene.quorum, scene.rng, scene.victim()
    length_s, pages = rng.uniform(0.5, 2), rng.randint(*FREE_PAGES)
    async with quorum.held[node_id]:
        scene.say(f"full disk of {scene.called(node_id)}, {pages} pages left, for {length_s:.1f} s")
        quorum.disks[node_id].fill(pages)
        try:
            await asyncio.sleep(length_s)
        finally:
            quorum.disks[node_id].free()
        await quorum.started(node_id)


async def garbage(scene: Scene) -> None:
    """Strangers at one node: noise, broken frames, wrong greetings, silence."""
    node_id, length_s = scene.victim(), scene.rng.uniform(0.5, 2)
    scene.say(f"garbage for {scene.called(node_id)} for {length_s:.1f} s")
    await pester(scene.quorum.ports[node_id], scene.rng, length_s)


async def resign(scene: Scene) -> None:
    """The operator asks the leader to hand over, to somebody or to whom it likes."""
    quorum, to = scene.quorum, scene.rng.choice((-1, *NODES))
    leader = quorum.leader or NODES[0]
    scene.say(f"resign {scene.called(leader)}, to {'anybody' if to < 0 else f'node {to}'}")
    await hand_over(quorum, to)


FAULTS: Mapping[str, Fault] = {
    "kill": kill,
    "stop": stop,
    "pause": pause,
    "restart of all": restart_all,
    "partition": partition,
    "one-way partition": one_way_partition,
    "two leaders": two_leaders,
    "delay": delay,
    "reset": reset,
    "full disk": full_disk,
    "garbage": garbage,
    "resign": resign,
    **SNAPSHOT_FAULTS,
}
NEEDS_DISKS = "full disk"


class Nemesis:
    """Deals faults out, and counts them."""

    def __init__(
        self,
        faults: Mapping[str, Callable[[], Awaitable[None]]],
        rng: random.Random,
        problems: Sequence[str],
        *,
        at_once: int = AT_ONCE,
        gap_s: tuple[float, float] = GAP_S,
    ) -> None:
        """`problems` are what is found wrong meanwhile, by whomever."""
        self.counts: Counter[str] = Counter()
        self._faults, self._random, self._problems = faults, rng, problems
        self._at_once, self._gap_s = at_once, gap_s

    async def run(self, seconds: float, rounds: int) -> None:
        """Cause faults for so long, and until each kind came so often; at the end every fault is undone.

        Once something is wrong there are no more faults: what is left is as near to it as can be.
        """
        until_s = time.monotonic() + seconds
        left = rounds * len(self._faults)
        free = asyncio.Semaphore(self._at_once)
        deck: list[str] = []
        async with asyncio.TaskGroup() as tasks:
            while self._faults:
                await free.acquire()
                if (time.monotonic() > until_s and left <= 0) or self._problems:
                    return
                left -= 1
                deck = deck or self._random.sample(list(self._faults), len(self._faults))
                tasks.create_task(self._do(deck.pop(), free))
                await asyncio.sleep(self._random.uniform(*self._gap_s))

    async def _do(self, kind: str, free: asyncio.Semaphore) -> None:
        try:
            await self._faults[kind]()
            self.counts[kind] += 1
        finally:
            free.release()


def faults_of(
    quorum: Quorum, rng: random.Random, say: Callable[[str], None], kinds: Sequence[str]
) -> Mapping[str, Callable[[], Awaitable[None]]]:
    """The faults of these kinds that the controllers can suffer here; they share whom they hurt."""
    hurt: Counter[NodeId] = Counter()

    async def suffer(fault: Fault) -> None:
        scene = Scene(quorum, rng, say, hurt)
        try:
            await fault(scene)
        finally:
            scene.relieve()

    return {kind: partial(suffer, FAULTS[kind]) for kind in kinds if quorum.disks or kind != NEEDS_DISKS}


async def _end(scene: Scene, number: signal.Signals) -> None:
    quorum, node_id, down_s = scene.quorum, scene.victim(), scene.rng.uniform(0, 1.5)
    async with quorum.held[node_id]:
        scene.say(f"{number.name} {scene.called(node_id)}, started again after {down_s:.1f} s")
        await quorum.end(node_id, number)
        try:
            await asyncio.sleep(down_s)
        finally:
            quorum.let_run(node_id)
        await quorum.started(node_id)


def _two_sides(scene: Scene) -> tuple[list[NodeId], list[NodeId], str]:
    """One node and the rest, or one node and one other."""
    node_id = scene.victim()
    others = [other for other in NODES if other != node_id]
    if scene.rng.random() < 0.3:
        other = scene.rng.choice(others)
        return [node_id], [other], f"between {scene.called(node_id)} and {scene.called(other)}"
    return [node_id], others, f"around {scene.called(node_id)}"


async def cut(scene: Scene, pairs: Sequence[Pair], what: str, length_s: float) -> None:
    """Cut some ways for a while; then what waited arrives, or the connections are reset first."""
    network = scene.quorum.network
    with_reset = scene.rng.random() < 0.5
    scene.say(f"{what}, for {length_s:.1f} s, then {'resets' if with_reset else 'all arrives late'}")
    for pair in pairs:
        network.ways[pair].cut()
    try:
        await asyncio.sleep(length_s)
    finally:
        if with_reset:
            for pipe in network.connections(pairs):
                pipe.reset()
        for pair in pairs:
            network.ways[pair].mend()
