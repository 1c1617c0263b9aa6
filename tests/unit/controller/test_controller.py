"""A controller's life, told with a log that is only a list: activation, writes, outcomes, reads."""

import pytest

from kraftd.controller.activation import registration_of
from kraftd.controller.committed_records import UnknownRecordError
from kraftd.controller.context import ControllerSettings
from kraftd.controller.decisions import AfterWrite, ImmediateResponse, NeedsRead, Write
from kraftd.controller.quorum_controller import (
    ACTIVATE,
    NEVER_MS,
    QuorumController,
)
from kraftd.controller.timers import NO_OP, REGISTER
from kraftd.errors import ErrorCode, InvariantError, MalformedError
from kraftd.metadata.feature_levels import REGISTER_CONTROLLER_SINCE, bootstrap_records
from kraftd.metadata.image import EMPTY, to_records
from kraftd.metadata.image_builder import apply_all
from kraftd.metadata.impossible import ImpossibleRecordError
from kraftd.metadata.parts.configs import CONFIGS
from kraftd.metadata.parts.controllers import CONTROLLERS
from kraftd.metadata.parts.features import FEATURES
from kraftd.metadata.parts.topics import TOPICS
from kraftd.protocol import messages as m
from kraftd.protocol.limits import OPERATION_RECORDS_MAX
from kraftd.protocol.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsRequestReassignableTopic,
    CreatePartitionsRequest,
    CreatePartitionsRequestCreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsRequestCreatableTopic,
    DeleteTopicsRequest,
    DeleteTopicsRequestDeleteTopicState,
    DescribeConfigsRequest,
    DescribeConfigsRequestDescribeConfigsResource,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    ListConfigsRequest,
    UpdateFeaturesRequest,
    UpdateFeaturesRequestFeatureUpdateKey,
)
from kraftd.records.committed import CommittedBatch
from kraftd.records.frame import RawRecord, decode_record, encode_record
from kraftd.records.messages import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ClientQuotaRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from kraftd.types import Endpoint, Now, OffsetAndEpoch

INTERVAL_MS = 500


class World:
    """One controller, the log before it, and a clock."""

    def __init__(self, node_id=1, log=(), bootstrap=None, interval_ms=INTERVAL_MS, **settings):
        self.controller = QuorumController(
            me=registration_of(node_id, bytes([node_id]) * 16, [Endpoint("host", 9093)]),
            bootstrap=bootstrap_records() if bootstrap is None else bootstrap,
            max_idle_interval_ms=interval_ms,
            settings=ControllerSettings(**settings),
        )
        self.now_ms = 1000
        self.epoch = 1
        self.log = []
        if log:
            self.commit([encode_record(record) for record in log])

    @property
    def now(self):
        return Now(self.now_ms, 0)

    def commit(self, values, epoch=None):
        base = self.controller.applied_offset
        epoch = self.epoch if epoch is None else epoch
        # The log gives its own bytes back, never the objects it was given.
        values = [bytes(bytearray(value)) for value in values]
        self.log += [(decode_record(value), base + delta) for delta, value in enumerate(values)]
        self.controller.apply(CommittedBatch(base, base + len(values), epoch, 0, values))

    def lead(self, epoch):
        """Win an election: LeaderChange is applied, then the controller hears of it (D-18)."""
        base = self.controller.applied_offset
        self.epoch = epoch
        self.controller.apply(CommittedBatch(base, base + 1, epoch, 0, ()))
        self.controller.leader_changed(epoch, self.controller.node_id, is_self=True)

    def activate(self, epoch=2):
        self.lead(epoch)
        write = self.controller.poll(self.now)
        if write is not None:
            self.commit(write.records)
            assert self.controller.finished(write, ErrorCode.NONE) is None
        return write

    def alter(self, *pairs, validate_only=False):
        return self.controller.handle(alter(*pairs, validate_only=validate_only), self.now)

    def records(self):
        return [record for record, _ in self.log]


def alter(*pairs, validate_only=False):
    changes = tuple(
        IncrementalAlterConfigsRequestAlterableConfig(name, 1 if value is None else 0, value)
        for name, value in pairs
    )
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(4, "", changes)
    return IncrementalAlterConfigsRequest(resources=(resource,), validate_only=validate_only)


def describe(*names, synonyms=False):
    resource = DescribeConfigsRequestDescribeConfigsResource(4, "", tuple(names) or None)
    return DescribeConfigsRequest(resources=(resource,), include_synonyms=synonyms)


def decoded(write):
    return [decode_record(value) for value in write.records]


