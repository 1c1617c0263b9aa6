"""Control records beyond the golden vectors."""

import pytest

from kraftd.errors import MalformedError, UnencodableError
from kraftd.records.control import RawControl, control_name, control_to_json, decode_control, encode_control
from kraftd.records.messages import KRaftVersionRecord, LeaderChangeMessage, LeaderChangeMessageVoter

DIRECTORY = bytes(range(16))
LEADER_CHANGE_KEY = b"\0\0\0\2"


@pytest.mark.covers("Q-24")
def test_a_body_is_read_in_the_version_it_names() -> None:
    record = LeaderChangeMessage(version=1, leader_id=1, voters=(LeaderChangeMessageVoter(1, DIRECTORY),))
    control_type, body = encode_control(record)
    assert control_type == 2
    assert decode_control(LEADER_CHANGE_KEY, body) == record


@pytest.mark.covers("Q-24")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\0\0\0\7", b"\0\0later"),
        (b"\0\0\0\0", b"\0\0\0\0\0\1"),
        (LEADER_CHANGE_KEY, b"\0\x09later"),
        (b"\0\0\xff\xff", b"\0\0"),
    ],
)
def test_unknown_types_and_versions_survive(key: bytes, value: bytes) -> None:
    record = decode_control(key, value)
    assert isinstance(record, RawControl)
    assert encode_control(record) == (record.type, value)
    assert record.key == key


def test_another_key_version_is_read_as_the_first() -> None:
    _, body = encode_control(KRaftVersionRecord(kraft_version=1))
    assert decode_control(b"\0\3\0\5", body) == KRaftVersionRecord(kraft_version=1)


@pytest.mark.covers("REC-04")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"\0\0"),
        (b"\0\0\0\5", None),
        (b"\0\0\0", b"\0\0\0\1\0"),
        (b"\xff\xff\0\5", b"\0\0\0\1\0"),
        (b"\0\0\0\5", b"\xff\xff\0\1\0"),
        (b"\0\0\0\5", b"\0\0\0\1"),
        (b"\0\0\0\5", b"\0\0\0\1\0!"),
    ],
)
def test_what_is_no_control_record_is_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(MalformedError):
        decode_control(key, value)


def test_directories_do_not_get_lost_in_version_0() -> None:
    record = LeaderChangeMessage(version=0, voters=(LeaderChangeMessageVoter(1, DIRECTORY),))
    with pytest.raises(UnencodableError, match="voter_directory_id"):
        encode_control(record)
    with pytest.raises(UnencodableError, match="no version 2"):
        encode_control(LeaderChangeMessage(version=2))


def test_names_and_json() -> None:
    assert control_name(6) == "KRaftVoters"
    assert control_name(70) == "Unknown70"
    assert control_to_json(KRaftVersionRecord(kraft_version=1)) == {
        "type": "KRaftVersion",
        "version": 0,
        "data": {"version": 0, "kRaftVersion": 1},
    }
    assert control_to_json(RawControl(9, 1, b"", b"\0\1"))["data"] == {"raw": "0001"}
