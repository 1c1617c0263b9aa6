"""Frames, headers and refusals on Kafka's wire."""

import subprocess
import sys
import tracemalloc
from typing import Any

import pytest
from fixtures import ROOT

from kraftd.errors import ErrorCode, MalformedError, UnencodableError
from kraftd.protocol import messages as m
from kraftd.protocol.codec import Buffer, MalformedRequestError, UnsupportedVersion
from kraftd.protocol.kafka_codec import KAFKA, KafkaCodec
from kraftd.protocol.limits import (
    HEAD_BYTES_MAX,
    KAFKA_ELEMENTS_MAX,
    KAFKA_FRAME_BYTES_MAX,
    KAFKA_LONGEST_ELEMENTS_MAX,
    SHORT_REQUEST_BYTES_MAX,
)
from kraftd.protocol.messages import (
    ApiVersionsResponse,
    ApiVersionsResponseApiVersion,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    FetchRequest,
    FetchRequestFetchTopic,
    FetchResponse,
    FetchResponseFetchableTopicResponse,
    FetchResponsePartitionData,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    VoteRequest,
)

HEARTBEAT = BrokerHeartbeatRequest(
    broker_id=1, broker_epoch=7, current_metadata_offset=9, want_fence=True, want_shut_down=False
)
HEARTBEAT_BYTES = "003f 0002 0000000b 0001 31 00  00000001 0000000000000007 0000000000000009 01 00 00"


def joined(buffers: list[Buffer]) -> bytes:
    return b"".join(buffers)


def request(text: str) -> bytes:
    return bytes.fromhex(text)


class TestHeaders:
    def test_a_heartbeat_on_the_wire(self) -> None:
        """Key, version, correlation id, client id with a 2-byte length, tags; fields, tags."""
        frame = joined(KAFKA.encode_request(2, 11, "1", HEARTBEAT))
        assert frame[4:] == request(HEARTBEAT_BYTES)
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        for sent in (frame[4:], memoryview(bytearray(frame))[4:]):
            came = KAFKA.decode_request(sent)
            assert (came.api_key, came.api_version, came.correlation_id) == (63, 2, 11)
            assert (came.client_id, came.message, came.records) == ("1", HEARTBEAT, b"")

    def test_a_version_that_is_not_flexible_has_no_tags_in_its_header(self) -> None:
        frame = joined(KAFKA.encode_request(1, 11, None, IncrementalAlterConfigsRequest()))
        assert frame[4:] == request("002c 0001 0000000b ffff 00  01 00 00")
        frame = joined(KAFKA.encode_request(0, 11, None, IncrementalAlterConfigsRequest()))
        assert frame[4:] == request("002c 0000 0000000b ffff  00000000 00")

    def test_unknown_tags_of_a_header_are_skipped(self) -> None:
        sent = request("003f 0002 0000000b ffff 01 05 02 aabb 00000001" + "00" * 19)
        assert KAFKA.decode_request(sent).message.broker_id == 1

    def test_a_response_has_tags_in_its_header(self) -> None:
        frame = joined(KAFKA.encode_response(2, 11, BrokerHeartbeatResponse(error_code=77)))
        assert frame == request("0000000f 0000000b 00  00000000 004d 00 01 00 00")
        response = KAFKA.read_response(frame[4:])
        assert response.correlation_id == 11
        assert response.decode((63, 2)) == BrokerHeartbeatResponse(error_code=77)

    @pytest.mark.parametrize("version", [0, 3, 4])
    def test_a_response_to_api_versions_never_has(self, version: int) -> None:
        frame = joined(KAFKA.encode_response(version, 11, ApiVersionsResponse(error_code=42)))
        assert frame[4:10] == request("0000000b 002a")
        assert KAFKA.read_response(frame[4:]).decode((18, version)) == ApiVersionsResponse(error_code=42)

    def test_a_body_that_is_always_the_same_is_encoded_once(self) -> None:
        for message, version in ((BrokerHeartbeatResponse(), 2), (ApiVersionsResponse(), 4)):
            body = KAFKA.encode_body(version, message)
            for correlation_id in (1, -5):
                once = joined(KAFKA.encode_response_of(body, correlation_id))
                assert once == joined(KAFKA.encode_response(version, correlation_id, message))


