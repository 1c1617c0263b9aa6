"""Frames, bodies and tags on kraftd's own wire."""

import tracemalloc

import msgpack
import pytest

from kraftd.errors import ErrorCode, MalformedError, UnencodableError
from kraftd.protocol import apis, codec, msgpack_codec
from kraftd.protocol.codec import MalformedRequestError, UnsupportedVersion
from kraftd.protocol.limits import ARRAY_LENGTH_MAX, HEAD_BYTES_MAX, RECORDS_BYTES_MAX, TAGS_MAX
from kraftd.protocol.messages import (
    ApiVersionsResponse,
    BeginQuorumEpochResponse,
    DescribeConfigsRequest,
    DescribeConfigsRequestDescribeConfigsResource,
    ExportChunkResponse,
    FetchRequest,
    FetchRequestFetchPartition,
    FetchRequestFetchTopic,
    FetchRequestReplicaState,
    FetchResponse,
    VoteRequest,
    VoteRequestPartitionData,
    VoteRequestTopicData,
)
from kraftd.protocol.msgpack_codec import MSGPACK
from kraftd.types import METADATA_TOPIC_ID

VOTE = VoteRequest(
    cluster_id="c",
    voter_id=2,
    topics=(
        VoteRequestTopicData(
            "__cluster_metadata",
            (VoteRequestPartitionData(0, 5, 1, bytes(range(16)), bytes(16), 4, 100, pre_vote=True),),
        ),
    ),
)


def joined(buffers) -> bytes:
    return b"".join(buffers)


def test_a_vote_on_the_wire() -> None:
    """A frame by hand: head, body in schema order, an empty map of tags after every struct."""
    frame = joined(MSGPACK.encode_request(2, 7, "kraftd-1", VOTE))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert frame[4] == 0x95
    partition = [0, 5, 1, bytes(range(16)), bytes(16), 4, 100, True, {}]
    body = ["c", 2, [["__cluster_metadata", [partition], {}]], {}]
    assert msgpack.unpackb(frame[4:], strict_map_key=False) == [52, 2, 7, "kraftd-1", body]
    request = MSGPACK.decode_request(frame[4:])
    assert request == codec.Request(52, 2, 7, "kraftd-1", VOTE, b"")


@pytest.mark.covers("D-10")
def test_a_fetch_says_the_high_watermark() -> None:
    partition = FetchRequestFetchPartition(0, 3, 10, 2, high_watermark=9)
    fetch = FetchRequest(
        replica_state=FetchRequestReplicaState(1),
        topics=(FetchRequestFetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(partition,)),),
    )
    frame = joined(MSGPACK.encode_request(18, 1, None, fetch))[4:]
    (topic,) = MSGPACK.decode_request(frame).message.topics
    assert topic.partitions[0].high_watermark == 9


@pytest.mark.covers("D-07")
def test_a_pre_vote_is_never_sent_as_a_vote() -> None:
    """In a version without the field it would turn into a real vote at the receiver."""
    for version in (0, 1):
        with pytest.raises(UnencodableError, match=f"VoteRequest has no version {version}"):
            MSGPACK.encode_request(version, 1, None, VOTE)


class TestRecords:
    def test_they_follow_the_body_uncopied(self) -> None:
        parts = [b"one", memoryview(b"two"), bytearray(b"three")]
        buffers = MSGPACK.encode_response(18, 1, FetchResponse(), parts)
        assert all(sent is part for sent, part in zip(buffers[1:], parts, strict=True))
        undecoded = MSGPACK.read_response(joined(buffers)[4:])
        message, records = undecoded.decode((1, 18)), undecoded.records
        assert message == FetchResponse()
        assert isinstance(records, memoryview)
        assert bytes(records) == b"onetwothree"

    @pytest.mark.parametrize("size", [1, 255, 256, 65535, 65536, RECORDS_BYTES_MAX])
    def test_every_length_of_them(self, size: int) -> None:
        frame = joined(MSGPACK.encode_response(0, 1, ExportChunkResponse(name="f"), [bytes(size)]))
        undecoded = MSGPACK.read_response(frame[4:])
        message, records = undecoded.decode((20004, 0)), undecoded.records
        assert (message.name, len(records)) == ("f", size)
        assert msgpack.unpackb(frame[4:], strict_map_key=False)[2] == bytes(size)

    def test_more_than_the_bound_is_refused(self) -> None:
        frame = joined(MSGPACK.encode_response(18, 1, FetchResponse(), [bytes(RECORDS_BYTES_MAX + 1)]))
        with pytest.raises(MalformedError, match="bytes of records"):
            MSGPACK.read_response(frame[4:]).decode((1, 18))

    def test_requests_may_carry_them_too(self) -> None:
        frame = joined(MSGPACK.encode_request(2, 7, None, VOTE, [b"xyz"]))
        assert bytes(MSGPACK.decode_request(frame[4:]).records) == b"xyz"


