"""What an image has to sort and merge in the end can be done ahead in steps, each with little to do."""

import random
from functools import total_ordering

import pytest

from kraftd.metadata import configs_image
from kraftd.metadata.image import EMPTY
from kraftd.metadata.image_builder import ImageBuilder
from kraftd.metadata.parts.configs import CONFIGS
from kraftd.metadata.parts.topics import TOPICS, broker_index
from kraftd.metadata.parts.topics.packed_int_set import PackedIntSet
from kraftd.metadata.sorted_keys import SortedKeys, sorted_in_steps
from kraftd.records.frame import encode_record
from kraftd.records.messages import ConfigRecord, PartitionChangeRecord, RemoveTopicRecord, TopicRecord
from tests.unit.metadata.test_partition_runs import check_same, snapshot_values, usual_partition

STEP = 64


def values(seed=1, sizes=(300, 1, 700, 40, 2) * 8):
    """Of a snapshot with some thousand moves of a few brokers, some topics, and configs of as many."""
    rng = random.Random(seed)
    extra = [encode_record(ConfigRecord(2, f"other {number}", "k", "v")) for number in range(300)]
    return snapshot_values(rng, sizes) + extra


def builder_of(records, chunk=1_000):
    builder = ImageBuilder(EMPTY)
    for at in range(0, len(records), chunk):
        builder.apply_values(records[at : at + chunk], at)
    return builder


@pytest.fixture
def work(monkeypatch):
    """What was merged into sets of numbers, put into sorted sets at once, and folded of configs: counts."""
    counts = {"numbers": 0, "keys": 0, "resources": 0}

    def count(cls, name, key, size):
        original = getattr(cls, name)

        def counted(self, *args):
            counts[key] += size(self, *args)
            return original(self, *args)

        monkeypatch.setattr(cls, name, counted)

    count(PackedIntSet, "changed", "numbers", lambda _, added, removed=(): len(added) + len(removed))
    count(SortedKeys, "changed", "keys", lambda _, added, dropped=(): len([*added, *dropped]))
    count(configs_image.ConfigsBuilder, "_folded", "resources", lambda _self, touched, *_: len(touched))
    return counts


@pytest.mark.covers("D-35", "D-21")
def test_each_step_of_settling_has_little_to_do_and_leaves_nothing_to_the_image(monkeypatch, work):
    monkeypatch.setattr(broker_index, "_STEP_MOVES", STEP)
    monkeypatch.setattr(configs_image, "_STEP_RESOURCES", STEP)
    builder = builder_of(values())
    before, steps = dict(work), 0
    for _ in builder.settling():
        done = {key: work[key] - before[key] for key in work}
        assert done["numbers"] <= STEP
        assert done["resources"] <= STEP
        assert done["keys"] == 0
        before, steps = dict(work), steps + 1
    assert steps > 100
    image = builder.image()
    assert work == before, "the image had nothing left to merge, to sort or to fold"
    assert image.hash() == builder_of(values()).image().hash()


@pytest.mark.covers("D-18")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("step", [1, 7, 1_000])
def test_a_settled_image_is_what_it_is_otherwise(monkeypatch, seed, step):
    monkeypatch.setattr(broker_index, "_STEP_MOVES", step)
    monkeypatch.setattr(configs_image, "_STEP_RESOURCES", step)
    records = values(seed, sizes=(40, 0, 150, 1, 33))
    settled = builder_of(records)
    for _ in settled.settling():
        pass
    image, expected = settled.image(), builder_of(records).image()
    check_same(image, expected)
    assert list(image[TOPICS].topics()) == list(expected[TOPICS].topics())
    assert list(image[CONFIGS].entries()) == list(expected[CONFIGS].entries())


def test_what_went_again_before_settling_is_gone():
    rng, gone, left = random.Random(2), bytes([1]) * 16, bytes([2]) * 16
    records = [TopicRecord("gone", gone), *(usual_partition(rng, at, gone) for at in range(200))]
    records += [TopicRecord("left", left), *(usual_partition(rng, at, left) for at in range(200))]
    records += [PartitionChangeRecord(7, left, isr=(9,), leader=9), RemoveTopicRecord(gone)]
    records += [
        ConfigRecord(2, "a", "k", "v"),
        ConfigRecord(2, "b", "k", "v"),
        ConfigRecord(2, "a", "k", None),
    ]
    builders = [ImageBuilder(EMPTY), ImageBuilder(EMPTY)]
    for builder in builders:
        for offset, record in enumerate(records):
            builder.apply(record, offset)
    for _ in builders[0].settling():
        pass
    image, expected = [builder.image() for builder in builders]
    check_same(image, expected)
    assert [topic.name for topic in image[TOPICS].topics()] == ["left"]
    assert list(image[CONFIGS].resources()) == [(2, "b")]


def test_settling_after_an_image_that_had_something_keeps_that():
    first, second = values(3, (50, 60)), [encode_record(ConfigRecord(2, "zz", "k", "v"))]
    second += [encode_record(TopicRecord("zz", bytes([7]) * 16))]
    builder, at_once = (ImageBuilder(builder_of(first).image()) for _ in range(2))
    for each in (builder, at_once):
        each.apply_values(second, 9_000)
    for _ in builder.settling():
        pass
    image, expected = builder.image(), at_once.image()
    check_same(image, expected)
    assert list(image[CONFIGS].entries()) == list(expected[CONFIGS].entries())


@total_ordering
class Key:
    """A key that counts how often it was compared."""

    compared = 0

    def __init__(self, number):
        self.number = number

    def __lt__(self, other):
        Key.compared += 1
        return self.number < other.number

    def __eq__(self, other):
        return self.number == other.number

    def __hash__(self):
        return hash(self.number)


def test_a_step_of_sorting_compares_few_keys(monkeypatch):
    monkeypatch.setattr("kraftd.metadata.sorted_keys._STEP", STEP)
    numbers = random.Random(5).sample(range(100_000), 4_000)
    steps = sorted_in_steps(Key(number) for number in numbers)
    most, before = 0, Key.compared
    while True:
        try:
            next(steps)
        except StopIteration as end:
            made = end.value
            break
        most, before = max(most, Key.compared - before), Key.compared
    assert [key.number for key in made] == sorted(numbers)
    # 63 runs of 64: a key is compared six times to be sorted, and some six times to be merged.
    assert most <= STEP * 14
    assert Key.compared - before == 0, "nothing is left when the last step is done"


def test_no_keys_are_sorted_into_an_empty_set():
    steps = sorted_in_steps([])
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value == SortedKeys()
    assert not end.value.value
