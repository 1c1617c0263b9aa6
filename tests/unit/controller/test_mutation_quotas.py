"""The quota of created and deleted partitions: buckets, whose quota counts, and what the topic APIs take."""

import hashlib
import math
import tracemalloc

import pytest
from contexts import context_of

from kraftd.controller.activation import registration_of
from kraftd.controller.context import Client, ControllerSettings
from kraftd.controller.decisions import AfterWrite, ImmediateResponse, Write
from kraftd.controller.mutation_quotas import UNLIMITED, MutationQuotas, quota_of
from kraftd.controller.quorum_controller import QuorumController
from kraftd.controller.refused import RefusedError
from kraftd.controller.topics.adding import CREATE_PARTITIONS
from kraftd.controller.topics.creating import CREATE_TOPICS
from kraftd.controller.topics.deleting import DELETE_TOPICS
from kraftd.errors import ErrorCode
from kraftd.metadata.feature_levels import bootstrap_records
from kraftd.metadata.parts.client_quotas import CLIENT_QUOTAS
from kraftd.protocol.messages import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    CreateTopicsRequestCreatableTopic,
    DeleteTopicsRequest,
    DeleteTopicsRequestDeleteTopicState,
)
from kraftd.protocol.principal import Principal
from kraftd.records.committed import CommittedBatch
from kraftd.records.frame import encode_record
from kraftd.records.messages import ClientQuotaRecord, ClientQuotaRecordEntityData, PartitionRecord
from kraftd.types import ZERO_UUID, Endpoint, Now
from tests.unit.controller.test_adding_and_deleting import IMAGE, TOPICS_THERE, A, B, more
from tests.unit.controller.topic_worlds import THREE, cluster

NONE, THROTTLED = ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED
ALICE = Client(Principal("User", "alice"), "app")


def quota(rate, key="controller_mutation_rate", **entity):
    """A quota of `user` and `client_id`; None is the default."""
    components = tuple(
        ClientQuotaRecordEntityData(kind.replace("_", "-"), name) for kind, name in entity.items()
    )
    return ClientQuotaRecord(components, key, rate)


def quotas(*records):
    return cluster(*records)[CLIENT_QUOTAS]


ONE_A_SECOND = quotas(quota(1.0, user="alice"))


def ask(buckets, now_ms, *, is_strict=True, there=ONE_A_SECOND, client_id="app"):
    return buckets.of_request(there, "alice", client_id, now_ms, is_strict=is_strict)


def took(buckets, now_ms, *partitions, **how):
    """What each of these topics was told, and for how long to wait; the request is over then."""
    asked = ask(buckets, now_ms, **how)
    told = []
    for each in partitions:
        try:
            asked.take(each)
            told.append(NONE)
        except RefusedError as error:
            assert str(error) == ""  # as in Kafka, whose clients have a text of their own for the code
            told.append(error.code)
    buckets.keep(asked)
    return *told, asked.throttle_ms


# -- buckets


def test_a_bucket_begins_with_what_a_window_brings_and_may_go_into_debt_once():
    buckets = MutationQuotas(11)
    assert took(buckets, 1_000, 10) == (NONE, 0)
    assert took(buckets, 1_000, 1) == (NONE, 0)  # nothing is left, and nothing is owed
    assert took(buckets, 1_000, 5) == (NONE, 0)
    assert took(buckets, 1_000, 1) == (THROTTLED, 5_000)


def test_a_refusal_takes_nothing_and_debts_are_paid_by_the_rate():
    buckets = MutationQuotas(11)
    took(buckets, 0, 16)
    assert took(buckets, 2_000, 100, 100) == (THROTTLED, THROTTLED, 3_000)
    assert took(buckets, 4_999, 1) == (THROTTLED, 1)
    assert took(buckets, 5_000, 1) == (NONE, 0)


