"""The frame around metadata records, and what is not known here."""

import pytest

from kraftd.errors import MalformedError, UnencodableError
from kraftd.records.frame import (
    RECORD_NAMES,
    RawRecord,
    decode_record,
    encode_record,
    read_frame,
    record_name,
    to_json,
)
from kraftd.records.messages import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
    RegisterControllerRecord,
    RegisterControllerRecordControllerEndpoint,
    RegisterControllerRecordControllerFeature,
)
from tests.fixtures import ROOT

BYTES = {
    "011400" + "00": NoOpRecord(),
    "010c00" + "11" + b"metadata.version".hex() + "0015" + "00": FeatureLevelRecord("metadata.version", 21),
    "010400" + "04" + "02" + b"1".hex() + "02" + b"a".hex() + "00" + "00": ConfigRecord(4, "1", "a", None),
    "010400" + "fe" + "01" + "02" + b"a".hex() + "01" + "00": ConfigRecord(-2, "", "a", ""),
    "011700" + "00": BeginTransactionRecord(),
    "011700" + "01" + "00" + "03" + "03" + b"hi".hex(): BeginTransactionRecord("hi"),
    "011800" + "00": EndTransactionRecord(),
    "011900" + "01" + "00" + "03" + "03" + b"no".hex(): AbortTransactionRecord("no"),
    "010400" + "0401" + "02" + b"a".hex() + "00" + "01" + "b960" + "02" + "beef": ConfigRecord(
        4, "", "a", None, unknown_tags=((12345, b"\xbe\xef"),)
    ),
}


@pytest.mark.parametrize("text", BYTES)
def test_bytes_by_hand(text: str) -> None:
    raw = bytes.fromhex(text)
    assert decode_record(raw) == BYTES[text]
    assert encode_record(BYTES[text]) == raw


@pytest.mark.parametrize(
    "value",
    [
        b"\x01\x63\x00whatever",
        b"\x01\x04\x07a later version",
        b"\x01\xff\xff\x01\xff\xff\x01",
        b"\x01\x03\x03a partition of a later version",
        b"\x01\x06\x00\x00\x00",
    ],
)
def test_unknown_kinds_and_versions_survive(value: bytes) -> None:
    record = decode_record(value)
    assert isinstance(record, RawRecord)
    assert encode_record(record) == value
    assert (record.api_key, record.version) == read_frame(value)[:2]


BAD = {
    "nothing": (b"", "byte 0"),
    "frame version 0": (b"\x00\x14\x00\x00", "frame version 0"),
    "frame version 2": (b"\x02\x14\x00\x00", "frame version 2"),
    "no kind": (b"\x01", "byte 1"),
    "no version": (b"\x01\x14", "byte 2"),
    "a kind beyond int16": (b"\x01\x80\x80\x02\x00\x00", "out of range"),
    "a version beyond int16": (b"\x01\x14\x80\x80\x02\x00", "out of range"),
    "no body": (b"\x01\x14\x00", "NoOpRecord version 0"),
    "leftover bytes": (b"\x01\x14\x00\x00\x00", "1 bytes are left over"),
    "a null that may not be": (b"\x01\x0c\x00\x00\x00\x01\x00", "null where a string must be"),
    "not UTF-8": (b"\x01\x0c\x00\x02\xff\x00\x01\x00", "utf-8"),
    "a string too long": (b"\x01\x0c\x00\x81\x80\x02" + b"x" * 32768 + b"\x00\x01\x00", "longer than 32767"),
    "tags out of order": (b"\x01\x14\x00\x02\x05\x00\x04\x00", "out of order"),
    "a tag twice": (b"\x01\x14\x00\x02\x05\x00\x05\x00", "out of order"),
    "a tag cut short": (b"\x01\x14\x00\x01\x05\x03\x00", "cut short"),
    "a tag with bytes left over": (b"\x01\x17\x00\x01\x00\x04\x03hi!", "ends at byte"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_record_is_refused(name: str) -> None:
    value, reason = BAD[name]
    with pytest.raises(MalformedError, match=reason):
        decode_record(value)


def test_the_longest_string() -> None:
    record = FeatureLevelRecord("x" * 32767, 1)
    assert decode_record(encode_record(record)) == record


UNFIT = {
    "a string too long": FeatureLevelRecord("é" * 16384, 1),
    "half a surrogate pair": FeatureLevelRecord("\ud800", 1),
    "a number too large": FeatureLevelRecord("x", 32768),
    "a short uuid": RegisterControllerRecord(incarnation_id=b"short"),
    "a tag twice": NoOpRecord(unknown_tags=((1, b""), (1, b""))),
}


@pytest.mark.parametrize("name", UNFIT)
def test_what_does_not_fit_is_not_written(name: str) -> None:
    with pytest.raises(UnencodableError):
        encode_record(UNFIT[name])


def test_a_version_that_does_not_exist_is_not_written() -> None:
    with pytest.raises(UnencodableError, match="NoOpRecord has no version 1"):
        encode_record(NoOpRecord(), 1)


def test_all_kinds_have_names() -> None:
    schemas = (ROOT / "proto" / "records").glob("*.json")
    assert set(RECORD_NAMES.values()) == {path.stem for path in schemas}
    assert record_name(20) == "NoOpRecord"
    assert record_name(99) == "UnknownRecord99"


def test_json_is_what_kafkas_dump_prints() -> None:
    record = RegisterControllerRecord(
        controller_id=3,
        incarnation_id=bytes(range(16)),
        end_points=(RegisterControllerRecordControllerEndpoint("CONTROLLER", "h", 9093, 0),),
        features=(RegisterControllerRecordControllerFeature("kraft.version", 0, 1),),
    )
    assert to_json(record) == {
        "type": "REGISTER_CONTROLLER_RECORD",
        "version": 0,
        "data": {
            "controllerId": 3,
            "incarnationId": "AAECAwQFBgcICQoLDA0ODw",
            "zkMigrationReady": False,
            "endPoints": [{"name": "CONTROLLER", "host": "h", "port": 9093, "securityProtocol": 0}],
            "features": [{"name": "kraft.version", "minSupportedVersion": 0, "maxSupportedVersion": 1}],
        },
    }
    assert to_json(NoOpRecord()) == {"type": "NO_OP_RECORD", "version": 0, "data": {}}
    assert to_json(BeginTransactionRecord())["data"] == {}
    assert to_json(BeginTransactionRecord("why"))["data"] == {"name": "why"}
    assert to_json(ConfigRecord(2, "t", "k", None))["data"] == {
        "resourceType": 2,
        "resourceName": "t",
        "name": "k",
        "value": None,
    }
    assert to_json(RawRecord(21, 1, b"\x01\x00")) == {
        "type": "ZK_MIGRATION_STATE_RECORD",
        "version": 1,
        "data": {"raw": "0100"},
    }
    assert to_json(RawRecord(99, 0, b""))["type"] == "UNKNOWN_RECORD99"
