"""Real Kafka brokers beside the controllers, and what can be done to them.

Entered by `Brokers.run`: brokers reach the controllers by links of their own, so that they can be cut off or
slowed down; they reach each other, and clients reach them, directly. An end that nobody asked for is a
problem, and so is one that was asked for and came out otherwise.

`BROKER_FAULTS` are the faults, one at a time, each longer than a session now and then, each undone after some
seconds.
Processes and files are those of `tests.brokers.cluster`. Not here: who deals the faults (`nemesis`), what
clients do (`broker_load`).
"""

import asyncio
import contextlib
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeAlias, TypeVar

from kraftd.types import NodeId
from tests.brokers.cluster import STARTED, BrokerCluster, BrokerSpec
from tests.brokers.kafka_process import KafkaProcess
from tests.chaos.nemesis import cut
from tests.chaos.quorum import NODES, PORT_TAKEN, Quorum
from tests.chaos.scene import Scene
from tests.interop.peer import Kafka
from tests.process.cluster import TimeoutWaitingError

SESSION_S = 3.0
"""A session that ends soon, so that brokers are fenced often."""

CONTROLLERS_GAP_S = (1.0, 8.0)
"""Pause between faults of the controllers. A new active controller starts every session anew, as in Kafka:
if none led for longer than a session, no broker would be fenced, and none that was killed could come back.
"""

CONTROLLER_SETTINGS = {"broker.session.timeout.ms": f"{SESSION_S * 1000:.0f}"}
_SETTINGS = {
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": f"{SESSION_S * 1000:.0f}",
    "auto.create.topics.enable": "false",
    "initial.broker.registration.timeout.ms": "600000",
}

AT_ONCE = 1
"""How many faults may be under way: two brokers of three must be in sync, or nothing is acknowledged."""

REST_S = (0.0, 6.0)
"""How long the brokers are left alone after a fault: often until all are in sync again, so that now and then
the next one meets what is left of it.
"""

DOWN_S = (0.0, 2 * SESSION_S)
PAUSED_S = (SESSION_S + 1, SESSION_S + 4)
CUT_S = (0.5, SESSION_S + 3)

START_S = 120.0
"""Longest time from the start of a process until its broker is unfenced."""

STOP_S = 90.0
"""Longest time that SIGTERM may take: other faults keep a broker from handing over for some seconds."""

TERMINATED = 143
"""The exit code of a JVM that SIGTERM ended in order."""

Waited = TypeVar("Waited")

FIRST_ID = 11
RACKS = "abc"


def specs_of(count: int) -> Sequence[BrokerSpec]:
    """So many brokers in three racks; the last one has two directories."""
    return [
        BrokerSpec(FIRST_ID + number, RACKS[number % len(RACKS)], 2 if number == count - 1 else 1)
        for number in range(count)
    ]


class Brokers:
    """The brokers of one run."""

    def __init__(self, kafka: Kafka, folder: Path, quorum: Quorum, specs: Sequence[BrokerSpec]) -> None:
        self.cluster = BrokerCluster(kafka, folder, quorum.cluster, specs, settings=_SETTINGS, start=False)
        for broker in self.cluster:
            voters = quorum.network.voters(broker.node_id)
            broker.configure({**broker.properties, "controller.quorum.voters": voters})
        self.ids = [spec.node_id for spec in specs]
        self.problems = quorum.problems
        self._asked: dict[NodeId, signal.Signals] = {}
        self._down = {broker_id: asyncio.Event() for broker_id in self.ids}
        self._threads = ThreadPoolExecutor(2 * len(self.ids), thread_name_prefix="brokers-wait")
        self._tasks: asyncio.TaskGroup

    @contextlib.asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Start every broker, and end every one that is left at the end."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                try:
                    for broker_id in self.ids:
                        self.start(broker_id)
                    yield
                finally:
                    self._asked |= dict.fromkeys(self.ids, signal.SIGKILL)
                    self.cluster.close()
        finally:
            self._threads.shutdown()

    def start(self, broker_id: NodeId) -> None:
        """Start a process; does not wait for anything."""
        broker = self.cluster[broker_id].start()
        self._down[broker_id].clear()
        self._tasks.create_task(self._accompany(broker), name=f"broker {broker_id}")

    async def started(self, broker_id: NodeId) -> None:
        """Wait until a broker has been unfenced since its start.

        While it was down the kernel may have lent its port to a client's socket: then it is started again.
        """
        broker = self.cluster[broker_id]
        wait = partial(broker.wait_for, f"{STARTED}|{PORT_TAKEN}", timeout_s=START_S)
        while True:
            try:
                line = await self._in_thread(lambda: wait(since=broker.began))
            except TimeoutWaitingError as error:
                self.problems.append(f"broker {broker_id} did not start: {str(error).splitlines()[-1]}")
                return
            if PORT_TAKEN not in line:
                return
            await self._down[broker_id].wait()
            self.start(broker_id)

    async def end(self, broker_id: NodeId, number: signal.Signals) -> None:
        """Send SIGKILL or SIGTERM, and wait for the end."""
        broker, down = self.cluster[broker_id], self._down[broker_id]
        if down.is_set():
            return  # by itself, which is a problem already
        self._asked[broker_id] = number
        broker.signal(number)
        try:
            async with asyncio.timeout(STOP_S):
                await down.wait()
        except TimeoutError:
            self.problems.append(f"broker {broker_id} still runs {STOP_S:.0f} s after {number.name}")
            self._asked[broker_id] = signal.SIGKILL
            broker.kill()
            await down.wait()

    async def end_all(self) -> None:
        """SIGTERM to all at once."""
        async with asyncio.TaskGroup() as tasks:
            for broker_id in self.ids:
                tasks.create_task(self.end(broker_id, signal.SIGTERM))

    async def _accompany(self, broker: KafkaProcess) -> None:
        """See a process end, and judge how."""
        code = await self._in_thread(lambda: broker.wait_exit(None))
        asked = self._asked.pop(broker.node_id, None)
        self._down[broker.node_id].set()
        wanted = {None: None, signal.SIGKILL: -signal.SIGKILL, signal.SIGTERM: TERMINATED}[asked]
        lines = broker.lines(broker.began)
        if code != wanted and not (asked is None and any(PORT_TAKEN in line for line in lines)):
            why = f"after {asked.name}" if asked is not None else "which nobody asked for"
            last = (broker.problems(broker.began) or list(lines) or ["without a word"])[-1]
            self.problems.append(f"broker {broker.node_id} ended with {code}, {why}: {last}")

    async def _in_thread(self, wait: Callable[[], Waited]) -> Waited:
        return await asyncio.get_running_loop().run_in_executor(self._threads, wait)


