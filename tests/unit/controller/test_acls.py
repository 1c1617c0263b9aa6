"""What CreateAcls, DeleteAcls and DescribeAcls lead to, case by case."""

import pytest
from msgspec.structs import astuple, replace

from kraftd.controller.acls import filters
from kraftd.controller.acls.creating import CREATE_ACLS, create_acls
from kraftd.controller.acls.deleting import DELETE_ACLS, delete_acls
from kraftd.controller.acls.describing import DESCRIBE_ACLS, describe_acls
from kraftd.controller.context import ControllerSettings, ReadContext
from kraftd.controller.uuids import is_usable
from kraftd.errors import ErrorCode
from kraftd.metadata.image_builder import apply_all
from kraftd.metadata.parts.acls import ACLS
from kraftd.protocol import messages as m
from kraftd.protocol.limits import ACLS_BYTES_MAX, ARRAY_LENGTH_MAX
from kraftd.records.messages import RemoveAccessControlEntryRecord
from kraftd.types import Now
from tests.contexts import NewestImage
from tests.unit.controller.acl_worlds import (
    ALL,
    ALLOW,
    CLUSTER,
    DENY,
    GROUP,
    LITERAL,
    MATCH,
    PREFIXED,
    READ,
    TOPIC,
    WRITE,
    acl,
    acls_context,
)

UNKNOWN, ANY = 0, 1
NO_SETTINGS = ControllerSettings()


def creation(name="t", **other):
    return m.CreateAclsRequestAclCreation(*astuple(acl(0, name, **other))[1:-1])


def create(*creations, context=None):
    context = context or acls_context()
    records, response = create_acls(context, m.CreateAclsRequest(creations))
    return records, [ErrorCode(each.error_code) for each in response.results]


# -- CreateAcls


def test_an_acl_is_made_as_it_is_asked_for():
    asked = creation("team-", pattern=PREFIXED, host="10.0.0.1", operation=ALL, permission=DENY)
    (record,), outcomes = create(asked)
    assert outcomes == [ErrorCode.NONE]
    assert astuple(record)[1:] == astuple(asked)
    assert is_usable(record.id)


def test_what_is_there_or_comes_twice_is_not_written_again():
    context = acls_context(acl(1), acl(2, "t", host="h"))
    same, other = creation(), creation(operation=WRITE)
    tagged = replace(other, unknown_tags=((9, b"x"),))
    records, outcomes = create(same, other, tagged, other, creation(host="h"), context=context)
    assert outcomes == [ErrorCode.NONE] * 5
    assert [record.operation for record in records] == [WRITE]


@pytest.mark.parametrize(
    "other",
    [
        {"name": "u"},
        {"kind": GROUP},
        {"pattern": PREFIXED},
        {"principal": "User:bob"},
        {"host": "1.2.3.4"},
        {"operation": WRITE},
        {"permission": DENY},
    ],
)
def test_what_differs_in_one_thing_is_another_acl(other):
    records, _ = create(creation(**other), context=acls_context(acl(1)))
    assert len(records) == 1


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"kind": UNKNOWN}, "of the type UNKNOWN"),
        ({"kind": ANY}, "of the type ANY"),
        ({"kind": 8}, "of the type UNKNOWN"),
        ({"pattern": UNKNOWN}, "not UNKNOWN"),
        ({"pattern": ANY}, "not ANY"),
        ({"pattern": MATCH}, "not MATCH"),
        ({"pattern": 5}, "not UNKNOWN"),
        ({"operation": UNKNOWN}, "not UNKNOWN"),
        ({"operation": ANY}, "not ANY"),
        ({"operation": 16}, "not UNKNOWN"),
        ({"permission": UNKNOWN}, "not UNKNOWN"),
        ({"permission": ANY}, "not ANY"),
        ({"permission": 4}, "not UNKNOWN"),
        ({"name": ""}, "needs a name"),
        ({"kind": CLUSTER, "name": "c"}, "is called kafka-cluster"),
        ({"kind": CLUSTER, "name": "*"}, "is called kafka-cluster"),
        ({"principal": "alice"}, "'alice' is not Type:name"),
        ({"principal": ""}, "is not Type:name"),
    ],
)
def test_what_cannot_be_an_acl_is_refused_and_costs_no_other(wrong, words):
    asked = m.CreateAclsRequest((creation(**wrong), creation("u"), creation(**wrong)))
    records, response = create_acls(acls_context(), asked)
    assert [record.resource_name for record in records] == ["u"]
    refused, made, _ = response.results
    assert (refused.error_code, made.error_code) == (ErrorCode.INVALID_REQUEST, ErrorCode.NONE)
    assert words in refused.error_message
    assert made.error_message == ""


def test_the_cluster_has_one_name():
    assert create(creation("kafka-cluster", kind=CLUSTER))[1] == [ErrorCode.NONE]


