"""What observers get of a leader, and when: only what is committed, after the followers, in groups (D-24)."""

from collections.abc import Sequence

from kraftd.errors import ErrorCode
from kraftd.raft import effects as fx
from kraftd.raft import events as ev
from kraftd.records.batch import encode_batch
from kraftd.types import Election, OffsetAndEpoch
from tests.conformance import covers
from tests.unit.raft.lone import Lone, every, identity_of
from tests.unit.raft.test_serving import fetch_of, told, values_in

LINGER_MS = 5
OBSERVERS = (101, 102, 103)


def leader(*epochs: int, in_memory: bool = True) -> Lone:
    """It leads, and its first record is committed."""
    election = Election(epochs[-1]) if epochs else None
    return Lone(epochs=epochs, election=election, in_memory=in_memory).become_leader().establish()


def fetch(
    lone: Lone,
    replica: int,
    offset: int,
    *,
    last_epoch: int | None = None,
    known: int | None = None,
    wait_ms: int = 400,
) -> list[fx.Effect]:
    """A replica fetches under a handle of its own number; by default it knows all up to its position."""
    epoch = lone.epoch if last_epoch is None else last_epoch
    known = offset if known is None else known
    request = fetch_of(lone, offset, epoch, replica=replica, wait_ms=wait_ms, known=known)
    return lone.feed(ev.RequestReceived(replica, request, 18, identity_of(replica)))


def commit(lone: Lone, value: bytes) -> list[fx.Effect]:
    """A record is appended, and a follower has it, too. The flush and the append are this turn's."""
    seen = len(lone.effects)
    lone.append(value)
    lone.ask_fetch(lone.raft_node.log.end_offset, lone.epoch, replica=2)
    return lone.effects[seen:]


def answered(effects: Sequence[fx.Effect]) -> dict[int, list[bytes]]:
    """The records of each response, by handle."""
    return {reply.handle: values_in(reply.records) for reply in every(effects, fx.Reply)}


@covers("D-24")
def test_an_observer_is_given_a_record_once_it_is_committed_and_a_follower_before() -> None:
    lone = leader()
    end = lone.raft_node.log.end_offset
    for replica in (3, *OBSERVERS):
        assert not every(fetch(lone, replica, end), fx.Reply)
    seen = len(lone.effects)
    lone.append(b"new")
    assert answered(lone.effects[seen:]) == {3: [b"new"]}
    seen = len(lone.effects)
    lone.ask_fetch(end + 1, lone.epoch, replica=2)
    replies = [reply for reply in every(lone.effects[seen:], fx.Reply) if reply.handle in OBSERVERS]
    assert [answered(replies)[replica] for replica in OBSERVERS] == [[b"new"]] * 3
    assert {told(reply).high_watermark for reply in replies} == {end + 1}


@covers("D-24")
def test_who_was_up_to_date_is_answered_at_once_and_then_once_in_a_linger() -> None:
    lone = leader()
    end = lone.raft_node.log.end_offset
    for replica in OBSERVERS:
        fetch(lone, replica, end)
    assert answered(commit(lone, b"first")).keys() >= {*OBSERVERS}
    began_ms = lone.now_ms
    lone.run(1)
    for replica in OBSERVERS[:2]:
        assert not every(fetch(lone, replica, end + 1), fx.Reply)
    assert not {*OBSERVERS} & answered(commit(lone, b"second")).keys()
    assert not {*OBSERVERS} & answered(commit(lone, b"third")).keys()
    # It comes late to this group, with records already there for it.
    assert OBSERVERS[2] not in answered(fetch(lone, OBSERVERS[2], end + 1))
    late = lone.run(began_ms + LINGER_MS - 1 - lone.now_ms)
    assert not {*OBSERVERS} & answered(late).keys()
    group = answered(lone.run(1))
    assert [group[replica] for replica in OBSERVERS] == [[b"second", b"third"]] * 3


