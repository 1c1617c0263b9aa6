"""The fault budget tells what may be broken from what may not; it and the verdict see what is wrong."""

import errno
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kraftd.audit.linearizability import Operation
from kraftd.raft.events import LogDamaged
from kraftd.raft.rejoin import Rejoin
from kraftd.types import Election, Epoch, Offset
from tests.firing import fires
from tests.sim import fault_disks
from tests.sim.fault_budget import WIPED, Harm, Judgement, holds_torn_election
from tests.sim.fault_disks import ELECTION, Backup, ElectionBitRot, FailedRead, RestoredBackup
from tests.sim.fault_machines import Kill, Pause, Resume
from tests.sim.fault_meetings import RestoreAndCampaign
from tests.sim.fault_snapshots import CoveredBadSector, CoveredSegmentDamage
from tests.sim.fault_strangers import resign
from tests.sim.faults import FAULTS, Fault
from tests.sim.node import SimNode
from tests.sim.verdict import judge
from tests.sim.world import Options, World

ROOT = Path(__file__).parents[2]
S = 1_000_000
NOTICED = Harm(noticed=True)
WIPE = Harm(identity=True, peers=True, start_counter=WIPED)
LATER = 1_000
"""So many epochs later nobody's vote matters any more."""
QUIET = (("voters", 3), ("observers", 0), ("clients", 2), ("resign_part", 0.0), ("latency_us", (100, 2_000)))


BEGUN: list[World] = []


@pytest.fixture(autouse=True)
def _end() -> Iterator[None]:
    yield
    while BEGUN:
        BEGUN.pop().close()


def begin(world: World) -> World:
    BEGUN.append(world)
    for node in world.nodes.values():
        node.start()
    for client in world.clients:
        client.start()
    return world


def world_at_work(seconds: int = 5, *changes: tuple[str, int]) -> World:
    """Three voters who know each other and have something to lose."""
    world = begin(World(7, Options(faults=False, changes=(*QUIET, *changes))))
    assert world.run_until(lambda: world.acknowledged >= 3, 30 * S)
    world.run_for(seconds * S)
    return world


NEEDED: dict[type, tuple[type[Fault], ...]] = {
    Resume: (Pause,),
    RestoredBackup: (Backup, Kill),
    RestoreAndCampaign: (Backup, Kill),
}
"""What must have happened before some faults make sense."""

KEPT = (
    ("segment_bytes", 2_000),
    ("snapshot_bytes", 2_000),
    ("snapshot_interval_ms", 0),
    ("retention_bytes", -1),
    ("retention_ms", -1),
)
"""Snapshots, and segments below them that stay."""


def voter(world: World, *, leads: bool) -> SimNode:
    return next(node for node in world.nodes.values() if node.is_leader is leads)


def restart_wiped(world: World) -> SimNode:
    """A voter that does not lead, started on an empty disk."""
    node = voter(world, leads=False)
    node.crash()
    world.fault_budget.note(node, WIPE)
    node.wipe()
    node.start()
    return node


def test_a_disk_that_all_others_know_may_be_wiped() -> None:
    world = world_at_work()
    assert world.fault_budget.judge(voter(world, leads=False), WIPE) is Judgement.SURVIVES


def test_a_wiped_disk_binds_nobody_even_before_its_first_start() -> None:
    world = world_at_work()
    node = voter(world, leads=False)
    node.crash()
    node.wipe()
    assert node.view().durable_election == Election()


def test_the_disk_of_a_lone_voter_may_not() -> None:
    alone = dict(QUIET) | {"voters": 1}
    world = begin(World(7, Options(faults=False, changes=tuple(alone.items()))))
    world.run_for(5 * S)
    assert world.fault_budget.judge(world.nodes[1], WIPE) is Judgement.NEVER


def test_two_at_a_time_may_not() -> None:
    world = world_at_work()
    one, other = [node for node in world.nodes.values() if not node.is_leader]
    world.fault_budget.note(one, WIPE)
    assert world.fault_budget.judge(other, WIPE) is Judgement.NEVER


def test_what_the_disks_show_may_halt_a_cluster_but_not_deceive_it() -> None:
    world = world_at_work()
    one, other = [node for node in world.nodes.values() if not node.is_leader]
    assert world.fault_budget.judge(one, NOTICED) is Judgement.SURVIVES
    world.fault_budget.note(one, NOTICED)
    assert world.fault_budget.judge(other, NOTICED) is Judgement.HALTS
    assert world.fault_budget.majority_remembers()
    world.fault_budget.note(other, NOTICED)
    assert not world.fault_budget.majority_remembers()