def test_ids_come_from_the_seed_and_are_not_given_twice():
    context = acls_context(seed=7, next_offset=3)
    records, _ = create(creation("a"), creation("b"), context=context)
    assert create(creation("a"), creation("b"), context=context)[0] == records
    ids = {record.id for record in records}
    for changes in ({"seed": 8}, {"next_offset": 4}):
        others, _ = create(creation("a"), creation("b"), context=replace(context, **changes))
        assert ids.isdisjoint(record.id for record in others)
    taken = replace(context, newest=NewestImage(apply_all(context.image, records, 0)))
    again, _ = create(creation("c"), creation("d"), context=taken)
    assert len({record.id for record in (*records, *again)}) == 4


def test_ten_thousand_acls_are_made_at_once_and_not_one_more():
    asked = [creation(f"t{number}") for number in range(10_000)]
    assert len(create(*asked)[0]) == 10_000
    records, outcomes = create(*asked, creation("u"))
    assert (records, set(outcomes)) == ([], {ErrorCode.POLICY_VIOLATION})


# -- DeleteAcls

WORLD = (
    acl(1, "orders"),
    acl(2, "orders", principal="User:bob", operation=WRITE),
    acl(3, "ord", pattern=PREFIXED),
    acl(4, "*", host="10.0.0.1", permission=DENY),
    acl(5, "payments", pattern=PREFIXED),
    acl(6, "orders", kind=GROUP),
)

EVERYTHING = m.DeleteAclsRequestDeleteAclsFilter(ANY, None, ANY, None, None, ANY, ANY)


def meaning(**named):
    return replace(EVERYTHING, **{name: getattr(value, "value", value) for name, value in named.items()})


def delete(*wanted, acls=WORLD):
    records, response = delete_acls(acls_context(*acls), m.DeleteAclsRequest(wanted))
    return [int.from_bytes(record.id, "big") for record in records], response.filter_results


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, {1, 2, 3, 4, 5, 6}),
        ({"resource_type_filter": TOPIC}, {1, 2, 3, 4, 5}),
        ({"resource_name_filter": "orders"}, {1, 2, 6}),
        ({"resource_name_filter": "orders", "resource_type_filter": TOPIC}, {1, 2}),
        ({"resource_name_filter": "orders", "pattern_type_filter": MATCH}, {1, 2, 3, 4, 6}),
        ({"resource_name_filter": "order", "pattern_type_filter": MATCH}, {3, 4}),
        ({"resource_name_filter": "or", "pattern_type_filter": MATCH}, {4}),
        ({"resource_name_filter": "*", "pattern_type_filter": MATCH}, {4}),
        ({"resource_name_filter": "*x", "pattern_type_filter": MATCH}, {4}),
        ({"resource_name_filter": "ord", "pattern_type_filter": PREFIXED}, {3}),
        ({"resource_name_filter": "ord", "pattern_type_filter": LITERAL}, set()),
        ({"resource_name_filter": "orders", "pattern_type_filter": LITERAL}, {1, 2, 6}),
        ({"resource_name_filter": ""}, set()),
        ({"pattern_type_filter": PREFIXED}, {3, 5}),
        ({"pattern_type_filter": MATCH}, {1, 2, 3, 4, 5, 6}),
        ({"principal_filter": "User:bob"}, {2}),
        ({"principal_filter": "User:*"}, set()),
        ({"host_filter": "10.0.0.1"}, {4}),
        ({"host_filter": "10.0.0.1", "principal_filter": "User:alice"}, {4}),
        ({"host_filter": "*", "principal_filter": "User:bob"}, {2}),
        ({"operation": WRITE}, {2}),
        ({"operation": ALL}, set()),
        ({"permission_type": DENY}, {4}),
        ({"permission_type": ALLOW, "principal_filter": "User:alice"}, {1, 3, 5, 6}),
    ],
)
def test_a_filter_means(wanted, expected):
    removed, (result,) = delete(meaning(**wanted))
    assert set(removed) == expected
    assert len(removed) == len(result.matching_acls)
    assert (result.error_code, result.error_message) == (ErrorCode.NONE, None)


def test_what_is_removed_is_told_and_gone():
    context = acls_context(*WORLD)
    asked = m.DeleteAclsRequest((meaning(resource_name_filter="orders"),))
    records, response = delete_acls(context, asked)
    assert records == [RemoveAccessControlEntryRecord(WORLD[number - 1].id) for number in (1, 2, 6)]
    told = response.filter_results[0].matching_acls
    assert [astuple(each)[2:-1] for each in told] == [
        astuple(WORLD[number - 1])[1:-1] for number in (1, 2, 6)
    ]
    after = apply_all(context.image, records, 0)
    assert [each.id[-1] for each in after[ACLS].values()] == [3, 4, 5]


def test_what_two_filters_mean_is_removed_once_and_told_by_both():
    removed, results = delete(meaning(operation=WRITE), EVERYTHING, meaning(operation=WRITE))
    assert sorted(removed) == [1, 2, 3, 4, 5, 6]
    assert [len(result.matching_acls) for result in results] == [1, 6, 1]


