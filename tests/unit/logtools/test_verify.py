"""Every fault is told, with file and offset; a log in order has none, nor have two that part at the end."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from crc32c import crc32c

from kraftd.logtools import batch_reader
from kraftd.logtools.batch_reader import Batch, read_batches
from kraftd.logtools.finding import find_logs
from kraftd.logtools.state import state_at
from kraftd.logtools.verify import Verdict, verify
from kraftd.records import epoch_checkpoint, names, quorum_state
from kraftd.records.batch import encode_batch, scan
from kraftd.records.frame import AnyRecord, RawRecord, encode_record
from kraftd.records.messages import BeginTransactionRecord, NoOpRecord, RemoveTopicRecord, TopicRecord
from kraftd.types import EpochEntry, OffsetAndEpoch
from tests.fixtures import klog
from tests.unit.logtools.logs import T0, LogMaker, broker, config, orders, write_snapshot


def judged(*homes: Path) -> Verdict:
    return verify([log for home in homes for log in find_logs(home)])


def problems(verdict: Verdict) -> list[str]:
    return [str(problem) for log in verdict.logs for problem in log.problems]


@pytest.mark.parametrize("node", ["node-2", "node-3"])
def test_kafkas_own_logs_are_whole(node: str):
    for cluster in ("generated-kafka-4.3-dynamic-voters", "generated-kafka-4.3-eligible-leader-replicas"):
        verdict = judged(klog(cluster) / node)
        assert verdict.is_whole, problems(verdict)
        assert verdict.logs[0].snapshot_count > 10


def test_what_kafka_forgot_to_drop_is_named_snapshot_by_snapshot():
    """Kafka's delta kept the configs of a topic that had been removed (compare KAFKA-16206)."""
    verdict = judged(klog("generated-kafka-4.3-dynamic-voters"))
    assert [bool(log.problems) for log in verdict.logs] == [True, False, False]
    found = problems(verdict)
    assert all("of topic t564 set to" in problem for problem in found)
    assert [int(Path(problem.partition(": ")[0]).name[:20]) for problem in found] == [
        635,
        749,
        864,
        982,
        1108,
        1390,
        1503,
    ]
    assert [(pair.common_end, pair.problem, pair.note) for pair in verdict.pairs] == [
        (1688, "", ""),
        (1688, "", ""),
        (1690, "", ""),
    ]


def test_an_incomplete_copy_is_told():
    verdict = judged(klog("kafka-3.8-three-nodes-incomplete-export") / "node-1")
    [problem] = problems(verdict)
    assert "ends at offset 13057, but leader-epoch-checkpoint knows that epoch 5 begins at 16147" in problem


def test_logs_in_order_are_whole_and_have_one_hash(tmp_path: Path):
    made = orders(tmp_path / "node-1")
    made.snapshot()
    made.roll().batch(config("2"))
    made.snapshot()
    made.copy(tmp_path / "node-2", 2).batch(config("3"))
    verdict = judged(tmp_path)
    assert verdict.is_whole, problems(verdict)
    assert [(log.end_offset, log.snapshot_count) for log in verdict.logs] == [(12, 2), (13, 2)]
    assert verdict.pairs[0].common_end == 12


def flip(made: LogMaker) -> None:
    data = bytearray(made.segment.read_bytes())
    data[-3] ^= 1
    made.segment.write_bytes(data)


def wrong_epoch_file(made: LogMaker) -> None:
    entries = [EpochEntry(1, 0), EpochEntry(3, 4), EpochEntry(4, 9)]
    (made.log / names.EPOCH_CHECKPOINT).write_bytes(epoch_checkpoint.encode(entries))


def older_epoch(made: LogMaker) -> None:
    made.epoch = 2
    made.batch(config("2"))


def gap(made: LogMaker) -> None:
    made.end += 2
    made.batch(config("2"))


def impossible(made: LogMaker) -> None:
    made.batch(RemoveTopicRecord(topic_id=b"z" * 16))


def unreadable(made: LogMaker) -> None:
    with made.segment.open("ab") as file:
        file.write(encode_batch(made.end, made.epoch, T0 + 60_000, [b"\x01\x04\x00\xff"]))


