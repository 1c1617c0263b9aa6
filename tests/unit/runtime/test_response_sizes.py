"""No response is longer than what our own client takes: the largest of every API, provoked, and measured.

An API without an entry in `LARGEST` fails here: whoever adds one says what its largest response is.
"""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import msgspec
import pytest
from contexts import context_of

from kraftd.controller.admin_apis import OPERATIONS
from kraftd.controller.brokers.listing import list_brokers
from kraftd.controller.configs.configuration_control import incremental_alter_configs
from kraftd.controller.configs.describe_configs import describe_configs
from kraftd.controller.configs.listing import list_configs
from kraftd.controller.context import ReadContext
from kraftd.controller.decisions import RunningPlan
from kraftd.controller.deletions.tracker import DeletionTracker
from kraftd.controller.event_queue import EventQueue
from kraftd.controller.partitions.conditions import list_partitions
from kraftd.controller.partitions.explaining import explain_partition
from kraftd.controller.sessions import BrokerSessions
from kraftd.controller.statistics import EventStatistics
from kraftd.controller.topics import listing as topics_listing
from kraftd.controller.topics.listing import describe_topics, list_topics
from kraftd.controller.topics.listing_deletions import list_deletions
from kraftd.errors import ErrorCode, UnencodableError
from kraftd.metadata.election_reasons import Reason, Rule
from kraftd.metadata.image import EMPTY, MetadataImage
from kraftd.metadata.image_builder import ImageBuilder, apply_all
from kraftd.metadata.partition_conditions import PartitionCondition
from kraftd.metadata.partition_states import PartitionState
from kraftd.metadata.parts.configs import CONFIGS
from kraftd.metadata.parts.topics import TOPICS
from kraftd.net.handshake import Identity, refusal_of, supported
from kraftd.protocol import limits
from kraftd.protocol import messages as m
from kraftd.protocol.msgpack_codec import MSGPACK
from kraftd.raft import FETCH_BYTES_MAX, rpc, snapshot_rpc
from kraftd.raft.effects import ResignDone
from kraftd.raft.rpc import FetchParams, LeaderAndEpoch, VoteParams
from kraftd.raft.status import PeerStatus
from kraftd.raft.timing import OBSERVERS_MAX
from kraftd.records.committed import CommittedBatch
from kraftd.records.frame import encode_record
from kraftd.records.messages import (
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterBrokerRecordBrokerEndpoint,
    RemoveTopicRecord,
    TopicRecord,
)
from kraftd.records.names import snapshot_name
from kraftd.runtime.controller_apis import ControllerApis
from kraftd.runtime.event_status import EventStatus
from kraftd.runtime.log_export import LogExports
from kraftd.types import METADATA_TOPIC, Endpoint, Now, OffsetAndEpoch
from tests.unit.raft.lone import CLUSTER_ID, Lone, key_of
from tests.unit.runtime.test_node_status import status_of

Response: TypeAlias = tuple[Any, bytes]
"""A response, and the records that go with it."""

HEAD = limits.HEAD_BYTES_MAX
SHORT = limits.SHORT_REQUEST_BYTES_MAX
CONTROL = "\x01"
"""Takes four characters where it is quoted, and one byte where it is not."""


def asked(message: Any) -> Any:
    """A request as it comes in: nobody can send a longer one."""
    frame = b"".join(MSGPACK.encode_request(message.MAX_VERSION, 1, "", message))
    return MSGPACK.decode_request(memoryview(frame)[4:]).message