BrokerFault: TypeAlias = Callable[[Brokers, Scene], Awaitable[None]]


async def kill(brokers: Brokers, scene: Scene) -> None:
    """SIGKILL, and a start after a while: before or after the session is over."""
    await _end(brokers, scene, signal.SIGKILL, scene.rng.uniform(*DOWN_S))


async def stop(brokers: Brokers, scene: Scene) -> None:
    """SIGTERM: it leads nothing any more before it goes."""
    await _end(brokers, scene, signal.SIGTERM, scene.rng.uniform(*DOWN_S))


async def restart(brokers: Brokers, scene: Scene) -> None:
    """SIGKILL, and a start at once: its old session may not be over."""
    await _end(brokers, scene, signal.SIGKILL, 0.0)


async def restart_all(brokers: Brokers, scene: Scene) -> None:
    """All brokers end together, and start in their own time."""
    number = scene.rng.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM))
    scene.say(f"{number.name} all brokers")
    async with asyncio.TaskGroup() as tasks:
        for broker_id in brokers.ids:
            tasks.create_task(brokers.end(broker_id, number))
    for broker_id in scene.rng.sample(brokers.ids, len(brokers.ids)):
        brokers.start(broker_id)
        await asyncio.sleep(scene.rng.uniform(0, SESSION_S))
    for broker_id in brokers.ids:
        await brokers.started(broker_id)


async def pause(brokers: Brokers, scene: Scene) -> None:
    """SIGSTOP beyond its session, then SIGCONT: it believes that it leads still."""
    broker_id, length_s = scene.rng.choice(brokers.ids), scene.rng.uniform(*PAUSED_S)
    scene.say(f"SIGSTOP broker {broker_id} for {length_s:.1f} s")
    brokers.cluster[broker_id].pause()
    try:
        await asyncio.sleep(length_s)
    finally:
        brokers.cluster[broker_id].resume()


async def cut_off(brokers: Brokers, scene: Scene) -> None:
    """The controllers do not hear a broker, or it does not hear them, or both; clients reach it."""
    broker_id, between = scene.rng.choice(brokers.ids), scene.quorum.network.between
    there, back = list(between([broker_id], NODES)), list(between(NODES, [broker_id]))
    pairs, how = scene.rng.choice(
        [(there + back, "cut off from"), (there, "unheard by"), (back, "deaf to")],
    )
    what = f"broker {broker_id} {how} the controllers"
    await cut(scene, pairs, what, scene.rng.uniform(*CUT_S))


BROKER_FAULTS: Mapping[str, BrokerFault] = {
    "broker kill": kill,
    "broker stop": stop,
    "broker restart": restart,
    "broker pause": pause,
    "broker cut off": cut_off,
    "restart of all brokers": restart_all,
}


def broker_faults_of(
    brokers: Brokers, quorum: Quorum, rng: random.Random, say: Callable[[str], None], kinds: Sequence[str]
) -> Mapping[str, Callable[[], Awaitable[None]]]:
    """The faults of these kinds, for a `Nemesis`."""
    scene = Scene(quorum, rng, say, Counter())

    async def suffer(fault: BrokerFault) -> None:
        await fault(brokers, scene)
        await asyncio.sleep(rng.uniform(*REST_S))

    return {kind: partial(suffer, BROKER_FAULTS[kind]) for kind in kinds}


async def _end(brokers: Brokers, scene: Scene, number: signal.Signals, down_s: float) -> None:
    broker_id = scene.rng.choice(brokers.ids)
    when = f"after {down_s:.1f} s" if down_s else "at once"
    scene.say(f"{number.name} broker {broker_id}, started again {when}")
    await brokers.end(broker_id, number)
    await asyncio.sleep(down_s)
    brokers.start(broker_id)
    await brokers.started(broker_id)