def test_a_voter_without_a_past_elects_nobody_who_has_one() -> None:
    """Seed 8749: one of two voters with records lost its sidecar, and the third had never had a record."""
    world = begin(World(7, Options(faults=False, changes=QUIET)))
    budget, nodes = world.fault_budget, list(world.nodes.values())
    assert world.run_until(lambda: all(map(budget.is_known_to_all, nodes)), 30 * S)
    assert budget.majority_remembers()
    nodes[0].crash(down_us=60 * S)
    assert world.run_until(lambda: world.acknowledged >= 3, 30 * S)
    assert budget.majority_remembers()
    forgetful = next(node for node in nodes[1:] if not node.is_leader)
    lost = Harm(identity=True, peers=True, start_counter=0)
    assert budget.judge(forgetful, lost) is Judgement.HALTS
    budget.note(forgetful, lost)
    assert not budget.majority_remembers()


def test_an_old_copy_must_be_older_than_what_the_others_have_seen() -> None:
    world = world_at_work()
    node = voter(world, leads=False)
    assert node.directory is not None
    now = node.directory.start_counter
    assert world.fault_budget.judge(node, Harm(identity=True, start_counter=now)) is Judgement.NEVER
    assert world.fault_budget.judge(node, Harm(identity=True, start_counter=now - 1)) is Judgement.SURVIVES


def test_records_may_go_silently_only_where_a_majority_of_the_others_has_them() -> None:
    world = world_at_work()
    node = voter(world, leads=False)
    silent = Harm(records_from=0)
    world.is_over = True
    world.run_for(5 * S)
    assert world.run_until(
        lambda: len({n.view().durable_end_offset for n in world.nodes.values()}) == 1, 10 * S
    )
    assert world.fault_budget.judge(node, silent) is Judgement.SURVIVES
    other = next(n for n in world.nodes.values() if n is not node and not n.is_leader)
    other.view().durable_end_offset -= 1
    assert world.fault_budget.judge(node, silent) is Judgement.NEVER


def test_a_vote_may_be_forgotten_silently_only_when_nobody_can_use_it() -> None:
    world = world_at_work()
    node = voter(world, leads=False)
    silent = Harm(votes=True)
    assert world.fault_budget.judge(node, silent) is Judgement.SURVIVES
    view = voter(world, leads=True).view()
    view.durable_election = type(view.durable_election)(view.durable_election.epoch - 1)
    assert world.fault_budget.judge(node, silent) is Judgement.NEVER


def test_a_member_that_doubts_a_sound_disk_is_found_out() -> None:
    world = world_at_work()
    node = voter(world, leads=False)
    node.view().is_whole = False
    with fires("SoundDisksAreBelieved"):
        world.fault_budget.look(node)


def test_a_member_that_believes_a_damaged_disk_is_found_out() -> None:
    world = world_at_work()
    node = voter(world, leads=False)
    node.crash()
    world.fault_budget.note(node, NOTICED)  # and then nothing is done to it
    node.start()
    with fires("DamageIsNoticed"):
        world.run_for(3 * S)


def test_who_dies_while_it_mends_a_disk_need_not_notice_the_damage_again() -> None:
    """Seed 143433: a snapshot took the place of a log that was cut short, and then the start died of an older
    snapshot that could not be removed. The next start found nothing wrong.
    """
    world = world_at_work()
    node = voter(world, leads=False)
    node.crash()
    world.fault_budget.note(node, NOTICED)

    def refuse(operation: str, path: Path, size_bytes: int) -> int | None:
        if operation == "pwrite":
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return None

    node.disk_fault = refuse
    node.start()
    assert world.run_until(lambda: bool(node.died_of), 3 * S)
    node.disk_fault = None
    assert world.run_until(lambda: node.id not in world.fault_budget.wounds, 10 * S)


def test_an_election_file_that_the_sidecar_makes_good_need_not_be_noticed() -> None:
    world = world_at_work()
    node, leader = voter(world, leads=False), voter(world, leads=True)
    assert not holds_torn_election(node)
    resign(world, leader)
    before = node.view().durable_election
    assert world.run_until(lambda: node.view().durable_election != before, 5 * S)
    node.cut_power()
    node.fs.damage(ELECTION, "zeroed_sector", 0, world.random)
    assert holds_torn_election(node)
    world.fault_budget.note(node, NOTICED)
    world.fault_budget.may_stay_unnoticed(node)
    node.start()
    world.run_for(3 * S)
    assert node.view().durable_election.epoch > before.epoch
    assert node.id not in world.fault_budget.wounds