@pytest.mark.parametrize("at", ["at its beginning", "behind its header", "behind its footer"])
def test_a_sparse_snapshot_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    made = orders(tmp_path / "node")
    path = made.snapshot()
    sizes = [item.view.size_bytes for item in read_batches(path) if isinstance(item, Batch)]
    good_bytes = {"at its beginning": 0, "behind its header": sizes[0], "behind its footer": sum(sizes)}[at]
    os.truncate(path, good_bytes)
    os.truncate(path, 1 << 40)
    monkeypatch.setattr(batch_reader, "plausible_headers", lambda *_: pytest.fail("a terabyte is looked at"))
    [problem] = judged(made.home).logs[0].problems
    assert problem.file.endswith(path.name)
    assert (problem.position_bytes, problem.what) == (good_bytes, "zeros, where a batch must begin")


def cut_snapshot(made: LogMaker) -> None:
    path = made.snapshot()
    path.write_bytes(path.read_bytes()[:-40])


def other_snapshot(made: LogMaker) -> None:
    made.snapshot(broker(9))


def snapshot_of_another_epoch(made: LogMaker) -> None:
    path = made.snapshot()
    path.rename(path.with_name(f"{made.end:020}-{7:010}.checkpoint"))


def snapshot_beyond_the_end(made: LogMaker) -> None:
    path = made.snapshot()
    path.rename(path.with_name(f"{made.end + 5:020}-{3:010}.checkpoint"))


def snapshot_inside_a_batch(made: LogMaker) -> None:
    path = made.snapshot()
    path.rename(path.with_name(f"{5:020}-{1:010}.checkpoint"))


def no_segment(made: LogMaker) -> None:
    made.segment.unlink()


def broken_election(made: LogMaker) -> None:
    (made.log / names.QUORUM_STATE).write_bytes(b"{}")


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (flip, "offset 10: the checksum is"),
        (wrong_epoch_file, "leader-epoch-checkpoint: epoch 3 begins at 4, in the log at 8"),
        (older_epoch, "offset 11: the batch says epoch 2 after epoch 3"),
        (gap, "offset 11: the batch says offset 13 where 11 must come"),
        (impossible, "offset 11: cannot follow what came before it: there is no topic with the id"),
        (unreadable, "offset 11: "),
        (cut_snapshot, "the batch claims 75 bytes, 35 are left"),
        (
            other_snapshot,
            "is not what the log makes at offset 11; the snapshot against the log: broker 9 reg",
        ),
        (snapshot_of_another_epoch, "is a snapshot of epoch 3, its name says 7"),
        (snapshot_beyond_the_end, "is of offset 16, but the log ends at 11: what lies between is missing"),
        (snapshot_inside_a_batch, "offset 5 is not between two batches"),
        (broken_election, "quorum-state: "),
        (no_segment, "__cluster_metadata-0: holds neither segment nor snapshot: this node was never started"),
    ],
)
def test_each_fault_is_told(tmp_path: Path, harm: Callable[[LogMaker], None], words: str):
    made = orders(tmp_path)
    assert judged(tmp_path).is_whole
    harm(made)
    verdict = judged(tmp_path)
    assert not verdict.is_whole
    found = problems(verdict)
    assert any(words in problem for problem in found), found
    assert all(str(tmp_path) in problem for problem in found)


def test_the_voters_of_a_snapshot_are_those_of_the_log(tmp_path: Path):
    made = orders(tmp_path).voters(1, 2, 3)
    made.snapshot(voters=(1, 2, 3))
    assert judged(tmp_path).is_whole
    made.snapshot(voters=(1, 2))
    [problem] = problems(judged(tmp_path))
    assert problem.endswith("the snapshot against the log: it has other voters")
    made.snapshot()
    assert "kraft.version is 0, not 1" in problems(judged(tmp_path))[0]


def test_no_snapshot_stands_inside_a_transaction(tmp_path: Path):
    made = orders(tmp_path).batch(BeginTransactionRecord()).batch(config("2"))
    made.snapshot()
    [problem] = problems(judged(tmp_path))
    assert problem.endswith("the transaction that began at 11 has not ended there")


