"""What follows from what a partition shall become: reassignments that end, who is eligible, new epochs.

The rules themselves are compared with Kafka's in `tests/interop/test_partition_changes.py`; here is what each
is there for.
"""

import pytest

from kraftd.controller.partitions.election import STEPS, Candidates, Elected, ElectionKind, elect
from kraftd.controller.partitions.partition_change_builder import Rules, Target, partition_change
from kraftd.metadata.election_reasons import Rule
from kraftd.metadata.parts.topics.partitions import UNASSIGNED
from kraftd.records.messages import PartitionChangeRecord
from tests.unit.controller.cluster import directory, led

BROKERS = frozenset(range(1, 6))


def rules(*, level=30, elr=False, min_isr=1, gone=()):
    return Rules(level, elr, min_isr, lambda broker: broker in BROKERS - {*gone}, directory)


def change(partition, target=None, election=ElectionKind.ONLINE, **said):
    return partition_change(partition, target or Target(), election, rules(**said))


# -- reassignments


def test_a_reassignment_ends_once_what_is_added_is_in_sync_whatever_ails_the_others():
    partition = led((1, 2, 3, 4), isr=(1, 2), adding_replicas=(3,), removing_replicas=(4,))
    assert change(partition, Target(isr=(1, 3))) == PartitionChangeRecord(
        topic_id=partition.topic_id,
        partition_id=partition.partition_id,
        isr=(1, 3),
        leader=1,
        replicas=(1, 2, 3),
        adding_replicas=(),
        removing_replicas=(),
        directories=(UNASSIGNED,) * 3,
    )


def test_a_reassignment_to_fewer_replicas_waits_for_all_that_stay():
    partition = led((1, 2, 3, 4), isr=(1, 4), removing_replicas=(3, 4))
    waiting = change(partition, Target(isr=(1,)))
    assert waiting.replicas is None
    done = change(partition, Target(isr=(1, 2, 4)))
    assert (done.replicas, done.isr) == ((1, 2), (1, 2))


def test_a_reassignment_that_nobody_in_sync_would_stay_of_goes_on():
    partition = led((1, 2), isr=(2,), removing_replicas=(2,))
    assert change(partition) is None


def test_a_replica_that_is_removed_is_not_eligible_any_more():
    partition = led((1, 2, 3), isr=(1, 3), adding_replicas=(), removing_replicas=(3,))
    done = change(partition, Target(isr=(1, 2, 3)), elr=True, min_isr=3)
    assert done.replicas == (1, 2)
    assert done.eligible_leader_replicas is None


def test_a_new_replica_is_where_its_broker_puts_it():
    partition = led((1, 2), directories=(directory(1), directory(2)))
    added = change(partition, Target(replicas=(1, 2, 3), adding=(3,)))
    assert added.directories == (directory(1), directory(2), directory(3))
    assert change(partition, Target(replicas=(1, 2, 3), adding=(3,)), level=16).directories is None


def test_the_leader_learns_by_a_new_epoch_that_a_replica_left():
    partition = led((1, 2, 3), isr=(1, 2))
    assert change(partition, Target(replicas=(1, 2))).leader == 1
    assert change(partition, Target(replicas=(1, 2, 3, 4))).leader == -2


# -- eligible leader replicas


@pytest.mark.parametrize(("min_isr", "eligible"), [(1, None), (2, None), (3, (3,))])
def test_who_leaves_an_isr_that_is_large_enough_without_it_is_not_eligible(min_isr, eligible):
    left = change(led((1, 2, 3)), Target(isr=(1, 2)), elr=True, min_isr=min_isr)
    assert left.eligible_leader_replicas == eligible


def test_without_their_feature_nobody_is_eligible_and_the_isr_is_never_empty():
    left = change(led((1, 2), isr=(1,)), Target(isr=()), min_isr=2, gone=(1,))
    assert (left.leader, left.isr, left.eligible_leader_replicas) == (-1, None, None)


def test_who_leads_uncleanly_while_the_partition_recovers_already_changes_nothing_about_that():
    """As in Kafka, the record tells of a recovery state only where that is another one."""
    partition = led((1, 2), isr=(1,), leader_recovery_state=1)
    elected = change(partition, election=ElectionKind.UNCLEAN, gone=(1,))
    assert (elected.leader, elected.isr, elected.leader_recovery_state) == (2, (2,), -1)
    first = change(led((1, 2), isr=(1,)), election=ElectionKind.UNCLEAN, gone=(1,))
    assert (first.leader, first.isr, first.leader_recovery_state) == (2, (2,), 1)


# -- elections


def candidates(*, leader=1, isr=(1, 2), elr=(), last=(), active=(1, 2, 3)):
    return Candidates(leader, (1, 2, 3), isr, elr, last, True, lambda broker: broker in active)


def test_every_kind_of_election_has_its_steps():
    assert set(STEPS) == set(ElectionKind)


@pytest.mark.parametrize(
    ("kind", "given", "elected"),
    [
        (ElectionKind.ONLINE, {}, (1, False, Rule.IN_SYNC)),
        (ElectionKind.ONLINE, {"leader": 2}, (2, False, Rule.IN_SYNC)),
        (ElectionKind.PREFERRED, {"leader": 2}, (1, False, Rule.PREFERRED_REPLICA)),
        (ElectionKind.PREFERRED, {"leader": 2, "active": (2, 3)}, (2, False, Rule.IN_SYNC)),
        (ElectionKind.PREFERRED, {"active": (2, 3)}, (2, False, Rule.IN_SYNC)),
        (ElectionKind.ONLINE, {"active": (2, 3)}, (2, False, Rule.IN_SYNC)),
        (ElectionKind.ONLINE, {"active": (3,)}, (-1, False, Rule.NOBODY)),
        (ElectionKind.UNCLEAN, {"active": (3,)}, (3, True, Rule.UNCLEAN)),
        (ElectionKind.UNCLEAN, {"active": (2, 3)}, (2, False, Rule.IN_SYNC)),
        (ElectionKind.ONLINE, {"isr": (), "elr": (3,)}, (3, False, Rule.ELIGIBLE)),
        (ElectionKind.ONLINE, {"isr": (1,), "elr": (3,), "active": (3,)}, (-1, False, Rule.NOBODY)),
        (ElectionKind.ONLINE, {"isr": (), "last": (3,)}, (3, True, Rule.LAST_KNOWN_LEADER)),
        (ElectionKind.ONLINE, {"isr": (), "last": (3,), "active": (1, 2)}, (-1, False, Rule.NOBODY)),
        (ElectionKind.ONLINE, {"isr": (), "last": (2, 3)}, (-1, False, Rule.NOBODY)),
        (ElectionKind.UNCLEAN, {"isr": (), "active": ()}, (-1, False, Rule.NOBODY)),
    ],
)
def test_who_is_elected(kind, given, elected):
    assert elect(kind, candidates(**given)) == Elected(*elected)
