"""The bytes that a snapshot holds of an image: those of its records, copied or encoded; and Kafka's."""

from collections import Counter
from pathlib import Path

import pytest
from fixtures import klogs
from snapshots import comparable, folded, rewritten_snapshot

from kraftd.errors import InvariantError, UnencodableError
from kraftd.metadata.feature_levels import METADATA_VERSION
from kraftd.metadata.image import EMPTY, MetadataImage, to_records
from kraftd.metadata.image_builder import apply_all
from kraftd.metadata.record_versions import encode_allowed
from kraftd.metadata.snapshot import to_values
from kraftd.records.batch import scan
from kraftd.records.frame import decode_record, read_frame
from kraftd.records.messages import (
    ClientQuotaRecord,
    FeatureLevelRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
)

TOPIC = b"t" * 16
NAMED = (b"a" * 16, b"b" * 16)
LISTS_WITHOUT_ORDER = (RegisterBrokerRecord, RegisterControllerRecord, ClientQuotaRecord)


def partition(number: int, **other: object) -> PartitionRecord:
    fields = {"replicas": (1, 2), "isr": (2,), "leader": 2, "leader_epoch": 3, "partition_epoch": 4}
    return PartitionRecord(partition_id=number, topic_id=TOPIC, **(fields | other))  # type: ignore[arg-type]


PARTITIONS = {
    "usual": partition(0),
    "usual, in a far block": partition(1_000),
    "with directories": partition(1, directories=NAMED),
    "in reassignment": partition(2, adding_replicas=(2,)),
    "recovering": partition(3, leader_recovery_state=1),
    "with eligible replicas": partition(4, eligible_leader_replicas=(1,)),
    "with a tag of the future": partition(5, unknown_tags=((9, b"x"),)),
    "with an empty ISR": partition(6, isr=(), leader=-1),
    "with a last byte that looks like no tags": partition(7, unknown_tags=((9, b"\0"),)),
}


def image_of(records: list[PartitionRecord], level: int) -> MetadataImage:
    feature = FeatureLevelRecord(name=METADATA_VERSION, feature_level=level)
    return apply_all(EMPTY, [feature, TopicRecord("t", TOPIC), *records], 0)


def as_encoded(image: MetadataImage) -> list[bytes] | type[Exception]:
    try:
        return [encode_allowed(record, image.metadata_version) for record in to_records(image)]
    except (InvariantError, UnencodableError) as error:
        return type(error)


def as_copied(image: MetadataImage) -> list[bytes] | type[Exception]:
    try:
        return list(to_values(image))
    except (InvariantError, UnencodableError) as error:
        return type(error)


@pytest.mark.parametrize("level", [0, 1, 7, 16, 17, 22, 23, 30])
@pytest.mark.parametrize("name", [*PARTITIONS, "all"])
def test_what_is_copied_is_what_would_be_encoded(level: int, name: str) -> None:
    """Or neither is possible, as that of a named directory before directories had names."""
    records = [*PARTITIONS.values()] if name == "all" else [PARTITIONS[name]]
    image = image_of(records, level)
    copied = as_copied(image)
    assert copied == as_encoded(image)
    if isinstance(copied, list):
        assert apply_all(EMPTY, map(decode_record, copied), 0).hash() == image.hash()


def test_a_snapshot_is_of_the_image_that_it_began_with() -> None:
    image = image_of([*PARTITIONS.values()], 30)
    before, values = list(to_values(image)), to_values(image)
    taken = [next(values) for _ in range(3)]
    apply_all(image, [partition(8), partition(0, leader=1, isr=(1,))], 50)
    assert [*taken, *values] == before


def data_values(data: bytes) -> list[bytes]:
    return [value for batch in scan(data) for value in batch.values()]


@pytest.mark.covers("D-18")
@pytest.mark.parametrize(
    "path", sorted(klogs().rglob("[0-9]*.checkpoint")), ids=lambda path: str(path.relative_to(klogs()))
)
def test_a_snapshot_of_kafkas_read_and_written_holds_the_same_records_and_makes_the_same_image(path: Path):
    theirs = data_values(path.read_bytes())
    image = folded(theirs)
    if not image.metadata_version:
        return
    ours = data_values(rewritten_snapshot(path))
    assert folded(ours).hash() == image.hash()
    assert comparable(ours) == comparable(theirs)
    # To the byte, but for lists that are sets in Kafka's image: their order is that of a hash table.
    only_ours, only_theirs = Counter(ours) - Counter(theirs), Counter(theirs) - Counter(ours)
    for value in [*only_ours, *only_theirs]:
        assert isinstance(decode_record(value), LISTS_WITHOUT_ORDER), read_frame(value)
