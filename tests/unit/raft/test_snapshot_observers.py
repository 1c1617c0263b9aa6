"""How many observers load a snapshot at once, and for how long what they load is kept."""

import pytest

from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.raft import effects as fx
from kraftd.raft import events as ev
from kraftd.raft.retention import LeasedSnapshots
from kraftd.types import Election, OffsetAndEpoch
from tests.conformance import covers
from tests.unit.raft.lone import Lone, every
from tests.unit.raft.test_snapshot_serving import AT_100, AT_103, leader, reading, sent

AT_101 = OffsetAndEpoch(101, 4)
SIZE = 10


def alone(*snapshots: OffsetAndEpoch) -> Lone:
    """The only voter, which leads however long a test takes. It has records up to 103, and the snapshots."""
    options: dict = {"epochs": (4, 4, 4), "start_offset": 100, "snapshots": snapshots or (AT_100,)}
    return Lone(election=Election(5), voters=(1,), **options).establish()


def ask(
    lone: Lone,
    observer: int,
    position: int = 0,
    *,
    at: OffsetAndEpoch = AT_100,
    max_bytes: int = 1 << 20,
    prefix_checksum: int = -1,
    connection: int | None = None,
) -> list[fx.ReadSnapshot]:
    """An observer asks for a piece; returns the reads that are begun now."""
    seen = len(lone.effects)
    lone.ask_snapshot(
        at,
        position,
        replica=observer,
        sender=None,
        max_bytes=max_bytes,
        prefix_checksum=prefix_checksum,
        connection=connection,
    )
    return every(lone.effects[seen:], fx.ReadSnapshot)


def given(lone: Lone, read: fx.ReadSnapshot, data: bytes, size_bytes: int = SIZE) -> list[fx.Effect]:
    """The disk has read that piece; returns what comes of it."""
    return lone.feed(ev.SnapshotRead(read.token, data, size_bytes))


def error_of(effects: list[fx.Effect]) -> int:
    """The error of the one piece that is answered there."""
    (reply,) = every(effects, fx.Reply)
    assert isinstance(reply.response, m.FetchSnapshotResponse)
    return reply.response.topics[0].partitions[0].error_code


def leased(lone: Lone) -> LeasedSnapshots:
    return lone.raft_node.leased_snapshots(lone.now_ms)


# --- leases -------------------------------------------------------------------------------------------------


@covers("D-22")
def test_a_snapshot_is_leased_after_each_piece_until_a_voter_can_have_found_its_leader_again() -> None:
    """That takes a fetch timeout, 2 s, and an election timeout, 1 s."""
    lone = leader()
    assert leased(lone) == LeasedSnapshots()
    lone.ask_fetch(40, 1, replica=3)
    assert leased(lone).voters == {AT_100}
    for position in range(5):
        lone.run(1_900)
        lone.ask_fetch(103, 6, replica=2)
        lone.ask_snapshot(AT_100, position, replica=3, sender=3, max_bytes=1)
        sent(lone, b"x")
    assert lone.raft_node.leased_snapshots(lone.now_ms + 3_000).voters == {AT_100}
    assert lone.raft_node.leased_snapshots(lone.now_ms + 3_001) == LeasedSnapshots()


@covers("D-22")
def test_what_a_voter_downloads_stays_when_it_is_told_of_a_newer_one() -> None:
    lone = leader()
    lone.ask_fetch(40, 1, replica=3)
    lone.ask_snapshot(AT_100, replica=3, sender=3, max_bytes=1)
    sent(lone, b"x", size_bytes=200)
    lone.feed(ev.SnapshotTaken(AT_101))
    lone.ask_fetch(40, 1, replica=3)
    assert leased(lone).voters == {AT_100}, "it may go on with it"
    lone.ask_snapshot(AT_101, replica=3, sender=3, max_bytes=1)
    assert leased(lone).voters == {AT_101}, "it did not"


