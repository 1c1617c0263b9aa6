"""What goes wrong with brokers, and with the controllers just when brokers keep them busy.

Not here: what goes wrong with nodes whether there are brokers or not (`faults`). Every class here needs
`Options.brokers`, and is drawn by a stream of its own, so that seeds without brokers stay what they are.
"""

from typing import TYPE_CHECKING

from tests.sim.fault_base import MS, Fault, S, down_us, later

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.sim.broker_process import SimBroker
    from tests.sim.node import SimNode
    from tests.sim.world import World

ON_PART = 0.4
"""How many seeds with brokers have a class of these faults."""


def any_broker(
    world: "World", wanted: "Callable[[SimBroker], bool]" = lambda broker: broker.is_up
) -> "SimBroker | None":
    """One of the brokers that are wanted."""
    brokers = [broker for broker in world.brokers.brokers.values() if wanted(broker)]
    return brokers[int(world.random.random() * len(brokers))] if brokers else None


class BrokerKilled(Fault):
    """SIGKILL; it comes back as a new incarnation."""

    name = "broker killed"
    mean_s = 10
    on_part = ON_PART

    def apply(self, world: "World") -> bool:
        broker = any_broker(world)
        if broker is None:
            return False
        broker.crash(down_us=down_us(world))
        return True


class BrokerRestartedAtOnce(Fault):
    """Killed and started before its session ends: the new process is a duplicate for a while."""

    name = "broker restarted at once"
    mean_s = 15
    on_part = ON_PART

    def apply(self, world: "World") -> bool:
        broker = any_broker(world)
        if broker is None:
            return False
        broker.crash(down_us=world.draw_us(1 * MS, 300 * MS))
        return True


class BrokerLosesPower(Fault):
    """A broker's machine goes off without a word, with its process running or not."""

    name = "broker without power"
    mean_s = 15
    on_part = ON_PART

    def apply(self, world: "World") -> bool:
        broker = any_broker(world, lambda broker: broker.is_on)
        if broker is None:
            return False
        broker.cut_power(down_us=down_us(world))
        return True


class BrokerPaused(Fault):
    """SIGSTOP, for less than a session or for more."""

    name = "broker paused"
    mean_s = 10
    on_part = ON_PART

    def apply(self, world: "World") -> bool:
        broker = any_broker(world, lambda broker: broker.is_up and not broker.is_paused)
        if broker is None:
            return False
        broker.pause()
        incarnation = broker.incarnation

        def resume() -> None:
            if broker.incarnation == incarnation:
                broker.resume()

        world.at(world.draw_us(100 * MS, 3 * world.brokers.shape.session_ms * MS), resume)
        return True


class BrokerStopped(Fault):
    """SIGTERM: controlled shutdown, and a clean start later."""

    name = "broker stopped"
    mean_s = 10
    on_part = ON_PART

    def apply(self, world: "World") -> bool:
        broker = any_broker(world, lambda broker: broker.is_up and not broker.is_stopping)
        if broker is None:
            return False
        broker.stop(down_us=down_us(world))
        return True


class BrokerStopCutShort(Fault):
    """SIGTERM, and SIGKILL before the controller lets it go."""

    name = "broker's stop cut short"
    mean_s = 20
    on_part = ON_PART

    def apply(self, world: "World") -> bool:
        broker = any_broker(world, lambda broker: broker.is_up and not broker.is_stopping)
        if broker is None:
            return False
        broker.stop(down_us=down_us(world))
        incarnation, span_us = broker.incarnation, down_us(world)

        def kill() -> None:
            if broker.is_up and broker.incarnation == incarnation:
                broker.crash(down_us=span_us)

        world.at(world.draw_us(0, 1 * S), kill)
        return True


class RollingBrokers(Fault):
    """An operator restarts one broker after the other, in order."""

    name = "rolling restart of brokers"
    mean_s = 40
    on_part = ON_PART

    def apply(self, world: "World") -> bool:
        for number, broker in enumerate(world.brokers.brokers.values()):
            later(world, number * 3 * S, lambda broker=broker: broker.stop(down_us=300 * MS))
        return True