def test_a_bucket_holds_no_more_than_a_window_brings():
    buckets = MutationQuotas(11)
    took(buckets, 0, 1)
    assert took(buckets, 3_000_000, 12, 1) == (NONE, THROTTLED, 1_000)


def test_the_topics_of_one_request_are_refused_from_where_something_is_owed():
    assert took(MutationQuotas(11), 0, 6, 6, 1) == (NONE, NONE, THROTTLED, 1_000)


def test_a_permissive_quota_takes_on_and_says_how_long_to_wait():
    buckets = MutationQuotas(11)
    assert took(buckets, 0, 10, is_strict=False) == (NONE, 0)
    assert took(buckets, 0, 3, is_strict=False) == (NONE, 2_000)
    assert took(buckets, 0, 3, is_strict=False) == (NONE, 5_000)
    assert took(buckets, 0, 1) == (THROTTLED, 5_000)


def test_a_wait_is_rounded_to_milliseconds_and_fits_its_field():
    fast = quotas(quota(3.0, user="alice"))
    assert took(MutationQuotas(1), 0, 4, 1, there=fast) == (NONE, THROTTLED, 333)
    assert took(MutationQuotas(1), 0, 5, 1, there=fast) == (NONE, THROTTLED, 667)
    for rate in (1e-300, 5e-324, 0.0):
        slow = quotas(quota(rate, user="alice"))
        assert took(MutationQuotas(1), 0, 4, 1, there=slow) == (NONE, THROTTLED, (1 << 31) - 1)


def test_what_is_owed_stays_owed_when_the_rate_changes():
    buckets = MutationQuotas(11)
    took(buckets, 0, 31)
    faster = quotas(quota(10.0, user="alice"))
    assert took(buckets, 1_000, 1, there=faster) == (THROTTLED, 1_000)
    assert took(buckets, 2_000, 1, there=faster) == (NONE, 0)


def test_who_asked_nothing_for_an_hour_owes_nothing():
    buckets = MutationQuotas(11)
    took(buckets, 0, 10_000)
    assert took(buckets, 3_600_000, 1) == (THROTTLED, (10_000 - 11 - 3_600) * 1_000)
    assert took(buckets, 7_200_001, 1) == (NONE, 0)


def test_a_request_that_was_not_decided_takes_nothing():
    buckets = MutationQuotas(11)
    ask(buckets, 0).take(100)
    assert took(buckets, 0, 1) == (NONE, 0)


def test_the_buckets_of_ten_thousand_clients_are_kept():
    each = quotas(quota(1.0, user="alice", client_id=None))
    buckets = MutationQuotas(1)
    took(buckets, 0, 5, there=each, client_id="first")
    took(buckets, 0, 5, there=each, client_id="second")
    for number in range(9_998):
        took(buckets, 0, 5, there=each, client_id=f"c{number}")
    took(buckets, 0, 1, there=each, client_id="first")
    took(buckets, 0, 1, there=each, client_id="one more")
    assert len(buckets) == 10_000
    assert took(buckets, 0, 1, there=each, client_id="first") == (THROTTLED, 4_000)
    assert took(buckets, 0, 1, there=each, client_id="second") == (NONE, 0)


EACH = quotas(quota(1.0, user="alice", client_id=None))
"""One partition a second for each client of alice."""


def test_who_took_nothing_has_no_bucket_and_changes_none():
    buckets = MutationQuotas(11)
    assert took(buckets, 0) == (0,)
    assert len(buckets) == 0
    took(buckets, 0, 16, there=EACH)
    assert took(buckets, 1_000, there=EACH) == (0,)
    assert took(buckets, 2_000, 1, there=EACH) == (THROTTLED, 3_000)
    assert len(buckets) == 1