@covers("D-22")
@pytest.mark.parametrize(("size_bytes", "holds_ms"), [(17_000, 60_000), (10 << 20, 2_000 + 99_864)])
def test_a_voter_that_is_told_of_newer_ones_and_asks_for_nothing_keeps_the_older_for_no_longer_than_a_proof(
    size_bytes: int, holds_ms: int
) -> None:
    """That takes a minute at most, or ten times as long as the file needs; else its disk hangs."""
    lone = leader()
    lone.ask_snapshot(AT_100, replica=3, sender=3, max_bytes=1)
    sent(lone, b"x", size_bytes)
    lone.feed(ev.SnapshotTaken(AT_101))
    began_ms = lone.now_ms
    for _ in range(120):
        lone.run(1_000)
        lone.ask_fetch(104, 6, replica=2)
        lone.ask_fetch(40, 1, replica=3)
        is_kept = lone.now_ms - began_ms <= holds_ms
        assert leased(lone).voters == {AT_100 if is_kept else AT_101}
    lone.feed(ev.SnapshotTaken(AT_103))
    for _ in range(61):
        lone.run(1_000)
        lone.ask_fetch(104, 6, replica=2)
        lone.ask_fetch(40, 1, replica=3)
    assert leased(lone).voters == {AT_103}, "nor does it keep what it was only told of"


@covers("D-22")
def test_a_voter_that_was_away_for_longer_is_leased_what_it_is_told_of() -> None:
    lone = leader()
    lone.ask_fetch(40, 1, replica=3)
    lone.feed(ev.SnapshotTaken(AT_101))
    for _ in range(2):
        lone.ask_fetch(104, 6, replica=2)
        lone.run(1_600)
    lone.ask_fetch(40, 1, replica=3)
    assert leased(lone).voters == {AT_101}


@covers("D-22")
def test_a_voters_lease_has_no_end_while_it_goes_on() -> None:
    lone = leader()
    for position in range(100):
        lone.ask_fetch(103, 6, replica=2)
        lone.ask_snapshot(AT_100, position, replica=3, sender=3, max_bytes=1)
        sent(lone, b"x", size_bytes=200)
        lone.feed(ev.SnapshotTaken(AT_101))
        lone.run(1_500)
    assert leased(lone) == LeasedSnapshots(voters=frozenset({AT_100}))


@covers("D-22", "D-24")
@pytest.mark.parametrize("who", ["one observer", "ever new ids", "one that is silent now and then"])
@pytest.mark.parametrize(("size_bytes", "holds_ms"), [(17_000, 60_000), (10 << 20, 2_000 + 99_864)])
def test_observers_hold_what_is_not_the_newest_for_a_minute_or_ten_times_as_long_as_the_file_needs(
    size_bytes: int, holds_ms: int, who: str
) -> None:
    lone = alone()
    reads = ask(lone, 9)
    given(lone, reads[0], b"x", size_bytes)
    lone.feed(ev.SnapshotTaken(AT_103))
    began_ms = lone.now_ms
    for second in range(1, 121):
        lone.run(1_000)
        if who == "one that is silent now and then" and second % 10 > 5:
            continue
        observer = 9 + second if who == "ever new ids" else 9
        for read in ask(lone, observer, second, max_bytes=1):
            given(lone, read, b"x", size_bytes)
        assert bool(leased(lone).observers) == (lone.now_ms - began_ms <= holds_ms), second


@covers("D-22", "D-24")
def test_what_an_observer_loads_is_leased_for_a_fetch_timeout_after_each_piece() -> None:
    """A voter, which may have to find its leader again meanwhile, for an election timeout more."""
    lone = alone()
    given(lone, ask(lone, 9)[0], b"x", 200)
    lone.feed(ev.SnapshotTaken(AT_103))
    assert lone.raft_node.leased_snapshots(lone.now_ms + 2_000).observers
    assert lone.raft_node.leased_snapshots(lone.now_ms + 2_001) == LeasedSnapshots()