def test_records_that_do_not_fill_their_batch_are_told_with_their_own_byte_and_one_path(tmp_path: Path):
    made = orders(tmp_path)
    start = made.segment.stat().st_size
    data = bytearray(encode_batch(made.end, made.epoch, T0, [encode_record(NoOpRecord())]))
    data[61] += 2
    data[17:21] = crc32c(data[21:]).to_bytes(4, "big")
    with made.segment.open("ab") as file:
        file.write(data)
    [problem] = problems(judged(tmp_path))
    assert f"{made.segment.name} at byte {start}, offset 11: " in problem
    assert problem.count(made.segment.name) == 1
    damage = state_at(find_logs(tmp_path)[0]).damage
    assert damage is not None
    assert str(damage).count(made.segment.name) == 1
    assert f"at byte {start}, offset 11: " in str(damage)


def test_a_torn_end_is_a_note(tmp_path: Path):
    made = orders(tmp_path)
    made.segment.write_bytes(made.segment.read_bytes()[:-3])
    verdict = judged(tmp_path)
    assert verdict.is_whole, problems(verdict)
    assert ["it was being written" in note.text for note in verdict.logs[0].notes] == [True]


def test_behind_a_fault_the_fold_goes_on_from_the_next_snapshot(tmp_path: Path):
    made = orders(tmp_path)
    made.snapshot()
    made.batch(config("2"))
    made.snapshot(broker(9))
    data = bytearray(made.segment.read_bytes())
    first, second, *_ = scan(bytes(data))
    data[first.size_bytes + second.size_bytes - 3] ^= 1  # offset 1
    made.segment.write_bytes(data)
    verdict = judged(tmp_path)
    checksum, snapshot = problems(verdict)
    assert "offset 1: the checksum is" in checksum
    assert f"{12:020}" in snapshot
    assert "broker 9 registered" in snapshot
    assert any("from here on the state is folded again" in note.text for note in verdict.logs[0].notes)


def begins_as_kafka_cuts_it(made: LogMaker) -> None:
    """The checkpoint loses its beginning with the log."""
    (made.log / names.EPOCH_CHECKPOINT).write_bytes(epoch_checkpoint.encode([EpochEntry(3, 11)]))


def test_a_log_whose_beginning_is_gone_is_whole_with_its_snapshot(tmp_path: Path):
    """Kafka cuts the checkpoint a moment after the log: a node that was killed in between has it whole."""
    made = orders(tmp_path)
    snapshot = made.snapshot()
    made.roll().batch(config("2"))
    made.snapshot()
    (made.log / f"{0:020}.log").unlink()
    for cut_checkpoint in (lambda: None, lambda: begins_as_kafka_cuts_it(made)):
        cut_checkpoint()
        verdict = judged(tmp_path)
        assert verdict.is_whole, problems(verdict)
        assert verdict.logs[0].snapshot_count == 1
    snapshot.unlink()
    (made.log / f"{12:020}-{3:010}.checkpoint").unlink()
    [problem] = problems(judged(tmp_path))
    assert problem.endswith("begins at offset 11, and no snapshot holds the state before it")


def test_an_epoch_that_ended_before_the_log_is_not_missed_in_its_checkpoint(tmp_path: Path):
    """The log begins inside its first segment, which still holds the end of an older epoch."""
    made = orders(tmp_path)
    made.snapshot()
    made.lead(1, 4).batch(config("2"))
    (made.log / names.EPOCH_CHECKPOINT).write_bytes(epoch_checkpoint.encode([EpochEntry(4, 11)]))
    verdict = judged(tmp_path)
    assert verdict.is_whole, problems(verdict)


def test_a_beginning_that_is_in_no_snapshot_is_missing(tmp_path: Path):
    made = orders(tmp_path)
    made.snapshot()
    made.batch(config("2")).roll().batch(config("3"))
    (made.log / f"{0:020}.log").unlink()
    [missing] = problems(judged(tmp_path))
    assert missing.endswith(
        "offsets 0 to 11 are missing before it: leader-epoch-checkpoint knows that epoch 1 begins there"
    )


