"""Three controllers and three brokers: what the active controller counts of elections, the log tells as well.

Nothing is broken but what the story breaks. All four reasons occur, an event takes several slices, and
batches hold the writes of several events.
"""

from collections import Counter

import pytest

from kraftd.metadata.broker_moments import BrokerMoments, MomentsReader, Place
from kraftd.metadata.election_log import ElectionLog
from kraftd.metadata.election_reasons import Leadership, Reason, leadership_of
from kraftd.metadata.image import EMPTY
from kraftd.metadata.image_builder import apply
from kraftd.metadata.parts.topics import TOPICS
from kraftd.protocol import messages as m
from kraftd.records.frame import decode_record
from kraftd.records.messages import PartitionChangeRecord
from tests.sim.broker_log import MetadataLog
from tests.sim.broker_story import Story
from tests.sim.fault_base import S

PARTITIONS = 7


def told_by(log: MetadataLog) -> dict[tuple[str, str], int]:
    """How many elections of each reason and rule a log tells."""
    reader, image = MomentsReader(), EMPTY
    changes: list[tuple[tuple[bytes, int], Leadership, Leadership, Place]] = []
    for batch in log.batches:
        if batch.is_control:
            continue
        base = batch.end_offset - len(batch.values)
        for offset, value in enumerate(batch.values, base):
            record, before = decode_record(value), image
            image = apply(image, record, offset)
            reader.add(record, offset, base, batch.epoch)
            if isinstance(record, PartitionChangeRecord):
                key = record.topic_id, record.partition_id
                was, now = before[TOPICS].partition(*key), image[TOPICS].partition(*key)
                assert was is not None
                assert now is not None
                place = Place(offset, base, batch.epoch)
                changes.append((key, leadership_of(was), leadership_of(now), place))
    elections: ElectionLog[None] = ElectionLog(BrokerMoments(reader.moments))
    found = [election for change in changes for _, election in elections.changed(*change, None)]
    found += [election for _, election in elections.end()]
    return dict(Counter((one.reason.value, one.rule.value) for one in found))


@pytest.mark.parametrize("slice_records", [3, 256])
def test_what_the_active_controller_counts_its_log_tells(slice_records: int) -> None:
    story = Story(slice_records=slice_records, rebalance_s=5)
    first, second, third = story.brokers
    ids = first.id, second.id, third.id
    topic_id = story.place("t", *[ids] * PARTITIONS)

    def leaders() -> set[int]:
        return {story.partition(topic_id, number).leader for number in range(PARTITIONS)}

    active = story.leader
    first.crash()
    story.until(lambda: leaders() == {second.id})
    first.start()
    story.until(lambda: leaders() == {first.id}, 60 * S)
    first.stop()
    story.until(lambda: leaders() == {second.id})
    first.start()
    story.until(lambda: story.cluster.is_well, 60 * S)
    moved = m.AlterPartitionReassignmentsRequestReassignablePartition(0, (third.id,))
    topics = (m.AlterPartitionReassignmentsRequestReassignableTopic("t", (moved,)),)
    story.ask(m.AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=30_000))
    story.until(lambda: bool(story.partition(topic_id).replicas == (third.id,)))
    story.run(2 * S)
    assert story.leader is active
    assert active.parts is not None
    counted = {
        (reason.value, rule.value): count
        for (reason, rule), count in active.parts.controller.decided_elections.items()
    }
    assert counted == told_by(second.disk.log)
    assert {reason for reason, _ in counted} == {reason.value for reason in Reason} - {"unknown"}
    story.world.close()
