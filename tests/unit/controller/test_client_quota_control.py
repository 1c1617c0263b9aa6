"""What AlterClientQuotas leads to, case by case."""

import math

import pytest
from contexts import context_of

from kraftd.controller.client_quota_control import ALTER_CLIENT_QUOTAS, alter_client_quotas
from kraftd.errors import ErrorCode
from kraftd.metadata.image_builder import apply_all
from kraftd.metadata.parts.client_quotas import CLIENT_QUOTAS
from kraftd.protocol.messages import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasRequestOpData,
)
from kraftd.records.messages import ClientQuotaRecord, ClientQuotaRecordEntityData
from tests.unit.controller.topic_worlds import cluster

PRODUCER, CONSUMER = "producer_byte_rate", "consumer_byte_rate"
REQUEST, MUTATION = "request_percentage", "controller_mutation_rate"
CONNECTION = "connection_creation_rate"
ALICE = (("user", "alice"),)
LOCAL = (("ip", "127.0.0.1"),)


def entry(entity, **quotas):
    """An entry that sets quotas, or removes those that are None."""
    return ops(
        entity,
        *(
            AlterClientQuotasRequestOpData(key, 0.0 if value is None else value, remove=value is None)
            for key, value in quotas.items()
        ),
    )


def ops(entity, *asked):
    components = tuple(AlterClientQuotasRequestEntityData(*component) for component in entity)
    return AlterClientQuotasRequestEntryData(components, asked)


def record(entity, key, value=0.0, **other):
    components = tuple(ClientQuotaRecordEntityData(*component) for component in entity)
    return ClientQuotaRecord(components, key, value, **other)


IMAGE = cluster(record(ALICE, PRODUCER, 1_024.0), record(ALICE, REQUEST, 50.0), record(ALICE, "old", 1.0))


def alter(*entries, image=IMAGE, validate_only=False):
    request = AlterClientQuotasRequest(entries=entries, validate_only=validate_only)
    records, response = alter_client_quotas(context_of(image), request)
    outcomes = [
        (tuple((one.entity_type, one.entity_name) for one in each.entity), ErrorCode(each.error_code))
        for each in response.entries
    ]
    assert all(each.error_code or each.error_message is None for each in response.entries)
    return records, outcomes


def refused(*entries, image=IMAGE):
    """The error and the text of the only outcome; nothing is written."""
    records, response = alter_client_quotas(context_of(image), AlterClientQuotasRequest(entries=entries))
    (outcome,) = response.entries
    assert records == []
    return ErrorCode(outcome.error_code), outcome.error_message


@pytest.mark.parametrize(
    ("entity", "written"),
    [
        (ALICE, ALICE),
        ((("user", None),), (("user", None),)),
        ((("client-id", "app"),), (("client-id", "app"),)),
        ((("client-id", None),), (("client-id", None),)),
        ((("client-id", "app"), ("user", "alice")), (("client-id", "app"), ("user", "alice"))),
        ((("user", None), ("client-id", "app")), (("client-id", "app"), ("user", None))),
        ((("user", "first"), ("user", "last")), (("user", "last"),)),
    ],
)
def test_users_clients_and_both_together_have_rates(entity, written):
    quotas = {PRODUCER: 5.0, CONSUMER: 6.0, REQUEST: 0.25, MUTATION: 1e-3}
    records, outcomes = alter(entry(entity, **quotas), image=cluster())
    assert {each.key: each.value for each in records} == quotas
    assert {each.entity for each in records} == {record(written, "").entity}
    assert outcomes == [(written, ErrorCode.NONE)]


@pytest.mark.parametrize("address", ["127.0.0.1", "10.1", "::1", "[fe80::1]", "fe80::1%2", None])
def test_addresses_have_a_rate_of_connections(address):
    records, outcomes = alter(entry((("ip", address),), **{CONNECTION: 7.0}))
    assert records == [record((("ip", address),), CONNECTION, 7.0)]
    assert outcomes == [((("ip", address),), ErrorCode.NONE)]


@pytest.mark.parametrize(
    ("entity", "part_of_text"),
    [
        ((), "neither user nor client-id nor ip"),
        ((("broker", "1"),), "'broker'"),
        ((("User", "alice"),), "'User'"),
        ((("user", ""),), "user is empty"),
        ((("client-id", ""),), "client-id is empty"),
        ((("ip", ""),), "ip is empty"),
        ((("ip", "127.0.0.1"), ("user", "alice")), "stands alone"),
        ((("ip", None), ("client-id", None)), "stands alone"),
        ((("ip", "localhost"),), "'localhost' is no IP address"),
        ((("ip", "256.0.0.1"),), "no IP address"),
        ((("ip", "1.2.3.4.5"),), "no IP address"),
        ((("ip", "1..2"),), "no IP address"),
        ((("ip", "1.2.65536"),), "no IP address"),
        ((("ip", "\u0661.2.3.4"),), "no IP address"),
        ((("ip", "[1.2.3.4]"),), "no IP address"),
        ((("ip", "::1%eth0"),), "no IP address"),
        ((("ip", "::1%"),), "no IP address"),
        ((("ip", "[::1"),), "no IP address"),
    ],
)
def test_an_entity_that_cannot_be_is_refused_whatever_is_said_of_it(entity, part_of_text):
    for quotas in ({}, {PRODUCER: 1.0}, {CONNECTION: 1.0}, {PRODUCER: None}):
        code, text = refused(entry(entity, **quotas))
        assert code is ErrorCode.INVALID_REQUEST
        assert part_of_text in text