@covers("D-24")
def test_an_observer_that_asks_for_two_snapshots_in_turn_holds_both_no_longer() -> None:
    lone = alone(AT_100)
    ask(lone, 9)
    lone.feed(ev.SnapshotTaken(AT_101))
    ask(lone, 9, at=AT_101)
    lone.feed(ev.SnapshotTaken(AT_103))
    for _ in range(61):
        lone.run(1_000)
        ask(lone, 9, at=AT_100)
        ask(lone, 9, at=AT_101)
    assert leased(lone) == LeasedSnapshots()


@covers("D-24")
def test_observers_are_told_apart_from_nobody_and_each_keeps_what_it_loads() -> None:
    """Two without an id load one snapshot each."""
    lone = alone(AT_100)
    ask(lone, -1, connection=1)
    lone.feed(ev.SnapshotTaken(AT_103))
    ask(lone, -1, at=AT_103, connection=2)
    assert leased(lone).observers == {AT_100, AT_103}


@covers("D-24")
def test_a_snapshot_that_is_not_offered_any_more_is_leased_by_no_newcomer() -> None:
    lone = alone(AT_100, AT_103)
    assert ask(lone, 9), "it is served as long as it is there"
    assert leased(lone) == LeasedSnapshots()


@covers("D-24")
def test_the_newest_is_leased_anew_by_each_that_is_told_of_it() -> None:
    lone = alone()
    for _ in range(3):
        lone.ask_fetch(0, 0, replica=9)
        lone.run(59_000)
    lone.ask_fetch(0, 0, replica=-1)
    lone.feed(ev.SnapshotTaken(AT_103))
    for _ in range(60):
        lone.run(1_000)
        ask(lone, 8)
        assert leased(lone).observers == {AT_100}


@covers("D-22", "D-24")
def test_the_log_is_cut_behind_what_observers_load_only_if_they_hold_more_than_they_may() -> None:
    lone = alone(AT_100, AT_101)
    ask(lone, 9, at=AT_101)
    lone.feed(ev.SnapshotTaken(AT_103))
    assert not every(lone.feed(ev.CutRequested(AT_103)), fx.CutLog)
    lone.feed(ev.CutRequested(AT_101))
    assert leased(lone).observers == {AT_101}
    assert every(lone.feed(ev.CutRequested(AT_103, ends_observers_leases=True)), fx.CutLog)
    assert leased(lone) == LeasedSnapshots(), "it begins anew"


@covers("D-22", "D-24")
def test_the_log_is_never_cut_behind_what_a_voter_loads() -> None:
    lone = leader()
    lone.feed(ev.SnapshotTaken(AT_103))
    lone.ask_snapshot(AT_100, replica=3, sender=3)
    assert not every(lone.feed(ev.CutRequested(AT_103, ends_observers_leases=True)), fx.CutLog)


# --- slots --------------------------------------------------------------------------------------------------


def four_load(lone: Lone) -> dict[int, fx.ReadSnapshot]:
    """Observers 11 to 14 have the slots, and the disk is read for each."""
    return {observer: ask(lone, observer)[0] for observer in (11, 12, 13, 14)}


@covers("D-24")
def test_four_observers_load_at_a_time_and_a_fifth_when_one_of_them_is_done() -> None:
    lone = leader()
    reads = four_load(lone)
    assert all(read.for_observer for read in reads.values())
    assert not ask(lone, 15), "it waits"
    assert lone.ask_snapshot(AT_100, replica=2) is None
    assert len(every(lone.effects, fx.ReadSnapshot)) == 5, "a voter does not"
    assert not reading(lone).for_observer
    assert not every(given(lone, reads[11], b"01234"), fx.ReadSnapshot), "the first has half of it"
    (again,) = ask(lone, 11, 5)
    effects = given(lone, again, b"56789")
    assert len(every(effects, fx.ReadSnapshot)) == 1, "it has all: the fifth has its slot"


