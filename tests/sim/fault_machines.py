"""What goes wrong with machines and processes: they end, stop, are slow, and lose track of time.

Not here: what their disks do (`fault_disks`).
"""

from typing import TYPE_CHECKING

from tests.sim.fault_base import MS, Fault, S, any_of, any_up, down_us, may_go_down, some_of
from tests.sim.loop import PPM
from tests.sim.node import CrashedHere

if TYPE_CHECKING:
    from pathlib import Path

    from tests.sim.node import SimNode
    from tests.sim.world import World


class Kill(Fault):
    """SIGKILL; the page cache stays."""

    name = "kill"
    mean_s = 8

    def apply(self, world: "World") -> bool:
        node = any_up(world)
        return node is not None and _kill(world, node)


def _kill(world: "World", node: "SimNode") -> bool:
    if not node.is_up or not may_go_down(world, node):
        return False
    node.crash(down_us=down_us(world))
    return True


class KillLeader(Fault):
    """SIGKILL for whoever leads."""

    name = "kill leader"
    mean_s = 12

    def apply(self, world: "World") -> bool:
        node = any_of(world, lambda node: node.is_leader)
        return node is not None and _kill(world, node)


class PowerCut(Fault):
    """A machine loses its power, and what it had not synced; nobody hears a word from it."""

    name = "power cut"
    mean_s = 8

    def apply(self, world: "World") -> bool:
        node = any_of(world, lambda node: node.is_on)
        return node is not None and _cut(world, node, down_us(world))


def _cut(world: "World", node: "SimNode", span_us: int) -> bool:
    if not node.is_on or not may_go_down(world, node):
        return False
    node.cut_power(down_us=span_us)
    return True


class Blackout(Fault):
    """All machines lose their power at once."""

    name = "blackout"
    mean_s = 40

    def apply(self, world: "World") -> bool:
        span_us = world.draw_us(100 * MS, 3 * S)
        # Each comes back when it comes back.
        cut = [_cut(world, node, span_us + world.draw_us(0, 2 * S)) for node in world.nodes.values()]
        return any(cut)