@pytest.mark.parametrize(
    ("entity", "key", "value", "part_of_text"),
    [
        (ALICE, CONNECTION, 1.0, "no quota 'connection_creation_rate'"),
        (ALICE, "old", 1.0, "no quota 'old'"),
        (LOCAL, PRODUCER, 1.0, "no quota 'producer_byte_rate'"),
        (ALICE, PRODUCER, 0.0, "more than 0"),
        (ALICE, REQUEST, -0.0, "more than 0"),
        (ALICE, REQUEST, -1.0, "more than 0"),
        (LOCAL, CONNECTION, -math.inf, "more than 0"),
        (ALICE, PRODUCER, 1.5, "whole number"),
        (ALICE, CONSUMER, 0.9999999, "whole number"),
        (LOCAL, CONNECTION, 1.00001, "whole number"),
        (ALICE, PRODUCER, 2.0**63 * 1.001, "not be more than"),
        (ALICE, PRODUCER, math.inf, "not be more than"),
        (LOCAL, CONNECTION, 2.0**31, "not be more than 2147483647"),
    ],
)
def test_a_quota_that_cannot_be_set_is_refused(entity, key, value, part_of_text):
    code, text = refused(entry(entity, **{key: value}))
    assert code is ErrorCode.INVALID_REQUEST
    assert part_of_text in text


@pytest.mark.parametrize(
    ("entity", "key", "value"),
    [
        (ALICE, PRODUCER, 2.0**63),
        (ALICE, PRODUCER, 1.0000001),
        (ALICE, CONSUMER, math.nan),
        (ALICE, MUTATION, math.inf),
        (ALICE, REQUEST, 5e-324),
        (LOCAL, CONNECTION, 2.0**31 - 1),
    ],
)
def test_what_kafka_takes_at_the_edges(entity, key, value):
    ((written,), _) = alter(entry(entity, **{key: value}))
    assert str(written.value) == str(value)


def test_what_is_there_is_not_written_again_and_what_is_not_there_is_not_removed():
    same = {PRODUCER: 1_024.0, REQUEST: 50.0, CONSUMER: None, CONNECTION: None, "nonsense": None}
    assert alter(entry(ALICE, **same)) == ([], [(ALICE, ErrorCode.NONE)])
    assert alter(entry((("user", None),), **{PRODUCER: None}))[0] == []
    assert alter(entry((("user", "alice"), ("client-id", "c")), **{PRODUCER: None}))[0] == []
    nan = apply_all(IMAGE, [record(ALICE, CONSUMER, math.nan)], 0)
    assert alter(entry(ALICE, **{CONSUMER: math.nan}), image=nan)[0] == []
    assert len(alter(entry(ALICE, **{CONSUMER: 5.0}), image=nan)[0]) == 1


def test_what_is_there_is_changed_and_removed_even_under_a_name_that_cannot_be_set():
    records, _ = alter(entry(ALICE, **{PRODUCER: 1_025.0, REQUEST: None, "old": None}))
    assert sorted(records, key=lambda each: each.key) == [
        record(ALICE, "old", remove=True),
        record(ALICE, PRODUCER, 1_025.0),
        record(ALICE, REQUEST, remove=True),
    ]
    (left,) = apply_all(IMAGE, records, 0)[CLIENT_QUOTAS].values()
    assert (left.key, left.value) == (PRODUCER, 1_025.0)


def test_the_order_of_the_components_does_not_tell_entities_apart():
    both = (("user", "alice"), ("client-id", "c"))
    image = cluster(record(both, PRODUCER, 5.0))
    assert alter(entry(tuple(reversed(both)), **{PRODUCER: 5.0}), image=image)[0] == []


def test_entities_succeed_and_fail_by_themselves_with_all_that_is_said_of_them():
    bob = (("user", "bob"),)
    records, outcomes = alter(
        entry(bob, **{PRODUCER: 1.0, CONSUMER: 0.5}), entry(ALICE, **{CONSUMER: 2.0}), entry(LOCAL)
    )
    assert records == [record(ALICE, CONSUMER, 2.0)]
    assert dict(outcomes) == {
        bob: ErrorCode.INVALID_REQUEST,
        ALICE: ErrorCode.NONE,
        LOCAL: ErrorCode.NONE,
    }