class TestTags:
    def decoded(self, tags: object) -> VoteRequest:
        frame = msgpack.packb([52, 2, 7, None, ["c", 2, [], tags]])
        return MSGPACK.decode_request(frame).message

    def test_unknown_ones_survive(self) -> None:
        tags = {9: "later", 10: [1, {"deep": None}], 2**31 - 1: b"\x00"}
        message = self.decoded(tags)
        assert [tag for tag, _ in message.unknown_tags] == sorted(tags)
        again = joined(MSGPACK.encode_request(2, 7, None, message))[4:]
        assert msgpack.unpackb(again, strict_map_key=False)[4][3] == tags

    def test_known_ones_of_the_wrong_type_are_refused(self) -> None:
        frame = msgpack.packb([7, [0, [], {0: "no endpoints"}]])
        with pytest.raises(MalformedError, match="array"):
            MSGPACK.read_response(frame).decode((53, 1))

    def test_a_default_is_not_sent(self) -> None:
        frame = joined(MSGPACK.encode_response(1, 7, BeginQuorumEpochResponse()))[4:]
        assert msgpack.unpackb(frame, strict_map_key=False) == [7, [0, [], {}]]

    @pytest.mark.parametrize(
        "tags", [{-1: 0}, {2**31: 0}, {"x": 0}, dict.fromkeys(range(TAGS_MAX + 1), 0), [], None]
    )
    def test_odd_maps_are_refused(self, tags: object) -> None:
        with pytest.raises(MalformedError):
            self.decoded(tags)


BAD_BODIES = {
    "too few": ["c", 2, []],
    "too many": ["c", 2, [], {}, 0],
    "a string for a number": ["c", "2", [], {}],
    "a number for a string": [1, 2, [], {}],
    "a float for a number": ["c", 2.0, [], {}],
    "a boolean for a number": ["c", True, [], {}],
    "a number beyond int32": ["c", 2**31, [], {}],
    "a map for an array": ["c", 2, {}, {}],
    "null for an array": ["c", 2, None, {}],
    "no body": None,
    "an array too long": ["c", 2, [["t", [], {}]] * (ARRAY_LENGTH_MAX + 1), {}],
    "a uuid too short": ["c", 2, [["t", [[0, 5, 1, bytes(15), bytes(16), 4, 1, False, {}]], {}]], {}],
    "a uuid as text": ["c", 2, [["t", [[0, 5, 1, "x" * 16, bytes(16), 4, 1, False, {}]], {}]], {}],
}


@pytest.mark.parametrize("name", BAD_BODIES)
def test_a_body_of_the_wrong_shape_is_refused(name: str) -> None:
    with pytest.raises(MalformedError, match="request 52 version 2") as caught:
        MSGPACK.decode_request(msgpack.packb([52, 2, 7, None, BAD_BODIES[name]]))
    assert caught.value.code is ErrorCode.INVALID_REQUEST


