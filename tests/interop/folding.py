"""One log folded twice, by Kafka's own classes and by ours, and what differs.

`kafkas_images` runs `Fold.java` over batches; `differences` folds the same batches with `kraftd.metadata` and
compares after each batch that Kafka's image is known of. Compared are the records that each would write into
a snapshot, with their versions, without the order of what has none. `compare` looks closer: a snapshot of
Kafka's has our hash, and each broker's partitions are listed as their records say.
"""

import struct
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from kraftd.metadata.image import EMPTY, MetadataImage
from kraftd.metadata.image_builder import ImageBuilder, apply_all
from kraftd.metadata.parts.topics import TOPICS
from kraftd.records.frame import AnyRecord, decode_record
from tests.interop.conftest import HERE
from tests.interop.known_defects import Known, known_differences
from tests.interop.legal_records import LEVELS, legal_log
from tests.interop.legal_world import BROKERS, LEVELS_WITH_MIGRATION
from tests.interop.peer import Kafka
from tests.snapshots import Comparable, comparable, written

Images = Mapping[int, tuple[bytes, ...]]
"""What Kafka's image writes after a batch, by the batch's number."""

_NUMBER = struct.Struct(">i")
_NOTHING = Known(frozenset(), frozenset())


class Told(NamedTuple):
    """A log, what Kafka's image writes on the way, and what is wrong with that."""

    batches: Sequence[Sequence[bytes]]
    images: Images
    known: Sequence[Known]


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


def told_by(
    kafka: Kafka, folder: Path, seeds: range, size: int, times: int, levels: range = LEVELS
) -> dict[int, Told]:
    """Legal logs of a size, by seed, and what Kafka makes of them."""
    logs = [legal_log(seed, size, levels) for seed in seeds]
    images = kafkas_images(kafka, logs, folder, times)
    older = levels == LEVELS_WITH_MIGRATION
    known = [list(known_differences(log, keeps_migration=older)) for log in logs]
    return dict(zip(seeds, map(Told, logs, images, known), strict=True))


def differences(
    batches: Sequence[Sequence[bytes]], images: Images, known: Sequence[Known]
) -> Iterator[Difference]:
    """Where our fold of the batches leads to something else, but for what Kafka is known to get wrong."""
    for number, image in _our_images(batches, images):
        mine, theirs = Counter(written(image)), Counter(images[number])
        only_ours, only_kafkas = (
            comparable((one - other).elements()) for one, other in ((mine, theirs), (theirs, mine))
        )
        excess, lack = only_ours - only_kafkas, only_kafkas - only_ours
        if (_records(excess), _records(lack)) != (known[number].fewer, known[number].more):
            yield Difference(number, excess, lack)


def _records(found: Counter[Comparable]) -> frozenset[AnyRecord]:
    return frozenset(one.record for one in found)


def compare(log: Told) -> None:
    """Check all that our fold of a log says.

    Raises:
        AssertionError: Something is not as Kafka has it.
    """
    for difference in differences(log.batches, log.images, log.known):
        raise AssertionError(f"{difference}; known is {log.known[difference.batch]}")
    for number, image in _our_images(log.batches, log.images):
        _check_lists(image)
        if log.known[number] == _NOTHING:
            theirs = apply_all(EMPTY, map(decode_record, log.images[number]), 0)
            assert theirs.hash() == image.hash(), (
                f"after batch {number} a snapshot of Kafka's has another hash"
            )


def _our_images(batches: Sequence[Sequence[bytes]], wanted: Images) -> Iterator[tuple[int, MetadataImage]]:
    """Our image after each batch that is wanted. Batches go in whole and record by record, in turn."""
    fold, offset = ImageBuilder(EMPTY), 0
    for number, values in enumerate(batches):
        if number % 2:
            fold.apply_values(values, offset)
        else:
            for at, value in enumerate(values, offset):
                fold.apply(decode_record(value), at)
        offset += len(values)
        if number in wanted:
            yield number, fold.image()


def _check_lists(image: MetadataImage) -> None:
    """The partitions of each broker are those whose records name it."""
    listed = defaultdict(set)
    for topic in image[TOPICS].topics():
        for partition in image[TOPICS].partitions(topic.topic_id):
            which = (topic.topic_id, partition.partition_id)
            listed["leader", partition.leader].add(which)
            for role in ("replicas", "isr"):
                for broker in getattr(partition, role):
                    listed[role, broker].add(which)
    for broker in BROKERS:
        assert set(image[TOPICS].partitions_led_by(broker)) == listed["leader", broker]
        assert set(image[TOPICS].partitions_on(broker)) == listed["replicas", broker]
        assert set(image[TOPICS].partitions_in_sync_on(broker)) == listed["isr", broker]


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