def test_a_lost_snapshot_inside_the_first_segment_is_the_only_thing_that_is_missing(tmp_path: Path):
    """The checkpoint begins at the snapshot, as the log did, though the segment goes back further."""
    made = orders(tmp_path)
    made.batch(config("1")).roll().batch(config("2"))
    lost = made.snapshot()
    made.batch(config("3"))
    (made.log / f"{0:020}.log").unlink()
    (made.log / names.EPOCH_CHECKPOINT).write_bytes(epoch_checkpoint.encode([EpochEntry(3, 13)]))
    assert judged(tmp_path).is_whole
    lost.unlink()
    [problem] = problems(judged(tmp_path))
    assert problem.endswith("begins at offset 12, and no snapshot holds the state before it")


def test_what_cannot_be_read_of_one_log_is_not_said_to_agree(tmp_path: Path):
    """Batches behind the damage are sound and equal, and yet the logs agree only up to it."""
    made = orders(tmp_path / "node-1")
    for value in "234":
        made.batch(config(value))
    made.copy(tmp_path / "node-2", 2)
    data = bytearray(made.segment.read_bytes())
    *_, third, second, _last = scan(bytes(data))
    assert (third.base_offset, second.base_offset) == (11, 12)
    data[data.index(bytes(third.raw)) + third.size_bytes - 3] ^= 1
    made.segment.write_bytes(data)
    verdict = judged(tmp_path)
    [pair] = verdict.pairs
    assert (pair.common_end, pair.problem, pair.note) == (11, "", "")
    assert [log.unread for log in verdict.logs] == [((11, 12),), ()]

    flip(made)
    verdict = judged(tmp_path)
    assert [log.unread for log in verdict.logs] == [((11, 12), (13, -1)), ()]


def test_two_ends_of_different_epochs_only_part(tmp_path: Path):
    """Node 1 led epoch 3 and wrote what nobody has; node 2 leads epoch 4 without it."""
    made = orders(tmp_path / "node-1")
    other = made.copy(tmp_path / "node-2", 2)
    made.batch(config("lost"))
    other.lead(2, 4).batch(config("kept"))
    verdict = judged(tmp_path)
    assert verdict.is_whole
    [pair] = verdict.pairs
    assert (pair.common_end, pair.comparison.parted_at) == (11, 11)
    assert "part at offset 11 (epochs 3 and 4): one of the two ends was never committed" in pair.note


def test_one_offset_and_epoch_with_two_contents_breaks_log_matching(tmp_path: Path):
    made = orders(tmp_path / "node-1")
    other = made.copy(tmp_path / "node-2", 2)
    made.batch(config("2"))
    other.batch(config("3"))
    verdict = judged(tmp_path)
    assert not verdict.is_whole
    assert verdict.pairs[0].problem.endswith("they hold different records at offset 11, both of epoch 3")


def test_logs_that_agree_again_after_they_parted_break_log_matching(tmp_path: Path):
    made = orders(tmp_path / "node-1")
    other = made.copy(tmp_path / "node-2", 2)
    made.epoch, other.epoch = 4, 5
    made.batch(config("2"))
    other.batch(config("2"))
    made.epoch = other.epoch = 6
    for each in (made, other):
        each.batch(config("3"), at_ms=T0)
        (each.log / names.QUORUM_STATE).unlink()
    assert "hold the same batch at offset 12, epoch 6" in judged(tmp_path).pairs[0].problem


def test_one_offset_and_epoch_behind_a_parting_breaks_log_matching_too(tmp_path: Path):
    made = orders(tmp_path / "node-1")
    other = made.copy(tmp_path / "node-2", 2)
    made.lead(1, 4).lead(1, 6).batch(config("2"))
    other.lead(2, 5).lead(2, 6)
    assert "hold different records at offset 12, both of epoch 6" in judged(tmp_path).pairs[0].problem