def confirmed(decision):
    """The response to what changes nothing, from a leader that a majority has confirmed."""
    assert type(decision) is NeedsRead
    return decision.respond()


def code(response):
    (result,) = response.responses
    return ErrorCode(result.error_code), result.error_message


# -- activation


@pytest.mark.covers("D-18")
def test_a_new_cluster_is_bootstrapped_as_kafka_does_it_in_one_append():
    world = World()
    world.lead(2)
    assert world.controller.wake_at_ms <= world.now_ms
    write = world.controller.poll(world.now)
    begin, *body, end, registration = decoded(write)
    assert begin == BeginTransactionRecord(name="Bootstrap records")
    assert body == [*bootstrap_records(), ConfigRecord(4, "", "min.insync.replicas", "1")]
    assert end == EndTransactionRecord()
    assert isinstance(registration, RegisterControllerRecord)
    assert registration.controller_id == 1
    assert [(e.name, e.host, e.port) for e in registration.end_points] == [("CONTROLLER", "host", 9093)]
    assert world.controller.poll(world.now) is None


def test_bootstrap_below_the_first_level_with_transactions_has_none():
    world = World(bootstrap=[FeatureLevelRecord(name="metadata.version", feature_level=12)])
    write = world.activate()
    assert decoded(write) == [FeatureLevelRecord(name="metadata.version", feature_level=12)]


def test_a_new_cluster_has_the_minimum_in_sync_of_the_file():
    """Kafka's default, which one copy fulfils, would overrule a file that wants two, unseen."""
    world = World(min_insync_replicas=2)
    world.activate()
    assert world.controller.image[CONFIGS].get(4, "", "min.insync.replicas") == "2"


def test_bootstrap_keeps_configs_that_the_operator_formatted_in():
    mine = ConfigRecord(4, "", "min.insync.replicas", "2")
    world = World(bootstrap=[*bootstrap_records(), mine], min_insync_replicas=3)
    world.activate()
    assert world.records().count(mine) == 1
    assert world.controller.image[CONFIGS].get(4, "", "min.insync.replicas") == "2"


def test_a_second_activation_of_the_same_process_writes_nothing():
    world = World()
    assert world.activate(2).kind == ACTIVATE
    world.controller.leader_changed(3, 2, is_self=False)
    assert world.activate(4) is None
    assert world.controller.is_active


def test_another_controller_only_registers_itself():
    world = World(node_id=2, log=[*bootstrap_records()])
    write = world.activate()
    assert [type(record) for record in decoded(write)] == [RegisterControllerRecord]


def old_world():
    """A leader of a cluster at the last level without registrations of controllers."""
    world = World(bootstrap=[FeatureLevelRecord("metadata.version", REGISTER_CONTROLLER_SINCE - 1)])
    world.activate()
    return world


def raise_level(world, level=REGISTER_CONTROLLER_SINCE):
    """The write that raises metadata.version; it is not committed yet."""
    update = UpdateFeaturesRequestFeatureUpdateKey("metadata.version", level, upgrade_type=1)
    write = world.controller.handle(UpdateFeaturesRequest(feature_updates=(update,)), world.now, 1)
    assert isinstance(write, Write)
    return write


def finish(world, write):
    world.commit(write.records)
    world.controller.finished(write, ErrorCode.NONE)


def test_the_active_controller_registers_as_soon_as_the_level_has_registrations():
    world = old_world()
    raised = raise_level(world)
    assert world.controller.poll(world.now) is None  # what is not committed may be taken back
    finish(world, raised)
    assert world.controller.wake_at_ms == 0
    write = world.controller.poll(world.now)
    assert (write.kind, decoded(write)) == (REGISTER, [world.controller.settings.me.to_record()])
    finish(world, write)
    assert world.controller.image[CONTROLLERS].get(1) == world.controller.settings.me
    assert world.controller.poll(world.now) is None
    assert world.controller.wake_at_ms > world.now_ms


def test_a_level_that_changes_nothing_about_registrations_writes_none():
    world = old_world()
    lower = World(bootstrap=[FeatureLevelRecord("metadata.version", REGISTER_CONTROLLER_SINCE - 2)])
    lower.activate()
    finish(lower, raise_level(lower, REGISTER_CONTROLLER_SINCE - 1))
    assert lower.controller.poll(lower.now) is None
    finish(world, raise_level(world))
    finish(world, world.controller.poll(world.now))
    finish(world, raise_level(world, REGISTER_CONTROLLER_SINCE + 1))
    assert world.controller.poll(world.now) is None