def test_spaces_that_an_election_file_loses_need_not_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """They stand behind its line, or before it."""
    world = world_at_work()
    node = voter(world, leads=False)
    node.crash()
    damage, line = node.fs.damage, node.fs.durable_content(ELECTION).strip()

    def cut_spaces(path: Path, *_: object) -> str:
        return damage(path, "truncation", len(line), world.random)

    monkeypatch.setattr(node.fs, "damage", cut_spaces)
    monkeypatch.setattr(fault_disks, "any_of", lambda *_: node)
    assert ElectionBitRot().apply(world)
    assert node.fs.durable_content(ELECTION) == line
    node.start()
    world.run_for(3 * S)
    assert node.id not in world.fault_budget.wounds


def test_who_counts_again_and_lacks_what_was_committed_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wiped voter believes itself whole with the first records that it is given."""
    world = world_at_work(20, ("fetch_bytes", 300))
    try_soundly = Rejoin.try_complete

    def try_early(rejoin: Rejoin, epoch: Epoch, high_watermark: Offset, flushed_offset: Offset) -> bool:
        reached = min(high_watermark, flushed_offset) or -1
        return try_soundly(rejoin, epoch + LATER, reached, flushed_offset)

    monkeypatch.setattr(Rejoin, "try_complete", try_early)
    node = restart_wiped(world)
    with fires("WhoCountsAgainHoldsWhatWasCommitted", f"{node.id} is whole with "):
        world.run_for(10 * S)


def test_who_counts_again_and_doubts_itself_anew_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wiped voter is whole again, and takes the word of one that was away for news of another loss."""
    world = world_at_work()
    try_soundly = Rejoin.try_complete

    def complete_and_forget(rejoin: Rejoin, epoch: Epoch, high_watermark: Offset, flushed: Offset) -> bool:
        is_whole = try_soundly(rejoin, epoch, high_watermark, flushed)
        if is_whole:
            rejoin.unheard, rejoin.not_accepted_by = rejoin.not_accepted_by, frozenset()
        return is_whole

    monkeypatch.setattr(Rejoin, "try_complete", complete_and_forget)
    node = restart_wiped(world)
    world.run_for(5 * S)
    resign(world, voter(world, leads=True))
    assert world.run_until(lambda: node.view().is_whole, 10 * S)
    (away,) = {*world.nodes.values()} - {node, voter(world, leads=True)}
    away.crash()
    away.start()
    with fires("WhoCountsAgainIsBelieved", f"{node.id} was whole again"):
        world.run_for(5 * S)


def test_who_counts_again_may_find_records_lost_on_its_disk() -> None:
    """Bytes rot under a wiped voter before it is whole again; it reads them when somebody fetches them."""
    world = world_at_work()
    node = restart_wiped(world)
    world.run_for(5 * S)
    world.fault_budget.note(node, NOTICED)
    resign(world, voter(world, leads=True))
    assert world.run_until(lambda: node.view().is_whole, 10 * S)
    assert node.parts is not None
    node.parts.driver.deliver(LogDamaged(node.parts.raft_node.log.generation, "at byte 8849"))
    world.run_for(5 * S)
    assert not node.view().is_whole


def with_an_old_copy() -> tuple[World, SimNode]:
    """A voter, down, with a copy of its directory that has two starts fewer than the others know."""
    world = world_at_work()
    node = voter(world, leads=False)
    for _ in range(3):
        node.crash()
        node.start()
        world.run_for(3 * S)
    assert node.directory is not None
    harm = Harm(identity=True, start_counter=node.directory.start_counter - 2)
    node.crash()
    world.fault_budget.note(node, harm)
    return world, node


def test_an_old_copy_that_nobody_met_is_not_started_too_often() -> None:
    world, node = with_an_old_copy()
    assert world.fault_budget.may_start_again(node)
    node.incarnation += 2
    assert not world.fault_budget.may_start_again(node)
    node.start()
    assert not node.is_up


