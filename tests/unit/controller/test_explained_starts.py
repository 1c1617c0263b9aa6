"""What is told of a replica whose broker must be started anew is what its registration and unfencing do."""

from itertools import product

import pytest

from kraftd.controller.context import ControllerSettings, ReadContext
from kraftd.controller.partitions import broker_changes
from kraftd.controller.partitions.explaining import explain_partition
from kraftd.controller.sessions import BrokerSessions
from kraftd.metadata.partition_conditions import DirectoryState, LeadsThen
from kraftd.metadata.parts.topics.partitions import LOST
from kraftd.protocol.messages import ExplainPartitionRequest
from kraftd.records.messages import UnregisterBrokerRecord
from kraftd.types import Now
from tests.unit.controller.cluster import FENCE, UNFENCE, Cluster, directory, epoch_of, led

NOTHING, CLEAN, LOSSY = LeadsThen.NOTHING, LeadsThen.WITHOUT_LOSS, LeadsThen.MAY_LACK_RECORDS
REPLICAS = (1, 2)
GONE, KEPT = directory(1), directory(7)


def offline(isr=(), eligible=(), last_known=(), first_directory=GONE):
    """A partition that nobody leads; the directory of its first replica is none of the broker's."""
    return led(
        REPLICAS,
        isr,
        -1,
        eligible_leader_replicas=eligible,
        last_known_elr=last_known,
        directories=(first_directory, directory(2)),
    )


def a_cluster(partition, *, elr, is_fenced=False, unclean="false"):
    """Broker 1 has lost the directory of its replica, broker 2 is fenced."""
    cluster = Cluster(brokers=(2,), elr=elr)
    cluster.register(1, (KEPT,), fenced=is_fenced)
    cluster.change(2, fenced=FENCE)
    cluster.settings = ControllerSettings(static_configs={"unclean.leader.election.enable": unclean})
    return cluster, cluster.topic("t", partition)


def explained(cluster):
    context = ReadContext(cluster.image, 7, BrokerSessions(9_000), Now(0, 0), cluster.settings)
    return explain_partition(context, ExplainPartitionRequest("t", 0)).replicas


def after_a_start(cluster, topic):
    """The partition once broker 1 was started anew with its directory, after a stop that proves nothing."""
    cluster.work_off(broker_changes.restarted(1, clean=False))
    cluster.register(1, (GONE, KEPT), fenced=True)
    cluster.change(1, fenced=UNFENCE)
    cluster.work_off(broker_changes.unfenced(1))
    return cluster.partition(topic)


@pytest.mark.parametrize("is_fenced", [False, True])
@pytest.mark.parametrize(
    ("elr", "partition", "leads"),
    [
        pytest.param(True, offline((), (1,), (1,)), LOSSY, id="it led last"),
        pytest.param(True, offline((), (1,), ()), NOTHING, id="who led last is not known"),
        pytest.param(True, offline((), (1,), (2,)), NOTHING, id="another one led last"),
        pytest.param(True, offline((), (1, 2), (1,)), NOTHING, id="another one is eligible"),
        pytest.param(True, offline((1,)), NOTHING, id="in sync from before eligible ones were kept"),
        pytest.param(True, offline((), (1,), (1,), LOST), LOSSY, id="nobody knows in which directory"),
        pytest.param(False, offline((1,)), LOSSY, id="without elr the last one in sync stays so"),
        pytest.param(False, offline((1, 2)), NOTHING, id="without elr another one is in sync"),
    ],
)
def test_a_directory_that_failed_comes_back_with_a_start_that_counts_as_after_a_crash(
    elr, partition, leads, is_fenced
):
    """A Kafka broker tells of an orderly stop only if each of its directories does."""
    cluster, _ = a_cluster(partition, elr=elr, is_fenced=is_fenced)
    replica, _ = explained(cluster)
    assert (replica.directory_state, replica.leads) == (DirectoryState.GONE, leads)


def test_of_a_broker_that_is_not_registered_no_stop_was_in_order():
    """Kafka's controllers leave it in the ELR; its registration takes it out."""
    cluster, _ = a_cluster(offline((), (1,), (1,)), elr=True)
    cluster.apply(UnregisterBrokerRecord(1, epoch_of(1)))
    assert explained(cluster)[0].leads == LOSSY


@pytest.mark.parametrize(("is_gone", "leads"), [(True, LOSSY), (False, CLEAN)])
def test_without_elr_only_a_failed_directory_costs_what_was_not_flushed(is_gone, leads):
    """One that is merely fenced was elected cleanly, on Kafka's controllers too."""
    partition = offline((1,), first_directory=GONE if is_gone else KEPT)
    cluster, _ = a_cluster(partition, elr=False, is_fenced=True)
    assert explained(cluster)[0].leads == leads


SETS = ((), (1,), (2,), (1, 2))


@pytest.mark.parametrize(
    ("elr", "unclean", "seen"),
    [
        (False, "false", {NOTHING, LOSSY}),
        (False, "true", {LOSSY}),
        (True, "false", {NOTHING, LOSSY}),
        (True, "true", {LOSSY}),
    ],
)
def test_what_is_told_of_such_a_start_is_what_it_does(elr, unclean, seen):
    outcomes = set()
    for isr, eligible, last_known in product(SETS, SETS, SETS):
        if not elr and (eligible or last_known):
            continue
        cluster, topic = a_cluster(offline(isr, eligible, last_known), elr=elr, unclean=unclean)
        told = explained(cluster)[0].leads
        after = after_a_start(cluster, topic)
        # Whoever is elected, and however: what was not flushed when the directory failed is lost.
        leads = LOSSY if after.leader == 1 else NOTHING
        assert told == leads, (isr, eligible, last_known)
        outcomes.add(told)
    assert outcomes == seen