def test_of_an_entity_that_is_named_twice_the_first_is_written_and_the_error_told():
    records, outcomes = alter(entry(ALICE, **{CONSUMER: 1.0}), entry(ALICE, **{CONSUMER: 2.0}), entry(ALICE))
    assert records == [record(ALICE, CONSUMER, 1.0)]
    assert outcomes == [(ALICE, ErrorCode.INVALID_REQUEST)]


def test_of_an_entity_with_one_quota_twice_nothing_is_written():
    twice = [AlterClientQuotasRequestOpData(CONSUMER, 1.0)] * 2
    code, text = refused(ops(ALICE, *twice))
    assert (code, "more than once" in text) == (ErrorCode.INVALID_REQUEST, True)


def test_records_and_outcomes_come_in_the_order_of_kafkas_maps():
    """As a JVM printed it; `tests/interop/test_users_like_kafka` compares whole records with Kafka's."""
    both = (("client-id", "c"), ("user", "u"))
    quotas = {PRODUCER: 1.0, CONSUMER: 2.0, REQUEST: 3.0, MUTATION: 4.0}
    records, _ = alter(entry(both, **quotas), image=cluster())
    assert [each.key for each in records] == [PRODUCER, CONSUMER, MUTATION, REQUEST]
    assert [one.entity_type for one in records[0].entity] == ["client-id", "user"]
    records, _ = alter(entry(both, **{PRODUCER: 1.0, CONSUMER: 2.0, REQUEST: 3.0}), image=cluster())
    assert [each.key for each in records] == [CONSUMER, PRODUCER, REQUEST]
    users = [(("user", f"u{number}"),) for number in range(5)]
    assert [found for found, _ in alter(*map(entry, users))[1]] == [users[at] for at in (1, 3, 2, 4, 0)]


def test_who_only_validates_changes_nothing():
    assert alter(entry(ALICE, **{CONSUMER: 1.0}), validate_only=True) == ([], [(ALICE, ErrorCode.NONE)])
    assert alter(entry(ALICE, **{CONSUMER: 0.0}), validate_only=True)[1] == [
        (ALICE, ErrorCode.INVALID_REQUEST)
    ]


def test_ten_thousand_quotas_are_set_at_once_and_not_one_more():
    two = {PRODUCER: 1.0, CONSUMER: 1.0}
    users = [entry((("user", f"u{number}"),), **two) for number in range(5_000)]
    records, outcomes = alter(*users)
    assert (len(records), len(outcomes)) == (10_000, 5_000)
    records, outcomes = alter(*users, entry(ALICE, **{CONSUMER: 1.0}))
    assert (records, {code for _, code in outcomes}) == ([], {ErrorCode.POLICY_VIOLATION})


def test_so_many_entities_that_no_response_can_tell_of_them_are_refused():
    users = [entry((("user", f"{number}{'u' * 30_000}"),), **{PRODUCER: 1.0}) for number in range(20)]
    records, outcomes = alter(*users)
    assert records == []
    assert 0 < len(outcomes) < 20
    assert {code for _, code in outcomes} == {ErrorCode.POLICY_VIOLATION}


def test_ten_thousand_entities_are_decided_at_once_and_not_one_more():
    nobody = AlterClientQuotasRequestEntryData()
    assert alter(*[nobody] * 10_000) == ([], [((), ErrorCode.INVALID_REQUEST)])
    records, outcomes = alter(*[nobody] * 10_001)
    assert (records, set(outcomes)) == ([], {((), ErrorCode.POLICY_VIOLATION)})


def test_of_an_entity_with_more_components_than_any_has_the_first_are_told():
    kinds = tuple((f"{number}{'k' * 30_000}", "n" * 30_000) for number in range(20))
    records, ((told, code),) = alter(entry(kinds, **{PRODUCER: 1.0}))
    assert (records, sorted(told), code) == ([], sorted(kinds[:4]), ErrorCode.INVALID_REQUEST)


def test_four_components_an_entity_are_looked_at_and_not_one_more():
    kinds = tuple((f"{number}", None) for number in range(40_000))
    assert alter(entry(kinds))[1][0][1] is ErrorCode.INVALID_REQUEST
    assert alter(entry(kinds), entry(ALICE))[1][1] == (ALICE, ErrorCode.POLICY_VIOLATION)


def test_an_empty_request_is_answered():
    assert alter() == ([], [])


def test_refusals_name_each_entity_as_it_was_asked_for():
    request = AlterClientQuotasRequest(entries=(entry(ALICE), entry((("user", None), ("client-id", "c")))))
    told = ALTER_CLIENT_QUOTAS.refuse(request, ErrorCode.NOT_CONTROLLER, "not here").entries
    assert [
        (each.error_code, each.error_message, [(one.entity_type, one.entity_name) for one in each.entity])
        for each in told
    ] == [(41, "not here", [*ALICE]), (41, "not here", [("user", None), ("client-id", "c")])]
