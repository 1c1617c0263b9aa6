"""What goes wrong between machines: slow, cut, torn, half-open, and back.

Not here: what strangers send (`fault_strangers`), and machines that are gone (`fault_machines`).
"""

from typing import TYPE_CHECKING

from tests.sim.fault_base import MS, Fault, S, any_of, pair_of, some_of

if TYPE_CHECKING:
    from tests.sim.node import SimNode
    from tests.sim.world import World


STALLED_ALONE = 0.5
"""In how many cases one connection of two machines stalls, and the others do not."""


class Stall(Fault):
    """The connections between two machines carry nothing for a while, then everything; or one of them alone,
    and what was sent later on another one comes first.
    """

    name = "stall"
    mean_s = 6

    def apply(self, world: "World") -> bool:
        pair = pair_of(world)
        if pair is None:
            return False
        duration_us, part = world.draw_us(10 * MS, 5 * S), world.random.random()
        only = int(part * 100) if part < STALLED_ALONE else None
        return world.network.stall(pair[0].id, pair[1].id, duration_us, only=only) > 0


class Delay(Fault):
    """Everything to and from one machine takes longer for a while."""

    name = "delay"

    def apply(self, world: "World") -> bool:
        node = any_of(world)
        assert node is not None
        extra_us = world.draw_us(1 * MS, 300 * MS)
        for other in world.node_ids:
            if other != node.id:
                world.network.clog(node.id, other, extra_us)
        world.at(world.draw_us(100 * MS, 10 * S), lambda: _unclog(world, node.id))
        return True


def _unclog(world: "World", node_id: int) -> None:
    for other in world.node_ids:
        if other != node_id:
            world.network.clog(node_id, other, 0)


class Reset(Fault):
    """The connections between two machines are torn: both ends hear RST."""

    name = "reset"
    mean_s = 6

    def apply(self, world: "World") -> bool:
        pair = pair_of(world)
        return pair is not None and world.network.reset(pair[0].id, pair[1].id) > 0


class HalfOpen(Fault):
    """Only one end hears that its connections are gone."""

    name = "half-open"

    def apply(self, world: "World") -> bool:
        pair = pair_of(world)
        return pair is not None and world.network.reset(pair[0].id, pair[1].id, half=True) > 0


class Cut(Fault):
    """Two machines do not hear each other."""

    name = "cut"
    one_way = False

    def apply(self, world: "World") -> bool:
        pair = pair_of(world)
        if pair is None:
            return False
        one, other = pair[0].id, pair[1].id
        world.network.cut(one, other, one_way=self.one_way)
        world.at(world.draw_us(100 * MS, 15 * S), lambda: world.network.heal(one, other))
        return True


class OneWayCut(Cut):
    """Nothing gets from one machine to another, but everything back."""

    name = "one-way cut"
    one_way = True


class Isolation(Fault):
    """One machine hears nobody and nobody hears it; its clients are cut off too, or not."""

    name = "isolation"

    def apply(self, world: "World") -> bool:
        node = any_of(world)
        assert node is not None
        others = [n for n in world.node_ids if n != node.id]
        if world.random.random() < 0.5:
            others += [client.machine for client in world.clients]
        for other in others:
            world.network.cut(node.id, other)
        world.at(world.draw_us(200 * MS, 20 * S), lambda: world.network.heal(node.id))
        return bool(others)