def test_idle_buckets_go_two_with_each_request():
    buckets = MutationQuotas(1)
    for client in ("a", "b", "c", "d", "a"):
        took(buckets, 0, 1, there=EACH, client_id=client)
    took(buckets, 1, 1, there=EACH, client_id="b")
    took(buckets, 3_600_000, there=EACH)
    assert len(buckets) == 4
    took(buckets, 3_600_001, there=EACH)
    assert len(buckets) == 2
    took(buckets, 3_600_001, 1, there=EACH, client_id="e")
    assert len(buckets) == 2, "b, which is no hour old, and e"


def test_long_names_are_not_kept():
    buckets = MutationQuotas(1)
    tracemalloc.start()
    try:
        for number in range(100):
            took(buckets, 0, 5, there=EACH, client_id=f"{number:03}" + "x" * 30_000)
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(buckets) == 100
    assert kept_bytes < 100 * 1_000


def test_long_names_have_buckets_of_their_own():
    """The bound is in characters: those of a name that is kept as it is are 256 bytes at most."""
    buckets = MutationQuotas(1)
    longest = "é" * 64
    assert ask(buckets, 0, there=EACH, client_id=longest).of == ("alice", longest)
    for client in (longest, longest + "a", longest + "b", "\ud800" * 65):
        assert took(buckets, 0, 5, there=EACH, client_id=client) == (NONE, 0)
        assert took(buckets, 0, 1, there=EACH, client_id=client) == (THROTTLED, 4_000)
    user = quotas(quota(1.0, user=None))
    of = buckets.of_request(user, "u" * 65, "app", 0, is_strict=True).of
    assert of == (hashlib.blake2b(b"u" * 65, digest_size=16).digest(), "")


@pytest.mark.parametrize("rate", [math.nan, math.inf])
def test_a_rate_that_is_no_number_limits_nothing(rate):
    assert ask(MutationQuotas(11), 0, there=quotas(quota(rate, user="alice"))) is UNLIMITED


def test_what_limits_nothing_takes_nothing():
    buckets = MutationQuotas(11)
    assert took(buckets, 0, 1 << 40, there=quotas()) == (NONE, 0)
    assert len(buckets) == 0


# -- whose quota


BY_PRECEDENCE = (
    (quota(1.0, user="alice", client_id="app"), ("alice", "app")),
    (quota(2.0, user="alice", client_id=None), ("alice", "app")),
    (quota(3.0, user="alice"), ("alice", "")),
    (quota(4.0, user=None, client_id="app"), ("alice", "app")),
    (quota(5.0, user=None, client_id=None), ("alice", "app")),
    (quota(6.0, user=None), ("alice", "")),
    (quota(7.0, client_id="app"), ("", "app")),
    (quota(8.0, client_id=None), ("", "app")),
)


@pytest.mark.parametrize("first", range(len(BY_PRECEDENCE)))
def test_the_first_quota_in_kafkas_order_counts(first):
    there = quotas(*(record for record, _ in BY_PRECEDENCE[first:]))
    record, bucket = BY_PRECEDENCE[first]
    assert quota_of(there, "alice", "app") == (bucket, record.value)


def test_other_names_and_other_quotas_do_not_count():
    there = quotas(
        quota(1.0, user="bob", client_id="app"),
        quota(1.0, user="alice", client_id="other"),
        quota(1.0, user="bob"),
        quota(1.0, client_id="other"),
        quota(1.0, key="producer_byte_rate", user="alice"),
    )
    assert quota_of(there, "alice", "app") == (("", "app"), None)


def test_who_has_no_client_id_has_the_quota_of_a_user_or_none():
    all_of_them = [record for record, _ in BY_PRECEDENCE]
    assert quota_of(quotas(*all_of_them), "alice", "") == (("alice", ""), 3.0)
    assert quota_of(quotas(*all_of_them), "bob", "") == (("bob", ""), 6.0)
    assert quota_of(quotas(*all_of_them[3:5], *all_of_them[6:]), "bob", "")[1] is None
    assert quota_of(quotas(*all_of_them[:2], all_of_them[7]), "alice", "")[1] is None


