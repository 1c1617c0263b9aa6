"""Oracle 2: Kafka's own classes and ours fold the same legal records, and their images write the same ones.

Snapshots of real clusters cannot show a third of the fold: eligible leader replicas that are cleared,
recovery states, fencing, directories, transactions over several batches. Here are more than 100,000 seeded
records of every kind and version. What Kafka is known to get wrong is told exactly, record by record
(`known_defects`); anything else that differs fails.
"""

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from strategies import EVERY_RECORD

from kraftd.metadata.feature_levels import METADATA_VERSION
from kraftd.records import messages as m
from kraftd.records.frame import AnyRecord, decode_record, encode_record
from tests.interop.folding import Told, compare, differences, kafkas_images, told_by
from tests.interop.known_defects import known_differences
from tests.interop.legal_records import LEVELS
from tests.interop.legal_world import LEVELS_WITH_MIGRATION
from tests.interop.peer import Kafka
from tests.unit.metadata.test_real_logs import batches, directories, place

SEEDS = range(1, 11)
SIZE = 10_200
SEEDS_OF_OLDER = range(101, 103)
TIMES = 120
"""How often the images of a log are compared, at least."""


@pytest.fixture(scope="module")
def told(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Told]:
    return told_by(kafka, tmp_path_factory.mktemp("fold"), SEEDS, SIZE, TIMES)


@pytest.fixture(scope="module")
def told_by_older(older_kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Told]:
    folder = tmp_path_factory.mktemp("older")
    return told_by(older_kafka, folder, SEEDS_OF_OLDER, SIZE, TIMES, LEVELS_WITH_MIGRATION)


@pytest.mark.covers("D-18")
@pytest.mark.parametrize("seed", SEEDS)
def test_our_image_is_kafkas(told: dict[int, Told], seed: int) -> None:
    assert len(told[seed].images) >= TIMES
    compare(told[seed])


@pytest.mark.covers("D-18")
@pytest.mark.parametrize("seed", SEEDS_OF_OLDER)
def test_our_image_is_an_older_kafkas_that_still_knew_zookeeper(
    told_by_older: dict[int, Told], seed: int
) -> None:
    compare(told_by_older[seed])


def level_of(batches: list[tuple[bytes, ...]]) -> int:
    """The level at which a log begins, 0 if none is in its first batches."""
    records = (decode_record(value) for values in batches[:3] for value in values)
    return next((r.feature_level for r in records if getattr(r, "name", None) == METADATA_VERSION), 0)


@pytest.mark.covers("D-18")
def test_our_image_of_a_real_log_is_kafkas(kafka: Kafka, tmp_path: Path) -> None:
    """Of one log a cluster: one that begins at its beginning, at a level that Kafka still reads."""
    whole = {place(path)[0]: path for path in directories() if (path / f"{0:020}.log").exists()}
    logs = [
        [tuple(batch.values()) for batch in batches(path) if not batch.is_control] for path in whole.values()
    ]
    logs = [log for log in logs if level_of(log) >= LEVELS[0]]
    assert logs
    for log, images in zip(logs, kafkas_images(kafka, logs, tmp_path, TIMES), strict=True):
        compare(Told(log, images, list(known_differences(log))))


# --- what the logs hold -------------------------------------------------------------------------------------


def all_values(told: dict[int, Told]) -> list[bytes]:
    return [value for log in told.values() for values in log.batches for value in values]


def test_the_logs_hold_100_000_records_of_every_kind_and_version(
    told: dict[int, Told], told_by_older: dict[int, Told]
) -> None:
    values = all_values(told)
    assert len(values) >= 100_000
    found = Counter((value[1], value[2]) for value in values)
    assert min(found.values()) > 10
    assert found.keys() == {(message.key, version) for message, version in EVERY_RECORD}
    brokers = [
        r for r in map(decode_record, all_values(told_by_older)) if isinstance(r, m.RegisterBrokerRecord)
    ]
    assert any(broker.is_migrating_zk_broker for broker in brokers)


def test_the_logs_hold_what_snapshots_of_real_clusters_do_not_show(told: dict[int, Told]) -> None:
    seen = Counter(trait for value in all_values(told) for trait in traits(decode_record(value)))
    assert seen.keys() == {
        *("elr", "last known elr", "nobody eligible any more", "clear elr of all", "clear elr of one"),
        *("recovering", "recovered", "directories of replicas", "directories of a broker", "cordoned"),
        *("fence", "unfence", "shutdown", "leaderless"),
    }
    assert min(seen.values()) > 100
    last = [decode_record(value) for log in told.values() for value in log.images[len(log.batches) - 1]]
    assert any(isinstance(record, m.PartitionRecord) and record.eligible_leader_replicas for record in last)