def test_a_registration_that_the_log_refuses_is_an_alarm_and_tried_again():
    world = old_world()
    finish(world, raise_level(world))
    refused = world.controller.poll(world.now)
    world.controller.finished(refused, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    assert [alarm.partition(":")[0] for alarm in world.controller.alarms] == [REGISTER]
    assert world.controller.poll(world.now) is None
    world.now_ms += 1_000
    again = world.controller.poll(world.now)
    assert again.records == refused.records
    finish(world, again)
    assert world.controller.alarms == []


def test_who_does_not_lead_any_more_leaves_its_registration_to_its_request():
    world = old_world()
    finish(world, raise_level(world))
    world.controller.leader_changed(3, 2, is_self=False)
    assert world.controller.poll(world.now) is None
    assert [type(record) for record in decoded(world.activate(4))] == [RegisterControllerRecord]
    assert world.controller.poll(world.now) is None


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(registration_of(1, bytes([9]) * 16, [Endpoint("host", 9093)]), id="an earlier start"),
        pytest.param(registration_of(1, bytes([1]) * 16, [Endpoint("elsewhere", 1)]), id="another address"),
    ],
)
def test_a_controller_registers_again_if_the_image_knows_another_start_or_address_of_it(before):
    world = World(log=[*bootstrap_records(), before.to_record()])
    registration = decoded(world.activate())[-1]
    assert isinstance(registration, RegisterControllerRecord)
    me = registration_of(1, bytes([1]) * 16, [Endpoint("host", 9093)])
    assert world.controller.image[CONTROLLERS].get(1) == me != before


@pytest.mark.covers("D-18")
def test_activation_aborts_what_the_predecessor_left_open():
    half = [
        BeginTransactionRecord(name="half"),
        FeatureLevelRecord(name="metadata.version", feature_level=30),
    ]
    world = World(log=[*bootstrap_records(), BeginTransactionRecord(), ConfigRecord(4, "", "k", "1")])
    first = decoded(world.activate())[0]
    assert isinstance(first, AbortTransactionRecord)
    assert "offset 6" in first.reason
    assert world.controller.image.transaction is None
    assert world.controller.image[CONFIGS].get(4, "", "k") is None

    world = World(log=half)
    kinds = [type(record) for record in decoded(world.activate())]
    assert kinds[:2] == [AbortTransactionRecord, BeginTransactionRecord]
    assert world.controller.image[FEATURES].level("metadata.version") == 30


@pytest.mark.covers("D-18")
def test_nothing_is_decided_before_activation_is_written():
    world = World()
    assert isinstance(world.alter(("k", "1")), ImmediateResponse)
    world.lead(2)
    assert code(world.alter(("k", "1")).response)[0] is ErrorCode.NOT_CONTROLLER
    world.controller.poll(world.now)
    assert isinstance(world.alter(("k", "1")), Write)


@pytest.mark.covers("D-38")
def test_who_does_not_lead_refuses_a_brokers_partitions_whatever_they_are():
    world = World()
    key, others = m.AlterPartitionRequest.API_KEY, (m.BrokerHeartbeatRequest, m.CreateTopicsRequest)
    told = world.controller.refusal_unread(key)
    assert told == m.AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER)
    assert [world.controller.refusal_unread(other.API_KEY) for other in others] == [None, None]
    world.activate()
    assert world.controller.refusal_unread(key) is None