class MajorityLoss(Fault):
    """Most machines lose their power."""

    name = "majority loss"
    mean_s = 40

    def apply(self, world: "World") -> bool:
        nodes = list(world.nodes.values())
        world.random.shuffle(nodes)
        cut = [_cut(world, node, down_us(world)) for node in nodes[: len(nodes) // 2 + 1]]
        return any(cut)


class GracefulStop(Fault):
    """SIGTERM: a leader hands over."""

    name = "graceful stop"

    def apply(self, world: "World") -> bool:
        node = any_up(world)
        if node is None or not may_go_down(world, node):
            return False
        node.stop(down_us=down_us(world))
        return True


class StopCutShort(Fault):
    """SIGTERM, and SIGKILL before it is done."""

    name = "stop cut short"
    mean_s = 20

    def apply(self, world: "World") -> bool:
        node = any_up(world)
        if node is None or not may_go_down(world, node):
            return False
        node.stop(down_us=down_us(world))
        incarnation, span_us = node.incarnation, down_us(world)

        def kill() -> None:
            if node.is_up and node.incarnation == incarnation:
                node.crash(down_us=span_us)

        world.at(world.draw_us(0, 100 * MS), kill)
        return True


class Pause(Fault):
    """SIGSTOP for a while: nothing happens there, and then all at once."""

    name = "pause"

    def apply(self, world: "World") -> bool:
        node = any_up(world)
        if node is None or node.is_paused:
            return False
        node.pause()
        incarnation = node.incarnation

        def resume() -> None:
            if node.incarnation == incarnation:
                node.resume()

        world.at(world.draw_us(50 * MS, 10 * S), resume)
        return True


class Resume(Fault):
    """SIGCONT for all that were stopped."""

    name = "resume"
    mean_s = 15

    def apply(self, world: "World") -> bool:
        paused = [node for node in world.nodes.values() if node.is_paused]
        for node in paused:
            node.resume()
        return bool(paused)


class RestartStorm(Fault):
    """A process is killed again and again, often before it is in touch with anybody."""

    name = "restart storm"
    mean_s = 25

    def apply(self, world: "World") -> bool:
        node = any_up(world)
        if node is None:
            return False
        for number in range(2 + int(world.random.random() * 5)):
            power, span_us = world.random.random() < 0.3, world.draw_us(5 * MS, 300 * MS)
            world.at(
                number * 700 * MS + world.draw_us(0, 600 * MS),
                lambda p=power, s=span_us: _again(world, node, p, s),
            )
        return True


def _again(world: "World", node: "SimNode", power: bool, span_us: int) -> None:
    if not node.is_up or not may_go_down(world, node):
        return
    if power:
        node.cut_power(down_us=span_us)
    else:
        node.crash(down_us=span_us)


class RollingRestart(Fault):
    """An operator restarts one node after the other, in order."""

    name = "rolling restart"
    mean_s = 40

    def apply(self, world: "World") -> bool:
        for number, node in enumerate(world.nodes.values()):
            world.at(number * 1_500 * MS, lambda node=node: _restart(world, node))
        return True


def _restart(world: "World", node: "SimNode") -> None:
    if node.is_up and may_go_down(world, node):
        node.stop(down_us=200 * MS)


class CrashInACall(Fault):
    """A process, or its machine, ends in the middle of what it does to its disk."""

    name = "crash in a call"
    mean_s = 8

    def apply(self, world: "World") -> bool:
        node = any_of(world, lambda node: node.disk_fault is None)
        if node is None or not may_go_down(world, node):
            return False
        left, power = 1 + int(world.random.random() ** 2 * 60), world.random.random() < 0.6

        def count_down(operation: str, path: "Path", size_bytes: int) -> int | None:
            nonlocal left
            left -= 1
            if left > 0:
                return None
            node.disk_fault = None
            if size_bytes and power:
                return size_bytes  # the crash comes with the next call
            raise CrashedHere(power=power)

        node.disk_fault = count_down
        return True


class ClockJump(Fault):
    """Somebody sets a wall clock, forward or back."""

    name = "wall clock jump"

    def apply(self, world: "World") -> bool:
        node = any_of(world)
        assert node is not None
        span_ms = int(10 ** (1 + world.random.random() * 6))
        node.clock.jump_wall(span_ms if world.random.random() < 0.5 else -span_ms)
        return True


class MonotonicJump(Fault):
    """A machine was suspended: its monotonic clock leaps forward, and everything is due."""

    name = "monotonic clock jump"
    mean_s = 15

    def apply(self, world: "World") -> bool:
        node = any_of(world)
        assert node is not None
        node.clock.jump_mono(world.draw_us(10 * MS, 20 * S))
        _reschedule(node)
        return True


def _reschedule(node: "SimNode") -> None:
    if node.loop is not None and not node.loop.is_closed:
        node.loop.reschedule()


class ClockDrift(Fault):
    """A monotonic clock runs up to ten times too fast, or too slow, for a while."""

    name = "clock drift"
    mean_s = 15

    def apply(self, world: "World") -> bool:
        node = any_of(world)
        assert node is not None
        factor = 10 ** (world.random.random() * 2 - 1)
        node.clock.set_rate(int(PPM * factor))
        _reschedule(node)
        world.at(world.draw_us(1 * S, 20 * S), lambda: _set_right(node))
        return True


def _set_right(node: "SimNode") -> None:
    node.clock.set_rate(PPM)
    _reschedule(node)


class ClockFreeze(Fault):
    """A wall clock stands still for a while."""

    name = "wall clock freeze"
    mean_s = 20

    def apply(self, world: "World") -> bool:
        node = any_of(world)
        assert node is not None
        node.clock.freeze_wall(frozen=True)
        world.at(world.draw_us(1 * S, 20 * S), lambda: node.clock.freeze_wall(frozen=False))
        return True


class MonotonicFreeze(Fault):
    """A monotonic clock stands still for a while: no timer is due, but messages arrive."""

    name = "monotonic clock freeze"
    mean_s = 25

    def apply(self, world: "World") -> bool:
        node = any_of(world)
        assert node is not None
        node.clock.set_rate(0)
        _reschedule(node)
        world.at(world.draw_us(200 * MS, 10 * S), lambda: _set_right(node))
        return True


class SlowNode(Fault):
    """A machine computes slowly for a while."""

    name = "slow node"
    mean_s = 15

    def apply(self, world: "World") -> bool:
        nodes = some_of(world) or list(world.nodes.values())
        factor = 2 + world.random.random() * 100
        for node in nodes:
            node.slow_turns = factor
        world.at(world.draw_us(500 * MS, 10 * S), lambda: _set_speed(nodes))
        return True


def _set_speed(nodes: "list[SimNode]") -> None:
    for node in nodes:
        node.slow_turns = 1.0


class OwnStall(Fault):
    """A process does not get to run, or collects garbage: its loop stands still, then goes on (D-01)."""

    name = "own stall"
    mean_s = 6

    def apply(self, world: "World") -> bool:
        node = any_up(world)
        if node is None or node.loop is None:
            return False
        node.loop.block_us(world.draw_us(20 * MS, 6 * S))
        return True


class LongAbsence(Fault):
    """A machine is away for most of the run."""

    name = "long absence"
    mean_s = 60

    def apply(self, world: "World") -> bool:
        node = any_of(world, lambda node: node.is_on)
        return node is not None and _cut(world, node, world.draw_us(20 * S, 120 * S))


MACHINE_FAULTS: tuple[type[Fault], ...] = (
    Kill,
    KillLeader,
    PowerCut,
    Blackout,
    MajorityLoss,
    GracefulStop,
    StopCutShort,
    Pause,
    Resume,
    RestartStorm,
    RollingRestart,
    CrashInACall,
    ClockJump,
    MonotonicJump,
    ClockDrift,
    ClockFreeze,
    MonotonicFreeze,
    SlowNode,
    OwnStall,
    LongAbsence,
)