def test_a_client_without_an_id_is_one_with_an_empty_one():
    assert ask(MutationQuotas(11), 0, client_id=None).of == ("alice", "")


# -- what the APIs take


def spent(image, *, left, is_strict=True):
    """A context whose client has so many partitions left."""
    buckets = MutationQuotas(1)
    there = quotas(quota(float(max(left, 1)), user="alice"))
    asked = ask(buckets, 0, there=there, is_strict=is_strict)
    asked.take(max(left, 1) - left)
    return context_of(image, mutation_quota=asked)


def topics(*counts):
    return tuple(
        CreateTopicsRequestCreatableTopic(f"t{number}", count, 1, (), ())
        for number, count in enumerate(counts)
    )


def test_creating_takes_the_partitions_of_each_topic_in_their_order():
    context = spent(cluster(*THREE), left=3)
    records, response = CREATE_TOPICS.decide(context, CreateTopicsRequest(topics=topics(2, 4, 1)))
    assert [(each.error_code, each.error_message) for each in response.topics] == [
        (NONE, None),
        (NONE, None),
        (THROTTLED, None),
    ]
    assert response.topics[2].topic_id == ZERO_UUID
    assert response.throttle_time_ms == 1_000
    assert sum(isinstance(each, PartitionRecord) for each in records) == 6


def test_what_cannot_be_created_takes_nothing():
    context = spent(cluster(*THREE), left=0)
    _, response = CREATE_TOPICS.decide(context, CreateTopicsRequest(topics=(*topics(-7), *topics(0, 5)[1:])))
    assert [each.error_code for each in response.topics] == [ErrorCode.INVALID_PARTITIONS, NONE]
    assert context.mutation_quota.tokens == -5


def test_to_validate_takes_as_much():
    context = spent(cluster(*THREE), left=0)
    request = CreateTopicsRequest(topics=topics(1, 1), validate_only=True)
    records, response = CREATE_TOPICS.decide(context, request)
    assert (records, [each.error_code for each in response.topics]) == ([], [NONE, THROTTLED])
    request = CreatePartitionsRequest(topics=(more("a", 5), more("b", 2)), validate_only=True)
    records, response = CREATE_PARTITIONS.decide(spent(IMAGE, left=0), request)
    assert (records, [each.error_code for each in response.results]) == ([], [NONE, THROTTLED])


def test_adding_takes_what_is_added():
    context = spent(IMAGE, left=1)
    request = CreatePartitionsRequest(topics=(more("a", 4), more("b", 9)))
    records, response = CREATE_PARTITIONS.decide(context, request)
    assert [(each.error_code, each.error_message) for each in response.results] == [
        (NONE, None),
        (THROTTLED, None),
    ]
    assert len(records) == 2
    assert response.throttle_time_ms == 1_000


def test_adding_takes_before_it_places_and_after_it_counts():
    context = spent(IMAGE, left=5)
    request = CreatePartitionsRequest(topics=(more("a", 2), more("b", 3, (7,), (8,))))
    _, response = CREATE_PARTITIONS.decide(context, request)
    assert [each.error_code for each in response.results] == [
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ]
    assert context.mutation_quota.tokens == 3


def test_deleting_takes_the_partitions_of_the_topic_and_names_it_whole():
    context = spent(IMAGE, left=1)
    named = (
        DeleteTopicsRequestDeleteTopicState("a", ZERO_UUID),
        DeleteTopicsRequestDeleteTopicState(None, B),
    )
    records, response = DELETE_TOPICS.decide(context, DeleteTopicsRequest(topics=named))
    assert [each.topic_id for each in records] == [A]
    first, second = response.responses
    assert (first.error_code, second.error_code, second.error_message) == (NONE, THROTTLED, None)
    assert (second.name, second.topic_id) == ("b", B)
    assert response.throttle_time_ms == 1_000


# -- the active controller


