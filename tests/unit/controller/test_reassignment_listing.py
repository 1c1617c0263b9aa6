"""ListPartitionReassignments: what is being moved, of all partitions or of those asked about."""

import pytest

from kraftd.controller.partitions.listing import list_partition_reassignments, refuse
from kraftd.errors import ErrorCode
from kraftd.protocol.messages import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequestListPartitionReassignmentsTopics,
    ListPartitionReassignmentsResponseOngoingPartitionReassignment,
    ListPartitionReassignmentsResponseOngoingTopicReassignment,
)
from kraftd.records.messages import PartitionChangeRecord
from tests.unit.controller.cluster import Cluster, led

Partition = ListPartitionReassignmentsResponseOngoingPartitionReassignment
Topic = ListPartitionReassignmentsResponseOngoingTopicReassignment

ADDING = led((1, 2, 3), isr=(1, 2), adding_replicas=(3,))
REMOVING = led((1, 2, 3), removing_replicas=(2,))
AT_REST = led((1, 2))


@pytest.fixture
def cluster():
    cluster = Cluster()
    cluster.topic("z", ADDING, AT_REST, REMOVING)
    cluster.topic("a", REMOVING)
    cluster.topic("quiet", AT_REST)
    return cluster


def moving(cluster, asked=None):
    topics = None
    if asked is not None:
        one = ListPartitionReassignmentsRequestListPartitionReassignmentsTopics
        topics = tuple(one(name, ids) for name, ids in asked.items())
    response = list_partition_reassignments(cluster.image, ListPartitionReassignmentsRequest(topics=topics))
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    return list(response.topics)


def test_all_that_is_moved_is_listed_and_nothing_else(cluster):
    assert moving(cluster) == [
        Topic("a", (Partition(0, (1, 2, 3), (), (2,)),)),
        Topic("z", (Partition(0, (1, 2, 3), (3,), ()), Partition(2, (1, 2, 3), (), (2,)))),
    ]


def test_what_is_asked_about_is_looked_at(cluster):
    asked = {"z": (2, 1, 7), "quiet": (0,), "missing": (0,)}
    assert moving(cluster, asked) == [Topic("z", (Partition(2, (1, 2, 3), (), (2,)),))]
    assert moving(cluster, {}) == []


def test_a_refusal_names_what_was_asked_about():
    named = ListPartitionReassignmentsRequestListPartitionReassignmentsTopics("a", (2, 0))
    error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    told = refuse(ListPartitionReassignmentsRequest(topics=(named,)), error, "no")
    assert (told.error_code, told.error_message) == (error, "no")
    assert told.topics == (Topic("a", (Partition(2), Partition(0))),)
    assert refuse(ListPartitionReassignmentsRequest(topics=None), error, "no").topics == ()
    many = ListPartitionReassignmentsRequestListPartitionReassignmentsTopics("a", tuple(range(1_000_000)))
    (topic,) = refuse(ListPartitionReassignmentsRequest(topics=(many, many)), error, "no").topics
    assert 0 < len(topic.partitions) < 1_000_000, "a response has an end"


def test_what_has_arrived_is_not_listed_any_more(cluster):
    assert [one.name for one in moving(cluster)] == ["a", "z"]
    cluster.apply(PartitionChangeRecord(0, b"a".ljust(16, b"_"), removing_replicas=()))
    assert [one.name for one in moving(cluster)] == ["z"]
