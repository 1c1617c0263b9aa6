"""Logs that real controllers wrote, folded and compared with the snapshots that the same controllers wrote.

A snapshot `X-E` holds the state at offset X: its data records must be those that our image at X writes, and
its KRaftVersion and KRaftVoters those in force at X. The fold begins at the start of the log and at every
earlier snapshot.

One defect of Kafka's is known, and listed below snapshot by snapshot: its delta forgets to drop the configs
of a removed topic that were not in the image it began with (compare KAFKA-16206).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

from kraftd.metadata.feature_levels import METADATA_VERSION
from kraftd.metadata.image import EMPTY, MetadataImage, to_records
from kraftd.metadata.image_builder import ImageBuilder, apply_all
from kraftd.metadata.parts.configs import CONFIGS
from kraftd.metadata.parts.features import FEATURES
from kraftd.metadata.parts.topics import TOPICS
from kraftd.records.batch import BatchView, scan
from kraftd.records.control import AnyControl, decode_control
from kraftd.records.frame import decode_record, encode_record
from kraftd.records.messages import (
    ConfigRecord,
    KRaftVersionRecord,
    VotersRecord,
)
from tests.fixtures import klog, klogs
from tests.snapshots import Comparable, comparable, written

REMOVED_TOPIC = "t564"
"""Created at 475 and removed at 497, between two snapshots."""

HOLDS_CONFIGS_OF_THE_REMOVED_TOPIC = {
    ("generated-kafka-4.3-dynamic-voters", "node-1", offset)
    for offset in (635, 749, 864, 982, 1108, 1390, 1503)
}


@cache
def directories() -> tuple[Path, ...]:
    return tuple(sorted(path for path in klogs().rglob("__cluster_metadata-0") if path.is_dir()))


@cache
def batches(directory: Path) -> tuple[BatchView, ...]:
    return tuple(
        batch
        for segment in sorted(directory.glob("*.log"))
        for batch in scan(segment.read_bytes(), path=segment.name)
    )


def fold_to(
    directory: Path, stops: Sequence[int], start: int = 0, image: MetadataImage = EMPTY
) -> dict[int, MetadataImage]:
    """The image at each of `stops`, which are batch boundaries, from the one at `start`."""
    builder, images, wanted = ImageBuilder(image), {}, sorted(stops)
    for batch in batches(directory):
        while wanted and batch.base_offset >= wanted[0]:
            images[wanted.pop(0)] = builder.image()
        if not batch.is_control and batch.base_offset >= start:
            for offset, value in enumerate(batch.values(), batch.base_offset):
                builder.apply(decode_record(value), offset)
    return images | dict.fromkeys(wanted, builder.image())


def data_values(path: Path) -> Iterator[bytes]:
    for batch in scan(path.read_bytes(), path=path.name):
        if not batch.is_control:
            yield from batch.values()


def read_snapshot(path: Path) -> MetadataImage:
    builder = ImageBuilder(EMPTY)
    for value in data_values(path):
        builder.apply(decode_record(value), 0)
    return builder.image()


def snapshots(directory: Path) -> dict[int, Path]:
    """The snapshots after the start of the log and not after its end, by offset."""
    found = {int(path.name[:20]): path for path in directory.glob("*.checkpoint")}
    end = max((batch.end_offset for batch in batches(directory)), default=0)
    return {offset: path for offset, path in sorted(found.items()) if 0 < offset <= end}


def place(directory: Path) -> tuple[str, str]:
    cluster, node = directory.relative_to(klogs()).parts[:2]
    return cluster, node


def expected_difference(directory: Path, offset: int, more: Counter[Comparable]) -> bool:
    """Whether what Kafka has more is what its known defect leaves behind, exactly there."""
    if (*place(directory), offset) not in HOLDS_CONFIGS_OF_THE_REMOVED_TOPIC:
        return not more
    records = [one.record for one in more]
    return bool(records) and all(
        isinstance(record, ConfigRecord)
        and (record.resource_type, record.resource_name) == (2, REMOVED_TOPIC)
        for record in records
    )


def compare(directory: Path, offset: int, image: MetadataImage) -> None:
    path = snapshots(directory)[offset]
    ours, theirs = comparable(written(image)), comparable(data_values(path))
    assert not ours - theirs, f"{path}: only ours"
    more = theirs - ours
    assert expected_difference(directory, offset, more), f"{path}: only Kafka's: {more}"


@pytest.mark.covers("D-18")
def test_every_snapshot_of_a_real_controller_is_what_our_fold_of_its_log_writes():
    compared = 0
    for directory in directories():
        if not (directory / f"{0:020}.log").exists():
            continue
        for offset, image in fold_to(directory, list(snapshots(directory))).items():
            compare(directory, offset, image)
            compared += 1
    assert compared > 10


@pytest.mark.covers("D-18")
def test_the_list_of_what_kafka_gets_wrong_is_whole_and_nothing_more():
    listed = {one for one in HOLDS_CONFIGS_OF_THE_REMOVED_TOPIC if (klogs() / one[0]).is_dir()}
    found = {
        (*place(directory), offset)
        for directory in directories()
        for offset, path in snapshots(directory).items()
        if any(read_snapshot(path)[CONFIGS].of(2, REMOVED_TOPIC))
        and read_snapshot(path)[TOPICS].id_of(REMOVED_TOPIC) is None
    }
    assert found == listed


@pytest.mark.covers("D-18")
def test_from_every_snapshot_the_fold_comes_to_the_same_images_as_from_the_start():
    compared = 0
    for directory in directories():
        paths = snapshots(directory)
        starts_at_zero = (directory / f"{0:020}.log").exists()
        whole = fold_to(directory, list(paths)) if starts_at_zero else {}
        for start, path in paths.items():
            image = without_the_removed_topic(read_snapshot(path), (*place(directory), start))
            later = [offset for offset in paths if offset >= start]
            for offset, folded in fold_to(directory, later, start, image).items():
                expected = whole.get(offset) or read_snapshot(paths[offset])
                assert folded.hash() == expected.hash(), f"{directory}: from {start} to {offset}"
                compared += 1
    assert compared > 100


def without_the_removed_topic(image: MetadataImage, which: tuple[str, str, int]) -> MetadataImage:
    """A snapshot's image without what Kafka's defect has left in it."""
    if which not in HOLDS_CONFIGS_OF_THE_REMOVED_TOPIC:
        return image
    removed = [ConfigRecord(2, REMOVED_TOPIC, name, None) for name, _ in image[CONFIGS].of(2, REMOVED_TOPIC)]
    return apply_all(image, removed, which[2])


def test_the_control_records_of_a_snapshot_are_those_in_force_there():
    compared = 0
    for directory in directories():
        if not (directory / f"{0:020}.log").exists():
            continue
        bootstrap = next(iter(sorted(directory.glob(f"{0:020}-*.checkpoint"))), None)
        first = [] if bootstrap is None else list(control_records(scan(bootstrap.read_bytes())))
        for offset, path in snapshots(directory).items():
            log = (batch for batch in batches(directory) if batch.base_offset < offset)
            expected = in_force([*first, *control_records(log)])
            assert in_force(list(control_records(scan(path.read_bytes())))) == expected, path
            compared += 1
    assert compared > 10


def control_records(found: Iterable[BatchView]) -> Iterator[AnyControl]:
    for batch in found:
        if batch.is_control:
            yield from (decode_control(record.key, record.value) for record in batch.records())


def in_force(records: list[AnyControl]) -> dict[type, AnyControl]:
    """The last of each kind that says who votes, and how."""
    return {
        type(record): record for record in records if isinstance(record, KRaftVersionRecord | VotersRecord)
    }


@pytest.mark.covers("D-18")
def test_what_the_image_of_a_real_log_writes_rebuilds_it():
    for directory in directories():
        end = 1 << 62
        image = fold_to(directory, [end], *latest_start(directory))[end]
        rebuilt = apply_all(EMPTY, (decode_record(value) for value in rewritten(image)), 0)
        assert rebuilt.hash() == image.hash(), directory
        assert rebuilt == image, directory


def rewritten(image: MetadataImage) -> Iterator[bytes]:
    """As `written`; a log from before features can only be written in the newest versions."""
    level = image[FEATURES].level(METADATA_VERSION)
    return written(image) if level else (encode_record(record) for record in to_records(image))


def latest_start(directory: Path) -> tuple[int, MetadataImage]:
    """Where a fold of this log may begin: its start, or the first snapshot."""
    if (directory / f"{0:020}.log").exists():
        return 0, EMPTY
    offset, path = next(iter(snapshots(directory).items()))
    return offset, read_snapshot(path)


@pytest.mark.covers("D-18")
def test_nodes_of_one_cluster_fold_to_one_hash():
    for cluster in sorted(klogs().iterdir()):
        ends = {
            node: max(batch.end_offset for batch in batches(node))
            for node in sorted(cluster.glob("node-*/**/__cluster_metadata-0"))
        }
        whole = [node for node in ends if (node / f"{0:020}.log").exists()]
        if len(whole) < 2:
            continue
        shortest = min(ends[node] for node in whole)
        hashes = {fold_to(node, [shortest])[shortest].hash() for node in whole}
        assert len(hashes) == 1, cluster.name


def test_a_log_with_the_newest_kinds_is_folded_whole():
    cluster = klog("kafka-4.1-newest-records")
    directory = next(cluster.rglob("__cluster_metadata-0"))
    image = fold_to(directory, [1 << 62])[1 << 62]
    assert not image.is_partial
    assert image[FEATURES].level("metadata.version") == 27
