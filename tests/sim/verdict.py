"""Once nothing goes wrong any more: does the cluster work, is everything there, and does it all fit together?

Entered by `judge`, at the end of a seed's part with faults. In order:

1. *Liveness.* Networks, clocks and disks are healed and every node runs. If the fault budget says that a
   majority of the voters remembers everything, writes must be acknowledged again in bounded time. If not, the
   cluster may stand still, and the seed reports that a halt was expected.
2. *Rejoining.* What needs an operator is done as `docs/operations.md` says: a node that cannot start, or
   whose log has holes, is wiped; leaders are asked to resign, so that a later one is elected without the node
   that forgot. Then every voter must be whole.
3. *Health.* In a part of the seeds the cluster runs on for a while without faults: no other leader is
   elected, and no read or write is refused.
4. *Without some.* In a part of the seeds, a few voters that are no majority, or an observer, are dead or cut
   off and do not come back: the others go on.
5. *Convergence.* The clients are silent; all logs become equal, and no node has left a segment unread.
6. *The history.* It is linearizable; nothing acknowledged is missing from the log; nothing is there that was
   refused.

Not here: what holds after every event (`kraftd.audit`), and what a disk may lose (`fault_budget`).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING

from kraftd.audit.invariants import Violation
from kraftd.audit.linearizability import check
from kraftd.errors import ErrorCode
from kraftd.records.batch import BatchView, scan
from kraftd.records.frame import decode_record
from kraftd.records.messages import ConfigRecord
from kraftd.storage import DamagedReadError, Log
from kraftd.types import NodeId, Offset
from tests.sim import far_brokers
from tests.sim.fault_budget import WIPED, Harm, Judgement
from tests.sim.fault_strangers import resign
from tests.sim.ledger import digest_of
from tests.sim.loaders import LIST, LIST_DEFAULT, LONG_VALUE
from tests.sim.network import TAIL_FACTOR

if TYPE_CHECKING:
    from tests.sim.node import SimNode
    from tests.sim.world import Shape, World

S = 1_000_000
WRITES = 3
"""How many acknowledged writes are progress."""
HALTED_US = 30 * S
"""How long a cluster is watched that has forgotten too much to have to go on."""
HEALTHY_PART = 0.5
SETTLED_US = 3 * S
HEALTHY_US = 3 * S
"""In how many seeds a healthy cluster is looked at, after how long, and for how long."""
LEFT_OUT_PART = 0.4
"""How many seeds go on without some of their nodes for a while."""
OBSERVERS_PART = 0.2
"""How often it is an observer that is left out, if there is one."""
LEADER_PART = 0.7
"""How often the leader is among the voters that are left out."""
FINDS_OUT = 2
"""For how many fetch timeouts a leader that was left out may still answer."""
LEADS_ON = 4
"""For how many fetch timeouts somebody looks whether a leader that was left out leads on."""
READ_US = 2 * S
"""How long segments may stay unread that a node has just applied: it reads in pieces, with pauses."""
MESSAGES_A_COMMIT = 4
"""How many messages pass one after the other, at most, before a follower has acknowledged a record."""
ROUNDS = 40
"""How often an operator tries to make the voters whole."""


def judge(world: "World") -> None:
    """Judge a world whose faults are over.

    Raises:
        Violation: A promise was broken.
    """
    world.calm()
    works = _progresses(world)
    if works:
        _poll_rejoin(world)
        if world.options.brokers:
            world.brokers.judge(patience_us(world) + world.brokers.patience_us())
        if world.derive("health").random() < HEALTHY_PART:
            _stay_healthy(world)
        if world.derive("verdict").random() < LEFT_OUT_PART:
            _go_on_without(world, world.derive("left out"))
    world.is_over = True
    world.run_for(world.shape.patience_us * 2 + world.shape.controller_timeout_ms * 1_000)
    _expect_lost_are_forgotten(world)
    if works:
        target = _converge(world)
        _expect_all_is_read(world)
        if world.options.brokers:
            world.brokers.converge(target, patience_us(world))
    world.close_history()
    complaint = check(world.history)
    if complaint is not None:
        raise Violation(f"Linearizability: {complaint}")
    if works:
        _compare_with_log(world)


def patience_us(world: "World") -> int:
    """How long a healed cluster may take to elect: some rounds of its timeouts, and then some."""
    timing = world.shape.timing
    round_ms = timing.fetch_timeout_ms + 2 * timing.election_timeout_ms + timing.election_backoff_max_ms
    return 20 * S + 10 * round_ms * 1_000


def _progresses(world: "World") -> bool:
    """Whether the cluster works again; False only where that was to be expected."""
    limit_us = _writing_us(world)
    if not world.fault_budget.majority_remembers():
        if _are_acknowledged(world, WRITES, min(limit_us, HALTED_US)):
            return True
        if not world.fault_budget.majority_remembers():
            world.statistics["halt expected"] = 1
            return False
    if _are_acknowledged(world, WRITES, limit_us):
        return True
    wounds = {n: wound.harm for n, wound in world.fault_budget.wounds.items()}
    raise Violation(
        f"Liveness: no {WRITES} writes were acknowledged within {limit_us // S} s after everything was "
        f"healed; forgetful: {wounds or 'nobody'}"
    )


def _writing_us(world: "World") -> int:
    """How long a few writes may take."""
    return patience_us(world) + 100 * world.shape.think_us


def _are_acknowledged(world: "World", writes: int, limit_us: int) -> bool:
    """Whether so many more writes succeed in time."""
    wanted = world.acknowledged + writes
    return world.run_until(lambda: world.acknowledged >= wanted, limit_us)


def _expect_all_is_read(world: "World") -> None:
    """What starts took without reading it is read soon after it is applied (D-23)."""
    if not world.run_until(lambda: not _unread(world), READ_US):
        node, unread = next(iter(_unread(world).items()))
        raise Violation(f"AllIsRead: node {node} has never read {unread}")


def _unread(world: "World") -> dict[NodeId, list[str]]:
    """The segments that a node has not read since its start, by node; of one whose disk forgot none."""
    unread = {
        node.id: [segment.path.name for segment in node.directory.log._segments if segment.is_unread]
        for node in world.nodes.values()
        if node.directory is not None and node.id not in world.fault_budget.wounds
    }
    return {node: segments for node, segments in unread.items() if segments}


def _expect_lost_are_forgotten(world: "World") -> None:
    """Of its connections to others a node keeps only those that are there (D-08)."""
    for node in world.nodes.values():
        if node.is_up and node.parts is not None:
            there = {end.protocol for end in world.network.hosts[node.id].ends.values()}
            lost = [each.address for each in node.parts.network._outbound.values() if each not in there]
            if lost:
                raise Violation(f"LostConnectionsAreForgotten: node {node.id} keeps those to {lost}")


def _stay_healthy(world: "World") -> None:
    """Look at a cluster to which nothing happens, and then at one whose leader hands over."""
    with _undisturbed(world):
        if not _are_acknowledged(world, WRITES, _writing_us(world)):
            return
        leaders, counting = len(world.leaders), [node for node in world.nodes.values() if _counts(node)]
        _expect_no_refusals(world, "nothing happened")
        # A broker asks for records of long ago, and the leader finds that its disk has lost them: it resigns.
        has_found = any(node.id in world.fault_budget.wounds and not _counts(node) for node in counting)
        if len(world.leaders) > leaders and not has_found:
            raise Violation(f"Health: nothing happened, and yet {world.leaders[-1]} was elected")
        for node in world.nodes.values():
            if node.is_leader:
                resign(world, node)
        # Whoever wrote may not be told what became of it; whoever reads can be served by the next leader.
        _expect_no_refusals(world, "a leader was asked to hand over", of="read")


@contextmanager
def _undisturbed(world: "World") -> Iterator[None]:
    """A while in which clients ask for little, and for no other leader."""
    world.is_undisturbed = True
    world.run_for(SETTLED_US)  # what was asked before may still come: a leader that is to go, a late response
    yield
    world.is_undisturbed = False


def _expect_no_refusals(world: "World", after: str, *, of: str = "") -> None:
    """For a while nobody is refused, but for asking who does not lead."""
    world.refused.clear()
    world.run_for(HEALTHY_US)
    is_slow = may_be_late(world.shape)
    for who, error, text in world.refused:
        if who.startswith(of) and not (is_slow and error == ErrorCode.REQUEST_TIMED_OUT):
            raise Violation(f"Health: {after}, and yet refused: {who}: {text}")


def may_be_late(shape: "Shape") -> bool:
    """Whether messages alone, on the slowest healthy network that was drawn, outlast a client's deadline.

    Node 1 leads nodes 1 and 2, 80 ms away, with one message in twenty ten times as late. Node 2's fetch is
    answered as a write arrives: that response, the next fetch, its response with the record and the fetch
    that acknowledges it are four messages, and two late ones of them take longer than a deadline of 1 s.
    """
    slowest_us = shape.latency_us[1] + shape.jitter_us
    if shape.tail_part:
        slowest_us *= TAIL_FACTOR
    return MESSAGES_A_COMMIT * slowest_us >= shape.controller_timeout_ms * 1_000


# --- those who do not come back -----------------------------------------------------------------------------


def _go_on_without(world: "World", random: Random) -> None:
    """Leave a minority out for good, and see the others go on."""
    voters = [world.nodes[n] for n in sorted(world.voters)]
    if world.fault_budget.wounds or not all(_counts(node) for node in voters):
        return  # an amnesiac needs every other voter (D-06)
    few = (len(voters) - 1) // 2
    observers = [node for node in world.nodes.values() if not node.is_voter]
    if observers and (not few or random.random() < OBSERVERS_PART):
        out = [random.choice(observers)]
    elif few:
        random.shuffle(voters)
        out = sorted(voters, key=lambda node: not node.is_leader)[: random.randint(1, few)]
        if random.random() > LEADER_PART:
            out = voters[: len(out)]
    else:
        return
    way = random.choice(tuple(_WAYS))
    names = sorted(node.id for node in out)
    world.statistics[f"left out: {way}"] += 1
    world.tell(0, "left_out", nodes=names, way=way)
    world.random = random
    for node in out:
        _WAYS[way](world, node)
    # What is acknowledged first may have been on its way.
    if not _are_acknowledged(
        world, WRITES + len(world.clients) + len(world.stale_readers), _writing_us(world)
    ):
        raise Violation(f"Liveness: {names} are {way} for good, and the others do not go on")
    if way in _GONE and random.random() < HEALTHY_PART:
        with _undisturbed(world):
            # A leader that is cut off finds out within one and a half fetch timeouts; until then clients who
            # still ask it are told that a majority did not confirm it.
            world.run_for(FINDS_OUT * world.shape.timing.fetch_timeout_ms * 1_000)
            _expect_no_refusals(world, f"{names} are {way}")
    world.run_for(LEADS_ON * world.shape.timing.fetch_timeout_ms * 1_000)
    world.calm()
    if not _are_acknowledged(world, WRITES, _writing_us(world)):
        raise Violation(f"Liveness: {names} were {way}, and with them back nothing is acknowledged")


def _deafen(world: "World", node: "SimNode") -> None:
    for other in world.node_ids:
        if other != node.id:
            world.network.cut(other, node.id, one_way=True)


def _silence(world: "World", node: "SimNode") -> None:
    for other in world.node_ids:
        if other != node.id:
            world.network.cut(node.id, other, one_way=True)


def _isolate(world: "World", node: "SimNode") -> None:
    _deafen(world, node)
    _silence(world, node)


def _part_from_one(world: "World", node: "SimNode") -> None:
    """It hears everybody but one other voter: the leader, if it does not lead itself."""
    others = [world.nodes[n] for n in sorted(world.voters) if n != node.id]
    other = max(others, key=lambda other: other.is_leader)
    world.network.cut(node.id, other.id)


_WAYS: "dict[str, Callable[[World, SimNode], None]]" = {
    "killed": lambda _, node: node.crash(),
    "without power": lambda _, node: node.cut_power(),
    "cut off": _isolate,
    "deaf": _deafen,
    "mute": _silence,
    "cut off from one": _part_from_one,
}


_GONE = ("killed", "without power", "cut off")
"""Ways in which nobody hears from them; what comes from others may still disturb."""


# --- the operator -------------------------------------------------------------------------------------------


def _poll_rejoin(world: "World") -> None:
    """Do what an operator does until every voter counts again."""
    voters = [world.nodes[n] for n in sorted(world.voters)]
    if all(_counts(node) for node in voters):
        return
    for number in range(ROUNDS):
        if world.run_until(_all_count(voters), patience_us(world) // 4):
            world.statistics["mended"] += 1
            return
        hopeless = [node for node in voters if _needs_wiping(node)]
        wiped = False
        for node in hopeless:
            harm = Harm(identity=True, peers=True, start_counter=WIPED)
            if world.fault_budget.judge(node, harm) is Judgement.SURVIVES:
                node.crash()
                world.fault_budget.note(node, harm)
                node.wipe()
                node.start()
                wiped = True
                break
        if hopeless and not wiped and number > ROUNDS // 2:
            # An operator who is told not to wipe has nothing left to do.
            world.statistics["left unmended"] += 1
            return
        for node in voters:
            if node.is_leader and not wiped:
                resign(world, node)
        for node in voters:
            node.start()
    doubts = {node.id: _why(node) for node in voters if not _counts(node)}
    raise Violation(f"Rejoining: every voter runs and hears the others, and yet not whole: {doubts}")


def _all_count(voters: Sequence["SimNode"]) -> Callable[[], bool]:
    """Whether every voter counts. It is asked after every event, so the one that did not is asked first."""
    waiting_for = voters[0]

    def check() -> bool:
        nonlocal waiting_for
        if _counts(waiting_for):
            waiting_for = next((node for node in voters if not _counts(node)), waiting_for)
        return _counts(waiting_for)

    return check


def _counts(node: "SimNode") -> bool:
    raft_node = node.raft_node
    return raft_node is not None and raft_node.is_whole


def _needs_wiping(node: "SimNode") -> bool:
    """It cannot start, or its log has holes that nothing fills."""
    if node.directory is not None:
        return bool(_damage(node))
    return bool(node.died_of) or not node.world.fault_budget.may_start_again(node)


def _why(node: "SimNode") -> str:
    if node.directory is None:
        return node.died_of or "down"
    return "; ".join((*_damage(node), *node.directory.amnesia)) or "told by others"


def _damage(node: "SimNode") -> tuple[str, ...]:
    """Holes that the opening found, or a read since."""
    assert node.directory is not None
    return node.raft_node.damage if node.raft_node is not None else node.directory.damage


# --- agreement ----------------------------------------------------------------------------------------------


def _converge(world: "World") -> Offset:
    """All logs become equal, and everybody knows that they are committed; returns up to where. An observer
    that had forgotten something has nothing else to wait for: it is whole, too.
    """
    nodes = [node for node in world.nodes.values() if not _needs_wiping(node)]
    # The log never stands still: idle leaders write too. What is there now must be everywhere soon.
    target = max(
        (node.marks[-1] for node in nodes if node.marks), key=lambda mark: (mark.epoch, mark.end_offset)
    )

    def has_it(node: "SimNode") -> bool:
        view, parts = node.view(), node.parts
        return (
            parts is not None
            and parts.applier.applied_offset >= target.end_offset
            and view.holds(target.end_offset, target.digest)
            and (node.is_voter or _counts(node))
        )

    def agree() -> bool:
        # A node that had applied little yet may find only now, as it reads, what its disk has lost.
        return all(has_it(node) or _needs_wiping(node) for node in nodes)

    def away() -> list[int]:
        return [node.id for node in nodes if not node.is_voter and not has_it(node)]

    if not far_brokers.run_until(world, agree, away, patience_us(world)):
        seen = {
            node.id: (node.marks[-1] if node.marks else None, node.view().high_watermark, node.died_of)
            for node in nodes
        }
        raise Violation(f"Convergence: the logs are not equal after {patience_us(world) // S} s: {seen}")
    return target.end_offset


def _compare_with_log(world: "World") -> None:
    """What was acknowledged is committed, what was refused is not, and some node can read all that it has."""
    if not _is_readable(world):
        # A copy that is damaged where nobody read it yet still counts; so much damage is a halt expected.
        if not world.fault_budget.halt_expected:
            raise Violation(
                f"NothingAcknowledgedIsLost: no log can be read to its end: {world.fault_budget.wounds}"
            )
        world.statistics["log unreadable"] += 1
        return
    records = list(_configs(world))
    _compare_lists(records)
    held = {(record.name, record.value) for record in records}
    writes = [operation for operation in world.history if operation.kind == "write"]
    refused = {(o.key, o.value) for o in writes if o.outcome == "failed"}
    refused -= {(o.key, o.value) for o in writes if o.outcome != "failed"}
    for operation in writes:
        place = (operation.key, operation.value)
        if operation.outcome == "ok" and place not in held:
            raise Violation(f"NothingAcknowledgedIsLost: {operation} is not in the log")
        if place in refused and place in held:
            raise Violation(f"WhatWasRefusedIsNotThere: {operation} is in the log")


def _compare_lists(records: Iterable[ConfigRecord]) -> None:
    """Each value of a list follows from the one before it by one change, or sets it anew."""
    lists: dict[str, str | None] = {}
    for record in records:
        if record.name != LIST:
            continue
        before, lists[record.resource_name] = lists.get(record.resource_name), record.value
        if record.value in (None, "", LONG_VALUE):
            continue
        assert record.value is not None
        items = _items(LIST_DEFAULT if before is None else before)
        found = _items(record.value)
        if found[:-1] != items and found != [item for item in items if item in found]:
            raise Violation(f"ListsAreChanged: {before!r} became {record.value!r} in the log")


def _items(value: str) -> list[str]:
    return [item for item in value.split(",") if item]


def _is_readable(world: "World") -> bool:
    """Whether a node that counts, preferably one that nothing happened to, can read its log to the end, and
    has there what was committed.
    """
    counting = [n for n in world.nodes.values() if n.raft_node is not None and n.raft_node.is_whole]
    for node in sorted(counting, key=lambda n: n.id in world.fault_budget.wounds):
        assert node.directory is not None
        log = node.directory.log
        digest = world.ledger.digest_at(log.start_offset)
        try:
            for batch in _log_batches(log):
                digest = digest_of(batch, digest or 0)
                committed = world.ledger.digest_at(batch.end_offset)
                if committed is not None and committed != digest:
                    raise Violation(f"CommittedStays: node {node.id} reads another log at {batch.end_offset}")
        except DamagedReadError:
            continue
        return True
    return False


def _log_batches(log: Log) -> Iterator[BatchView]:
    offset = log.start_offset
    while offset < log.end_offset:
        for batch in scan(log.read(offset, 1 << 20)):
            offset = batch.end_offset
            yield batch


def _configs(world: "World") -> Iterator[ConfigRecord]:
    """Every change of a config that was committed."""
    for batch in world.ledger.batches(0, world.ledger.end_offset):
        if batch.is_control:
            continue
        for value in batch.values():
            record = decode_record(value)
            if isinstance(record, ConfigRecord):
                yield record
