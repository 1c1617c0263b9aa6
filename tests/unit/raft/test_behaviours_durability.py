"""What must be on disk, or read from it, before a node says more (D-09, D-10, D-15, D-16)."""

import pytest

from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.raft import effects as fx
from kraftd.raft import events as ev
from kraftd.raft.epoch_states import Resigned
from kraftd.raft.timing import Timing
from kraftd.records.batch import encode_batch
from kraftd.types import Election, OffsetAndEpoch
from tests.conformance import covers
from tests.unit.raft.lone import Lone, every


def leading(**options: object) -> Lone:
    lone = Lone(election=Election(4), epochs=(1, 4), **options)  # type: ignore[arg-type]
    return lone.become_leader().establish()


@covers("D-09")
def test_a_leader_leaves_only_when_what_its_successor_has_is_on_its_own_disk_too() -> None:
    """Else nobody but the successor may hold it after a power cut, and it may still lose the election."""
    lone = leading()
    lone.flushes = False
    lone.append()
    lone.establish()
    lone.resign(2, deadline_ms=60_000)
    assert lone.raft_node.is_leader
    (flush,) = every(lone.effects, fx.Flush)[-1:]
    lone.feed(ev.LogFlushed(flush.generation, flush.end_offset))
    assert isinstance(lone.raft_node.state, Resigned)


@covers("D-10", "Q-10", "FREQ-11")
def test_a_commit_by_the_leaders_own_flush_is_told_to_those_who_wait() -> None:
    lone = leading()
    lone.flushes = False
    lone.append()
    assert lone.ask_fetch(4, 5, replica=2, wait_ms=500, known=3) is None
    seen = len(lone.effects)
    lone.feed(ev.LogFlushed(0, 4))
    assert lone.raft_node.high_watermark == 4
    lone.run(1)
    (reply,) = every(lone.effects[seen:], fx.Reply)
    assert isinstance(reply.response, m.FetchResponse)
    assert reply.response.responses[0].partitions[0].high_watermark == 4


@covers("D-15")
@pytest.mark.parametrize(("generation", "error"), [(0, ErrorCode.NONE), (7, ErrorCode.UNKNOWN_SERVER_ERROR)])
def test_what_was_read_of_another_generation_is_not_served(generation: int, error: ErrorCode) -> None:
    lone = leading(in_memory=False)
    assert lone.ask_fetch(1, 1, replica=3) is None
    (read,) = every(lone.effects, fx.ColdRead)
    seen = len(lone.effects)
    lone.feed(ev.BatchesRead(read.token, generation, encode_batch(1, 4, 0, [b"old"])))
    (reply,) = every(lone.effects[seen:], fx.Reply)
    assert isinstance(reply.response, m.FetchResponse)
    assert reply.response.responses[0].partitions[0].error_code == error
    assert bool(reply.records) is (error == ErrorCode.NONE)


@covers("D-15", "FRSP-05")
@pytest.mark.parametrize(("generation", "end_offset"), [(0, 2), (7, 3)])
def test_nothing_is_cut_by_what_was_read_of_another_generation(generation: int, end_offset: int) -> None:
    lone = Lone(election=Election(5, 2), epochs=(1, 4, 4), in_memory=False)
    lone.fetch_response(diverging=OffsetAndEpoch(2, 4))
    (read,) = every(lone.effects, fx.ColdRead)
    lone.feed(ev.BatchesRead(read.token, generation, encode_batch(1, 4, 0, [b"old"])))
    assert lone.raft_node.log.end_offset == end_offset


@covers("D-16", "ACC-09", "ACC-10")
def test_with_a_linger_small_appends_wait_for_company_and_no_longer() -> None:
    lone = leading(timing=Timing(append_linger_ms=25))
    written = len(every(lone.effects, fx.Append))
    lone.append(b"one")
    lone.run(20)
    lone.append(b"two")
    lone.run(4)
    assert len(every(lone.effects, fx.Append)) == written
    lone.run(1)
    last = every(lone.effects, fx.Append)[written:]
    assert [(append.base_offset, append.end_offset, len(append.batches)) for append in last] == [(3, 5, 1)]