class TestVersions:
    def test_a_version_of_api_versions_that_is_too_new(self) -> None:
        """Kafka's clients ask in their newest version; the answer in version 0 tells them which to take."""
        with pytest.raises(UnsupportedVersion) as caught:
            KAFKA.decode_request(request("0012 0005 0000000b 0001 31 00 ffff"))
        assert (caught.value.api_key, caught.value.version, caught.value.correlation_id) == (18, 5, 11)
        spoken = ApiVersionsResponseApiVersion(api_key=18, min_version=0, max_version=4)
        refusal = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=(spoken,))
        frame = joined(KAFKA.encode_response(0, caught.value.correlation_id, refusal))
        assert frame[4:] == request("0000000b 0023 00000001 0012 0000 0004")
        assert KAFKA.read_response(frame[4:]).decode((18, 4)) == refusal

    def test_other_errors_of_version_0_are_no_refusal(self) -> None:
        frame = joined(KAFKA.encode_response(0, 1, ApiVersionsResponse(error_code=42)))
        with pytest.raises(MalformedError, match="ApiVersions response version 4"):
            KAFKA.read_response(frame[4:]).decode((18, 4))

    @pytest.mark.parametrize("head", ["0034 0002", "7fff 0000", "ffff 0000", "003f 0003", "003f ffff"])
    def test_what_is_not_spoken_has_a_correlation_id(self, head: str) -> None:
        with pytest.raises(UnsupportedVersion, match="is not supported") as caught:
            KAFKA.decode_request(request(head + "0000000b"))
        assert caught.value.correlation_id == 11
        key, version = caught.value.api_key, caught.value.version
        with pytest.raises(MalformedError, match="not spoken here"):
            KAFKA.read_response(bytes(4)).decode((key, version))

    def test_versions_that_do_not_exist_are_not_sent(self) -> None:
        with pytest.raises(UnencodableError, match="BrokerHeartbeatRequest has no version 3"):
            KAFKA.encode_request(3, 1, None, HEARTBEAT)
        with pytest.raises(UnencodableError, match="VoteRequest has no version 2"):
            KAFKA.encode_request(2, 1, None, VoteRequest())

    def test_values_that_a_version_cannot_say_are_not_sent(self) -> None:
        for version, message in (
            (1, BrokerHeartbeatRequest(cordoned_log_dirs=())),
            (2, BrokerHeartbeatRequest(broker_id=2**31)),
            (12, FetchRequest(topics=(FetchRequestFetchTopic(topic="\ud800"),))),
            (13, FetchRequest(replica_state=FetchRequest().replica_state.__class__(replica_id=3))),
        ):
            with pytest.raises(UnencodableError, match=f"version {version}"):
                KAFKA.encode_request(version, 1, None, message)


