"""States of replicas: each of the 42 moves between two of them, and what each follows from."""

from collections.abc import Mapping
from itertools import pairwise, permutations

import pytest

from kraftd.metadata.parts.topics.partitions import LOST, MIGRATING, UNASSIGNED
from kraftd.metadata.replica_states import (
    MOVES,
    ROUTES,
    ReplicaState,
    assigned_state,
    lost_in,
    lost_when_removed,
    removed_state,
    replica_state,
    steps,
)
from kraftd.records.messages import PartitionRecord, RegisterBrokerRecord
from kraftd.types import Uuid

LEGAL: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "NonExistentReplica": {
        "NewReplica": (),
        "OnlineReplica": ("NewReplica",),
        "OfflineReplica": ("NewReplica",),
    },
    "NewReplica": {
        "OnlineReplica": (),
        "OfflineReplica": (),
        "ReplicaDeletionStarted": ("OfflineReplica",),
    },
    "OnlineReplica": {"OfflineReplica": (), "ReplicaDeletionStarted": ("OfflineReplica",)},
    "OfflineReplica": {
        "OnlineReplica": (),
        "NewReplica": (),
        "ReplicaDeletionStarted": (),
        "ReplicaDeletionIneligible": ("ReplicaDeletionStarted",),
    },
    "ReplicaDeletionStarted": {
        "ReplicaDeletionSuccessful": (),
        "ReplicaDeletionIneligible": (),
        "OfflineReplica": ("ReplicaDeletionIneligible",),
    },
    "ReplicaDeletionSuccessful": {"NonExistentReplica": ()},
    "ReplicaDeletionIneligible": {
        "OfflineReplica": (),
        "ReplicaDeletionStarted": ("OfflineReplica",),
        "ReplicaDeletionSuccessful": ("OfflineReplica", "ReplicaDeletionStarted"),
    },
}
"""By hand: where a replica can go, and through which states."""

HERE, THERE = b"h" * 16, b"t" * 16


def broker(*, fenced: bool = False, shuts_down: bool = False, named: bool = True) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=1,
        broker_epoch=7,
        fenced=fenced,
        in_controlled_shutdown=shuts_down,
        log_dirs=(HERE,) if named else (),
    )


@pytest.mark.parametrize(("before", "after"), [*permutations(ReplicaState, 2)], ids=lambda one: one.name)
def test_a_replica_moves_by_the_table_and_no_other_way(before: ReplicaState, after: ReplicaState) -> None:
    between = LEGAL[before.label].get(after.label)
    expected = () if between is None else (*between, after.label)
    assert tuple(one.label for one in steps(before, after)) == expected


def test_every_route_is_made_of_moves() -> None:
    for (before, after), between in ROUTES.items():
        assert (before, after) not in MOVES
        assert all(move in MOVES for move in pairwise((before, *between, after)))


@pytest.mark.parametrize(
    ("of", "directory", "state"),
    [
        (broker(), HERE, ReplicaState.ONLINE),
        (broker(shuts_down=True), HERE, ReplicaState.ONLINE),
        (broker(), MIGRATING, ReplicaState.ONLINE),
        (broker(named=False), HERE, ReplicaState.ONLINE),
        (broker(), UNASSIGNED, ReplicaState.NEW),
        (broker(fenced=True), UNASSIGNED, ReplicaState.OFFLINE),
        (broker(fenced=True), HERE, ReplicaState.OFFLINE),
        (None, HERE, ReplicaState.OFFLINE),
        (broker(), LOST, ReplicaState.OFFLINE),
        (broker(named=False), LOST, ReplicaState.OFFLINE),
        (broker(), THERE, ReplicaState.OFFLINE),
    ],
)
def test_an_assigned_replica_is_what_its_broker_and_its_directory_make_it(
    of: RegisterBrokerRecord | None, directory: Uuid, state: ReplicaState
) -> None:
    assert assigned_state(of, directory) is state


def test_the_directory_of_a_replica_is_found_by_its_place() -> None:
    partition = PartitionRecord(replicas=(2, 1), directories=(LOST, HERE))
    assert replica_state(partition, 1, broker()) is ReplicaState.ONLINE
    assert replica_state(partition, 2, broker()) is ReplicaState.OFFLINE


def test_what_is_not_assigned_does_not_exist() -> None:
    partition = PartitionRecord(replicas=(2,), directories=(HERE,))
    assert replica_state(partition, 1, broker()) is ReplicaState.NON_EXISTENT
    assert replica_state(None, 1, broker()) is ReplicaState.NON_EXISTENT


@pytest.mark.parametrize(
    ("reported", "is_up", "state"),
    [
        (-1, True, ReplicaState.DELETION_STARTED),
        (99, True, ReplicaState.DELETION_STARTED),
        (100, True, ReplicaState.DELETION_SUCCESSFUL),
        (99, False, ReplicaState.DELETION_INELIGIBLE),
        (100, False, ReplicaState.DELETION_SUCCESSFUL),
    ],
)
def test_a_removed_replica_is_gone_once_its_broker_has_read_that(
    reported: int, is_up: bool, state: ReplicaState
) -> None:
    assert removed_state(100, reported, is_up=is_up) is state


@pytest.mark.parametrize("reported", [-1, 99, 100])
@pytest.mark.parametrize("is_up", [False, True])
def test_what_is_removed_from_an_offline_directory_stays_whatever_its_broker_has_read(
    reported: int, is_up: bool
) -> None:
    assert removed_state(100, reported, is_up=is_up, is_lost=True) is ReplicaState.DELETION_INELIGIBLE


@pytest.mark.parametrize(
    ("of", "directory", "epoch"),
    [
        (broker(), HERE, None),
        (broker(), THERE, 7),
        (broker(fenced=True), THERE, 7),
        (broker(named=False), THERE, None),
        (broker(), LOST, 7),
        (broker(named=False), LOST, 7),
        (broker(), UNASSIGNED, None),
        (broker(), MIGRATING, None),
        (None, THERE, None),
    ],
)
def test_whether_a_directory_was_lost_when_a_replica_was_taken_away(
    of: RegisterBrokerRecord | None, directory: Uuid, epoch: int | None
) -> None:
    assert lost_when_removed(of, directory) == epoch


@pytest.mark.parametrize(
    ("before", "of", "directory", "after"),
    [
        (None, broker(), HERE, None),
        (None, broker(), THERE, 7),
        (None, broker(named=False), THERE, None),
        (None, broker(), MIGRATING, None),
        (None, None, THERE, None),
        (3, broker(), HERE, None),
        (3, broker(), THERE, 7),
        (3, None, HERE, 3),
        (7, broker(), HERE, 7),
        (3, broker(), LOST, None),
        (7, broker(), LOST, 7),
        (None, broker(), LOST, None),
    ],
)
def test_a_directory_that_was_lost_is_back_with_a_start_that_has_it(
    before: int | None, of: RegisterBrokerRecord | None, directory: Uuid, after: int | None
) -> None:
    assert lost_in(before, of, directory) == after
