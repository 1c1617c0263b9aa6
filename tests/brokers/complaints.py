"""What brokers complain about, on kraftd's controllers as on Kafka's: every other line at level WARN or above
is a finding.

The lists were made by running the same tests on both (`--controllers kafka`). Each pattern says why the line
is there; what an operator should know of it stands in docs/brokers.md.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from tests.brokers.cluster import BrokerCluster
from tests.process.cluster import Cluster

WHILE_ALL_ARE_UP = (
    # Leaders change without a fault, too: they are balanced every five minutes.
    r"ReplicaFetcherThread: .* Partition \S+ marked as failed",  # the follower has not read of it yet
    r"UnifiedLog: .* Non-monotonic update of high watermark",  # the new leader had not heard how far all are
    r"Auto topic creation failed for \S+ with error 'TOPIC_ALREADY_EXISTS'",  # two brokers asked at once
    r"Expected partition \S+ with topic id \S+ to exist, but it was missing. Creating",  # partitions added
    r"Received UNKNOWN_TOPIC_(OR_PARTITION|ID) from the leader",  # one broker deleted it before the other
    r"ReplicaFetcherThread: .* Error in response for fetch request",  # the other broker closed a connection
)
AFTER_A_FAULT = (
    r"NetworkClient: .* Connection to node \S+ .* could not be established",  # broker or controller is gone
)
AFTER_A_LOST_DIRECTORY = (
    r"LogDirFailureChannel: Error while ",
    r"LogManager: (Stopping serving logs in dir|Logs for partitions .* are offline)",
    r"LogManager: Exception while deleting Log\(dir=",  # a topic was deleted up to a minute before
    r"KafkaScheduler: Uncaught exception in scheduled task 'delete-producer-snapshot'",  # of a segment there
    r"LogCleaner: (Stopping cleaning logs in dir|Failed to access checkpoint file)",
    r"ReplicaManager: .* (Stopp\w+ serving replicas in dir|stopped fetcher for partitions)",
    r"BrokerServer: Exception while execution the action",  # of the request that met the failing disk
    r"Unable to bring up new local leader \S+ with topic id \S+ because it resides in an offline log dir",
    r"Unable to start fetching \S+ with topic ID \S+ due to a storage error",  # a new follower
    r"ReplicaFetcherThread: .* Error (for|while processing data for) partition",  # asked the failing disk
)

DEFECTS = ("decision_failed", "connection_broken", "unserved_api", "envelope_refused")
"""What no broker and no client of theirs may ever make a controller of kraftd say."""


@contextmanager
def judged(cluster: BrokerCluster, *expected: str) -> Iterator[None]:
    """Fail if a broker says meanwhile what none of these patterns explains, or a controller owns a defect."""
    marks = {broker.node_id: broker.mark() for broker in cluster}
    defects = defects_of(cluster)
    yield
    said = unexplained(cluster, marks, expected)
    assert not said, "\n".join(said)
    assert defects_of(cluster) == defects, f"{defects_of(cluster)}, and before {defects}"


def unexplained(cluster: BrokerCluster, marks: Mapping[int, int], expected: Sequence[str]) -> list[str]:
    """What brokers said at level WARN or above since their marks, but for what the patterns explain."""
    explained = re.compile("|".join(expected))
    said = [line for broker in cluster for line in broker.problems(marks.get(broker.node_id, 0))]
    return [line for line in said if not explained.search(line)]


def defects_of(cluster: BrokerCluster) -> dict[str, int]:
    """How often kraftd's controllers have told of each kind of defect; Kafka's have no such lines."""
    quorum = cluster.quorum
    nodes = list(quorum) if isinstance(quorum, Cluster) else []
    return {event: sum(node.count(event) for node in nodes) for event in DEFECTS}