def test_a_log_that_begins_later_is_compared_from_there(tmp_path: Path):
    made = orders(tmp_path / "node-1")
    made.snapshot()
    made.roll().batch(config("2"))
    other = made.copy(tmp_path / "node-2", 2)
    (other.log / f"{0:020}.log").unlink()
    begins_as_kafka_cuts_it(other)
    verdict = judged(tmp_path)
    assert verdict.is_whole
    assert (verdict.pairs[0].common_end, verdict.pairs[0].comparison.parted_at) == (12, -1)


def test_two_clusters_under_one_id_are_told_apart_and_each_is_judged(tmp_path: Path):
    """An id is copied from a tutorial; a node's replaced disk is no other cluster."""
    for name, leader in (("a1", 1), ("a2", 1), ("b1", 2)):
        made = LogMaker(tmp_path / name).lead(leader, 1).batch(config(f"{leader}"))
        if name != "a2":
            made.batch(config(f"{leader}0"))
    verdict = judged(tmp_path)
    assert not verdict.is_whole
    assert [[log.home.name for log in cluster] for cluster in verdict.clusters] == [["a1", "a2"], ["b1"]]
    [problem] = [pair.problem for pair in verdict.pairs if pair.problem]
    assert f"{tmp_path / 'a2'} and {tmp_path / 'b1'} are of two clusters that share the id" in problem
    assert "differ from the first batch that both hold, at offset 0" in problem
    assert not any(pair.note for pair in verdict.pairs)


def test_logs_that_share_no_offset_are_undecided(tmp_path: Path):
    early = LogMaker(tmp_path / "early").lead(1, 1).batch(config("1"))
    late = LogMaker(tmp_path / "late").lead(1, 1).batch(config("1"))
    late.roll().batch(config("2"))
    late.snapshot()
    (late.log / f"{0:020}.log").unlink()
    assert early.end <= late.end
    [pair] = judged(tmp_path).pairs
    assert pair.comparison.is_undecided
    assert "share no offset: nothing says whether they are of one cluster" in pair.note


def test_logs_of_two_clusters_are_not_compared(tmp_path: Path):
    orders(tmp_path / "one")
    verdict = judged(tmp_path / "one", klog("generated-kafka-4.3-dynamic-voters") / "node-2")
    assert (len(verdict.logs), verdict.pairs) == (2, ())


def test_a_log_of_a_newer_kafka_is_whole_and_partial(tmp_path: Path):
    made = orders(tmp_path)
    made.batch(RawRecord(99, 0, b"x"), NoOpRecord())
    verdict = judged(tmp_path)
    assert verdict.is_whole
    assert verdict.logs[0].unknown_kinds == ((99, 1),)


def replaced(made: LogMaker, *records: AnyRecord) -> Path:
    """A snapshot at the end of the log that holds these records and nothing else."""
    return write_snapshot(made.log, OffsetAndEpoch(made.end, made.epoch), records, T0)


@pytest.mark.parametrize(
    ("record", "what"),
    [
        (RawRecord(200, 1, b""), "of kind UnknownRecord200, version 1"),
        (RawRecord(12, 9, b""), "of kind FeatureLevelRecord, version 9"),
    ],
)
def test_an_unknown_record_that_only_a_snapshot_has_is_told_with_its_byte_instead_of_what_differs(
    tmp_path: Path, record: AnyRecord, what: str
):
    snapshot = replaced(orders(tmp_path), NoOpRecord(), record)
    [problem] = problems(judged(tmp_path))
    start = next(scan(snapshot.read_bytes())).size_bytes
    assert problem == (
        f"{snapshot} at byte {start}, offset 2: the record is {what}, which this version of kraftd cannot "
        "apply; not compared with the log"
    )


def test_a_snapshot_with_unknown_records_that_the_log_has_too_is_no_fault(tmp_path: Path):
    """A newer Kafka's: what they change is not known, so what differs may be their work."""
    made = orders(tmp_path).batch(RawRecord(99, 0, b"x"))
    snapshot = made.snapshot(RawRecord(99, 0, b"x"))
    verdict = judged(tmp_path)
    assert (verdict.is_whole, verdict.logs[0].snapshot_count, verdict.logs[0].notes) == (True, 1, ())
    replaced(made, RawRecord(99, 0, b"x"))
    verdict = judged(tmp_path)
    assert (verdict.is_whole, verdict.logs[0].snapshot_count) == (True, 0)
    [note] = verdict.logs[0].notes
    assert str(note).startswith(f"{snapshot} at byte ")
    assert "the record is of kind UnknownRecord99, version 0" in str(note)


