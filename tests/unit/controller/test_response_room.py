"""Responses that grow with image or request are bounded, and pages miss nothing and repeat nothing."""

import msgspec
import pytest
from contexts import context_of
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftd.controller.configs.configuration_control import incremental_alter_configs
from kraftd.controller.configs.configuration_control import refuse_incremental as refuse_alter
from kraftd.controller.configs.describe_configs import describe_configs
from kraftd.controller.configs.describe_configs import refuse as refuse_describe
from kraftd.controller.configs.listing import list_configs
from kraftd.errors import ErrorCode, UnencodableError
from kraftd.metadata.image import EMPTY
from kraftd.metadata.image_builder import ImageBuilder
from kraftd.metadata.parts.configs import CONFIGS
from kraftd.protocol.limits import (
    ARRAY_LENGTH_MAX,
    HEAD_BYTES_MAX,
    OUTCOMES_BYTES_MAX,
    PAGE_BYTES_MAX,
    PAGE_ENTRIES_MAX,
)
from kraftd.protocol.messages import (
    DescribeConfigsRequest,
    DescribeConfigsRequestDescribeConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    ListConfigsRequest,
    ListConfigsRequestCursor,
)
from kraftd.protocol.msgpack_codec import MSGPACK

LONG = 32_767


def image_of(configs):
    builder = ImageBuilder(EMPTY)
    for place, value in configs.items():
        builder.builder_of(CONFIGS).put(*place, value)
    return builder.image()


def known(text):
    """A name that Kafka defines, of one listener's TLS: its value is told."""
    return f"listener.name.{text}.ssl.protocol"


def size(response):
    return sum(map(len, MSGPACK.encode_response(response.MAX_VERSION, 1, response)))


def pages(image, kind=0):
    """Every page of a listing; the cursor goes on as it came."""
    cursor = None
    while True:
        response = list_configs(image, ListConfigsRequest(kind, cursor), 5)
        yield response
        if response.next_cursor is None:
            return
        cursor = ListConfigsRequestCursor(*msgspec.structs.astuple(response.next_cursor)[:3])


def test_a_listing_goes_on_behind_each_page():
    image = image_of({(4, str(n % 7), known(f"{n:05}")): "x" * (n % 300) for n in range(6_000)})
    found = list(pages(image))
    assert len(found) > 2
    assert all(size(page) <= PAGE_BYTES_MAX + 100 for page in found)
    assert all(len(page.entries) <= PAGE_ENTRIES_MAX for page in found)
    listed = [(e.resource_type, e.resource_name, e.name, e.value) for page in found for e in page.entries]
    assert listed == [tuple(entry) for entry in image[CONFIGS].entries()]