def filling(text: str = "x", *, but: int = 300, of: int = SHORT) -> str:
    """As long as a text of one request can be; of one about configs, `of` is `HEAD`."""
    return text * ((of - but) // len(text.encode()))


# --- the quorum's


def quorum_responses() -> Iterator[Any]:
    """What a node says of a leader with the longest address, and to the longest requests."""
    endpoint = Endpoint(filling(but=400), 9_002)
    ask = VoteParams(3, key_of(3), OffsetAndEpoch(0, 0), key_of(1), pre_vote=False)
    position = FetchParams(key_of(3), 3, OffsetAndEpoch(0, 0), 0, 0)
    requests = [
        rpc.begin_request(CLUSTER_ID, key_of(1), 5, 2, endpoint),
        rpc.vote_request(CLUSTER_ID, ask),
        rpc.begin_request(CLUSTER_ID, key_of(1), 3, 3, endpoint),
        rpc.end_request(CLUSTER_ID, 3, 3, ()),
        rpc.fetch_request(CLUSTER_ID, position, 1 << 20),
        m.VoteRequest(cluster_id=filling()),
        m.BeginQuorumEpochRequest(cluster_id=filling()),
        m.EndQuorumEpochRequest(cluster_id=filling()),
        m.FetchRequest(cluster_id=filling()),
    ]
    lone = Lone()
    for request in requests:
        response = lone.ask(asked(request))
        assert response is not None
        yield response


def described_quorums() -> Iterator[Any]:
    partition = m.DescribeQuorumRequestPartitionData(partition_index=0)
    topic = m.DescribeQuorumRequestTopicData(METADATA_TOPIC, (partition,))
    lone = Lone().become_leader()
    for number in range(OBSERVERS_MAX + 10):
        lone.ask_fetch(0, 0, replica=1_000_000 + number)
    yield lone.ask(m.DescribeQuorumRequest(topics=(topic,)))
    for topics in (
        (m.DescribeQuorumRequestTopicData(filling(), (partition,)),),
        (m.DescribeQuorumRequestTopicData("t", (partition,) * 4_000),) * 5,
        (m.DescribeQuorumRequestTopicData("t", (partition,)),) * 8_000,
    ):
        yield lone.ask(asked(m.DescribeQuorumRequest(topics=topics)))


def described_nodes() -> Iterator[Any]:
    """Everything wrong, every peer known, and all of it in long words."""
    lone = Lone().become_leader()
    words = "é" * 100_000
    view = lone.raft_node.describe(lone.now)
    peers = tuple(
        PeerStatus(number, Endpoint(words, 9_000), is_voter=False, is_connected=True, refusal=words)
        for number in range(OBSERVERS_MAX + 10)
    )
    worst = msgspec.structs.replace(
        view, peers=peers, alarms=tuple(f"{n}: {words}" for n in range(1_000)), why_not_following=words
    )
    status, _ = status_of(lone)
    status._raft_node = SimpleNamespace(describe=lambda _: worst)
    status._peer_connections = SimpleNamespace(statistics=dict)
    status._controller = SimpleNamespace(
        image=troubled_image(), alarms=tuple(f"{n}! {words}" for n in range(99))
    )
    yield status.describe(Now(1, 1))


def troubled_image() -> MetadataImage:
    """All brokers fenced, and no partition led, of topics with the longest names."""
    names = [f"{number:03d}".ljust(249, "x") for number in range(200)]
    brokers = [RegisterBrokerRecord(broker_id=1_000_000 + number, fenced=True) for number in range(200)]
    topics = [TopicRecord(name, name.encode()[:16]) for name in names]
    partitions = [PartitionRecord(0, topic.topic_id, (1,), (), directories=(b"d" * 16,)) for topic in topics]
    return apply_all(EMPTY, [*brokers, *topics, *partitions], 0)


def resignations() -> Iterator[Any]:
    responses: list[Any] = []
    connection = SimpleNamespace(reply=lambda _version, _id, message: responses.append(message))
    driver: Any = SimpleNamespace(now=lambda: Now(0, 0), deliver=lambda _: None)
    raft_node: Any = SimpleNamespace(leader_id=1)
    apis = ControllerApis(
        driver,
        SimpleNamespace(event_classes={}, noted_requests=frozenset()),
        raft_node,
        request_timeout_ms=1,
        clock_ns=lambda: 0,
        on_shutdown_ready=lambda _: None,
    )
    apis.handlers[m.ResignLeaderRequest](
        connection, SimpleNamespace(message=m.ResignLeaderRequest(), api_version=0, correlation_id=1)
    )
    apis.resign_done(ResignDone(1, ErrorCode.INVALID_REQUEST, 1, 1, "why " * 1_000_000))
    yield from responses


def greetings() -> Iterator[Any]:
    us = Identity("ours", "kraftd", 1)
    theirs = m.HandshakeRequest(cluster_id="x" * (limits.HEAD_BYTES_MAX_BEFORE_HANDSHAKE - 100))
    refusal = refusal_of(theirs, us)
    assert refusal is not None
    yield us.response()
    yield us.refusal(refusal.error, refusal.reason)


def api_versions() -> Iterator[Any]:
    keys = tuple(m.ApiVersionsResponseApiVersion(*versions) for versions in supported())
    yield m.ApiVersionsResponse(api_keys=keys)


# --- exports


def exported(request: Any, *, segments: int, snapshots: int = 0) -> list[Response]:
    """What is answered to an export of so many segments and snapshots, and a chunk of it."""
    responses: list[Response] = []
    connection: Any = SimpleNamespace(
        number=1,
        reply=lambda _version, _id, message, records=(): responses.append((message, b"".join(records))),
    )
    log = SimpleNamespace(
        generation=1,
        start_offset=0,
        end_offset=1 << 62,
        segment_files=[(0, SimpleNamespace(name=f"{number:020}.log"), 1 << 62) for number in range(segments)],
    )
    ids = [OffsetAndEpoch(number, number) for number in range(snapshots)]
    disk = SimpleNamespace(
        read_file=lambda _: bytes(2 * limits.RECORDS_BYTES_MAX),
        names=lambda _: [snapshot_name(each) for each in ids],
        open=lambda _path, _access: 0,
        size=lambda _handle, _path: 1 << 62,
        close=lambda _: None,
    )
    log.reader_view = lambda: SimpleNamespace(pin=lambda: None)
    kept = SimpleNamespace(
        hold=lambda: None, infos=[SimpleNamespace(id=each, size_bytes=1 << 62) for each in ids]
    )
    directory: Any = SimpleNamespace(path=Path("/anywhere"), log=log, disk=disk, snapshots=kept)
    raft_node: Any = SimpleNamespace(epoch=1 << 30, leader_id=1 << 30, high_watermark=1 << 62)
    tasks: Any = SimpleNamespace()
    exports = LogExports(directory, raft_node, tasks, lambda: Now(1, 1))
    manifest = SimpleNamespace(message=m.ExportManifestRequest(), api_version=0, correlation_id=1)
    exports.serve_manifest(connection, manifest)  # type: ignore[arg-type]
    if request is not None:
        chunk = SimpleNamespace(message=asked(request), api_version=0, correlation_id=1)
        exports.serve_chunk(connection, chunk)  # type: ignore[arg-type]
    return responses


def manifests() -> Iterator[Response]:
    for large in (limits.FILES_MAX - 10, limits.FILES_MAX + 1):
        yield from exported(None, segments=large)
        yield from exported(None, segments=1, snapshots=large)


def test_an_export_with_more_files_than_it_lists_is_refused() -> None:
    for segments, snapshots in ((limits.FILES_MAX + 1, 0), (1, limits.FILES_MAX), (limits.FILES_MAX, 1)):
        ((refusal, _),) = exported(None, segments=segments, snapshots=snapshots)
        assert refusal.error_code == ErrorCode.POLICY_VIOLATION
        assert f"the log has {segments} segments, with its snapshots more files" in refusal.error_message
    ((manifest, _),) = exported(None, segments=10, snapshots=10)
    assert [file.kind for file in manifest.files].count("snapshot") == 10


def chunks() -> Iterator[Response]:
    yield exported(m.ExportChunkRequest(filling(CONTROL)), segments=1)[-1]
    yield exported(m.ExportChunkRequest("meta.properties", 0, 1 << 31 - 1), segments=1)[-1]


def committed() -> Iterator[Response]:
    """One batch comes however large it is: as large as an operation may be."""
    refusal = "the log begins at offset 9223372036854775807; what was before is in a snapshot"
    yield m.FetchCommittedResponse(1, refusal, 1 << 62, 1 << 62), b""
    yield m.FetchCommittedResponse(0, None, 1 << 62, 1 << 62), bytes(limits.OPERATION_BYTES_MAX)


def pieces_of_snapshots() -> Iterator[Response]:
    told = LeaderAndEpoch(2**31 - 1, 2**31 - 1, Endpoint("h" * limits.HOST_BYTES_MAX, 65_535))
    place = OffsetAndEpoch(2**63 - 1, 2**31 - 1)
    response = snapshot_rpc.response_of(
        ErrorCode.NONE, told, snapshot_id=place, size_bytes=2**63 - 1, position=2**63 - 1
    )
    yield response, bytes(FETCH_BYTES_MAX)
    partition = m.FetchSnapshotRequestPartitionSnapshot()
    topic = m.FetchSnapshotRequestTopicSnapshot(filling(), (partition,))
    yield Lone().ask(asked(m.FetchSnapshotRequest(topics=(topic,)))), b""


# --- configs


def known(number: int) -> str:
    """A longest name that Kafka defines, of one listener's TLS: its value is told."""
    return f"listener.name.{number:02}".ljust(32_767 - 13, "n") + ".ssl.protocol"


@cache
def image() -> MetadataImage:
    """Longest names and values, and many of them, for the cluster and for brokers."""
    builder = ImageBuilder(EMPTY)
    for number in range(20):
        for broker in ("", "1", "2147483647"):
            builder.builder_of(CONFIGS).put(4, broker, known(number), "v" * 32_767)
    for number in range(5_000):
        builder.builder_of(CONFIGS).put(4, "2", f"n{number}", "")
    return builder.image()


def refuse(request: Any, error: ErrorCode, text: str) -> Any:
    (operation,) = [each for each in OPERATIONS if each.request is type(request)]
    return operation.refuse(request, error, text)


def listings() -> Iterator[Any]:
    for cursor in (None, (4, "1", known(19)[:20]), (4, "2", "")):
        request = m.ListConfigsRequest(4, cursor and m.ListConfigsRequestCursor(*cursor))
        yield list_configs(image(), request, 1 << 62)
    yield refuse(m.ListConfigsRequest(), ErrorCode.REQUEST_TIMED_OUT, "why")


RESOURCES = (
    ("1", "2", ""),
    tuple(str(number) for number in range(limits.ARRAY_LENGTH_MAX)),
    (filling(of=HEAD),),
    (filling(CONTROL, of=HEAD),),
    tuple(CONTROL * 30_000 for _ in range(30)),
)


def descriptions() -> Iterator[Any]:
    for names in RESOURCES:
        resources = tuple(m.DescribeConfigsRequestDescribeConfigsResource(4, name, None) for name in names)
        request = asked(m.DescribeConfigsRequest(resources, include_synonyms=True))
        yield describe_configs(image(), request)
        yield refuse(request, ErrorCode.REQUEST_TIMED_OUT, "why " * 50)
    repeated = (next(iter(image()[CONFIGS].of(4, "1")))[0],) * 25 + ("n1",) * (limits.ARRAY_LENGTH_MAX - 25)
    resource = m.DescribeConfigsRequestDescribeConfigsResource(4, "1", repeated)
    yield describe_configs(image(), asked(m.DescribeConfigsRequest((resource,), include_synonyms=True)))


def alterations() -> Iterator[Any]:
    for names in RESOURCES:
        resources = tuple(m.IncrementalAlterConfigsRequestAlterConfigsResource(4, name, ()) for name in names)
        request = asked(m.IncrementalAlterConfigsRequest(resources))
        yield incremental_alter_configs(context_of(image()), request)[1]
        yield refuse(request, ErrorCode.REQUEST_TIMED_OUT, "why " * 50)
    change = m.IncrementalAlterConfigsRequestAlterableConfig("num.io.threads", 0, CONTROL * 32_000)
    resources = tuple(
        m.IncrementalAlterConfigsRequestAlterConfigsResource(4, str(n), (change,)) for n in range(30)
    )
    yield incremental_alter_configs(context_of(image()), asked(m.IncrementalAlterConfigsRequest(resources)))[
        1
    ]


def confirmations() -> Iterator[Any]:
    yield Identity("c" * 22, "kraftd", 1, b"d" * 16, (1 << 63) - 1, b"s" * 16).confirmation()


def of_kind(name: str) -> Callable[[], Iterator[Any]]:
    return lambda: (
        response for response in quorum_responses() if type(response).__name__ == f"{name}Response"
    )


# --- topics


@cache
def topics_image() -> MetadataImage:
    """More topics with the longest names than a page holds, the first of them with large partitions."""
    brokers = tuple(range(1_000_000, 1_001_000))
    names = [f"{number:05d}".ljust(249, "x") for number in range(1_500)]
    records: list[Any] = [TopicRecord(name, name.encode()[:16]) for name in names]
    directories = (b"d" * 16,) * len(brokers)
    first = names[0].encode()[:16]
    records += [
        PartitionRecord(index, first, brokers, brokers, leader=brokers[0], directories=directories)
        for index in range(20)
    ]
    return apply_all(EMPTY, records, 0)


def listed_topics() -> Iterator[Any]:
    yield list_topics(topics_image(), m.ListTopicsRequest(), 1)
    yield topics_listing.refuse_list(m.ListTopicsRequest(), ErrorCode.NOT_CONTROLLER, "why " * 100)


def described_topics() -> Iterator[Any]:
    names = tuple(topic.name for topic in topics_image()[TOPICS].topics())
    for wanted in (names[:250], names[1:251], ("unknown",) * 8_000, (filling(),)):
        yield describe_topics(topics_image(), asked(m.DescribeTopicsRequest(wanted)), 1)


def listed_partitions() -> Iterator[Any]:
    context = ReadContext(topics_image(), 1, BrokerSessions(9_000), Now(0, 0))
    for condition in PartitionCondition:
        yield list_partitions(context, m.ListPartitionsRequest(condition, 1_000_000))


def explained_partition() -> Iterator[Any]:
    """A partition of a thousand replicas, that are there, and that were deleted."""
    image = topics_image()
    first = next(iter(image[TOPICS].topics()))
    request = m.ExplainPartitionRequest(first.name, 0)
    yield explain_partition(ReadContext(image, 1, BrokerSessions(9_000), Now(0, 0)), request)
    tracker = DeletionTracker(9_000, lambda _entry, _state: None)
    values = [encode_record(RemoveTopicRecord(first.topic_id))]
    tracker.applied(CommittedBatch(0, 1, 1, 0, values), image, EMPTY)
    context = ReadContext(EMPTY, 1, BrokerSessions(9_000), Now(0, 0), deletions=tracker)
    yield explain_partition(context, request)


def listed_deletions() -> Iterator[Any]:
    """More replicas than a page holds."""
    tracker = DeletionTracker(9_000, lambda _entry, _state: None)
    image = topics_image()
    values = [encode_record(RemoveTopicRecord(topic.topic_id)) for topic in image[TOPICS].topics()]
    tracker.applied(CommittedBatch(0, len(values), 1, 0, values), image, EMPTY)
    context = ReadContext(image, 1, BrokerSessions(9_000), Now(0, 0), deletions=tracker)
    yield list_deletions(context, m.ListDeletionsRequest())


def listed_brokers() -> Iterator[Any]:
    """More brokers than a page holds, each with as many listeners and directories as one may have."""
    ends = tuple(
        RegisterBrokerRecordBrokerEndpoint(name=f"L{number}", host="h" * 253, port=9_092)
        for number in range(99)
    )
    brokers = [
        RegisterBrokerRecord(broker_id=number, end_points=ends, rack="r" * 9_999, log_dirs=(b"d" * 16,) * 999)
        for number in range(1_000_000, 1_000_020)
    ]
    image = apply_all(EMPTY, brokers, 0)
    yield list_brokers(image, m.ListBrokersRequest(), 1, BrokerSessions(9_000), 1)


def described_events() -> Iterator[Any]:
    """Every API was asked for, and as much as a controller may have in progress goes on."""
    statistics = EventStatistics()
    for api in MSGPACK.apis.values():
        statistics.observe(f"{api.name}Request", 1 << 60, 1 << 60, 1 << 60)
    controller: Any = SimpleNamespace(
        is_active=True,
        error_count=1 << 40,
        event_statistics=statistics,
        decided_elections={(reason, rule): 1 << 60 for reason in Reason for rule in Rule},
        partition_states=lambda: dict.fromkeys(PartitionState, 1 << 60),
        running_plans=[RunningPlan("UnregisterBrokerRequest", 0, about=number) for number in range(10_000)],
    )
    apis: Any = SimpleNamespace(
        queue=EventQueue(),
        timed_out_heartbeats=1 << 40,
        statistics=lambda: dict.fromkeys(("appends", "reads", "resignations"), 1_000_000),
    )
    yield EventStatus(1, controller, apis).describe(Now(1 << 40, 0))


LARGEST: dict[str, Callable[[], Iterator[Any]]] = {
    "ApiVersions": api_versions,
    "Handshake": greetings,
    "ShowNonce": confirmations,
    "Vote": of_kind("Vote"),
    "BeginQuorumEpoch": of_kind("BeginQuorumEpoch"),
    "EndQuorumEpoch": of_kind("EndQuorumEpoch"),
    "Fetch": of_kind("Fetch"),
    "FetchSnapshot": pieces_of_snapshots,
    "DescribeQuorum": described_quorums,
    "DescribeNode": described_nodes,
    "ResignLeader": resignations,
    "ExportManifest": manifests,
    "ExportChunk": chunks,
    "FetchCommitted": committed,
    "DescribeConfigs": descriptions,
    "ListConfigs": listings,
    "DescribeEvents": described_events,
    "ListBrokers": listed_brokers,
    "ListTopics": listed_topics,
    "DescribeTopics": described_topics,
    "ListPartitions": listed_partitions,
    "ExplainPartition": explained_partition,
    "ListDeletions": listed_deletions,
    "IncrementalAlterConfigs": alterations,
}


def test_every_api_has_an_entry() -> None:
    assert set(LARGEST) == {api.name for api in MSGPACK.apis.values()}


@pytest.mark.parametrize("name", LARGEST)
def test_the_largest_response_is_one_that_our_client_takes(name: str) -> None:
    [api] = [api for api in MSGPACK.apis.values() if api.name == name]
    responses = [each if isinstance(each, tuple) else (each, b"") for each in LARGEST[name]()]
    assert responses
    for response, records in responses:
        buffers = MSGPACK.encode_response(api.max_version, 1, response, [records] if records else ())
        frame = b"".join(buffers)[4:]
        assert MSGPACK.read_response(frame).decode((api.key, api.max_version)) == response
        assert len(records) <= limits.RECORDS_BYTES_MAX


def test_what_would_be_longer_does_not_leave() -> None:
    entries = tuple(m.ListConfigsResponseEntry(4, "", "n", "v" * 32_767) for _ in range(33))
    with pytest.raises(UnencodableError, match="is longer than"):
        MSGPACK.encode_response(1, 1, m.ListConfigsResponse(entries=entries))