def test_an_unknown_record_of_the_snapshot_that_the_state_begins_with_has_its_place(tmp_path: Path):
    made = LogMaker(tmp_path, start=100).lead(1, 3)
    write_snapshot(made.log, OffsetAndEpoch(100, 2), [RawRecord(99, 0, b"x")], T0)
    verdict = judged(tmp_path)
    assert (verdict.is_whole, verdict.logs[0].unknown_kinds) == (True, ((99, 1),))
    assert [
        "at byte 83, offset 1: the record is of kind UnknownRecord99, version 0" in str(note)
        for note in verdict.logs[0].notes
    ] == [True]


def test_a_second_topic_of_a_name_is_told_with_its_own_offset(tmp_path: Path):
    orders(tmp_path).batch(config("1"), TopicRecord(name="orders", topic_id=b"o" * 16))
    [problem] = problems(judged(tmp_path))
    assert "offset 12: cannot follow what came before it: there is a topic orders already" in problem


def epoch_file_without_an_epoch(made: LogMaker) -> None:
    made.lead(3, 4).lead(1, 7)
    entries = [EpochEntry(1, 0), EpochEntry(3, 8), EpochEntry(7, 12)]
    (made.log / names.EPOCH_CHECKPOINT).write_bytes(epoch_checkpoint.encode(entries))


def epoch_that_begins_later_than_noted(made: LogMaker) -> None:
    """The checksum does not cover the epoch: the first batch of epoch 3 says 2."""
    data = bytearray(made.segment.read_bytes())
    position = sum(batch.size_bytes for batch in list(scan(bytes(data)))[:5])
    data[position + 15] = 2
    made.segment.write_bytes(data)


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (epoch_file_without_an_epoch, "lacks epoch 4, which begins at 11 in the log"),
        (
            epoch_that_begins_later_than_noted,
            "offset 8: the batch says epoch 2, but leader-epoch-checkpoint says 3",
        ),
    ],
)
def test_where_epochs_begin_is_what_the_checkpoint_says(
    tmp_path: Path, harm: Callable[[LogMaker], None], words: str
):
    harm(orders(tmp_path))
    found = problems(judged(tmp_path))
    assert any(words in problem for problem in found), found


def test_an_epoch_without_a_record_may_stand_in_the_checkpoint(tmp_path: Path):
    made = orders(tmp_path)
    entries = [*made.epochs, EpochEntry(5, made.end)]
    (made.log / names.EPOCH_CHECKPOINT).write_bytes(epoch_checkpoint.encode(entries))
    assert judged(tmp_path).is_whole


@pytest.mark.parametrize("which", ["segment", "snapshot"])
def test_whatever_byte_is_changed_it_is_told(tmp_path: Path, which: str):
    """Whether a checksum covers it or not; at the end of the log it may be an unfinished write."""
    made = orders(tmp_path)
    snapshot = made.snapshot()
    made.batch(config("2"))
    path = made.segment if which == "segment" else snapshot
    data = path.read_bytes()
    untold = []
    for position in range(0, len(data), 3):  # by 3: each field of a header is met in one batch or another
        changed = bytearray(data)
        changed[position] ^= 1 << position % 8
        path.write_bytes(changed)
        verdict = judged(tmp_path)
        if verdict.is_whole and not verdict.logs[0].notes:
            untold.append(position)
    assert untold == []


def test_an_election_while_the_log_is_read_is_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A running node writes a record of an epoch that the election file, read before, did not know."""
    made = orders(tmp_path)
    steps = iter([lambda: made.lead(3, 5)])
    decode = quorum_state.decode

    def then_an_election(data: bytes) -> object:
        found = decode(data)
        for step in steps:
            step()
        return found

    monkeypatch.setattr(quorum_state, "decode", then_an_election)
    assert judged(tmp_path).is_whole