def test_the_longest_configs_are_a_page_each_at_least():
    names = [known(f"{n:02}" + "é" * (LONG // 2 - 16)) for n in range(20)]
    assert all(LONG - 8 < len(name.encode()) <= LONG for name in names)
    image = image_of({(4, "", name): "v" * LONG for name in names})
    found = list(pages(image, 4))
    assert sum(len(page.entries) for page in found) == 20
    assert max(map(size, found)) <= HEAD_BYTES_MAX


def test_small_configs_are_bounded_by_their_number():
    image = image_of({(4, "", f"{n}"): "" for n in range(PAGE_ENTRIES_MAX + 1)})
    assert [len(page.entries) for page in pages(image)] == [PAGE_ENTRIES_MAX, 1]


@settings(max_examples=30)
@given(st.sets(st.integers(0, 9_999), max_size=300), st.sets(st.integers(0, 9_999), max_size=300))
def test_what_stays_is_in_exactly_one_page_whatever_changes_meanwhile(come, gone):
    before = {(4, "", known(f"{n:04}")): "x" * 300 for n in range(0, 10_000, 5)}
    after = {place: value for place, value in before.items() if int(place[2].split(".")[2]) not in gone}
    after |= {(4, "", known(f"{n:04}")): "y" * 300 for n in come}
    first = list_configs(image_of(before), ListConfigsRequest(4), 1)
    cursor = ListConfigsRequestCursor(*msgspec.structs.astuple(first.next_cursor)[:3])
    names = [entry.name for entry in first.entries]
    changed = image_of(after)
    while cursor is not None:
        page = list_configs(changed, ListConfigsRequest(4, cursor), 2)
        names += [entry.name for entry in page.entries]
        cursor = page.next_cursor and ListConfigsRequestCursor(*msgspec.structs.astuple(page.next_cursor)[:3])
    assert len(names) == len(set(names))
    assert {place[2] for place in before.keys() & after.keys()} <= set(names)


def test_a_cursor_need_not_exist_and_may_lie_before_the_type():
    image = image_of({(2, "t", "a"): "1", (4, "", "b"): "2", (4, "9", "c"): "3"})
    for cursor, expected in [((4, "5", ""), "c"), ((2, "t", "a"), "b"), ((0, "", ""), "b")]:
        response = list_configs(image, ListConfigsRequest(4, ListConfigsRequestCursor(*cursor)), 1)
        assert response.entries[0].name == expected
    assert list_configs(image, ListConfigsRequest(4, ListConfigsRequestCursor(5, "", "")), 1).entries == ()


def test_who_asks_without_pages_is_not_told_a_part_as_if_it_were_all():
    image = image_of({(4, "", known(f"{n}")): "x" * 1_000 for n in range(1_000)})
    page = list_configs(image, ListConfigsRequest(4), 1)
    with pytest.raises(UnencodableError):
        MSGPACK.encode_response(0, 1, page)


def describe(image, *resources, synonyms=True):
    asked = tuple(
        DescribeConfigsRequestDescribeConfigsResource(4, name, None if names is None else tuple(names))
        for name, names in resources
    )
    return describe_configs(image, DescribeConfigsRequest(resources=asked, include_synonyms=synonyms))


def test_one_config_always_fits_into_a_description():
    names = [known(f"{n}".ljust(LONG - len(known("")), "n")) for n in range(3)]
    assert {len(name) for name in names} == {LONG}
    image = image_of({(4, broker, name): "v" * LONG for broker in ("", "1") for name in names})
    for name in names:
        response = describe(image, ("1", [name]))
        assert [config.name for config in response.results[0].configs] == [name]
        assert size(response) <= HEAD_BYTES_MAX


def test_more_than_a_description_holds_is_refused_and_not_cut():
    image = image_of({(4, "", known(f"{n:04}")): "v" * 1_000 for n in range(1_000)})
    response = describe(image, ("1", [known("0001")]), ("2", None), ("3", [known("0002")]))
    assert [result.error_code for result in response.results] == [0, 44, 44]
    assert [len(result.configs) for result in response.results] == [1, 0, 0]
    assert "fewer" in response.results[1].error_message


def test_a_name_that_is_asked_twice_is_described_once():
    image = image_of({(4, "", "n"): "v" * 1_000})
    assert len(describe(image, ("", ["n"] * ARRAY_LENGTH_MAX)).results[0].configs) == 1


MANY = {
    "short names": [str(n) for n in range(60_000)],
    "long names": ["x" * 100_000 for _ in range(10)],
    "one that is too long": ["x" * (HEAD_BYTES_MAX - 100)],
    "names that grow when they are quoted": ["\x00" * 30_000 for _ in range(30)],
}


@pytest.mark.parametrize("names", MANY.values(), ids=MANY)
def test_every_response_to_many_resources_is_bounded(names):
    described = DescribeConfigsRequest(
        resources=tuple(DescribeConfigsRequestDescribeConfigsResource(4, name, None) for name in names)
    )
    altered = alteration(names)
    records, response = incremental_alter_configs(context_of(), altered)
    assert records == []
    responses = [
        describe_configs(EMPTY, described),
        refuse_describe(described, ErrorCode.REQUEST_TIMED_OUT, "x" * 300),
        refuse_alter(altered, ErrorCode.REQUEST_TIMED_OUT, "x" * 300),
        response,
    ]
    assert max(map(size, responses)) <= OUTCOMES_BYTES_MAX + 100


def alteration(names, value="1"):
    change = (IncrementalAlterConfigsRequestAlterableConfig("num.io.threads", 0, value),)
    return IncrementalAlterConfigsRequest(
        resources=tuple(IncrementalAlterConfigsRequestAlterConfigsResource(4, name, change) for name in names)
    )


def test_a_change_whose_outcome_cannot_be_told_is_refused_as_a_whole():
    request = alteration([str(n) for n in range(12_000)])
    records, response = incremental_alter_configs(context_of(), request)
    assert records == []
    assert {outcome.error_code for outcome in response.responses} == {ErrorCode.POLICY_VIOLATION}


def test_a_request_about_more_configs_than_one_operation_holds_is_refused_unread():
    """Only validated, too; each resource alone would be taken."""
    changes = tuple(IncrementalAlterConfigsRequestAlterableConfig(f"n{n}", 0, "1") for n in range(6_000))
    for count, wanted in ((1, ErrorCode.NONE), (2, ErrorCode.POLICY_VIOLATION)):
        request = IncrementalAlterConfigsRequest(
            resources=tuple(
                IncrementalAlterConfigsRequestAlterConfigsResource(4, str(n), changes) for n in range(count)
            ),
            validate_only=True,
        )
        records, response = incremental_alter_configs(context_of(), request)
        assert [outcome.error_code for outcome in response.responses] == [wanted] * count
        assert records == []


def test_names_asked_for_are_bounded_found_or_not():
    names = tuple(f"k{n}" for n in range(ARRAY_LENGTH_MAX))
    request = DescribeConfigsRequest(
        resources=tuple(DescribeConfigsRequestDescribeConfigsResource(4, str(n), names) for n in range(3))
    )
    codes = [result.error_code for result in describe_configs(EMPTY, request).results]
    assert codes == [ErrorCode.NONE, ErrorCode.POLICY_VIOLATION, ErrorCode.POLICY_VIOLATION]


def test_the_outcome_of_every_resource_is_told_even_where_the_texts_have_no_room():
    """Appended, and not committed in time: whoever is left out would believe that nothing was done."""
    request = alteration([str(n) for n in range(9_000)])
    records, response = incremental_alter_configs(context_of(), request)
    assert len(records) == len(response.responses) == 9_000
    timed_out = refuse_alter(request, ErrorCode.REQUEST_TIMED_OUT, "x" * 300)
    assert [outcome.error_code for outcome in timed_out.responses] == [ErrorCode.REQUEST_TIMED_OUT] * 9_000
    assert timed_out.responses[0].error_message == "x" * 300


def test_a_refusal_of_a_long_value_is_short():
    _, response = incremental_alter_configs(context_of(), alteration(["1"], "\x01" * LONG))
    assert response.responses[0].error_code == ErrorCode.INVALID_CONFIG
    assert len(response.responses[0].error_message) < 500
