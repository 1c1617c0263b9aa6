"""Keys in order, whatever came and went, and from any place on."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kraftd.metadata.image import EMPTY
from kraftd.metadata.image_builder import ImageBuilder
from kraftd.metadata.parts.configs import CONFIGS
from kraftd.metadata.sorted_keys import SortedKeys

keys = st.integers(0, 2_000)
changes = st.lists(st.tuples(st.lists(keys, max_size=400), st.lists(keys, max_size=400)), max_size=8)


@settings(max_examples=60)
@given(changes, keys)
def test_it_is_a_sorted_set(steps, start):
    found, model = SortedKeys(), set()
    for added, dropped in steps:
        found = found.changed(added, dropped)
        model = (model | set(added)) - set(dropped)
        assert list(found) == sorted(model)
    assert list(found.since(start)) == sorted(key for key in model if key >= start)


def test_a_set_is_its_keys_however_it_came_about():
    at_once = SortedKeys().changed(range(1_000))
    one_by_one = SortedKeys()
    for key in reversed(range(1_000)):
        one_by_one = one_by_one.changed([key])
    assert at_once == one_by_one
    assert hash(at_once) == hash(one_by_one)
    assert at_once != one_by_one.changed((), [7])


names = st.sampled_from([f"n{number:04}" for number in range(600)])
resources = st.sampled_from([(4, ""), (4, "1"), (2, "t")])
puts = st.lists(st.tuples(resources, names, st.sampled_from(["x", "y", None])), max_size=50)
bulk = st.lists(st.tuples(resources, st.integers(0, 600), st.sampled_from(["x", None])), max_size=4)


@settings(max_examples=60)
@given(st.lists(st.tuples(bulk, puts, st.none() | resources), max_size=4), resources, names)
def test_configs_are_listed_in_order_from_any_place(steps, resource, name):
    """Few and many in a resource, and across the line between them; all of one removed and set again."""
    image, model = EMPTY, {}
    for many, few, removed in steps:
        builder = ImageBuilder(image)
        if removed is not None:
            builder.builder_of(CONFIGS).remove(removed)
            model = {place: value for place, value in model.items() if place[:2] != removed}
        spread = [(of, f"n{number:04}", value) for of, count, value in many for number in range(count)]
        for of, config, value in [*spread, *few]:
            builder.builder_of(CONFIGS).put(*of, config, value)
            model[*of, config] = value
        image = builder.image()
    expected = sorted((*place, value) for place, value in model.items() if value is not None)
    assert [tuple(entry) for entry in image[CONFIGS].entries()] == expected
    after = (*resource, name)
    assert [tuple(e) for e in image[CONFIGS].entries(None, after)] == [e for e in expected if e[:3] > after]
    assert [tuple(e) for e in image[CONFIGS].entries(4, after)] == [
        e for e in expected if e[0] == 4 and e[:3] > after
    ]
    assert list(image[CONFIGS].resources()) == sorted({entry[:2] for entry in expected})


def test_a_page_costs_what_it_is_long_and_not_what_the_image_is():
    """Counted, not timed: the rest of the configs is not even looked at."""
    builder = ImageBuilder(EMPTY)
    for number in range(20_000):
        builder.builder_of(CONFIGS).put(4, "", f"n{number:05}", "x")
    for broker in range(5_000):
        builder.builder_of(CONFIGS).put(4, str(broker), "n", "x")
    image = builder.image()
    seen = _Counted.seen
    page = image[CONFIGS].entries(4, (4, "", _Counted("n15000")))
    assert next(page).name == "n15001"
    assert _Counted.seen - seen < 100


class _Counted(str):
    """A text that counts how often it is compared."""

    __slots__ = ()
    seen = 0

    def __lt__(self, other):
        _Counted.seen += 1
        return str.__lt__(self, other)

    def __gt__(self, other):
        _Counted.seen += 1
        return str.__gt__(self, other)

    def __ne__(self, other):
        _Counted.seen += 1
        return str.__ne__(self, other)

    __hash__ = str.__hash__

    def __eq__(self, other):
        _Counted.seen += 1
        return str.__eq__(self, other)
