"""Stories of responses that come late: what was said in an older epoch changes nothing in a newer one."""

import pytest

from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.raft import rpc
from kraftd.raft.events import ResponseReceived
from kraftd.raft.rpc import LeaderAndEpoch
from kraftd.types import OffsetAndEpoch
from tests.stories.cluster import Cluster
from tests.stories.test_replication import with_logs


def lead(cluster: Cluster, node_id: int) -> None:
    """Let the leader hand over to this node."""
    assert cluster.leader is not None
    cluster.resign(cluster.leader, node_id)
    cluster.run_until(lambda: cluster.leader == node_id and cluster.has_leader())


@pytest.mark.covers("VOTE-31", "D-14")
def test_a_divergence_of_an_older_epoch_cuts_nothing_in_a_newer_one() -> None:
    """KAFKA-18991. The same node leads again, so only the epoch tells that its response is too old."""
    cluster = with_logs({1: [1, 1, 4], 2: [1, 1, 4], 3: [1, 1, 2, 3]}, epoch=4)
    for n in (1, 2):
        cluster.start(n)
    assert cluster.elect() == 1
    old = LeaderAndEpoch(cluster.raft_node(1).epoch, 1)

    # Node 3 asks where its log leaves the leader's; the response is on its way for long.
    cluster.cut.add((1, 3))
    cluster.start(3)
    asks = cluster.nodes[3]
    cluster.run_until(
        lambda: asks.last_send is not None and isinstance(asks.last_send.request, m.FetchRequest)
    )
    assert asks.last_send is not None
    assert asks.last_send.to == 1
    response = rpc.fetch_response(ErrorCode.NONE, old, high_watermark=2, diverging=OffsetAndEpoch(2, 1))
    late = ResponseReceived(1, asks.last_send.correlation_id, response)
    began_ms = cluster.now_ms

    # Meanwhile node 2 leads, corrects the log of node 3, and hands back.
    lead(cluster, 2)
    cluster.heal()
    cluster.run_until(cluster.has_converged)
    lead(cluster, 1)
    cluster.run_until(cluster.has_converged)
    assert cluster.now_ms - began_ms < cluster.timing.request_timeout_ms, "nobody gave up waiting for it"
    cluster.take_trace()

    cluster.feed(3, late)
    assert "Truncate" not in cluster.take_trace()
    assert not asks.alarms
    token = cluster.append(1)
    cluster.run_until(cluster.has_converged)
    assert cluster.outcome(1, token) == ErrorCode.NONE
    assert cluster.values(3) == cluster.values(1)