@covers("D-24")
def test_who_waits_for_a_slot_is_kept_waiting_by_pieces_without_bytes() -> None:
    """Kafka's brokers take them for what they are, and ask again."""
    lone = leader()
    four_load(lone)
    ask(lone, 15, 3, prefix_checksum=7)
    effects = lone.run(500)
    (read,) = every(effects, fx.ReadSnapshot)
    assert (read.max_bytes, read.prefix_checksum) == (0, -1), "nothing is read for it"
    piece, data = sent(lone, b"")
    assert (piece.error_code, piece.size, piece.position, data) == (ErrorCode.NONE, 10, 3, b"")


@covers("D-24")
def test_a_slot_is_given_on_when_its_owner_takes_nothing_for_five_seconds() -> None:
    lone = alone()
    for read in four_load(lone).values():
        given(lone, read, b"0")
    lone.run(3_000)
    for observer in (12, 13, 14):
        (read,) = ask(lone, observer, 1)
        given(lone, read, b"1")
    lone.run(1_999)
    assert not ask(lone, 15)
    effects = lone.run(600)
    assert [read.max_bytes for read in every(effects, fx.ReadSnapshot)] == [1 << 20], "it has that of 11"


def ask_for_nothing(lone: Lone, observer: int, second: int, how: str) -> None:
    """An observer asks, and gets what it asks for, but no further."""
    at = AT_103 if how == "two in turn" and second % 2 else AT_100
    position, max_bytes = SIZE if how == "at the end" else 0, 0 if how == "no bytes" else 1
    for read in ask(lone, observer, position, at=at, max_bytes=max_bytes):
        if read.position == position:
            given(lone, read, b"0"[:max_bytes] if position < SIZE else b"")