BAD_HEADS = {
    "nothing": b"",
    "a number": b"\x07",
    "a map": b"\x85",
    "two elements": msgpack.packb([7, []]),
    "seven elements": msgpack.packb([52, 2, 7, None, [], b"", 0]),
    "a key beyond int16": msgpack.packb([2**15, 2, 7, None, []]),
    "a correlation id beyond int32": msgpack.packb([52, 2, 2**31, None, []]),
    "a client id that is bytes": msgpack.packb([52, 2, 7, b"x", []]),
    "records that are text": msgpack.packb([52, 2, 7, None, [], "x"]),
    "bytes after the end": msgpack.packb([52, 2, 7, None, []]) + b"\x00",
    "a client id that is not UTF-8": b"\x95\x34\x02\x07\xa1\xff\x90",
}


@pytest.mark.parametrize("name", BAD_HEADS)
def test_a_head_of_the_wrong_shape_is_refused(name: str) -> None:
    with pytest.raises(MalformedError, match="not a request"):
        MSGPACK.decode_request(BAD_HEADS[name])


@pytest.mark.parametrize(
    "frame", [b"", b"\x07", msgpack.packb([7]), msgpack.packb(["x", []]), msgpack.packb([7, [], b"", 0])]
)
def test_what_is_no_response_is_refused(frame: bytes) -> None:
    with pytest.raises(MalformedError):
        MSGPACK.read_response(frame).decode((52, 2))
    with pytest.raises(MalformedError, match="not a response"):
        MSGPACK.read_response(frame)


@pytest.mark.parametrize(("key", "version"), [(52, 3), (52, -1), (3, 0), (29999, 0), (1, 12)])
def test_an_unknown_request_can_still_be_answered(key: int, version: int) -> None:
    """Its body may be anything: it is not looked at."""
    frame = msgpack.packb([key, version, 77, "later", {"a": "body"}])
    with pytest.raises(UnsupportedVersion) as caught:
        MSGPACK.decode_request(frame)
    assert (caught.value.api_key, caught.value.version, caught.value.correlation_id) == (key, version, 77)
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
    result = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    sent = joined(MSGPACK.encode_response(4, 77, result))[4:]
    assert MSGPACK.read_response(sent).decode((18, 4)).error_code == 35


def test_a_head_is_bounded_apart_from_its_records(monkeypatch: pytest.MonkeyPatch) -> None:
    request = DescribeConfigsRequest(
        resources=(DescribeConfigsRequestDescribeConfigsResource(4, "x" * 70_000, None),)
    )
    frame = joined(MSGPACK.encode_request(4, 1, None, request))[4:]
    assert MSGPACK.decode_request(frame).message == request
    monkeypatch.setattr(msgpack_codec, "HEAD_BYTES_MAX", 64 << 10)
    with pytest.raises(MalformedError, match="a head of"):
        MSGPACK.decode_request(frame)
    small = joined(MSGPACK.encode_request(2, 7, None, VOTE, [bytes(100_000)]))[4:]
    assert MSGPACK.decode_request(small).message == VOTE
    with pytest.raises(MalformedError, match="a head of"):
        MSGPACK.read_response(msgpack.packb([1, [0, [], 0, {9: "x" * HEAD_BYTES_MAX}]])).decode((18, 4))


def test_a_request_that_is_not_about_many_configs_is_short() -> None:
    """It is refused before what it nests is decoded, and whoever sent it can be told."""
    topic = msgpack.packb([[0, {}]])[1:]
    for count, is_short in ((20_000, True), (30_000, False)):
        body = b"\x92\x91\x93\xa1t\xdd" + count.to_bytes(4, "big") + topic * count + b"\x80\x80"
        frame = b"\x95\x37\x02\x07\xc0" + body
        with pytest.raises(MalformedRequestError) as caught:
            MSGPACK.decode_request(frame)
        assert ("bytes are more than" in str(caught.value)) is not is_short
        assert caught.value.correlation_id == 7