def traits(record: AnyRecord) -> list[str]:
    """What a record is an example of."""
    match record:
        case m.PartitionChangeRecord():
            found = {
                "elr": record.eligible_leader_replicas,
                "last known elr": record.last_known_elr,
                "nobody eligible any more": record.eligible_leader_replicas == (),
                "recovering": record.leader_recovery_state == 1,
                "recovered": record.leader_recovery_state == 0,
                "directories of replicas": record.directories,
                "leaderless": record.leader == -1,
            }
        case m.ClearElrRecord(topic_name=name):
            found = {"clear elr of one" if name else "clear elr of all": True}
        case m.BrokerRegistrationChangeRecord():
            found = {
                "fence": record.fenced == 1,
                "unfence": record.fenced == -1,
                "shutdown": record.in_controlled_shutdown,
                "directories of a broker": record.log_dirs,
                "cordoned": record.cordoned_log_dirs is not None,
            }
        case _:
            found = {}
    return [name for name, is_one in found.items() if is_one]


def test_transactions_go_over_several_batches_and_end_both_ways(told: dict[int, Told]) -> None:
    lengths: dict[type, list[int]] = {m.EndTransactionRecord: [], m.AbortTransactionRecord: []}
    for log in told.values():
        marks = [
            (number, type(record))
            for number, values in enumerate(log.batches)
            for record in map(decode_record, values)
            if isinstance(
                record, m.BeginTransactionRecord | m.EndTransactionRecord | m.AbortTransactionRecord
            )
        ]
        for (begin, kind), (end, how) in list(pairwise(marks))[::2]:
            assert kind is m.BeginTransactionRecord
            lengths[how].append(end - begin + 1)
    for found in lengths.values():
        assert sum(length > 3 for length in found) > 100


# --- what Kafka gets wrong ----------------------------------------------------------------------------------


def test_each_known_defect_is_met_and_none_hides_more(told: dict[int, Told]) -> None:
    known = [log.known[number] for log in told.values() for number in log.images]
    assert {type(record) for one in known for record in one.more} == {m.ConfigRecord}
    assert {type(record) for one in known for record in one.fewer} == {
        m.UserScramCredentialRecord,
        m.ZkMigrationStateRecord,
    }


LEVEL = m.FeatureLevelRecord("metadata.version", LEVELS[-1])
TOPIC = m.TopicRecord("t", b"T" * 16)
PARTITION = m.PartitionRecord(
    partition_id=0,
    topic_id=TOPIC.topic_id,
    replicas=(1, 2),
    isr=(1,),
    leader=1,
    leader_epoch=0,
    partition_epoch=0,
    directories=(b"D" * 16, b"D" * 16),
    eligible_leader_replicas=(2,),
)


def elr(level: int) -> m.FeatureLevelRecord:
    return m.FeatureLevelRecord("eligible.leader.replicas.version", level)


def config(name: str) -> m.ConfigRecord:
    return m.ConfigRecord(4, "", name, "1")


BEGUN = [LEVEL, m.BeginTransactionRecord(), config("aborted")]
ABORT = m.AbortTransactionRecord()
ELIGIBLE = [LEVEL, elr(1), TOPIC, PARTITION]
NO_ELR = msgspec.structs.replace(PARTITION, eligible_leader_replicas=None)


class Story(NamedTuple):
    """Some batches, and what only one side writes after the last."""

    batches: list[list[m.Record]]
    only_ours: set[AnyRecord]
    only_kafkas: set[AnyRecord]


STORIES = {
    "an abort that ends its batch": Story([BEGUN, [ABORT], [config("x")]], set(), set()),
    "an abort with more after it is none": Story([BEGUN, [ABORT, config("x")]], set(), {config("aborted")}),
    "who was eligible is hidden": Story([ELIGIBLE, [elr(0)]], set(), set()),
    "who was eligible is shown again": Story([ELIGIBLE, [elr(0)], [elr(1)]], {NO_ELR}, {PARTITION}),
}
"""Kafka's loader drops what was aborted only if nothing follows before it flushes. And in its memory eligible
leader replicas outlive the feature's being off, in its snapshots they do not: here they are gone at once.
"""


@pytest.fixture(scope="module")
def stories(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Told]:
    logs = [[tuple(map(encode_record, batch)) for batch in story.batches] for story in STORIES.values()]
    images = kafkas_images(kafka, logs, tmp_path_factory.mktemp("stories"), TIMES)
    known = [list(known_differences(log)) for log in logs]
    return dict(zip(STORIES, map(Told, logs, images, known), strict=True))


@pytest.mark.parametrize("name", STORIES)
def test_what_no_controller_of_kafkas_writes_but_its_image_takes_otherwise(
    stories: dict[str, Told], name: str
) -> None:
    log, last = stories[name], len(STORIES[name].batches) - 1
    assert not any(map(any, log.known))
    found = list(differences(log.batches, {last: log.images[last]}, log.known))
    assert {one.record for difference in found for one in difference.only_ours} == STORIES[name].only_ours
    assert {one.record for difference in found for one in difference.only_kafkas} == STORIES[name].only_kafkas