class Leading:
    """An active controller on an image with topics and a quota of one partition a second."""

    def __init__(self, settings=ControllerSettings(mutation_window_s=2)):  # noqa: B008 - frozen
        self.controller = QuorumController(
            me=registration_of(1, bytes([1]) * 16, [Endpoint("host", 9093)]),
            bootstrap=bootstrap_records(),
            settings=settings,
        )
        first = [*bootstrap_records(), *THREE, *TOPICS_THERE, quota(1.0, user="alice")]
        self.commit([encode_record(record) for record in first])
        self.controller.apply(CommittedBatch(len(first), len(first) + 1, 2, 0, ()))
        self.lead(2)

    def lead(self, epoch):
        self.controller.leader_changed(epoch, 1, is_self=True)
        self.commit(self.controller.poll(Now(1_000, 0)).records, epoch)

    def commit(self, values, epoch=1):
        base = self.controller.applied_offset
        self.controller.apply(CommittedBatch(base, base + len(values), epoch, 0, values))

    def create(self, version, *counts, now_ms=1_000, client=ALICE, **names):
        request = CreateTopicsRequest(topics=topics(*counts), **names)
        decision = self.controller.handle(request, Now(now_ms, 0), version, client)
        if isinstance(decision, Write):
            return decision.response_when_committed
        if isinstance(decision, AfterWrite):
            decision = decision.then
        return decision.respond()


def codes(response):
    return [each.error_code for each in response.topics]


@pytest.mark.parametrize(
    ("operation", "strict_since"), [(CREATE_TOPICS, 6), (CREATE_PARTITIONS, 3), (DELETE_TOPICS, 5)]
)
def test_the_versions_since_which_a_quota_is_strict_are_kafkas(operation, strict_since):
    assert operation.strict_quota_since == strict_since


def test_a_client_is_refused_by_its_quota_until_it_has_waited():
    leading = Leading()
    assert codes(leading.create(6, 4)) == [NONE]
    response = leading.create(7, 1, validate_only=True)
    assert (codes(response), response.throttle_time_ms) == ([ErrorCode.TOPIC_ALREADY_EXISTS], 0)
    late = CreateTopicsRequest(topics=(CreateTopicsRequestCreatableTopic("late", 1, 1, (), ()),))
    answer = leading.controller.handle(late, Now(2_000, 0), 7, ALICE)
    response = answer.then.respond()  # it waits for what was appended before, and a confirmed leader
    assert (codes(response), response.throttle_time_ms) == ([THROTTLED], 1_000)
    bob = Client(Principal("User", "bob"), "app")
    assert isinstance(leading.controller.handle(late, Now(2_000, 0), 7, bob), Write)


def test_an_older_version_is_told_to_wait_and_served():
    leading = Leading()
    response = leading.create(5, 3)
    assert (codes(response), response.throttle_time_ms) == ([NONE], 1_000)


def test_a_new_active_controller_knows_of_no_debts():
    leading = Leading()
    leading.create(7, 40)
    leading.controller.leader_changed(3, 2, is_self=False)
    leading.controller.apply(
        CommittedBatch(leading.controller.applied_offset, leading.controller.applied_offset + 1, 4, 0, ())
    )
    leading.controller.leader_changed(4, 1, is_self=True)
    leading.controller.poll(Now(1_000, 0))
    assert codes(leading.create(7, 1)) == [NONE]


@pytest.mark.covers("D-14")
def test_a_decision_that_raised_takes_nothing():
    leading = Leading()
    broken = CreateTopicsRequestCreatableTopic("x", 1, 1, (), (None,))
    request = CreateTopicsRequest(topics=(*topics(40), broken))
    decision = leading.controller.handle(request, Now(1_000, 0), 7, ALICE)
    assert isinstance(decision, ImmediateResponse)
    assert {each.error_code for each in decision.response.topics} == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert codes(leading.create(7, 2)) == [NONE]