@pytest.mark.parametrize(("key", "version", "rest"), [(44, 1, [False, {}]), (32, 4, [False, False, {}])])
def test_what_a_long_request_nests_is_counted_before_it_is_decoded(
    key: int, version: int, rest: list[object]
) -> None:
    element: object = ["", 0, None, {}] if key == 44 else ""
    resources = [[4, str(number), [element] * 16_384, {}] for number in range(12)]
    most = msgpack.packb([key, version, 7, None, [resources[:2], *rest]])
    assert len(MSGPACK.decode_request(most).message.resources) == 2
    resources += [
        [4, "12345678", [element] * 3, {}]
    ] * 1_000  # those with a few, and so a short header, count as well
    more = msgpack.packb([key, version, 7, None, [[*resources[:1], *resources[12:] * 6], *rest]])
    for frame in (msgpack.packb([key, version, 7, None, [resources, *rest]]), more):
        tracemalloc.start()
        try:
            with pytest.raises(MalformedRequestError, match="elements are more than"):
                MSGPACK.decode_request(frame)
            assert tracemalloc.get_traced_memory()[1] < 2 << 20
        finally:
            tracemalloc.stop()


def test_nothing_but_arrays_is_counted_in_a_long_request() -> None:
    resources = [[4, "x" * 70_000, None, {}]]
    frame = msgpack.packb([32, 4, 7, None, [resources, False, False, {}]])
    assert MSGPACK.decode_request(frame).message.resources[0].configuration_keys is None
    for wrong in (None, [[4]], [[4, "x", {}]], "x"):
        frame = msgpack.packb([32, 4, 7, None, [wrong, "x" * 70_000, False, {}]])
        with pytest.raises(MalformedRequestError):
            MSGPACK.decode_request(frame)


def test_a_response_that_nobody_takes_is_not_sent() -> None:
    response = ApiVersionsResponse(unknown_tags=((9, msgpack.packb("x" * HEAD_BYTES_MAX)),))
    with pytest.raises(UnencodableError, match="is longer than"):
        MSGPACK.encode_response(4, 1, response)


def test_versions_that_do_not_exist_are_not_sent() -> None:
    with pytest.raises(UnencodableError, match="VoteRequest has no version 3"):
        MSGPACK.encode_request(3, 1, None, VOTE)
    with pytest.raises(UnencodableError, match="FetchResponse has no version 12"):
        MSGPACK.encode_response(12, 1, FetchResponse())


def test_error_codes_travel_as_numbers() -> None:
    frame = joined(
        MSGPACK.encode_response(1, 7, BeginQuorumEpochResponse(error_code=ErrorCode.FENCED_LEADER_EPOCH))
    )[4:]
    assert msgpack.unpackb(frame, strict_map_key=False)[1][0] == 74


class TestApis:
    def test_every_version_of_every_api_has_a_codec(self) -> None:
        for api in MSGPACK.apis.values():
            for version in range(api.min_version, api.max_version + 1):
                request, response = api.request(), api.response()
                sent = joined(MSGPACK.encode_request(version, 1, None, request))[4:]
                assert MSGPACK.decode_request(sent).message == request
                result = joined(MSGPACK.encode_response(version, 1, response))[4:]
                assert MSGPACK.read_response(result).decode((api.key, version)) == response

    def test_numbers_are_kafkas_below_20000(self) -> None:
        kafka = {
            1: "Fetch",
            18: "ApiVersions",
            32: "DescribeConfigs",
            44: "IncrementalAlterConfigs",
            52: "Vote",
            53: "BeginQuorumEpoch",
            54: "EndQuorumEpoch",
            55: "DescribeQuorum",
            59: "FetchSnapshot",
        }
        assert {k: a.name for k, a in MSGPACK.apis.items() if k < 20_000} == kafka
        assert MSGPACK.apis[20000].name == "Handshake"
        assert (MSGPACK.apis[1].min_version, MSGPACK.apis[1].max_version) == (18, 18)

    @pytest.mark.parametrize(
        ("peer", "common"), [((13, 17), 17), ((17, 30), 18), ((0, 13), 13), ((0, 12), None), ((19, 30), None)]
    )
    def test_the_highest_common_version(self, peer: tuple[int, int], common: int | None) -> None:
        assert apis.Api(1, "Fetch", 13, 18).common_version(*peer) == common

    def test_msgpack_keeps_the_newest_version_alone_before_the_first_release(self) -> None:
        for api in MSGPACK.apis.values():
            assert (api.min_version, api.max_version) == (api.request.MAX_VERSION,) * 2