class AllBrokersKilled(Fault):
    """All brokers at once: partitions stay without leader until the right ones are back."""

    name = "all brokers killed"
    mean_s = 40
    on_part = ON_PART

    def apply(self, world: "World") -> bool:
        up = [broker for broker in world.brokers.brokers.values() if broker.is_up]
        for broker in up:
            broker.crash(down_us=down_us(world))
        return bool(up)


class DirectoryFails(Fault):
    """One of a broker's directories fails; the broker lives on."""

    name = "directory fails"
    mean_s = 15
    on_part = ON_PART

    def apply(self, world: "World") -> bool:
        broker = any_broker(world, lambda broker: broker.is_up and len(broker.disk.working) > 1)
        return broker is not None and broker.fail_directory()


class BrokerLosesControllers(Fault):
    """A broker hears other brokers, but no controller, for a while."""

    name = "broker without controllers"
    mean_s = 12
    on_part = ON_PART

    def apply(self, world: "World") -> bool:
        broker = any_broker(world)
        if broker is None:
            return False
        for node_id in world.node_ids:
            world.network.cut(node_id, broker.id)
        span_us = world.draw_us(500 * MS, 3 * world.brokers.shape.session_ms * MS)
        world.at(span_us, lambda: world.network.heal(broker.id))
        return True


class BrokerLosesTheLeader(Fault):
    """A broker hears all controllers but the active one, or not what that one says."""

    name = "broker without the active controller"
    mean_s = 12
    on_part = ON_PART

    def apply(self, world: "World") -> bool:
        broker = any_broker(world)
        leaders = [node for node in world.nodes.values() if node.is_leader]
        if broker is None or not leaders:
            return False
        leader = leaders[-1]
        one_way = world.random.random() < 0.4
        world.network.cut(leader.id, broker.id, one_way=one_way)
        span_us = world.draw_us(500 * MS, 3 * world.brokers.shape.session_ms * MS)
        world.at(span_us, lambda: world.network.heal(broker.id, leader.id))
        return True


class BrokersApart(Fault):
    """Two brokers do not hear each other; both hear the controllers."""

    name = "brokers apart"
    mean_s = 12
    on_part = ON_PART

    def apply(self, world: "World") -> bool:
        one = any_broker(world)
        other = any_broker(world, lambda broker: broker is not one)
        if one is None or other is None:
            return False
        world.network.cut(one.id, other.id)
        world.at(world.draw_us(1 * S, 15 * S), lambda: world.network.heal(one.id, other.id))
        return True


class LeaderGoesWhileBrokersGo(Fault):
    """Brokers die, and with what their death entails under way the active controller goes, too."""

    name = "controller goes in the middle of a plan"
    mean_s = 3
    on_part = 0.8

    def apply(self, world: "World") -> bool:
        broker = any_broker(world)
        leader = next((node for node in world.nodes.values() if node.is_leader), None)
        if broker is None or leader is None:
            return False
        if world.random.random() < 0.5:
            broker.crash(down_us=down_us(world))
        else:
            broker.stop(down_us=down_us(world))
        world.brokers.when_busy(lambda node: _let_go(world, node), world.draw_us(1 * S, 12 * S))
        return True


def _let_go(world: "World", node: "SimNode") -> None:
    draw = world.random.random()
    world.statistics["controller goes inside a plan"] += 1
    if draw < 0.4:
        node.crash(down_us=down_us(world))
    elif draw < 0.6:
        node.cut_power(down_us=down_us(world))
    elif draw < 0.8:
        node.pause()
        incarnation = node.incarnation
        world.at(world.draw_us(1 * S, 8 * S), lambda: node.incarnation == incarnation and node.resume())
    else:
        for other in world.node_ids:
            if other != node.id:
                world.network.cut(other, node.id)
        world.at(world.draw_us(1 * S, 8 * S), lambda: world.network.heal(node.id))


BROKER_FAULTS: tuple[type[Fault], ...] = (
    BrokerKilled,
    BrokerRestartedAtOnce,
    BrokerLosesPower,
    BrokerPaused,
    BrokerStopped,
    BrokerStopCutShort,
    RollingBrokers,
    AllBrokersKilled,
    DirectoryFails,
    BrokerLosesControllers,
    BrokerLosesTheLeader,
    BrokersApart,
    LeaderGoesWhileBrokersGo,
)
