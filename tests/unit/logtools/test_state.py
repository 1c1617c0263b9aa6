"""The state at a point: which snapshot it begins with, where it ends, what it says if it cannot go on."""

from pathlib import Path

import pytest

from kraftd.logtools.errors import UnanswerableError
from kraftd.logtools.finding import find_log, find_logs
from kraftd.logtools.node_log import times_of
from kraftd.logtools.points import Point
from kraftd.logtools.state import advanced, refreshed, state_at
from kraftd.metadata.image import EMPTY, MetadataImage
from kraftd.metadata.image_builder import ImageBuilder
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.metadata.parts.configs import CONFIGS
from kraftd.metadata.parts.features import FEATURES
from kraftd.metadata.parts.topics import TOPICS
from kraftd.records.batch import scan
from kraftd.records.frame import RawRecord, decode_record
from kraftd.records.messages import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    NoOpRecord,
    TopicRecord,
)
from kraftd.types import OffsetAndEpoch
from tests.fixtures import klog, klogs
from tests.replay.logs import write_manifest
from tests.unit.logtools.logs import ORDERS, T0, LogMaker, config, orders


def folded(log_directory: Path, end: int) -> MetadataImage:
    """The image by the shortest way: every record below the end, from nothing."""
    fold = ImageBuilder(EMPTY)
    for segment in sorted(log_directory.glob("*.log")):
        for batch in scan(segment.read_bytes()):
            if batch.end_offset <= end:
                for offset, value in enumerate(batch.values(), batch.base_offset):
                    fold.apply(decode_record(value), offset)
    return fold.image()


def at(offset: int) -> Point:
    return Point(str(offset), offset=offset)


def test_the_state_of_real_logs_is_that_of_all_their_records():
    """From the nearest snapshot or from the start: the same image."""
    compared = 0
    for log in find_logs(klogs()):
        if log.start_offset or (log.cluster_id, log.node_id) == ("stOFWCzIS8aMMyZ69vRxHA", 1):
            continue  # the second one's snapshots hold what no record says
        state = state_at(log)
        assert state.image.hash() == folded(log.log_directory, state.end_offset).hash(), log.named
        compared += 1
    assert compared >= 5


def test_every_batch_of_a_real_log_is_a_point_that_can_be_asked_for():
    log = find_log(klog("generated-kafka-4.3-dynamic-voters") / "node-2")
    ends = [batch.end_offset for segment in log.segments for batch in scan(segment.path.read_bytes())]
    for end in ends[::29]:
        state = state_at(log, at(end))
        newest = max((s.id.offset for s in log.snapshots if s.id.offset <= end), default=0)
        begun_at = 0 if state.snapshot is None else state.snapshot.offset
        assert (state.end_offset, begun_at) == (end, newest)
        assert state.image.hash() == folded(log.log_directory, end).hash()


def test_who_led_and_voted_is_known_also_behind_a_snapshot(tmp_path: Path):
    made = orders(tmp_path)
    made.snapshot()
    made.batch(config("2"))
    state = state_at(find_log(tmp_path))
    assert state.snapshot == OffsetAndEpoch(11, 3)
    assert (state.quorum.leader_id, state.quorum.leader_epoch) == (2, 3)
    assert [voter.id for voter in state.quorum.voters] == [1, 2, 3]
    assert (state.record_count, state_at(find_log(tmp_path)).known_committed) == (1, 11)


def test_dynamic_voters_are_known_behind_a_snapshot(tmp_path: Path):
    made = orders(tmp_path).voters(1, 2)
    made.snapshot(voters=(1, 2))
    made.batch(config("2"))
    facts = state_at(find_log(tmp_path)).quorum
    assert (facts.kraft_version, facts.leader_id) == (1, 2)
    assert [(voter.id, voter.endpoints) for voter in facts.voters] == [
        (1, ("CONTROLLER://localhost:9091",)),
        (2, ("CONTROLLER://localhost:9092",)),
    ]
    made.lead(3, 5)  # lists 1, 2 and 3, but the voters are named by another record now
    assert state_at(find_log(tmp_path)).quorum.voters == facts.voters


def test_at_a_snapshots_own_offset_nothing_is_replayed(tmp_path: Path):
    made = orders(tmp_path)
    made.snapshot()
    made.batch(config("2"))
    made.snapshot()
    state = state_at(find_log(tmp_path), at(11))
    assert (state.end_offset, state.snapshot, state.record_count) == (11, OffsetAndEpoch(11, 3), 0)