@pytest.mark.parametrize(
    "wrong",
    [
        {"resource_type_filter": UNKNOWN},
        {"resource_type_filter": 8},
        {"pattern_type_filter": UNKNOWN},
        {"pattern_type_filter": 5},
        {"operation": UNKNOWN},
        {"operation": 16},
        {"permission_type": UNKNOWN},
        {"permission_type": 4},
    ],
)
def test_a_filter_that_means_nothing_is_refused_and_costs_no_other(wrong):
    removed, (refused, done) = delete(meaning(**wrong), meaning(operation=WRITE))
    assert removed == [2]
    assert (refused.error_code, done.error_code) == (ErrorCode.INVALID_REQUEST, ErrorCode.NONE)
    assert "unknown" in refused.error_message
    assert describe(meaning(**wrong)).error_code == ErrorCode.INVALID_REQUEST


def test_ten_thousand_acls_are_removed_at_once_and_not_one_more():
    acls = [acl(number, f"t{number}") for number in range(10_001)]
    assert len(delete(EVERYTHING, acls=acls[1:])[0]) == 10_000
    removed, results = delete(meaning(operation=WRITE), EVERYTHING, acls=acls)
    assert removed == []
    assert [ErrorCode(result.error_code) for result in results] == [ErrorCode.INVALID_REQUEST] * 2


def test_what_no_response_can_tell_is_not_removed():
    acls = [acl(number, "x" * 32_000 + f"{number}") for number in range(ACLS_BYTES_MAX // 32_000 + 1)]
    removed, (result,) = delete(EVERYTHING, acls=acls)
    assert (removed, result.error_code) == ([], ErrorCode.POLICY_VIOLATION)
    assert describe(EVERYTHING, acls=acls).error_code == ErrorCode.POLICY_VIOLATION
    assert len(delete(EVERYTHING, acls=acls[:-1])[0]) == len(acls) - 1
    results = delete(*[EVERYTHING] * ARRAY_LENGTH_MAX)[1]
    assert {result.error_code for result in results} == {ErrorCode.POLICY_VIOLATION}


def test_a_request_looks_at_so_many_acls_and_no_more(monkeypatch):
    monkeypatch.setattr(filters, "_LOOKS_MAX", 20)
    assert len(delete(*[EVERYTHING] * 4)[0]) == 6
    removed, results = delete(meaning(operation=UNKNOWN), *[EVERYTHING] * 5)
    assert removed == []
    assert {result.error_code for result in results} == {ErrorCode.POLICY_VIOLATION}
    named = meaning(resource_name_filter="orders", resource_type_filter=TOPIC, pattern_type_filter=LITERAL)
    exact = replace(named, principal_filter="User:bob", host_filter="*")
    assert delete(*[exact] * 13)[0] == [2]
    assert delete(*[exact] * 14)[0] == []
    matching = replace(named, pattern_type_filter=MATCH)
    assert delete(*[matching] * 3)[0] == [4, 3, 1, 2]
    assert delete(*[matching] * 4)[0] == []


# -- DescribeAcls


def describe(wanted, acls=WORLD, settings=None):
    context = acls_context(*acls)
    read = ReadContext(context.image, 1, context.sessions, Now(0, 0), settings or context.settings)
    return describe_acls(read, m.DescribeAclsRequest(*astuple(wanted)[:-1]))


def test_acls_are_told_by_resource():
    response = describe(meaning(resource_name_filter="orders", pattern_type_filter=MATCH))
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, "")
    assert [(each.resource_type, each.resource_name, each.pattern_type) for each in response.resources] == [
        (TOPIC, "*", LITERAL),
        (TOPIC, "ord", PREFIXED),
        (TOPIC, "orders", LITERAL),
        (GROUP, "orders", LITERAL),
    ]
    assert [astuple(each)[:-1] for each in response.resources[2].acls] == [
        ("User:alice", "*", READ, ALLOW),
        ("User:bob", "*", WRITE, ALLOW),
    ]


# -- without an authorizer, and refusals


def test_without_an_authorizer_there_are_no_acls():
    context = acls_context(*WORLD, settings=NO_SETTINGS)
    records, outcomes = create(creation("u"), creation("v"), context=context)
    assert (records, outcomes) == ([], [ErrorCode.SECURITY_DISABLED] * 2)
    removed, response = delete_acls(context, m.DeleteAclsRequest((EVERYTHING, EVERYTHING)))
    assert removed == []
    assert [each.error_code for each in response.filter_results] == [ErrorCode.SECURITY_DISABLED] * 2
    response = describe(EVERYTHING, settings=NO_SETTINGS)
    assert (response.error_code, response.resources) == (ErrorCode.SECURITY_DISABLED, ())
    assert "authorizer.class.name" in response.error_message


def test_a_refusal_has_the_error_for_each():
    error = ErrorCode.NOT_CONTROLLER
    made = CREATE_ACLS.refuse(m.CreateAclsRequest((creation(),) * 2), error, "why")
    assert [(each.error_code, each.error_message) for each in made.results] == [(error, "why")] * 2
    removed = DELETE_ACLS.refuse(m.DeleteAclsRequest((EVERYTHING,) * 2), error, "why")
    assert [(each.error_code, each.error_message) for each in removed.filter_results] == [(error, "why")] * 2
    told = DESCRIBE_ACLS.refuse(m.DescribeAclsRequest(), error, "why")
    assert (told.error_code, told.error_message) == (error, "why")
