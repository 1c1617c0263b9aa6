"""The ledger has what was committed, once, whoever told it and however little of the log he still has."""

import zlib

from kraftd.audit.invariants import Mark
from kraftd.records.batch import BatchView, encode_batch
from tests.sim.ledger import Ledger, digest_of

BATCHES = [encode_batch(offset, 1, 5, [b"a", b"b"]) for offset in range(0, 12, 2)]


def log_of(ledger: Ledger, batches: list[bytes], start: int = 0) -> list[Mark]:
    digest = ledger.digest_at(start)
    assert digest is not None
    marks = []
    for batch in batches:
        view = BatchView(batch)
        digest = digest_of(view, digest)
        ledger.note(digest, view)
        marks.append(Mark(view.end_offset, view.epoch, digest))
    return marks


def test_it_goes_on_where_a_log_that_begins_above_0_does() -> None:
    ledger = Ledger()
    log = log_of(ledger, BATCHES[:3])
    other = [Mark(6, 1, 99)]
    ledger.commit(log, 4)
    assert ledger.end_offset == 4
    assert [ledger.digest_at(offset) for offset in (0, 2, 3, 4, 6)] == [
        0,
        log[0].digest,
        None,
        log[1].digest,
        None,
    ]
    ledger.commit(other, 4)
    ledger.commit(log_of(ledger, BATCHES[2:], 4), 9)
    assert ledger.end_offset == 8, "a commit that ends inside a batch does not count that batch"
    ledger.commit(log, 6)
    assert [bytes(batch.raw) for batch in ledger.batches(0, 8)] == BATCHES[:4]
    assert [bytes(batch.raw) for batch in ledger.batches(4, 6)] == [BATCHES[2]]
    assert ledger.digest_at(6) == log[2].digest


def test_two_batches_of_one_checksum_are_two() -> None:
    ledger = Ledger()
    same = [encode_batch(0, 1, 5, [bytes(5)]), encode_batch(0, 1, 5, [b"\x01\x960\x07w"])]
    assert len({zlib.crc32(batch[-6:-1]) for batch in same}) == 1
    assert len({log_of(ledger, [batch])[0].digest for batch in same}) == 2