def test_an_activation_that_the_log_refuses_is_tried_again_but_not_at_once():
    world = World()
    world.lead(2)
    write = world.controller.poll(world.now)
    world.controller.finished(write, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    assert world.controller.poll(world.now) is None
    assert world.now_ms < world.controller.wake_at_ms < NEVER_MS
    world.now_ms = world.controller.wake_at_ms
    assert world.controller.poll(world.now).records == write.records


def test_first_records_that_a_leader_about_to_hand_over_may_not_write_are_written_when_it_leads_on():
    """No successor catches up in time: without them metadata.version would never be set."""
    world = World()
    world.lead(2)
    refused = world.controller.poll(world.now)
    assert world.controller.finished(refused, ErrorCode.NOT_CONTROLLER) is None
    assert code(world.alter(("k", "1")).response)[0] == ErrorCode.NOT_CONTROLLER
    assert world.controller.wake_at_ms < NEVER_MS
    world.now_ms = max(world.now_ms, world.controller.wake_at_ms)
    again = world.controller.poll(world.now)
    assert (again.kind, again.records) == (ACTIVATE, refused.records)
    world.commit(again.records)
    world.controller.finished(again, ErrorCode.NONE)
    assert isinstance(world.alter(("k", "1")), Write)


# -- NoOp


def test_an_idle_log_gets_a_no_op_each_interval():
    world = World()
    world.activate()
    for _ in range(3):
        world.now_ms = world.controller.wake_at_ms
        write = world.controller.poll(world.now)
        assert (write.kind, decoded(write)) == (NO_OP, [NoOpRecord()])
        world.commit(write.records)
        assert world.controller.wake_at_ms == world.now_ms + INTERVAL_MS


def test_a_write_makes_a_no_op_needless():
    world = World()
    world.activate()
    world.now_ms += INTERVAL_MS - 1
    write = world.alter(("k", "1"))
    world.commit(write.records)
    world.now_ms += 1
    assert world.controller.poll(world.now) is None
    assert world.controller.wake_at_ms == world.now_ms - 1 + INTERVAL_MS


def test_no_ops_do_not_pile_up_while_nothing_is_committed():
    world = World()
    world.activate()
    world.now_ms += INTERVAL_MS
    assert world.controller.poll(world.now).kind == NO_OP
    world.now_ms += INTERVAL_MS
    assert world.controller.poll(world.now) is None
    assert world.controller.wake_at_ms > world.now_ms


def test_an_interval_of_zero_means_no_no_ops():
    world = World(interval_ms=0)
    world.activate()
    assert world.controller.wake_at_ms == NEVER_MS


def test_a_follower_writes_nothing_by_itself():
    world = World()
    world.controller.leader_changed(2, 3, is_self=False)
    assert world.controller.wake_at_ms == NEVER_MS
    world.now_ms += 10 * INTERVAL_MS
    assert world.controller.poll(world.now) is None


# -- the newest and the committed image


@pytest.mark.covers("D-18")
def test_decisions_see_what_is_appended_and_readers_what_is_committed():
    world = World()
    world.activate()
    reporters = "config.providers"
    first = world.alter((reporters, "a"))
    append = IncrementalAlterConfigsRequestAlterableConfig(reporters, 2, "b")
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(4, "", (append,))
    second = world.controller.handle(IncrementalAlterConfigsRequest(resources=(resource,)), world.now)
    assert decoded(second) == [ConfigRecord(4, "", reporters, "a,b")]
    assert world.controller.image[CONFIGS].get(4, "", reporters) is None
    world.commit(first.records)
    assert world.controller.image[CONFIGS].get(4, "", reporters) == "a"
    world.commit(second.records)
    assert world.controller.image[CONFIGS].get(4, "", reporters) == "a,b"
    assert world.controller.in_flight == 0


@pytest.mark.covers("D-18")
def test_the_leader_ends_with_the_image_of_a_follower():
    leader, follower = World(), World(node_id=2)
    leader.activate()
    writes = [leader.alter((f"k{i}", str(i)), ("shared", str(i))) for i in range(5)]
    leader.commit([value for write in writes for value in write.records])
    for record, _ in leader.log:
        follower.commit([encode_record(record)])
    assert leader.controller.image == follower.controller.image
    assert leader.controller.image.hash() == follower.controller.image.hash()


@pytest.mark.covers("D-18", "LSN-15")
def test_losing_leadership_drops_the_uncommitted_writes():
    world = World()
    world.activate(2)
    lost = world.alter(("config.providers", "lost"))
    world.controller.leader_changed(3, 2, is_self=False)
    assert not world.controller.is_active
    world.controller.finished(lost, ErrorCode.REQUEST_TIMED_OUT)
    world.activate(4)
    append = IncrementalAlterConfigsRequestAlterableConfig("config.providers", 2, "b")
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(4, "", (append,))
    write = world.controller.handle(IncrementalAlterConfigsRequest(resources=(resource,)), world.now)
    assert decoded(write) == [ConfigRecord(4, "", "config.providers", "b")]


@pytest.mark.covers("D-18")
def test_a_write_that_outlives_its_leader_is_applied_from_the_log():
    world = World()
    world.activate(2)
    write = world.alter(("k", "1"))
    world.controller.leader_changed(3, 2, is_self=False)
    world.commit(write.records, epoch=2)
    assert world.controller.image[CONFIGS].get(4, "", "k") == "1"


@pytest.mark.covers("D-18")
def test_records_of_our_epoch_that_we_never_wrote_stop_the_process():
    world = World()
    world.activate()
    with pytest.raises(InvariantError, match="never wrote"):
        world.commit([encode_record(ConfigRecord(4, "", "k", "1"))])
    world = World()
    world.activate()
    world.alter(("k", "1"))
    with pytest.raises(InvariantError, match="IncrementalAlterConfigs"):
        world.commit([encode_record(ConfigRecord(4, "", "k", "2"))])


def test_batches_come_without_gaps():
    world = World()
    with pytest.raises(InvariantError):
        world.controller.apply(CommittedBatch(5, 6, 1, 0, ()))


@pytest.mark.parametrize(
    ("record", "what"),
    [
        (RawRecord(99, 0, b"x"), "of kind UnknownRecord99, version 0"),
        (RawRecord(4, 9, b"x"), "of kind ConfigRecord, version 9"),
        (
            PartitionChangeRecord(unknown_tags=((99, b"later"),)),
            "of kind PartitionChangeRecord with tags of a newer version",
        ),
    ],
)
def test_an_unknown_record_stops_the_daemon_before_it(record, what):
    world = World(log=[*bootstrap_records()])
    before = world.controller.image
    known = encode_record(ConfigRecord(4, "", "k", "1"))
    with pytest.raises(UnknownRecordError, match=f"offset 7 is {what}, which this version"):
        world.commit([known, encode_record(record)])
    assert world.controller.image == before
    assert world.controller.applied_offset == 6


@pytest.mark.parametrize(
    ("name", "level"), [("metadata.version", 31), ("metadata.version", 6), ("group.version", 2), ("new", 1)]
)
def test_a_feature_level_that_kraftd_cannot_run_at_stops_the_daemon_before_it(name, level):
    record = FeatureLevelRecord(name=name, feature_level=level)
    world = World(log=[*bootstrap_records()])
    with pytest.raises(UnknownRecordError, match=f"offset 6 is level {level} of feature {name}"):
        world.commit([encode_record(record)])
    with pytest.raises(UnknownRecordError, match="bootstrap"):
        World(bootstrap=[record])
    world.commit([encode_record(FeatureLevelRecord(name=name, feature_level=0))])


def test_the_log_of_a_cluster_that_ran_brokers_is_applied_and_can_be_made_anew_from_its_image():
    world = World(log=[*bootstrap_records()])
    topic_id = bytes(range(16))
    world.commit(
        [
            encode_record(record)
            for record in (
                RegisterBrokerRecord(1, broker_epoch=6, log_dirs=(topic_id,)),
                TopicRecord("t", topic_id),
                PartitionRecord(0, topic_id, (1,), (1,), leader=1, directories=(topic_id,)),
                ClientQuotaRecord(key="rate", value=1.0),
            )
        ]
    )
    image = world.controller.image
    assert image[TOPICS].partition(topic_id, 0).leader == 1
    assert apply_all(EMPTY, to_records(image), 0) == image


def test_an_impossible_record_stops_the_daemon_before_it():
    world = World(log=[*bootstrap_records()])
    with pytest.raises(ImpossibleRecordError, match="offset 6"):
        world.commit([encode_record(EndTransactionRecord())])
    assert world.controller.applied_offset == 6


# -- outcomes


def test_a_committed_write_answers_for_each_resource():
    world = World()
    world.activate()
    write = world.alter(("k", "1"))
    world.commit(write.records)
    assert code(world.controller.finished(write, ErrorCode.NONE)) == (ErrorCode.NONE, None)


@pytest.mark.covers("D-13")
@pytest.mark.parametrize(
    ("error", "promise"),
    [
        (ErrorCode.NOT_CONTROLLER, "Not appended, safe to repeat"),
        (ErrorCode.THROTTLING_QUOTA_EXCEEDED, "Not appended, safe to repeat"),
        (ErrorCode.POLICY_VIOLATION, "Not appended"),
        (ErrorCode.REQUEST_TIMED_OUT, "Appended, outcome unknown"),
    ],
)
def test_a_client_can_tell_not_appended_from_outcome_unknown(error, promise):
    world = World()
    world.activate()
    found, text = code(world.controller.finished(world.alter(("k", "1")), error))
    assert found is error
    assert text.startswith(promise)


@pytest.mark.covers("D-13")
def test_a_refused_write_is_forgotten_and_one_of_unknown_outcome_is_not():
    world = World()
    world.activate()
    refused = world.alter(("config.providers", "a"))
    world.controller.finished(refused, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    assert world.controller.in_flight == 0
    unknown = world.alter(("k", "1"))
    world.controller.finished(unknown, ErrorCode.REQUEST_TIMED_OUT)
    world.commit(unknown.records)
    assert world.controller.image[CONFIGS].get(4, "", "k") == "1"
    assert world.controller.image[CONFIGS].get(4, "", "config.providers") is None


@pytest.mark.covers("D-13", "D-18")
def test_a_write_refused_among_others_leaves_the_others():
    world = World()
    world.activate()
    writes = [world.alter((f"k{i}", "1")) for i in range(3)]
    world.controller.finished(writes[1], ErrorCode.NOT_CONTROLLER)
    world.commit([*writes[0].records, *writes[2].records])
    assert [name for name, _ in world.controller.image[CONFIGS].of(4, "")] == [
        "k0",
        "k2",
        "min.insync.replicas",
    ]


@pytest.mark.covers("D-13")
def test_who_is_not_the_leader_says_who_is():
    world = World()
    world.controller.leader_changed(5, 3, is_self=False)
    found, text = code(world.alter(("k", "1")).response)
    assert found is ErrorCode.NOT_CONTROLLER
    assert "leader of epoch 5 is node 3" in text
    result = world.controller.handle(describe(), world.now)
    assert result.response.results[0].error_code == ErrorCode.NOT_CONTROLLER
    result = world.controller.handle(ListConfigsRequest(), world.now)
    assert result.response.error_code == ErrorCode.NOT_CONTROLLER


def test_an_operation_has_a_bound_in_records_and_in_bytes():
    world = World()
    world.activate()
    many = world.alter(*((f"k{i}", "1") for i in range(OPERATION_RECORDS_MAX + 1)))
    assert code(confirmed(many))[0] is ErrorCode.POLICY_VIOLATION
    large = world.alter(*((f"k{i}", "v" * 32_000) for i in range(300)))
    assert code(confirmed(large))[0] is ErrorCode.POLICY_VIOLATION
    assert world.controller.in_flight == 0
    assert isinstance(world.alter(*((f"k{i}", "1") for i in range(OPERATION_RECORDS_MAX))), Write)


def test_validation_alone_writes_nothing():
    world = World()
    world.activate()
    good = world.alter(("k", "1"), validate_only=True)
    assert code(confirmed(good)) == (ErrorCode.NONE, None)
    bad = world.alter(("num.io.threads", "0"), validate_only=True)
    assert code(confirmed(bad))[0] is ErrorCode.INVALID_CONFIG
    assert world.controller.in_flight == 0


@pytest.mark.covers("D-12", "D-13")
def test_what_changes_nothing_is_told_once_a_majority_has_confirmed_the_leader():
    """Seed 241152: a replaced leader told that there is no topic, which its successor had made."""
    world = World()
    world.activate()
    good, bad = world.alter(("k", "1"), validate_only=True), world.alter(("num.io.threads", "0"))
    assert (type(good), type(bad)) == (NeedsRead, NeedsRead)
    assert (code(good.respond())[0], code(bad.respond())[0]) == (ErrorCode.NONE, ErrorCode.INVALID_CONFIG)
    for decision in (good, bad):
        found, text = code(decision.refuse(ErrorCode.REQUEST_TIMED_OUT))
        assert found is ErrorCode.REQUEST_TIMED_OUT
        assert text == "Not appended, safe to repeat: a majority did not confirm the leader in time."
        found, text = code(decision.refuse(ErrorCode.NOT_CONTROLLER))
        assert (found, text[:29]) == (ErrorCode.NOT_CONTROLLER, "Not appended, safe to repeat:")


@pytest.mark.covers("D-12")
def test_the_commit_of_an_older_write_does_not_confirm_the_leader():
    world = World()
    world.activate()
    write = world.alter(("k", "1"))
    waiting = world.alter(("k", "1"), validate_only=True)
    assert type(waiting) is AfterWrite
    assert waiting.write is write
    assert code(confirmed(waiting.then)) == (ErrorCode.NONE, None)
    found, text = code(waiting.refuse(ErrorCode.REQUEST_TIMED_OUT))
    assert (found, text[:29]) == (ErrorCode.REQUEST_TIMED_OUT, "Not appended, safe to repeat:")


# -- reads


@pytest.mark.covers("D-12")
def test_a_read_speaks_for_what_is_committed_when_it_is_answered():
    world = World()
    world.activate()
    write = world.alter(("log.retention.ms", "1"))
    read = world.controller.handle(describe("log.retention.ms"), world.now)
    assert isinstance(read, NeedsRead)
    (result,) = read.respond().results
    assert result.configs[0].config_source == 5
    world.commit(write.records)
    (result,) = read.respond().results
    assert (result.configs[0].value, result.configs[0].config_source) == ("1", 3)


@pytest.mark.covers("D-12")
def test_a_read_that_no_majority_confirms_is_refused():
    world = World()
    world.activate()
    read = world.controller.handle(describe(), world.now)
    (result,) = read.refuse(ErrorCode.REQUEST_TIMED_OUT).results
    assert result.error_code == ErrorCode.REQUEST_TIMED_OUT
    listing = world.controller.handle(ListConfigsRequest(), world.now)
    assert listing.refuse(ErrorCode.NOT_CONTROLLER).error_code == ErrorCode.NOT_CONTROLLER


def test_listing_tells_every_config_at_an_offset():
    world = World()
    world.activate()
    write = world.alter(("b", "2"), ("a", "1"))
    world.commit(write.records)
    listing = world.controller.handle(ListConfigsRequest(), world.now).respond()
    assert listing.applied_offset == world.controller.applied_offset
    found = [(e.resource_type, e.resource_name, e.name, e.value) for e in listing.entries]
    assert found == [(4, "", "a", None), (4, "", "b", None), (4, "", "min.insync.replicas", "1")]
    assert world.controller.handle(ListConfigsRequest(2), world.now).respond().entries == ()


@pytest.mark.covers("D-13", "D-18")
def test_decisions_after_a_refusal_do_not_see_what_was_refused():
    world = World()
    world.activate()
    before = world.alter(("config.providers", "a"))
    refused = world.alter(("config.providers", "b"), ("x", "1"))
    after = world.alter(("y", "1"))
    world.controller.finished(refused, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    append = IncrementalAlterConfigsRequestAlterableConfig("config.providers", 2, "c")
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(4, "", (append,))
    last = world.controller.handle(IncrementalAlterConfigsRequest(resources=(resource,)), world.now)
    assert decoded(last) == [ConfigRecord(4, "", "config.providers", "a,c")]
    assert world.controller.in_flight == 3
    world.commit([*before.records, *after.records, *last.records])
    found = {name for name, _ in world.controller.image[CONFIGS].of(4, "")}
    assert found == {"config.providers", "min.insync.replicas", "y"}


@pytest.mark.covers("D-13")
def test_a_refusal_of_an_earlier_epoch_touches_nothing():
    world = World()
    world.activate(2)
    late = world.alter(("k", "old"))
    world.controller.leader_changed(3, 2, is_self=False)
    world.activate(4)
    write = world.alter(("k", "new"))
    assert (late.epoch, write.epoch) == (2, 4)
    world.controller.finished(late, ErrorCode.NOT_CONTROLLER)
    assert world.controller.in_flight == 1
    world.commit(write.records)
    assert world.controller.image[CONFIGS].get(4, "", "k") == "new"


def test_many_refusals_at_once_cost_no_more_than_the_writes_themselves():
    world = World()
    world.activate()
    writes = [world.alter((f"k{i}", "1")) for i in range(2000)]
    for write in writes[::2]:
        world.controller.finished(write, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    assert world.controller.in_flight == 1000
    world.commit([value for write in writes[1::2] for value in write.records])
    assert world.controller.in_flight == 0
    assert len(list(world.controller.image[CONFIGS].of(4, ""))) == 1001


def test_a_bootstrap_that_was_refused_is_not_forgotten_for_what_came_after():
    world = World()
    world.lead(2)
    refused = world.controller.poll(world.now)
    change = world.alter(("k", "1"))
    world.controller.finished(refused, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    assert "first records" in code(world.alter(("l", "1")).response)[1]
    world.commit(change.records)
    world.now_ms = world.controller.wake_at_ms
    world.commit(world.controller.poll(world.now).records)
    assert world.controller.image[FEATURES].level("metadata.version") == 30
    assert world.controller.image[CONFIGS].get(4, "", "k") == "1"


@pytest.mark.covers("D-18")
def test_only_batches_of_our_own_epoch_are_taken_for_our_own_writes():
    world = World()
    world.activate(2)
    world.alter(("k", "ours"))
    world.commit([encode_record(ConfigRecord(4, "", "k", "theirs"))], epoch=3)
    assert world.controller.image[CONFIGS].get(4, "", "k") == "theirs"


def test_an_image_holds_plain_numbers_on_the_leader_too():
    world = World()
    world.activate()
    assert [type(entry.resource_type) for entry in world.controller.image[CONFIGS].entries()] == [int]


def test_active_controllers_are_counted_as_they_come_and_no_leader_is_none():
    """Kafka's NewActiveControllersCount: the same one again counts, nobody does not."""
    controller = World().controller
    counts = []
    for epoch, leader in ((3, 2), (3, 2), (4, -1), (4, 3), (5, 3), (6, -1)):
        controller.leader_changed(epoch, leader, is_self=False)
        counts.append(controller.new_active_controllers)
    assert counts == [1, 1, 1, 2, 3, 3]


# --- snapshots ----------------------------------------------------------------------------------------------

LEVEL = FeatureLevelRecord(name="metadata.version", feature_level=30)
NEWER = [LEVEL, ConfigRecord(resource_type=4, resource_name="1", name="log.cleaner.threads", value="2")]


@pytest.mark.covers("D-18", "LSN-06")
def test_a_restored_snapshot_takes_the_place_of_everything_and_the_log_goes_on_at_its_offset():
    world = World(log=[LEVEL, TopicRecord("gone", b"g" * 16)])
    before = world.controller.image
    restore = world.controller.restore(OffsetAndEpoch(40, 3))
    for record in NEWER:
        restore.add([encode_record(record)], "x at byte 0")
        assert (world.controller.image, world.controller.applied_offset) == (before, 2)
    restore.finish()
    assert world.controller.image == apply_all(EMPTY, NEWER, 0)
    assert world.controller.image.hash() == apply_all(EMPTY, NEWER, 0).hash()
    assert world.controller.applied_offset == 40
    world.commit([encode_record(TopicRecord("new", b"n" * 16))])
    assert world.controller.applied_offset == 41
    assert world.controller.image[TOPICS].id_of("gone") is None


def test_a_snapshot_with_an_unknown_record_is_not_gone_past():
    restore = World().controller.restore(OffsetAndEpoch(40, 3))
    text = "^x at byte 83: a record of the snapshot at offset 40 is of kind UnknownRecord99, version 0"
    with pytest.raises(UnknownRecordError, match=text):
        restore.add([encode_record(RawRecord(99, 0, b""))], "x at byte 83")


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (
            encode_record(RemoveTopicRecord(b"x" * 16)),
            ImpossibleRecordError,
            "^x at byte 83: a record of the snapshot at offset 40 is impossible: ",
        ),
        (b"\x01\x0c\x00\x05", MalformedError, "^x at byte 83: FeatureLevelRecord version 0: "),
    ],
)
def test_what_makes_no_state_of_a_snapshot_is_told_with_file_and_byte(value, error, text):
    restore = World().controller.restore(OffsetAndEpoch(40, 3))
    with pytest.raises(error, match=text):
        restore.add([value], "x at byte 83")


@pytest.mark.covers("LSN-16")
def test_who_leads_never_restores_a_snapshot():
    world = World()
    restore = world.controller.restore(OffsetAndEpoch(40, 3))
    world.controller.leader_changed(1, 1, is_self=True)
    with pytest.raises(InvariantError, match="40"):
        restore.finish()


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_who_does_not_wait_for_an_answer_is_too_late(timeout_ms):
    world = World()
    world.activate()
    for request, codes in (
        (CreateTopicsRequest((CreateTopicsRequestCreatableTopic("a"),), timeout_ms), "topics"),
        (
            DeleteTopicsRequest((DeleteTopicsRequestDeleteTopicState("a"),), timeout_ms=timeout_ms),
            "responses",
        ),
        (
            CreatePartitionsRequest((CreatePartitionsRequestCreatePartitionsTopic("a", 2),), timeout_ms),
            "results",
        ),
    ):
        decision = world.controller.handle(request, world.now, request.MAX_VERSION)
        assert type(decision) is ImmediateResponse
        (told,) = getattr(decision.response, codes)
        assert told.error_code == ErrorCode.REQUEST_TIMED_OUT
    for request in (
        ElectLeadersRequest(topic_partitions=None, timeout_ms=timeout_ms),
        AlterPartitionReassignmentsRequest(
            timeout_ms, topics=(AlterPartitionReassignmentsRequestReassignableTopic("a"),)
        ),
    ):
        decision = world.controller.handle(request, world.now, request.MAX_VERSION)
        assert type(decision) is ImmediateResponse
        assert decision.response.error_code == ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize(
    "request_", [ElectLeadersRequest(timeout_ms=0), AlterPartitionReassignmentsRequest(timeout_ms=0)]
)
def test_who_asks_about_nothing_is_never_too_late(request_):
    world = World()
    world.activate()
    decision = world.controller.handle(request_, world.now, request_.MAX_VERSION)
    assert confirmed(decision).error_code == ErrorCode.NONE