BODY = "003f 0002 0000000b ffff 00  00000001 0000000000000007 0000000000000009 01 00"
MALFORMED = {
    "nothing": ("", "not a request: 0 bytes"),
    "no whole header": ("003f 0002 0000", "not a request: 6 bytes"),
    "a client id that is cut": ("003f 0002 0000000b 0005 3131", "byte 10: string of 5 bytes, but 2 are left"),
    "a client id that is not UTF-8": ("003f 0002 0000000b 0001 ff 00", "byte 10: a string that is not UTF-8"),
    "no tags in the header": ("003f 0002 0000000b ffff", "byte 10: the bytes end"),
    "a number that is cut": ("003f 0002 0000000b ffff 00 00000001 00", "byte 16: the bytes end"),
    "no tags at the end": (BODY, "byte 33: the bytes end"),
    "bytes after the end": (BODY + "00 aabb", "byte 34: 2 bytes follow the body"),
    "a tag that is cut": (
        BODY + "01 07 05 aa",
        "byte 36: tagged field 7 is out of order, empty or cut",
    ),
    "tags out of order": (BODY + "02 09 01 00 08 01 00", "byte 39: tagged field 8 is out of order"),
    "an unknown tag that is empty": (BODY + "01 09 00", "byte 36: tagged field 9 is out of order, empty"),
    "a known tag that is too long": (BODY + "01 00 02 01 00", "byte 37: tagged field 0 ends at byte 38"),
    "an array that cannot be": (BODY + "01 00 03 ffff 03", "byte 39: 65534 elements cannot be"),
    "null where an array must be": (BODY + "01 00 01 00", "byte 36: null where an array must be"),
    "a varint without an end": (
        BODY + "01 00 ff ff ff ff ff ff 00",
        "byte 35: a varint of more than 32 bits",
    ),
    "more tags than may be": (BODY + "41" + "00" * 200, "byte 34: 65 tagged fields cannot be"),
    "more elements than say something": (
        "0025 0003 0000000b ffff 00 02 02 61 00000001 c138" + "01 00" * 7232,
        "byte 20: 7232 elements cannot be in the bytes left",
    ),
    "a string that is not UTF-8": (
        "0012 0004 0000000b ffff 00  03 61ff 02 31 00",
        "byte 11: a string that is not UTF-8",
    ),
    "a negative length": ("002c 0000 0000000b ffff fffffffe 00", "byte 10: null where an array must be"),
    "a negative count inside": (
        "002c 0000 0000000b ffff 00000001 04 0001 31 80000000 00",
        "byte 18: null where an array must be",
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_requests_are_told_with_their_place(name: str) -> None:
    text, reason = MALFORMED[name]
    with pytest.raises(MalformedError) as caught:
        KAFKA.decode_request(request(text))
    assert reason in str(caught.value)
    if isinstance(caught.value, MalformedRequestError):
        assert caught.value.correlation_id == 11
        assert f"version {caught.value.version}: " in str(caught.value)


@pytest.mark.parametrize(("frame", "expected", "reason"), [
    (b"\0\0", (63, 2), "not a response: 2 bytes"),
    (b"\0\0\0\x0b", (63, 2), "BrokerHeartbeat response version 2: byte 4: the bytes end"),
    (b"\0\0\0\x0b" + bytes(12), (63, 2), "byte 15: 1 bytes follow the body"),
])  # fmt: skip
def test_malformed_responses(frame: bytes, expected: tuple[int, int], reason: str) -> None:
    with pytest.raises(MalformedError, match=reason):
        KAFKA.read_response(frame).decode(expected)


def test_which_api_a_request_is_of() -> None:
    assert KAFKA.peek_api_key(request(HEARTBEAT_BYTES)) == 63
    with pytest.raises(MalformedError, match="not a request"):
        KAFKA.peek_api_key(b"\0")


def test_only_requests_about_many_things_may_be_long() -> None:
    with pytest.raises(MalformedRequestError, match=f"more than {SHORT_REQUEST_BYTES_MAX}"):
        KAFKA.decode_request(request(BODY) + bytes(SHORT_REQUEST_BYTES_MAX))
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(resource_name="x" * 1000)
    for count, is_refused in ((1000, False), (1100, True)):
        frame = joined(KAFKA.encode_request(1, 1, None, IncrementalAlterConfigsRequest((resource,) * count)))
        assert (len(frame) > HEAD_BYTES_MAX) == is_refused
        if is_refused:
            with pytest.raises(MalformedRequestError, match=f"more than {HEAD_BYTES_MAX}"):
                KAFKA.decode_request(frame[4:])
        else:
            assert len(KAFKA.decode_request(frame[4:]).message.resources) == count


def test_a_broker_may_speak_of_all_its_partitions_at_once() -> None:
    """Else one that leads 20,000 would send the same request for ever."""
    isr = tuple(m.AlterPartitionRequestBrokerState(broker, 100_000) for broker in (1, 2, 3))
    partition = m.AlterPartitionRequestPartitionData(new_isr_with_epochs=isr)
    topic = m.AlterPartitionRequestTopicData(partitions=(partition,) * 50_000)
    frame = joined(KAFKA.encode_request(3, 1, None, m.AlterPartitionRequest(topics=(topic,))))
    assert HEAD_BYTES_MAX < len(frame) < KAFKA_FRAME_BYTES_MAX
    assert len(KAFKA.decode_request(frame[4:]).message.topics[0].partitions) == 50_000


Topic = m.ElectLeadersRequestTopicPartitions
Quota = m.AlterClientQuotasRequestEntryData
Proposed = m.AlterPartitionRequestPartitionData


def quotas_with_tags(count: int) -> m.AlterClientQuotasRequest:
    """A struct and a tagged field of it count alike."""
    half = (Quota(unknown_tags=((0x7F, b"ab"),)),) * (count // 2)
    return m.AlterClientQuotasRequest(entries=half + (Quota(),) * (count % 2))


def proposals(count: int) -> m.AlterPartitionRequest:
    """One of them is the topic."""
    topic = m.AlterPartitionRequestTopicData(partitions=(Proposed(),) * (count - 1))
    return m.AlterPartitionRequest(topics=(topic,))


MANY = {
    "structs": (
        lambda n: m.DescribeConfigsRequest(
            resources=(m.DescribeConfigsRequestDescribeConfigsResource(2, "ab"),) * n
        ),
        KAFKA_ELEMENTS_MAX,
    ),
    "structs inside structs": (
        lambda n: m.ElectLeadersRequest(topic_partitions=(Topic("abc", (1,)),) * n),
        KAFKA_ELEMENTS_MAX,
    ),
    "strings": (lambda n: m.DeleteTopicsRequest(topic_names=("ab",) * n), KAFKA_ELEMENTS_MAX),
    "tagged fields": (quotas_with_tags, KAFKA_ELEMENTS_MAX),
    "numbers, four for one": (
        lambda n: m.ElectLeadersRequest(topic_partitions=(Topic("a", (1,) * (4 * (n - 1))),)),
        KAFKA_ELEMENTS_MAX,
    ),
    "partitions of a broker": (proposals, KAFKA_LONGEST_ELEMENTS_MAX),
}
"""A request of so many elements, by what they are, and how many there may be."""


@pytest.mark.covers("D-38")
@pytest.mark.parametrize("name", MANY)
def test_a_long_request_is_only_so_many_elements_and_too_many_are_refused_before_they_are_made(
    name: str,
) -> None:
    make, most = MANY[name]

    def decoded(count: int) -> Any:
        message = make(count)
        version = 1 if isinstance(message, m.DeleteTopicsRequest) else message.MAX_VERSION
        frame = joined(KAFKA.encode_request(version, 1, None, message))[4:]
        assert len(frame) > SHORT_REQUEST_BYTES_MAX
        del message
        return frame, lambda: KAFKA.decode_request(frame).message

    frame, decode = decoded(most)
    assert decode() == make(most)
    frame, decode = decoded(most + 2)
    tracemalloc.start()
    with pytest.raises(MalformedRequestError, match="more elements cannot be in one message"):
        decode()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    if "tagged" not in name:
        assert peak < 2 * len(frame) + 16_384


def test_a_short_request_may_be_any_number_of_elements() -> None:
    """Sixteen thousand small ones take a megabyte or two."""
    request = m.DeleteTopicsRequest(topic_names=("ab",) * 16_000)
    assert KAFKA.decode_request(joined(KAFKA.encode_request(1, 1, None, request))[4:]).message == request


def test_a_long_frame_is_not_kept_beside_what_is_made_of_it() -> None:
    request = m.DeleteTopicsRequest(topic_names=("a" * 200,) * 1_000)
    view = memoryview(bytearray(joined(KAFKA.encode_request(1, 1, None, request))))[4:]
    assert KAFKA.decode_request(view).message == request
    with pytest.raises(ValueError, match="released"):
        view[0]


def test_a_request_of_which_only_the_header_is_read_is_answered_in_its_version() -> None:
    frame = joined(KAFKA.encode_request(2, 11, "1", m.AlterPartitionRequest()))[4:]
    told = m.AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER)
    response = KAFKA.read_response(joined(KAFKA.answer(frame[:9] + b"nothing of it", told))[4:])
    assert (response.correlation_id, response.decode((56, 2))) == (11, told)
    with pytest.raises(MalformedError, match="not a request"):
        KAFKA.answer(b"\0\x38\0", told)
    with pytest.raises(UnencodableError, match="no version 99"):
        KAFKA.answer(b"\0\x38\0\x63\0\0\0\x0b", told)


class TestRecords:
    def response(self, **values: object) -> FetchResponse:
        partition = FetchResponsePartitionData(high_watermark=5, **values)  # type: ignore[arg-type]
        return FetchResponse(responses=(FetchResponseFetchableTopicResponse(partitions=(partition,)),))

    def test_they_are_a_view_of_the_frame(self) -> None:
        frame = joined(KAFKA.encode_response(17, 1, self.response(records=b"batch")))[4:]
        (topic,) = KAFKA.read_response(frame).decode((1, 17)).responses
        records = topic.partitions[0].records
        assert isinstance(records, memoryview)
        assert (records.obj is frame, bytes(records)) == (True, b"batch")

    @pytest.mark.parametrize("version", [4, 11, 12, 18])
    @pytest.mark.parametrize("records", [None, b"", b"batch"])
    def test_none_and_empty_ones_differ(self, version: int, records: bytes | None) -> None:
        frame = joined(KAFKA.encode_response(version, 1, self.response(records=records)))[4:]
        (topic,) = KAFKA.read_response(frame).decode((1, version)).responses
        assert topic.partitions[0].records == records

    def test_those_beside_a_response_go_into_its_partition(self) -> None:
        beside = KAFKA.encode_response(18, 1, self.response(), [b"one", memoryview(b"two")])
        inside = KAFKA.encode_response(18, 1, self.response(records=b"onetwo"))
        assert joined(beside) == joined(inside)
        with pytest.raises(UnencodableError, match="no single partition"):
            KAFKA.encode_response(18, 1, FetchResponse(), [b"one"])
        piece = m.FetchSnapshotResponsePartitionSnapshot(size=9)
        snapshot = m.FetchSnapshotResponse(topics=(m.FetchSnapshotResponseTopicSnapshot("t", (piece,)),))
        data = KAFKA.read_response(joined(KAFKA.encode_response(1, 1, snapshot, [b"one"]))[4:]).decode(
            (59, 1)
        )
        assert (data.topics[0].partitions[0].unaligned_records, data.topics[0].partitions[0].size) == (
            b"one",
            9,
        )
        with pytest.raises(UnencodableError, match="no single partition"):
            KAFKA.encode_response(2, 1, BrokerHeartbeatResponse(), [b"one"])
        with pytest.raises(UnencodableError, match="has no records"):
            KAFKA.encode_request(2, 1, None, HEARTBEAT, [b"one"])

    def test_long_ones_are_not_copied(self) -> None:
        batches = [bytes(200_000), bytes(300_000)]
        buffers = KAFKA.encode_response(18, 1, self.response(), batches)
        assert [buffer for buffer in buffers if len(buffer) > 1000] == batches
        assert any(buffer is batches[1] for buffer in buffers)
        frame = joined(buffers)
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        (topic,) = KAFKA.read_response(frame[4:]).decode((1, 18)).responses
        assert topic.partitions[0].records == b"".join(batches)


BATCHES = (b"a" * 5_000, b"b" * 5_000)


def fetched(high_watermark: int = 7) -> m.FetchResponse:
    data = m.FetchResponsePartitionData(high_watermark=high_watermark)
    return m.FetchResponse(responses=(m.FetchResponseFetchableTopicResponse(partitions=(data,)),))


def told(version: int, frame: bytes) -> tuple[int, int, bytes]:
    """Correlation id, high watermark and records of a Fetch response."""
    head = KAFKA.read_response(frame[4:])
    (data,) = head.decode((1, version)).responses[0].partitions
    return head.correlation_id, data.high_watermark, bytes(data.records or b"")


def test_observers_at_one_position_get_one_body_under_their_own_correlation_ids() -> None:
    response = fetched()
    for correlation_id in (1, 2, 1 << 30):
        frame = joined(KAFKA.encode_response(18, correlation_id, response, list(BATCHES)))
        assert frame == joined(KafkaCodec().encode_response(18, correlation_id, response, BATCHES))
        assert told(18, frame) == (correlation_id, 7, b"".join(BATCHES))


@pytest.mark.parametrize("first", [BATCHES, BATCHES[:1], ()])
@pytest.mark.parametrize("then", [BATCHES, BATCHES[1:], ()])
def test_an_observer_at_another_position_gets_its_own_records(
    first: tuple[bytes, ...], then: tuple[bytes, ...]
) -> None:
    response = fetched()
    for records in (first, then, first):
        frame = joined(KAFKA.encode_response(18, 5, response, records))
        assert told(18, frame) == (5, 7, b"".join(records))


def test_an_observer_is_told_the_newest_high_watermark_in_its_own_version() -> None:
    low, high = fetched(7), fetched(8)
    for version, response in ((18, low), (18, high), (11, high), (18, high), (11, low)):
        frame = joined(KAFKA.encode_response(version, 5, response, BATCHES))
        assert told(version, frame)[1] == (7 if response is low else 8)


def test_an_api_is_imported_when_it_is_needed() -> None:
    code = (
        "import sys; from kraftd.protocol.kafka_codec import KAFKA\n"
        "def seen(): return {n for n in sys.modules if n.startswith('kraftd.protocol.kafka.')}\n"
        "first = seen(); KAFKA.encode_body(4, __import__('kraftd.protocol.messages', fromlist=['x'])"
        ".ApiVersionsResponse()); print(sorted(first), sorted(seen())); KAFKA.load(KAFKA.apis);"
        "print(len(seen()) == len(KAFKA.apis))"
    )
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == ["[] ['kraftd.protocol.kafka.api_versions']", "True"]


def test_kraftctl_imports_none_of_it() -> None:
    code = "import sys, kraftd.cli.main, kraftd.cli.client, kraftd.cli.quorum\n"
    code += "print([name for name in sys.modules if 'protocol.kafka' in name])"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