@covers("D-24")
@pytest.mark.parametrize(
    ("how", "until_ms"),
    [("at the end", 0), ("no bytes", 0), ("the same byte", 5_000), ("two in turn", 1_000)],
)
def test_who_asks_and_takes_nothing_has_a_slot_for_no_longer(how: str, until_ms: int) -> None:
    """Four of them ask each second. A fifth observer asks for what is at 5, and again when it was kept
    waiting.
    """
    lone = alone(AT_100, AT_103)
    began_ms, seen, is_waiting, is_served = lone.now_ms, 0, False, False
    while not is_served and lone.now_ms < began_ms + 10_000:
        passed_ms = lone.now_ms - began_ms
        for observer in (11, 12, 13, 14) if passed_ms % 1_000 == 0 else ():
            ask_for_nothing(lone, observer, passed_ms // 1_000, how)
        if not is_waiting:
            ask(lone, 15, 5)
            is_waiting = True
        for read in every(lone.effects[seen:], fx.ReadSnapshot):
            if read.position == 5 and read.max_bytes:
                is_served = True
            elif read.position == 5:
                given(lone, read, b"")
                is_waiting = False
        seen = len(lone.effects)
        if not is_served:
            lone.run(100)
    assert until_ms <= lone.now_ms - began_ms <= until_ms + 600


@covers("D-24")
@pytest.mark.parametrize(
    ("position", "size_bytes", "error"),
    [(0, -1, ErrorCode.SNAPSHOT_NOT_FOUND), (SIZE, SIZE, ErrorCode.POSITION_OUT_OF_RANGE)],
)
def test_an_error_ends_a_download(position: int, size_bytes: int, error: ErrorCode) -> None:
    lone = alone(AT_100, AT_103)
    for observer in (11, 12, 13):
        ask(lone, observer)
    (read,) = ask(lone, 14, position)
    assert not ask(lone, 15, at=AT_103), "it waits"
    effects = given(lone, read, b"", size_bytes)
    assert error_of(effects) == error
    assert [read.id for read in every(effects, fx.ReadSnapshot)] == [AT_103], "it has the slot of 14"


@covers("D-24")
def test_a_request_that_is_refused_at_once_ends_a_download_too() -> None:
    lone = alone()
    for read in four_load(lone).values():
        given(lone, read, b"0")
    assert not ask(lone, 15), "it waits"
    (read,) = ask(lone, 11, at=AT_103)
    assert (read.id, read.max_bytes) == (AT_100, 1 << 20), "it has the slot of 11, whose snapshot is not here"


@covers("D-24")
def test_a_slow_disk_costs_nobody_the_slot() -> None:
    lone = alone()
    four_load(lone)
    lone.run(6_000)
    assert not ask(lone, 15)
    assert [read.max_bytes for read in every(lone.run(600), fx.ReadSnapshot)] == [0]


@covers("D-24")
@pytest.mark.parametrize(("seconds", "has_slot"), [(59, False), (60, True)])
def test_a_download_that_outlasts_its_lease_gives_its_slot_to_who_waits(seconds: int, has_slot: bool) -> None:
    """A byte now and then keeps a slot no longer than the snapshot."""
    lone = alone()
    for read in four_load(lone).values():
        given(lone, read, b"0", 1_000)
    for second in range(1, seconds + 1):
        lone.run(1_000)
        for observer in (11, 12, 13, 14):
            if second < seconds:
                (read,) = ask(lone, observer, second)
                given(lone, read, b"0", 1_000)
    assert bool(ask(lone, 15)) == has_slot


@covers("D-24")
def test_the_disk_is_read_for_each_observer_once_at_a_time() -> None:
    lone = alone()
    (first,) = ask(lone, 11)
    assert not ask(lone, 11, 3), "it waits for its former piece"
    (second,) = every(given(lone, first, b"012"), fx.ReadSnapshot)
    assert second.position == 3


@covers("D-13", "D-24")
def test_who_waits_for_a_slot_is_answered_when_the_leadership_ends() -> None:
    lone = leader()
    four_load(lone)
    ask(lone, 15)
    seen = len(lone.effects)
    lone.ask_begin(7, 3)
    replies = [r.response for r in every(lone.effects[seen:], fx.Reply)]
    assert len([r for r in replies if isinstance(r, m.FetchSnapshotResponse)]) == 5


# --- what an observer has from another node -----------------------------------------------------------------


@covers("D-24")
def test_what_an_observer_has_is_compared_once_in_five_seconds() -> None:
    """Each comparison reads all that it has; meanwhile a piece without bytes keeps it waiting."""
    lone = alone()
    (read,) = ask(lone, 11, 9, prefix_checksum=7)
    assert read.prefix_checksum == 7
    assert error_of(given(lone, read, b"", -1)) == ErrorCode.SNAPSHOT_NOT_FOUND
    for _ in range(4):
        lone.run(1_000)
        (read,) = ask(lone, 11, 9, prefix_checksum=7)
        assert (read.max_bytes, read.prefix_checksum) == (0, -1)
        piece, data = sent(lone, b"")
        assert (piece.error_code, data) == (ErrorCode.NONE, b"")
    (read,) = ask(lone, 12, 9, prefix_checksum=7)
    assert read.prefix_checksum == 7, "another one's is"
    lone.run(1_000)
    (read,) = ask(lone, 11, 9, prefix_checksum=7)
    assert read.prefix_checksum == 7


@covers("D-24")
def test_nothing_is_compared_for_who_waits_for_a_slot() -> None:
    lone = alone()
    reads = four_load(lone)
    assert not ask(lone, 15, 9, prefix_checksum=7)
    (read,) = every(given(lone, reads[11], b"0123456789"), fx.ReadSnapshot)
    assert read.prefix_checksum == 7, "once it has one"


@covers("D-24")
def test_a_voters_bytes_are_compared_whenever_it_asks() -> None:
    lone = leader()
    for _ in range(3):
        lone.ask_snapshot(AT_100, 9, replica=2, prefix_checksum=7)
        assert (reading(lone).prefix_checksum, reading(lone).for_observer) == (7, False)