def test_a_log_without_a_snapshot_vouches_for_nothing(tmp_path: Path):
    orders(tmp_path)
    assert state_at(find_log(tmp_path)).known_committed == 0
    write_manifest(tmp_path, high_watermark=7, end_offset=11)
    assert state_at(find_log(tmp_path)).known_committed == 7


def test_an_offset_inside_a_batch_steps_back_and_says_so(tmp_path: Path):
    orders(tmp_path)
    state = state_at(find_log(tmp_path), at(5))
    assert state.end_offset == 4
    assert state.image[TOPICS].get(ORDERS) is None
    assert state.notes == ("offset 5 lies inside a batch; the state is that at its beginning, 4",)


def test_an_offset_beyond_the_end_is_refused(tmp_path: Path):
    orders(tmp_path)
    with pytest.raises(UnanswerableError, match=r"the log ends at offset 11$"):
        state_at(find_log(tmp_path), at(12))
    with pytest.raises(UnanswerableError, match="a time is written 2026"):
        state_at(find_log(tmp_path), at(T0))


def test_a_time_ends_before_the_first_newer_batch_and_says_that_a_clock_went_back(tmp_path: Path):
    made = LogMaker(tmp_path).lead(1, 1)
    made.batch(config("1"), at_ms=T0 + 5_000).batch(config("2"), at_ms=T0 + 9_000)
    made.batch(config("3"), at_ms=T0 + 5_000).batch(config("4"), at_ms=T0 + 9_500)
    log = find_log(tmp_path)
    state = state_at(log, Point("then", time_ms=T0 + 5_000))
    assert (state.end_offset, state.image[CONFIGS].get(2, "orders", "retention.ms")) == (2, "1")
    assert state.notes == (
        "1 later batch carries a time at or before then: a clock went back; the state is that at offset 2",
    )
    assert state_at(log, Point("late", time_ms=T0 + 10_000)).end_offset == made.end
    assert state_at(log, Point("early", time_ms=0)).notes == ("the log begins after early",)


@pytest.mark.parametrize(
    ("last", "value"), [(EndTransactionRecord(), "2"), (AbortTransactionRecord(reason="no"), "1")]
)
def test_inside_a_transaction_the_state_is_that_before_it(
    tmp_path: Path, last: EndTransactionRecord | AbortTransactionRecord, value: str
):
    made = LogMaker(tmp_path).lead(1, 1).batch(config("1"))
    made.batch(BeginTransactionRecord(name="bulk")).batch(config("2")).batch(last)
    log = find_log(tmp_path)
    inside = state_at(log, at(4))
    assert inside.image[CONFIGS].get(2, "orders", "retention.ms") == "1"
    assert inside.notes == (
        "offset 4 lies inside the transaction 'bulk' that began at 2: the state is the one before it",
    )
    after = state_at(log)
    assert (after.image[CONFIGS].get(2, "orders", "retention.ms"), after.notes) == (value, ())


def test_what_is_not_known_makes_the_state_partial_and_is_counted(tmp_path: Path):
    LogMaker(tmp_path).lead(1, 1).batch(config("1")).batch(RawRecord(99, 0, b"x"), RawRecord(99, 0, b"y"))
    state = state_at(find_log(tmp_path))
    assert state.image[CONFIGS].get(2, "orders", "retention.ms") == "1"
    assert state.unknown_text == "records that this program does not know are left out: 2 UnknownRecord99"


def test_damage_ends_the_state_before_it(tmp_path: Path):
    made = orders(tmp_path)
    data = bytearray(made.segment.read_bytes())
    sizes = [batch.size_bytes for batch in scan(bytes(data))]
    data[sum(sizes[:3]) + 80] ^= 1  # in the batch of the topic, offsets 4 to 6
    made.segment.write_bytes(data)
    state = state_at(find_log(tmp_path))
    assert state.end_offset == 4
    assert state.damage is not None
    assert (state.damage.offset, state.damage.position_bytes) == (4, sum(sizes[:3]))
    assert "the checksum is" in state.damage.text
    assert state_at(find_log(tmp_path), at(4)).damage is None


def test_an_impossible_record_leaves_no_half_of_its_batch(tmp_path: Path):
    made = orders(tmp_path)
    made.batch(config("7"), TopicRecord(name="orders", topic_id=b"x" * 16))
    state = state_at(find_log(tmp_path))
    assert (state.end_offset, state.image[CONFIGS].get(2, "orders", "retention.ms")) == (11, "1000")
    assert state.damage is not None
    assert "there is a topic orders already" in str(state.damage)