@covers("D-24")
def test_a_hundred_observers_are_answered_less_often_than_three() -> None:
    lone = leader()
    end = lone.raft_node.log.end_offset
    many = range(1_000, 1_100)
    for replica in many:
        fetch(lone, replica, end)
    assert answered(commit(lone, b"first")).keys() >= {*many}
    for replica in many:
        assert not every(fetch(lone, replica, end + 1), fx.Reply)
    commit(lone, b"second")
    assert not {*many} & answered(lone.run(39)).keys()
    assert answered(lone.run(1)).keys() >= {*many}


@covers("D-24")
def test_who_is_behind_the_last_group_is_answered_at_once() -> None:
    lone = leader()
    end = lone.raft_node.log.end_offset
    fetch(lone, 101, end)
    assert 101 in answered(commit(lone, b"first"))
    assert answered(fetch(lone, 102, end)) == {102: [b"first"]}


@covers("D-24", "D-10")
def test_an_observer_that_has_every_record_is_told_of_a_higher_watermark() -> None:
    lone = leader()
    end = lone.raft_node.log.end_offset
    (reply,) = every(fetch(lone, 101, end, known=end - 1), fx.Reply)
    assert (told(reply).high_watermark, values_in(reply.records)) == (end, [])


@covers("D-24", "D-15")
def test_the_disk_is_read_for_one_observer_at_a_time_and_a_follower_waits_for_none() -> None:
    lone = leader(4, in_memory=False)
    for replica in (*OBSERVERS, 3):
        fetch(lone, replica, 0, last_epoch=0)
    first, followers = every(lone.effects, fx.ColdRead)
    lone.feed(ev.BatchesRead(followers.token, 0, encode_batch(0, 4, 0, [b"old"])))
    assert answered(lone.effects)[3] == [b"old"]
    assert len(every(lone.effects, fx.ColdRead)) == 2
    for count, read in enumerate((first, None, None), 1):
        reads = every(lone.effects, fx.ColdRead)
        lone.feed(ev.BatchesRead((read or reads[-1]).token, 0, encode_batch(0, 4, 0, [b"old"])))
        assert sum(handle in OBSERVERS for handle in answered(lone.effects)) == count
    assert [answered(lone.effects)[replica] for replica in OBSERVERS] == [[b"old"]] * 3


@covers("D-15", "D-22")
def test_who_waits_for_the_disk_is_told_of_no_error_when_the_log_is_cut_there() -> None:
    """It fetches again, and is told of the snapshot."""
    lone = leader(4, 4, 4, in_memory=False)
    fetch(lone, 101, 1, last_epoch=4)
    (read,) = every(lone.effects, fx.ColdRead)
    at_2 = OffsetAndEpoch(2, 4)
    lone.feed(ev.SnapshotTaken(at_2))
    assert every(lone.feed(ev.CutRequested(at_2)), fx.CutLog)
    (reply,) = every(lone.feed(ev.BatchesRead(read.token, 0, b"")), fx.Reply)
    assert (told(reply).error_code, told(reply).log_start_offset) == (ErrorCode.NONE, 2)
    (reply,) = every(fetch(lone, 101, 1, last_epoch=4), fx.Reply)
    assert told(reply).snapshot_id.end_offset == 2


@covers("D-15")
def test_a_log_that_cannot_be_read_where_it_should_be_is_an_error() -> None:
    lone = leader(4, 4, 4, in_memory=False)
    fetch(lone, 101, 1, last_epoch=4)
    (read,) = every(lone.effects, fx.ColdRead)
    (reply,) = every(lone.feed(ev.BatchesRead(read.token, 0, b"")), fx.Reply)
    assert told(reply).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


@covers("D-13", "D-24")
def test_who_waits_for_the_disk_is_refused_when_the_leadership_ends() -> None:
    lone = leader(4, in_memory=False)
    for replica in OBSERVERS:
        fetch(lone, replica, 0, last_epoch=0)
    seen = len(lone.effects)
    lone.ask_vote(lone.epoch + 1)
    replies = [reply for reply in every(lone.effects[seen:], fx.Reply) if reply.handle in OBSERVERS]
    assert {told(reply).error_code for reply in replies} == {ErrorCode.NOT_LEADER_OR_FOLLOWER}
    assert {reply.handle for reply in replies} == {*OBSERVERS}
