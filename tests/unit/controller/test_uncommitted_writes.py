"""The image after what is uncommitted: made when somebody looks, and of nothing but what was added."""

import pytest

from kraftd.controller.decisions import Write
from kraftd.controller.uncommitted_writes import UncommittedWrites
from kraftd.metadata.image import EMPTY, MetadataImage
from kraftd.metadata.image_builder import apply_all
from kraftd.metadata.impossible import ImpossibleRecordError
from kraftd.records.committed import CommittedBatch
from kraftd.records.frame import AnyRecord, encode_record
from kraftd.records.messages import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
)

IMPOSSIBLE = BrokerRegistrationChangeRecord(broker_id=9, broker_epoch=9, fenced=1)
"""There is no broker 9."""


def config(name: str, value: str = "x") -> ConfigRecord:
    return ConfigRecord(4, "1", name, value)


def fold(*records: AnyRecord) -> MetadataImage:
    return apply_all(EMPTY, records, -1)


def add(writes: UncommittedWrites, *records: AnyRecord) -> Write:
    write = Write("test", 1, tuple(map(encode_record, records)))
    writes.apply(records)
    writes.add(write, None)
    return write


def commit(writes: UncommittedWrites, *committed: Write) -> MetadataImage:
    values = [value for write in committed for value in write.records]
    return writes.commit(CommittedBatch(0, len(values), 1, 0, values))


@pytest.fixture
def writes() -> UncommittedWrites:
    return UncommittedWrites(EMPTY)


@pytest.mark.covers("D-39", "D-14")
@pytest.mark.parametrize("was_looked_at", [False, True])
def test_what_cannot_be_applied_leaves_no_trace(writes: UncommittedWrites, was_looked_at: bool) -> None:
    first = add(writes, config("a"))
    if was_looked_at:
        assert writes.image == fold(config("a"))
    second = add(writes, config("b"))
    with pytest.raises(ImpossibleRecordError):
        writes.apply([config("c"), IMPOSSIBLE])
    assert writes.image == fold(config("a"), config("b"))
    with pytest.raises(ImpossibleRecordError):
        writes.apply([IMPOSSIBLE])
    third = add(writes, config("d"))
    assert writes.image == fold(config("a"), config("b"), config("d"))
    assert (len(writes), writes.record_count) == (3, 3)
    assert commit(writes, first, second, third) == fold(config("a"), config("b"), config("d"))


@pytest.mark.covers("D-39", "D-18")
@pytest.mark.parametrize("taken", [1, 2, 3, 4])
@pytest.mark.parametrize("is_ended", [False, True])
def test_a_batch_may_end_inside_a_group(writes: UncommittedWrites, taken: int, is_ended: bool) -> None:
    records = [config(name) for name in "abcd"]
    added = [add(writes, record) for record in records]
    if is_ended:
        writes.end_group()
    assert commit(writes, *added[:taken]) == fold(*records[:taken])
    assert writes.committed == fold(*records[:taken])
    last = add(writes, config("e"))
    assert writes.image == fold(*records, config("e"))
    assert commit(writes, *added[taken:], last) == writes.image
    assert len(writes) == 0


@pytest.mark.covers("D-39", "D-18")
def test_what_was_refused_is_not_in_what_is_added_later(writes: UncommittedWrites) -> None:
    added = [add(writes, config(name)) for name in "abc"]
    writes.withdraw(added[1])
    assert writes.metadata_version == 0
    added.append(add(writes, config("d")))
    assert writes.image == fold(config("a"), config("c"), config("d"))
    assert commit(writes, added[0], *added[2:]) == writes.image


@pytest.mark.covers("D-39")
def test_the_level_is_that_of_the_newest_record_without_an_image(writes: UncommittedWrites) -> None:
    add(writes, FeatureLevelRecord("metadata.version", 20))
    assert writes.metadata_version == 20
    assert writes._pending[-1][1] is None
    writes.end_group()
    assert writes.metadata_version == 20
    assert writes._pending[-1][1] is not None
