"""The judge of brokers sees what he is there for: small clusters in which one promise is broken."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import pytest

from kraftd.audit.invariant import Violation
from kraftd.errors import ErrorCode
from kraftd.metadata.parts.topics.builder import TopicsBuilder
from kraftd.protocol import messages as m
from kraftd.protocol.codec import Buffer
from kraftd.protocol.kafka_codec import KAFKA, KafkaCodec
from kraftd.raft.rpc import LeaderAndEpoch, fetch_response
from kraftd.types import NO_NODE
from tests.firing import fires
from tests.sim.admin_clients import AdminClient, Known
from tests.sim.broker_process import SimBroker
from tests.sim.broker_story import SESSION_US, Story
from tests.sim.fault_base import S
from tests.sim.fault_budget import Harm


@pytest.fixture
def story() -> Iterator[Story]:
    story = Story()
    yield story
    story.world.close()


def cut_off(story: Story) -> SimBroker:
    """A broker that no controller hears, nor it them."""
    broker = story.brokers[0]
    for node_id in story.world.node_ids:
        story.world.network.cut(node_id, broker.id)
    return broker


def test_a_broker_that_stays_fenced_is_seen(story: Story) -> None:
    story.cluster.judge(1 * S)
    broker = cut_off(story)
    story.until(lambda: story.cluster.fencings[broker.id] > 0, 2 * SESSION_US)
    with fires("EveryLiveBrokerIsBack", f"{broker.id}: .*is_fenced=True"):
        story.cluster.judge(5 * S)


def test_a_partition_that_nobody_leads_though_somebody_could_is_seen(story: Story) -> None:
    ids = tuple(broker.id for broker in story.brokers)
    topic_id = story.place("t", ids)
    story.run(5 * S)  # each replica is in a directory now: nothing is changed any more
    story.cluster.auditor.partitions[topic_id, 0] = msgspec.structs.replace(
        story.partition(topic_id), leader=NO_NODE
    )
    with fires("EveryLiveBrokerIsBack", topic_id.hex()[-8:]):
        story.cluster.judge(5 * S)


def test_a_broker_that_does_not_follow_is_seen(story: Story) -> None:
    published = max(broker.disk.log.published_offset for broker in story.brokers)
    story.cluster.converge(published, 5 * S)
    broker = cut_off(story)
    offset = broker.disk.log.published_offset
    assert story.ask(_creation("t"), story.brokers[1]).topics[0].error_code == 0
    story.until(lambda: story.brokers[1].disk.log.published_offset > offset + 1)
    with fires("BrokersFollow", rf"\b{broker.id}: {broker.disk.log.published_offset}\b"):
        story.cluster.converge(story.brokers[1].disk.log.published_offset, 5 * S)


def test_a_topic_that_a_client_was_told_of_and_is_gone_is_seen(story: Story) -> None:
    client = AdminClient(1, story.world, story.world.derive("admin 1"))
    story.cluster.admins.append(client)
    assert story.create("t") == 0
    client.topics["t"] = Known("t", 1, True)
    story.cluster.converge(story.world.auditor.committed[0], 5 * S)
    deletion = m.DeleteTopicsRequest(
        topics=(m.DeleteTopicsRequestDeleteTopicState(name="t"),), timeout_ms=30_000
    )
    assert story.ask(deletion).responses[0].error_code == 0
    with fires("TopicsAreAsAcknowledged", "'t'.* is not there"):
        story.cluster.converge(story.world.auditor.committed[0], 5 * S)


def test_an_image_that_lacks_what_a_record_changed_is_seen(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.place("t", tuple(broker.id for broker in story.brokers))
    monkeypatch.setattr(TopicsBuilder, "change_partition", lambda *_: None)
    story.brokers[0].crash()  # whoever is fenced leaves the ISR: a change of the partition
    with fires("ImagesAreWhatTheRecordsSay", "node .: .* in the image, and the records made it"):
        story.run(2 * SESSION_US)


Encode = Callable[[int, int, Any, Sequence[Buffer]], list[Buffer]]
encode = KAFKA.encode_response


@pytest.mark.covers("D-36")
@pytest.mark.parametrize(
    ("wrong", "seen"),
    [
        pytest.param(
            lambda version, number, *rest: encode(version, number + 1, *rest),
            r"correlation \d+ instead of \d+",
            id="of another request",
        ),
        pytest.param(
            lambda *response: encode(*response) * 2,
            r"(a response that nobody asked for|correlation \d+ instead of \d+)",
            id="twice",
        ),
    ],
)
def test_a_response_that_is_not_the_one_that_is_due_is_seen(
    story: Story, monkeypatch: pytest.MonkeyPatch, wrong: Encode, seen: str
) -> None:
    story.run(5 * S)
    monkeypatch.setattr(KafkaCodec, "encode_response", lambda _, *response: wrong(*response))
    with fires("ResponsesComeInOrder", rf"of m\d+ got {seen}"):
        story.run(5 * S)


def test_only_a_disk_that_was_hurt_explains_an_unknown_error_of_a_fetch(story: Story) -> None:
    leader, broker = story.leader, story.brokers[0]
    told_by = LeaderAndEpoch(leader_id=leader.id, epoch=story.world.leaders[-1][0])
    response = fetch_response(ErrorCode.UNKNOWN_SERVER_ERROR, told_by)
    with pytest.raises(Violation, match="FetchesAreServed: a broker is told error -1 of the partition"):
        broker._fetched(response)
    story.world.fault_budget.note(leader, Harm(noticed=True))
    broker._fetched(response)


def _creation(name: str) -> m.CreateTopicsRequest:
    topic = m.CreateTopicsRequestCreatableTopic(name=name, num_partitions=1, replication_factor=2)
    return m.CreateTopicsRequest(topics=(topic,), timeout_ms=30_000)