def test_other_damage_to_an_old_copy_does_not_make_its_starts_fewer() -> None:
    """Seed 142604: a sector of an old copy was lost in its second start, and the third, which looked new to a
    voter that had not met it, was taken for the first.
    """
    world, node = with_an_old_copy()
    node.incarnation += 1
    world.fault_budget.note(node, NOTICED)
    assert world.fault_budget.may_start_again(node)
    node.incarnation += 1
    assert not world.fault_budget.may_start_again(node)


def stay_cut_off(world: World) -> None:
    world.calm = lambda: [world.network.cut(1, n) for n in (2, 3)] and world.network.cut(2, 3)  # type: ignore[method-assign]


def leave_one_behind(world: World) -> None:
    behind = voter(world, leads=False).id
    world.calm = lambda: [world.network.cut(behind, n) for n in world.node_ids if n != behind]  # type: ignore[func-returns-value, method-assign]


def lose_a_write(world: World) -> None:
    world.history.append(Operation(9, "key.0", "write", "never written", 1, 2, "ok"))


def refuse_what_is_there(world: World) -> None:
    read = {o.value for o in world.history if o.kind == "read"}
    old = next(o for o in world.history if o.kind == "write" and o.outcome == "ok" and o.value not in read)
    world.history[world.history.index(old)] = Operation(9, old.key, "write", old.value, 1, 2, "failed")


def response_from_the_past(world: World) -> None:
    now = world.now_us
    world.history.append(Operation(9, "key.0", "read", None, now, now + 1, "ok"))


@pytest.mark.parametrize(
    ("wrong", "broken"),
    [
        (stay_cut_off, "Liveness"),
        (lose_a_write, "NothingAcknowledgedIsLost"),
        (refuse_what_is_there, "WhatWasRefusedIsNotThere"),
        (response_from_the_past, "Linearizability"),
        (leave_one_behind, "Convergence"),
    ],
)
def test_the_verdict_sees_what_is_wrong(wrong: Callable[[World], None], broken: str) -> None:
    world = world_at_work(20)
    wrong(world)
    with fires(broken):
        judge(world)


def test_a_sound_world_is_acquitted() -> None:
    judge(world_at_work())


def test_there_are_enough_kinds_of_fault_and_each_has_its_name() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 40


@pytest.mark.parametrize("page", ["CHANGELOG.md", "docs/promises.md"])
def test_the_pages_tell_how_many_kinds_of_fault_there_are(page: str) -> None:
    told = re.search(r"(\d+) kinds of fault of nodes", (ROOT / page).read_text(encoding="utf-8"))
    assert told is not None
    assert int(told[1]) == len(FAULTS)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_every_fault_can_fire_and_is_survived(fault: type) -> None:
    changes = (("voters", 3), ("stale_readers", 2))
    kept = KEPT if issubclass(fault, CoveredSegmentDamage) else ()
    world = begin(World(11, Options(faults=False, changes=(*changes, *kept))))
    fired = False
    for number in range(60):
        world.run_for(2 * S)
        world.random = world.derive(f"{fault.name} {number}")
        if fault in NEEDED and (number < 10 or number % 5 == 0):
            NEEDED[fault][number % len(NEEDED[fault])]().apply(world)
            continue
        fired = fault().apply(world) or fired
        if fired and number > 3:
            break
    assert fired
    world.run_for(5 * S)
    judge(world)


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_snapshot_that_cannot_be_read_is_missed_where_the_log_is_damaged_below_it(is_damaged: bool) -> None:
    world = world_at_work(20, *KEPT)
    if is_damaged:
        assert world.run_until(lambda: CoveredBadSector().apply(world), 30 * S)
    node = next(node for node in world.nodes.values() if world.snapshots.stand_for_damage(node) == is_damaged)
    newest = max(path for path in node.fs.paths() if path.suffix == ".checkpoint")
    assert FailedRead().concerns(world, node, newest)
    assert (node.id in world.fault_budget.wounds) == is_damaged


def test_a_snapshot_that_cannot_be_read_is_missed_where_it_was_to_take_the_place_of_the_log() -> None:
    world = world_at_work(20, *KEPT)
    node = voter(world, leads=False)
    newest = max(path for path in node.fs.paths() if path.suffix == ".checkpoint")
    node.crash()
    assert FailedRead().concerns(world, node, newest)
    assert node.id not in world.fault_budget.wounds
    node.view().durable_end_offset = 1  # the sidecar says more: the process ended within an installation
    assert FailedRead().concerns(world, node, newest)
    assert node.id in world.fault_budget.wounds