class Overtaken(Fault):
    """A leader is cut off from the others just until one of them leads; then all that was kept back arrives.

    It hears nobody; they hear it or not. Stale readers still reach it: they ask it shortly before it is
    overtaken, and again when the other leads.
    """

    name = "overtaken leader"
    mean_s = 5
    on_part = 0.3

    def apply(self, world: "World") -> bool:
        leader = _newest_leader(world)
        if leader is None or not world.stale_readers or len(world.voters) < 3:
            return False
        others = [n for n in world.node_ids if n != leader.id]
        is_heard = world.random.random() < 0.7
        for other in others:
            world.network.cut(other, leader.id, one_way=is_heard)
        for stale_reader in world.stale_readers:
            stale_reader.prepare()
        fetch_us = leader.timing.fetch_timeout_ms * MS
        early = world.stale_readers[-1]
        world.at(world.draw_us(fetch_us // 4, fetch_us), lambda: early.read(leader.id))
        until_us = world.now_us + 2 * fetch_us

        def look() -> None:
            is_asked = any(stale_reader.is_reading(leader.id) for stale_reader in world.stale_readers[:-1])
            if (is_asked and _newest_leader(world) is not leader) or world.now_us > until_us:
                world.network.heal(leader.id)
            else:
                world.at(5 * MS, look)

        world.at(5 * MS, look)
        return True


class SecretCommit(Fault):
    """A leader is cut off at the moment when a write that the others hold is committed: only it knows.

    They do not hear it any more, but it hears them, and so does whoever wrote.
    """

    name = "secret commit"
    on_part = 0.25

    def apply(self, world: "World") -> bool:
        leader = _newest_leader(world)
        if leader is None or not world.stale_readers or len(world.voters) < 2:
            return False
        others = [n for n in world.node_ids if n != leader.id]
        for stale_reader in world.stale_readers:
            stale_reader.prepare()
        world.stale_readers[-1].write(leader.id)
        until_us = world.now_us + 1 * S
        stays_us = world.draw_us(leader.timing.fetch_timeout_ms * MS, 8 * S)

        def look() -> None:
            committed = leader.view().high_watermark
            ahead = [
                n for n in world.nodes.values() if n.is_voter and n is not leader and _end(n) > committed
            ]
            if len(ahead) * 2 >= len(world.voters) - 1:
                for other in others:
                    world.network.cut(leader.id, other, one_way=True)
                world.at(stays_us, lambda: world.network.heal(leader.id))
            elif world.now_us < until_us:
                world.at(MS // 4, look)

        world.at(MS // 4, look)
        return True


def _newest_leader(world: "World") -> "SimNode | None":
    """Whoever leads, and nobody after it."""
    node = world.nodes[world.leaders[-1][1]] if world.leaders else None
    return node if node is not None and node.is_leader else None


def _end(node: "SimNode") -> int:
    return node.marks[-1].end_offset if node.marks else 0


class Deafness(Fault):
    """One machine is heard by all and hears nobody, or the other way round."""

    name = "deafness"

    def apply(self, world: "World") -> bool:
        node = any_of(world)
        assert node is not None
        hears = world.random.random() < 0.5
        others = [n for n in world.node_ids if n != node.id]
        for other in others:
            world.network.cut(*((node.id, other) if hears else (other, node.id)), one_way=True)
        world.at(world.draw_us(200 * MS, 20 * S), lambda: world.network.heal(node.id))
        return bool(others)


class Partition(Fault):
    """The machines fall into two parts that do not hear each other."""

    name = "partition"

    def apply(self, world: "World") -> bool:
        return _split(world, one_way=False)


class OneWayPartition(Fault):
    """The machines fall into two parts, and only one of them hears the other."""

    name = "one-way partition"

    def apply(self, world: "World") -> bool:
        return _split(world, one_way=True)


def _split(world: "World", *, one_way: bool) -> bool:
    part = {node.id for node in some_of(world)}
    rest = [n for n in world.node_ids if n not in part]
    for one in sorted(part):
        for other in rest:
            world.network.cut(one, other, one_way=one_way)
    if part and rest:
        world.at(world.draw_us(200 * MS, 20 * S), world.network.heal)
    return bool(part and rest)


class Bridge(Fault):
    """Only one machine hears everybody; the others hear it and nobody else."""

    name = "bridge"
    mean_s = 20

    def apply(self, world: "World") -> bool:
        node = any_of(world)
        assert node is not None
        others = [n for n in world.node_ids if n != node.id]
        for one in others:
            for other in others:
                if one < other:
                    world.network.cut(one, other)
        world.at(world.draw_us(200 * MS, 15 * S), world.network.heal)
        return len(others) > 1


class Clog(Fault):
    """A link becomes very slow, and stays so until it is unclogged."""

    name = "clog"

    def apply(self, world: "World") -> bool:
        pair = pair_of(world)
        if pair is None:
            return False
        world.network.clog(pair[0].id, pair[1].id, world.draw_us(50 * MS, 3 * S))
        return True


class Unclog(Fault):
    """All is well between machines again, for now."""

    name = "unclog"
    mean_s = 15

    def apply(self, world: "World") -> bool:
        world.network.heal()
        return True


class SwizzleClog(Fault):
    """A random part of the machines is clogged one by one, and unclogged in another order."""

    name = "swizzle clog"
    mean_s = 20

    def apply(self, world: "World") -> bool:
        chosen = [node.id for node in some_of(world)]
        for step, node_id in enumerate(chosen):
            world.at(step * 200 * MS, lambda node_id=node_id: _clog_all(world, node_id))
        world.random.shuffle(chosen)
        begin_us = len(chosen) * 200 * MS + world.draw_us(0, 3 * S)
        for step, node_id in enumerate(chosen):
            world.at(begin_us + step * 300 * MS, lambda node_id=node_id: world.network.heal(node_id))
        return bool(chosen)


def _clog_all(world: "World", node_id: int) -> None:
    for other in world.node_ids:
        if other != node_id:
            world.network.cut(node_id, other)


class ClientCut(Fault):
    """A client's machine is cut off from a node, or from all."""

    name = "client cut"

    def apply(self, world: "World") -> bool:
        client = world.clients[int(world.random.random() * len(world.clients))]
        node = any_of(world)
        assert node is not None
        nodes = world.node_ids if world.random.random() < 0.3 else [node.id]
        for node_id in nodes:
            world.network.cut(client.machine, node_id, one_way=world.random.random() < 0.4)
        world.at(world.draw_us(100 * MS, 10 * S), lambda: world.network.heal(client.machine))
        return True


class ClientReset(Fault):
    """A client loses its connection while it waits for a response, and may ask again."""

    name = "client retry"
    mean_s = 4

    def apply(self, world: "World") -> bool:
        client = world.clients[int(world.random.random() * len(world.clients))]
        half = world.random.random() < 0.3
        return sum(world.network.reset(client.machine, n, half=half) for n in world.node_ids) > 0


class Fragments(Fault):
    """For a while, most writes arrive in pieces."""

    name = "fragments"
    mean_s = 20

    def apply(self, world: "World") -> bool:
        before = world.shape.cut_part
        world.network.cut_part = 0.7

        def end() -> None:
            world.network.cut_part = before

        world.at(world.draw_us(200 * MS, 5 * S), end)
        return True


class NameLeadsAstray(Fault):
    """A name is resolved anew, and leads to another node; later it leads back. What is open stays open."""

    name = "name leads astray"
    mean_s = 12

    def apply(self, world: "World") -> bool:
        pair = pair_of(world)
        if pair is None:
            return False
        one, other = pair[0].id, pair[1].id
        world.network.lead_astray(one, other)
        if world.random.random() < 0.5:
            world.network.lead_astray(other, one)
        for node_id in world.node_ids:
            world.network.reset(node_id, one)
        world.at(world.draw_us(500 * MS, 10 * S), world.network.lead_back)
        return True


NETWORK_FAULTS: tuple[type[Fault], ...] = (
    Stall,
    Delay,
    Reset,
    HalfOpen,
    OneWayCut,
    Cut,
    Isolation,
    Overtaken,
    SecretCommit,
    Deafness,
    Partition,
    OneWayPartition,
    Bridge,
    Clog,
    Unclog,
    SwizzleClog,
    ClientCut,
    ClientReset,
    Fragments,
    NameLeadsAstray,
)