def test_a_torn_end_is_no_damage(tmp_path: Path):
    made = orders(tmp_path)
    made.segment.write_bytes(made.segment.read_bytes()[:-3])
    state = state_at(find_log(tmp_path))
    assert (state.end_offset, state.damage) == (10, None)


def test_an_epoch_that_falls_is_damage(tmp_path: Path):
    made = orders(tmp_path)
    made.epoch = 2
    made.batch(config("2"))
    state = state_at(find_log(tmp_path))
    assert state.end_offset == 11
    assert "the batch says epoch 2 after epoch 3" in str(state.damage)


def test_a_missing_segment_is_damage(tmp_path: Path):
    made = LogMaker(tmp_path).lead(1, 1).roll().batch(config("1")).roll().batch(config("2"))
    (made.log / f"{1:020}.log").unlink()
    state = state_at(find_log(tmp_path))
    assert state.end_offset == 1
    assert "offsets 1 to 1 are missing before it" in str(state.damage)


def test_a_bad_snapshot_is_passed_over_for_the_one_before(tmp_path: Path):
    made = orders(tmp_path)
    first = made.snapshot()
    made.batch(config("2"))
    second = made.snapshot()
    second.write_bytes(second.read_bytes()[:-10])
    state = state_at(find_log(tmp_path))
    assert state.snapshot == OffsetAndEpoch(11, 3)
    assert [note for note in state.notes if second.name in note and "an earlier state was taken" in note]
    first.unlink()
    assert state_at(find_log(tmp_path)).image.hash() == state.image.hash()


def test_a_log_whose_beginning_is_gone_needs_a_snapshot(tmp_path: Path):
    made = orders(tmp_path)
    snapshot = made.snapshot()
    made.roll().batch(config("2"))
    (made.log / f"{0:020}.log").unlink()
    state = state_at(find_log(tmp_path))
    assert (state.end_offset, state.image[CONFIGS].get(2, "orders", "retention.ms")) == (12, "2")
    with pytest.raises(UnanswerableError, match="begins at offset 11"):
        state_at(find_log(tmp_path), at(10))
    snapshot.unlink()
    with pytest.raises(UnanswerableError, match="what was before cannot be known"):
        state_at(find_log(tmp_path))


def test_a_snapshot_alone_is_a_state(tmp_path: Path):
    snapshot = orders(tmp_path).snapshot()
    state = state_at(find_log(snapshot))
    assert (state.end_offset, state.epoch) == (11, 3)
    assert state.image.hash() == state_at(find_log(tmp_path)).image.hash()
    snapshot.write_bytes(b"")
    with pytest.raises(UnanswerableError, match="is empty, so it is no snapshot"):
        state_at(find_log(snapshot))


def test_a_snapshot_that_lost_a_batch_or_has_another_name_is_not_whole(tmp_path: Path):
    made = orders(tmp_path)
    snapshot = made.snapshot()
    whole = snapshot.read_bytes()
    first, second, *_ = scan(whole)
    snapshot.write_bytes(whole[: second.position] + whole[second.position + second.size_bytes :])
    state = state_at(find_log(tmp_path))
    assert (state.snapshot, len(list(state.image[TOPICS].topics()))) == (None, 1)
    [note] = state.notes
    assert f"{snapshot.name} at byte {first.size_bytes}, offset " in note
    snapshot.write_bytes(whole)
    snapshot.rename(snapshot.with_name(f"{500:020}-{7:010}.checkpoint"))
    assert state_at(find_log(tmp_path)).end_offset == made.end


def test_a_snapshots_own_offset_can_be_asked_for_where_the_log_begins_later(tmp_path: Path):
    made = orders(tmp_path)
    made.snapshot()
    made.batch(config("2")).roll().batch(config("3"))
    made.snapshot()
    made.roll().batch(config("4"))
    for path in sorted(made.log.glob("*.log"))[:2]:
        path.unlink()
    state = state_at(find_log(tmp_path), Point("11", offset=11))
    assert (state.end_offset, state.snapshot) == (11, OffsetAndEpoch(11, 3))
    with pytest.raises(UnanswerableError, match=r"only their own offsets can be asked: 11$"):
        state_at(find_log(tmp_path), Point("12", offset=12))
    assert state_at(find_log(tmp_path)).end_offset == made.end


def test_a_segment_stands_for_its_log_up_to_its_end(tmp_path: Path):
    made = orders(tmp_path)
    made.roll().batch(config("2"))
    made.snapshot()
    assert state_at(find_log(made.log / f"{0:020}.log")).end_offset == 11
    assert state_at(find_log(made.segment)).end_offset == 12


