"""One log folded twice, by Kafka's own classes and by ours, and what differs.

`kafkas_images` runs `Fold.java` over batches; `differences` folds the same batches with `kraftd.metadata` and
compares after each batch that Kafka's image is known of. Compared are the records that each would write into
a snapshot, with their versions, without the order of what has none.
"""

import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from kraftd.metadata.fold import Fold
from kraftd.metadata.image import EMPTY, MetadataImage
from kraftd.records.frame import AnyRecord, decode_record
from tests.interop.conftest import HERE
from tests.interop.known_defects import Known
from tests.interop.peer import Kafka
from tests.snapshots import Comparable, comparable, written

Images = Mapping[int, tuple[bytes, ...]]
"""What Kafka's image writes after a batch, by the batch's number."""

_NUMBER = struct.Struct(">i")


class Difference(NamedTuple):
    """What is not as it should be after a batch."""

    batch: int
    only_ours: Counter[Comparable]
    only_kafkas: Counter[Comparable]


def kafkas_images(
    kafka: Kafka, logs: Sequence[Sequence[Sequence[bytes]]], folder: Path, times: int
) -> list[Images]:
    """What Kafka's image writes after the last batch of each log, and after `times` or more before it."""
    files = [(folder / f"batches-{number}", folder / f"images-{number}") for number in range(len(logs))]
    for (asked, _), batches in zip(files, logs, strict=True):
        wanted = _wanted(batches, times)
        packed = (bytes([number in wanted]) + _packed(values) for number, values in enumerate(batches))
        asked.write_bytes(b"".join(packed))
    kafka.run(HERE / "Fold.java", *chain.from_iterable(files))
    return [
        dict(zip(_wanted(batches, times), _unpacked(told.read_bytes()), strict=True))
        for (_, told), batches in zip(files, logs, strict=True)
    ]


def _wanted(batches: Sequence[Sequence[bytes]], times: int) -> range:
    every = max(1, len(batches) // times)
    return range((len(batches) - 1) % every, len(batches), every)


def differences(
    batches: Sequence[Sequence[bytes]], images: Images, known: Sequence[Known]
) -> Iterator[Difference]:
    """Where our fold of the batches leads to something else, but for what Kafka is known to get wrong."""
    for number, image in our_images(batches, images):
        mine, theirs = Counter(written(image)), Counter(images[number])
        only_ours, only_kafkas = (
            comparable((one - other).elements()) for one, other in ((mine, theirs), (theirs, mine))
        )
        excess, lack = only_ours - only_kafkas, only_kafkas - only_ours
        if (_records(excess), _records(lack)) != (known[number].fewer, known[number].more):
            yield Difference(number, excess, lack)


def _records(found: Counter[Comparable]) -> frozenset[AnyRecord]:
    return frozenset(one.record for one in found)


def our_images(batches: Sequence[Sequence[bytes]], wanted: Images) -> Iterator[tuple[int, MetadataImage]]:
    """Our image after each batch that is wanted."""
    fold, end = Fold(EMPTY), 0
    for number, values in enumerate(batches):
        for offset, value in enumerate(values, end):
            fold.add(decode_record(value), offset)
        end += len(values)
        if number in wanted:
            yield number, fold.image()


def _packed(values: Sequence[bytes]) -> bytes:
    return _NUMBER.pack(len(values)) + b"".join(_NUMBER.pack(len(value)) + value for value in values)


def _unpacked(data: bytes) -> Iterator[tuple[bytes, ...]]:
    at = 0

    def number() -> int:
        nonlocal at
        at += _NUMBER.size
        (found,) = _NUMBER.unpack_from(data, at - _NUMBER.size)
        return int(found)

    while at < len(data):
        values = []
        for _ in range(number()):
            size = number()
            values.append(data[at : at + size])
            at += size
        yield tuple(values)
