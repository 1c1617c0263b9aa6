"""Changes of ISR and leader alone give what any change gives: read or refused, made or left to the codec."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kraftd.errors import MalformedError
from kraftd.metadata.image import EMPTY
from kraftd.metadata.image_builder import apply_all
from kraftd.metadata.impossible import ImpossibleRecordError
from kraftd.metadata.parts.topics import change_fast_codec, partitions
from kraftd.metadata.registry import decode
from kraftd.records.frame import decode_record, encode_record
from kraftd.records.messages import ClearElrRecord, PartitionChangeRecord, PartitionRecord, TopicRecord
from tests.unit.metadata.legal_records import logs

A = bytes([1]) * 16
D1, D2, D3 = (bytes([n]) * 16 for n in (7, 8, 9))

CHANGE = PartitionChangeRecord(3, A)
USUAL = [
    replace(CHANGE, leader=2),
    replace(CHANGE, isr=(1, 2)),
    replace(CHANGE, isr=(), leader=-1),
    replace(CHANGE, isr=(1, 2, 3), leader=1),
    replace(CHANGE, isr=tuple(range(31)), leader=1),
]
UNUSUAL = [
    CHANGE,
    replace(CHANGE, isr=tuple(range(32))),
    replace(CHANGE, leader=2, leader_recovery_state=0),
    replace(CHANGE, replicas=(1, 2)),
    replace(CHANGE, isr=(1,), unknown_tags=((99, b"later"),)),
]
PARTITION = PartitionRecord(
    3, A, (1, 2, 3), (1, 2, 3), leader=1, leader_epoch=4, partition_epoch=5, directories=(D1, D2, D3)
)


def outcome(decode, value):
    try:
        return decode(value)
    except MalformedError as error:
        return str(error)


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("record", USUAL)
def test_a_usual_change_is_read(record, version):
    value = encode_record(record, version)
    assert change_fast_codec.read(value) == record
    assert change_fast_codec.is_usual(value)


@pytest.mark.parametrize("record", UNUSUAL)
def test_any_other_is_left_to_the_codec(record):
    value = encode_record(record)
    assert change_fast_codec.read(value) is None
    assert not change_fast_codec.is_usual(value)
    assert decode(value) == record


@pytest.mark.parametrize("record", [*USUAL, *UNUSUAL])
def test_whatever_byte_of_a_change_is_wrong_it_is_as_wrong_as_when_decoded(record):
    good = encode_record(record)
    for at in range(len(good)):
        for byte in {*range(10), 13, 0x7F, 0x80, 0xFF, good[at] ^ 1}:
            bad = good[:at] + bytes([byte]) + good[at + 1 :]
            assert outcome(decode, bad) == outcome(decode_record, bad), (at, byte)
    for bad in (*(good[:end] for end in range(len(good))), good + b"\0"):
        assert outcome(decode, bad) == outcome(decode_record, bad)


@given(logs)
def test_every_record_is_read_as_the_codec_reads_it(records):
    for record in records:
        value = encode_record(record)
        assert decode(value) == decode_record(value)


ids = st.integers(-1, 4)
few = st.lists(ids, max_size=4).map(tuple)
maybe = st.none() | few
changes = st.builds(
    PartitionChangeRecord,
    partition_id=st.just(3),
    topic_id=st.just(A),
    isr=maybe | st.just(tuple(range(127))) | st.just((1 << 40,)),
    leader=st.integers(-2, 4),
    replicas=st.none() | st.just((1, 2)),
    removing_replicas=st.none() | st.just(()) | few,
    adding_replicas=st.none() | st.just(()) | few,
    leader_recovery_state=st.sampled_from([-1, -1, 0, 1, 2]),
    directories=st.none() | st.just((D1, D2, D3)) | st.just((D1,)),
    eligible_leader_replicas=st.none() | st.just(()) | few,
    last_known_elr=st.none() | st.just(()) | few,
) | st.builds(
    PartitionChangeRecord, partition_id=st.just(3), topic_id=st.just(A), isr=maybe, leader=st.integers(-2, 4)
)
before = st.builds(
    replace,
    st.just(PARTITION),
    isr=few,
    leader=ids,
    leader_epoch=st.sampled_from([0, 7, (1 << 31) - 1]),
    partition_epoch=st.sampled_from([0, 7, (1 << 31) - 1]),
    eligible_leader_replicas=st.sampled_from([None, None, (2,)]),
    adding_replicas=st.sampled_from([(), (), (4,)]),
    leader_recovery_state=st.sampled_from([0, 0, 1]),
    unknown_tags=st.sampled_from([(), (), ((99, b"later"),)]),
)


@settings(max_examples=500)
@given(before, changes)
@example(PARTITION, USUAL[0])
@example(PARTITION, USUAL[1])
@example(PARTITION, USUAL[2])
def test_a_change_made_in_the_bytes_is_the_change(old, change):
    made = change_fast_codec.changed(partitions.pack(old), change)
    if made is None:
        return
    new = partitions.changed(old, change, 9)
    after, were, are = made
    assert after == partitions.pack(new)
    assert partitions.unpack(after) == new
    assert were == (old.replicas, old.isr, old.leader, (), False)
    assert are == (new.replicas, new.isr, new.leader, (), False)


@pytest.mark.parametrize("change", USUAL)
def test_a_usual_change_of_a_usual_partition_is_made_in_the_bytes(change):
    assert change_fast_codec.changed(partitions.pack(PARTITION), change) is not None


@pytest.mark.parametrize(
    "more",
    [
        {"leader_recovery_state": 1},
        {"leader_recovery_state": 2},
        {"replicas": (1, 2)},
        {"directories": (D1, D2, D3)},
        {"removing_replicas": (1,)},
        {"adding_replicas": (4,)},
        {"eligible_leader_replicas": (3,)},
        {"last_known_elr": (3,)},
    ],
    ids="-".join,
)
def test_a_change_of_more_is_not_made_in_the_bytes(more):
    assert change_fast_codec.changed(partitions.pack(PARTITION), replace(USUAL[0], **more)) is None


@pytest.mark.parametrize(
    ("old", "change"),
    [
        (replace(PARTITION, leader_epoch=(1 << 31) - 1), replace(CHANGE, leader=2)),
        (PARTITION, replace(CHANGE, isr=(1 << 40,))),
    ],
)
def test_a_change_that_cannot_be_written_is_impossible(old, change):
    image = apply_all(EMPTY, [TopicRecord("a", A), old], 0)
    with pytest.raises(ImpossibleRecordError, match="offset 9"):
        apply_all(image, [change], 9)


def test_clearing_an_elr_cannot_take_an_epoch_past_its_end():
    old = replace(PARTITION, partition_epoch=(1 << 31) - 1, eligible_leader_replicas=(2,))
    image = apply_all(EMPTY, [TopicRecord("a", A), old], 0)
    with pytest.raises(ImpossibleRecordError, match="offset 9"):
        apply_all(image, [ClearElrRecord("a")], 9)
