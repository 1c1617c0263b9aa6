"""Readers of the log: what they are given and when, how many may wait, and that the disk is read in turn."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kraftd.errors import ErrorCode
from kraftd.protocol.limits import COMMITTED_BYTES_MAX, WATCHERS_MAX
from kraftd.protocol.messages import FetchCommittedRequest, FetchCommittedResponse
from kraftd.records.batch import encode_batch
from kraftd.runtime.committed_fetches import TURN_BYTES, WAIT_MS_MAX, CommittedFetches
from kraftd.types import NEVER_MS, Now

LINGER_MS = 5


class Reader:
    """A connection, and what it was answered."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.responses: list[FetchCommittedResponse] = []
        self.records: list[bytes] = []

    def reply(self, _version: int, _correlation_id: int, response: Any, records: Any = ()) -> None:
        self.responses.append(response)
        self.records.append(b"".join(records))


class World:
    """A node whose log begins at `start`, holds a batch of one record for each offset, and is committed."""

    def __init__(self, *, start: int = 0, in_memory: int = 0, value: bytes = b"value") -> None:
        self.now_ms = 1_000
        self.end = 10
        self.in_memory = in_memory
        self.value = value
        self.reads: list[tuple[int, Callable[[bytes], None]]] = []
        self.raft_node = SimpleNamespace(
            high_watermark=10,
            log=SimpleNamespace(start_offset=start),
            committed_batches=self._committed_batches,
        )
        store: Any = SimpleNamespace(read_cold=lambda offset, _, done: self.reads.append((offset, done)))
        driver: Any = SimpleNamespace(now=lambda: Now(self.now_ms, 0), wake=lambda: None)
        self.fetches = CommittedFetches(self.raft_node, store, driver, linger_ms=LINGER_MS)  # type: ignore[arg-type]

    def ask(self, reader: Reader, offset: int, *, wait_ms: int = 400, max_bytes: int = 1 << 20) -> None:
        """A request, and the end of its turn."""
        message = FetchCommittedRequest(offset=offset, max_wait_ms=wait_ms, max_bytes=max_bytes)
        request: Any = SimpleNamespace(message=message, api_version=0, correlation_id=1)
        self.fetches.serve(reader, request)  # type: ignore[arg-type]
        self.turn()

    def commit(self, count: int = 1) -> None:
        self.raft_node.high_watermark += count
        self.turn()

    def turn(self, passed_ms: int = 0) -> None:
        self.now_ms += passed_ms
        self.fetches.run(Now(self.now_ms, 0))

    def batch(self, offset: int) -> bytes:
        return encode_batch(offset, 1, 0, [self.value])

    def _committed_batches(self, offset: int, max_bytes: int) -> list[bytes] | None:
        if offset < self.in_memory:
            return None
        found = [self.batch(each) for each in range(offset, self.raft_node.high_watermark)]
        return found[: max(1, max_bytes // len(self.batch(0)))]


@pytest.mark.covers("D-24")
def test_what_is_committed_is_answered_at_once_and_else_waited_for() -> None:
    world, reader = World(), Reader(1)
    world.ask(reader, 8)
    assert reader.records == [world.batch(8) + world.batch(9)]
    assert (reader.responses[0].high_watermark, reader.responses[0].start_offset) == (10, 0)
    world.ask(reader, 10)
    assert len(reader.responses) == 1
    world.commit()
    assert reader.records[1] == world.batch(10)


def test_a_wait_ends_without_records() -> None:
    world, reader = World(), Reader(1)
    world.ask(reader, 10, wait_ms=400)
    world.turn(399)
    assert not reader.responses
    assert world.fetches.wake_at_ms() == world.now_ms + 1
    world.turn(1)
    assert reader.records == [b""]
    assert world.fetches.wake_at_ms() == NEVER_MS
    world.ask(reader, 1 << 62, wait_ms=0)
    assert reader.responses[1].high_watermark == 10
    world.ask(reader, 10, wait_ms=(1 << 31) - 1)
    world.turn(WAIT_MS_MAX)
    assert len(reader.responses) == 3


@pytest.mark.covers("D-24")
def test_many_who_wait_are_answered_together() -> None:
    world, readers = World(), [Reader(number) for number in range(3)]
    for reader in readers:
        world.ask(reader, 10)
    world.commit()
    assert all(len(reader.responses) == 1 for reader in readers)
    for reader in readers[:2]:
        world.ask(reader, 11)
    world.commit()
    world.ask(readers[2], 11)
    world.commit()
    world.turn(LINGER_MS - 1)
    assert all(len(reader.responses) == 1 for reader in readers)
    world.turn(1)
    assert all(reader.records[1] == world.batch(11) + world.batch(12) for reader in readers)


@pytest.mark.parametrize(
    ("offset", "wait_ms", "code"),
    [
        (-1, 0, ErrorCode.INVALID_REQUEST),
        (-(1 << 63), 0, ErrorCode.INVALID_REQUEST),
        (0, -1, ErrorCode.INVALID_REQUEST),
        (6, 0, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_what_cannot_be_answered_is_refused(offset: int, wait_ms: int, code: ErrorCode) -> None:
    world, reader = World(start=7), Reader(1)
    world.ask(reader, offset, wait_ms=wait_ms)
    (response,) = reader.responses
    assert response.error_code == code
    assert response.error_message
    assert response.start_offset == 7


def test_one_request_of_a_connection_waits_and_so_many_connections() -> None:
    world, first = World(), Reader(0)
    world.ask(first, 10)
    world.ask(first, 10)
    assert first.records == [b""]
    for number in range(1, WATCHERS_MAX):
        world.ask(Reader(number), 10)
    late = Reader(WATCHERS_MAX)
    world.ask(late, 10)
    assert late.records == [b""]
    world.fetches.forget(first)  # type: ignore[arg-type]
    world.ask(late, 10)
    assert len(late.records) == 1


@pytest.mark.covers("D-38")
def test_those_who_only_wait_keep_nobody_from_what_is_there() -> None:
    world, reader = World(), Reader(WATCHERS_MAX)
    for number in range(WATCHERS_MAX):
        world.ask(Reader(number), 1 << 40)
    world.ask(reader, 8)
    assert reader.records == [world.batch(8) + world.batch(9)]


def test_a_turn_gives_so_much_and_the_next_one_goes_on() -> None:
    world = World(value=bytes(COMMITTED_BYTES_MAX))
    readers = [Reader(number) for number in range(12)]
    for reader in readers:
        world.ask(reader, 10)
    world.commit()
    answered = sum(bool(reader.responses) for reader in readers)
    assert answered == -(-TURN_BYTES // len(world.batch(0)))
    while answered < len(readers):
        assert world.fetches.wake_at_ms() <= world.now_ms
        world.turn()
        now_answered = sum(bool(reader.responses) for reader in readers)
        assert now_answered > answered
        answered = now_answered


@pytest.mark.covers("D-24", "D-15")
def test_the_disk_is_read_for_one_reader_at_a_time_and_ends_where_the_log_is_committed() -> None:
    world, readers = World(in_memory=9), [Reader(number) for number in range(3)]
    for reader in readers:
        world.ask(reader, 4)
    for count, reader in enumerate(readers, 1):
        assert len(world.reads) == count
        _, done = world.reads[-1]
        done(b"".join(map(world.batch, range(4, 12))))
        assert reader.records == [b"".join(map(world.batch, range(4, 10)))]
    assert len(world.reads) == 3


@pytest.mark.covers("D-24", "D-15")
def test_what_was_committed_only_while_the_disk_was_read_is_not_given() -> None:
    """It may have been truncated in between, and what is committed there be another history."""
    world, reader = World(in_memory=9), Reader(1)
    world.ask(reader, 8)
    world.commit(2)
    world.reads[0][1](b"".join(map(world.batch, range(8, 12))))
    assert reader.records == [world.batch(8) + world.batch(9)]
    assert reader.responses[0].high_watermark == 12


def test_what_the_disk_cannot_give_is_another_nodes_to_tell() -> None:
    world, reader = World(in_memory=9), Reader(1)
    world.ask(reader, 4)
    world.reads[0][1](b"")
    assert reader.responses[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    world.ask(reader, 4)
    world.raft_node.log.start_offset = 6  # cut meanwhile
    world.reads[1][1](b"")
    assert reader.responses[1].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.covers("D-24")
def test_what_a_closed_connection_asked_for_is_not_read() -> None:
    world, readers = World(in_memory=10), [Reader(number) for number in range(3)]
    for reader in readers:
        world.ask(reader, 0)
    assert len(world.reads) == 1
    world.fetches.forget(readers[1])  # type: ignore[arg-type]
    for _ in range(2):
        world.reads.pop()[1](world.batch(0))
    assert world.reads == []
    assert [len(reader.responses) for reader in readers] == [1, 0, 1]


@pytest.mark.covers("D-38")
def test_those_who_wait_for_the_disk_are_so_many_at_most() -> None:
    world, readers = World(in_memory=10), [Reader(number) for number in range(2 * WATCHERS_MAX + 2)]
    for reader in readers:
        world.ask(reader, 0)
    assert [len(reader.responses) for reader in readers] == [0] * (2 * WATCHERS_MAX + 1) + [1]
    assert readers[-1].records == [b""]