def test_a_state_goes_on_with_its_log_and_is_made_anew_where_that_was_cut(tmp_path: Path):
    made = orders(tmp_path)
    before = state_at(find_log(tmp_path))
    assert refreshed(before) is before
    made.batch(config("1"), config("2"), config("1000"))
    before = refreshed(before)
    assert refreshed(before) is before
    size = made.segment.stat().st_size
    made.batch(config("2"))
    newer = refreshed(before)
    assert (newer.end_offset, newer.image[CONFIGS].get(2, "orders", "retention.ms")) == (15, "2")
    made.roll().batch(config("3"))
    assert refreshed(newer).image[CONFIGS].get(2, "orders", "retention.ms") == "3"
    made.segment.unlink()
    first = made.log / f"{0:020}.log"
    first.write_bytes(first.read_bytes()[:size])
    made.segment, made.end = first, 14
    made.lead(3, 5)
    cut = refreshed(newer)
    assert (cut.end_offset, cut.image[CONFIGS].get(2, "orders", "retention.ms")) == (15, "1000")
    assert (cut.epoch, cut.quorum.leader_id) == (5, 3)


def test_going_on_from_a_state_is_the_same_as_beginning_there():
    log = find_log(klog("generated-kafka-4.3-eligible-leader-replicas") / "node-3")
    middle = state_at(log, at(1000))
    assert advanced(middle, 2000).image.hash() == state_at(log, at(2000)).image.hash()


def test_a_log_from_before_features_is_a_state(tmp_path: Path):
    state = state_at(find_log(klog("kafka-before-3.3-three-nodes") / "node-1"))
    assert (state.end_offset, list(state.image[FEATURES].items())) == (188, [])
    assert list(state.image[BROKERS].values())


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("gone", None, "does not exist"),
        ("notes.txt", b"hello", "is neither a segment"),
        ("empty/x.txt", b"", "holds no metadata log"),
    ],
)
def test_what_is_no_log_is_said_in_a_line(tmp_path: Path, name: str, content: bytes | None, words: str):
    path = tmp_path / name
    if content is not None:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    with pytest.raises(UnanswerableError, match=words):
        find_log(path.parent if "/" in name else path)


def test_several_logs_need_a_name(tmp_path: Path):
    orders(tmp_path / "node-1").copy(tmp_path / "node-2", 2)
    with pytest.raises(UnanswerableError, match=r"holds several logs; name one: .*node-1, .*node-2$"):
        find_log(tmp_path)
    assert [log.node_id for log in find_logs(tmp_path)] == [1, 2]
    assert find_log(tmp_path / "node-1" / "__cluster_metadata-0").cluster_id == "cluster"


def test_an_empty_segment_is_an_empty_log(tmp_path: Path):
    LogMaker(tmp_path)
    state = state_at(find_log(tmp_path))
    assert (state.end_offset, state.image == EMPTY, state.timestamp_ms) == (0, True, -1)


def test_noise_for_a_segment_is_damage_or_torn_and_never_more(tmp_path: Path):
    made = LogMaker(tmp_path)
    for noise in (b"\0" * 5_000, bytes(range(256)) * 20, b"x" * 11):
        made.segment.write_bytes(noise)
        state = state_at(find_log(tmp_path))
        assert state.end_offset == 0


def test_no_ops_are_passed_over(tmp_path: Path):
    made = LogMaker(tmp_path).lead(1, 1).batch(NoOpRecord())
    assert state_at(find_log(tmp_path)).end_offset == made.end


def test_a_directory_without_a_log_in_it_is_said_in_a_line(tmp_path: Path):
    LogMaker(tmp_path).segment.unlink()
    with pytest.raises(UnanswerableError, match="holds neither segment nor snapshot: this node was never"):
        state_at(find_log(tmp_path))


def test_the_records_of_a_new_cluster_are_a_state():
    bootstrap = klog("generated-kafka-4.3-dynamic-voters") / "node-1" / "bootstrap.checkpoint"
    assert state_at(find_log(bootstrap)).image[FEATURES].level("metadata.version") == 30


def test_the_times_of_batches_are_those_that_their_headers_say():
    for log in find_logs(klogs()):
        said = [
            (batch.base_offset, batch.end_offset, batch.max_timestamp)
            for segment in log.segments
            for batch in scan(segment.path.read_bytes())
        ]
        assert [tuple(batch) for batch in times_of(log)] == said, log.named
