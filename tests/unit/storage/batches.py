"""Batches for tests: small, checked by the real codec, and told apart by what they hold."""

from kraftd.records.batch import encode_batch


def batch(
    base_offset: int, epoch: int = 1, count: int = 1, size_bytes: int = 40, timestamp_ms: int = 1_000
) -> bytes:
    """One batch of `count` records."""
    values = [f"{base_offset + n}@{epoch} ".encode().ljust(size_bytes, b".") for n in range(count)]
    return encode_batch(base_offset, epoch, timestamp_ms, values)


def run_of(base_offset: int, end_offset: int, epoch: int = 1, **kwargs: int) -> list[bytes]:
    """Batches of one record each, from one offset to another."""
    return [batch(offset, epoch, **kwargs) for offset in range(base_offset, end_offset)]
