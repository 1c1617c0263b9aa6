"""The generator: the committed code is fresh, every type of Kafka's works, a wrong schema is named."""

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from fixtures import ROOT
from generator.output import generate
from generator.schema import SchemaError, Versions, read_schema, read_schemas, snake_case

from kraftd.errors import UnencodableError
from kraftd.serde.binary import READ_ERRORS

EVERY_TYPE = {
    "name": "EveryTypeRecord",
    "api_key": 99,
    "versions": "0-2",
    "flexible": "1+",
    "meaning": "Holds one of everything.",
    "structs": [{"name": "Shared", "meaning": "A struct used twice.", "fields": [
        {"name": "Id", "type": "int32", "meaning": "A number."},
        {"name": "Late", "type": "uint16", "versions": "2+", "meaning": "A late one."},
    ]}],
    "fields": [
        {"name": "ABool", "type": "bool", "default": True, "meaning": "x"},
        {"name": "AInt8", "type": "int8", "meaning": "x"},
        {"name": "AInt16", "type": "int16", "default": -1, "meaning": "x"},
        {"name": "AInt32", "type": "int32", "meaning": "x"},
        {"name": "AInt64", "type": "int64", "default": 9223372036854775807, "meaning": "x"},
        {"name": "AUInt16", "type": "uint16", "meaning": "x"},
        {"name": "AUInt32", "type": "uint32", "meaning": "x"},
        {"name": "AFloat64", "type": "float64", "default": 1.5, "meaning": "x"},
        {"name": "AString", "type": "string", "default": "a \"b\"", "meaning": "x"},
        {"name": "NullString", "type": "string", "nullable": "0+", "default": None, "meaning": "x"},
        {"name": "LateNullString", "type": "string", "nullable": "2+", "meaning": "x"},
        {"name": "ABytes", "type": "bytes", "versions": "1+", "meaning": "x"},
        {"name": "NullBytes", "type": "bytes", "versions": "1+", "nullable": "1+", "meaning": "x"},
        {"name": "AUuid", "type": "uuid", "meaning": "x"},
        {"name": "Records", "type": "records", "versions": "1+", "nullable": "1+",
         "default": None, "meaning": "x"},
        {"name": "Numbers", "type": "[]int64", "meaning": "x"},
        {"name": "NullNumbers", "type": "[]int8", "nullable": "0+", "meaning": "x"},
        {"name": "Names", "type": "[]string", "meaning": "x"},
        {"name": "Uuids", "type": "[]uuid", "meaning": "x"},
        {"name": "Flags", "type": "[]bool", "meaning": "x"},
        {"name": "One", "type": "Shared", "meaning": "x"},
        {"name": "Many", "type": "[]Shared", "meaning": "x"},
        {"name": "Maybe", "type": "Shared", "nullable": "0+", "default": None, "meaning": "x"},
        {"name": "NullMany", "type": "[]Shared", "nullable": "0+", "default": None, "meaning": "x"},
        {"name": "Inner", "type": "[]Inner", "meaning": "x", "fields": [
            {"name": "Deep", "type": "Deep", "meaning": "x", "fields": [
                {"name": "KRaftVersion", "type": "int16", "meaning": "x"}]},
            {"name": "Tagged", "type": "[]int32", "versions": "1+", "tag": 0, "nullable": "1+",
             "default": None, "meaning": "x"},
        ]},
        {"name": "Gone", "type": "int32", "versions": "0-1", "meaning": "x"},
        {"name": "Dropped", "type": "int32", "versions": "1+", "ignorable": True, "meaning": "x"},
        {"name": "TaggedStruct", "type": "Shared", "versions": "1+", "tag": 7, "meaning": "x"},
        {"name": "TaggedUuids", "type": "[]uuid", "versions": "2+", "tag": 1, "meaning": "x"},
        {"name": "TaggedFlag", "type": "bool", "versions": "1+", "tag": 2, "default": True, "meaning": "x"},
        {"name": "TaggedText", "type": "string", "versions": "1+", "tag": 3, "meaning": "x"},
    ],
}  # fmt: skip


def test_what_is_committed_is_fresh() -> None:
    found = subprocess.run(
        [sys.executable, "proto/generate.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (found.returncode, found.stderr) == (0, "")


def test_stale_files_are_named(tmp_path: Path) -> None:
    command = [sys.executable, "proto/generate.py", "--package", str(tmp_path / "kraftd")]
    assert subprocess.run(command, cwd=ROOT, check=False, capture_output=True).returncode == 0
    assert subprocess.run([*command, "--check"], cwd=ROOT, check=False).returncode == 0
    folder = tmp_path / "kraftd" / "records" / "bodies"
    (folder / "topic_record.py").write_text((folder / "topic_record.py").read_text() + "\n")
    (folder / "of_before.py").write_text("")
    found = subprocess.run([*command, "--check"], cwd=ROOT, check=False, capture_output=True, text=True)
    assert (found.returncode, found.stderr.splitlines()) == (
        1,
        [
            "kraftd/records/bodies/of_before.py should not exist any more: run `make proto`",
            "kraftd/records/bodies/topic_record.py is stale: run `make proto`",
        ],
    )
    assert subprocess.run(command, cwd=ROOT, check=False, capture_output=True).returncode == 0
    assert subprocess.run([*command, "--check"], cwd=ROOT, check=False).returncode == 0
    assert not (folder / "of_before.py").exists()


@pytest.fixture(scope="module")
def emitted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[ModuleType, ModuleType]]]:
    """The record with everything: its classes and its codec, in both encodings."""
    folder = tmp_path_factory.mktemp("every_type")
    for kind in ("rpc", "control", "records"):
        (folder / "proto" / kind).mkdir(parents=True)
    (folder / "proto" / "records" / "EveryTypeRecord.json").write_text(json.dumps(EVERY_TYPE))
    for name in ("Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "Fetch", "DescribeQuorum"):
        text = (ROOT / "proto" / "rpc" / f"{name}.json").read_text()
        (folder / "proto" / "rpc" / f"{name}.json").write_text(text)
    control = (ROOT / "proto" / "control" / "SnapshotFooterRecord.json").read_text()
    (folder / "proto" / "control" / "SnapshotFooterRecord.json").write_text(control)
    out = {}
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.syspath_prepend(str(folder))
    for encoding, codecs in (("binary", "bodies"), ("msgpack", "msgpack")):
        package = folder / f"every_{encoding}"
        files, _ = generate(folder / "proto", package, {"rpc": ["msgpack"], "records": [encoding]})
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        messages = importlib.import_module(f"every_{encoding}.records.messages")
        index = importlib.import_module(f"every_{encoding}.records.{codecs}")
        assert index.RECORD_MODULES[99][::2] == ("EveryTypeRecord", 0)
        out[encoding] = (messages, index.RECORD_MODULES[99].load())
    yield out
    monkeypatch.undo()


def full(messages: ModuleType, version: int) -> Any:
    """A value with nothing at its default that the version can say."""
    late = {"late": 9} if version == 2 else {}
    shared = messages.EveryTypeRecordShared(id=5, **late)
    tags = {"unknown_tags": ((50, b"\x01"),)} if version else {}
    values: dict[str, Any] = {
        "a_bool": False,
        "a_int8": -128,
        "a_int16": 32767,
        "a_int32": -(2**31),
        "a_int64": -(2**63),
        "au_int16": 65535,
        "au_int32": 2**32 - 1,
        "a_float64": -2.25,
        "a_string": "é" * 100,
        "null_string": "",
        "late_null_string": None if version == 2 else "late",
        "a_uuid": bytes(range(16)),
        "numbers": (1, -1, 2**63 - 1),
        "null_numbers": None,
        "names": ("a", "b" * 127, ""),
        "uuids": (bytes(16), bytes(range(16))),
        "flags": (True, False),
        "one": shared,
        "many": (shared, messages.EveryTypeRecordShared()),
        "maybe": shared,
        "null_many": (shared,),
        "inner": (
            messages.EveryTypeRecordInner(
                deep=messages.EveryTypeRecordDeep(kraft_version=3),
                **({"tagged": (1, 2)} if version else {}),
            ),
        ),
        **tags,
    }
    if version < 2:
        values["gone"] = 4
    if version >= 1:
        values |= {"a_bytes": b"\x00" * 300, "null_bytes": None}
        values |= {"dropped": 6, "tagged_struct": shared, "tagged_flag": False, "tagged_text": "t"}
    if version == 2:
        values["tagged_uuids"] = (bytes(range(16)),)
    return messages.EveryTypeRecord(**values)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_every_type_in_kafkas_encoding(emitted: dict[str, Any], version: int) -> None:
    messages, bodies = emitted["binary"]
    with_records = {"records": b"rrr"} if version else {}
    for value in (
        msgspec.structs.replace(full(messages, version), **with_records),
        messages.EveryTypeRecord(),
    ):
        chunks: list[bytes] = []
        bodies.RECORD_WRITERS[version](chunks, value)
        body = b"".join(chunks)
        assert bodies.RECORD_READERS[version](body, 0) == (value, len(body))
        assert json.dumps(bodies.RECORD_VIEWS[version](value))
        for end in range(len(body)):
            with pytest.raises(READ_ERRORS):
                bodies.RECORD_READERS[version](body[:end], 0)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_every_type_in_msgpack(emitted: dict[str, Any], version: int) -> None:
    messages, bodies = emitted["msgpack"]
    version_codec = bodies.RECORD_CODECS[version]
    for value in (full(messages, version), messages.EveryTypeRecord()):
        body = msgspec.msgpack.encode(version_codec.pack(value))
        assert version_codec.build(msgspec.msgpack.decode(body, type=version_codec.wire)) == value


def test_the_bytes_of_a_version_that_is_not_flexible(emitted: dict[str, Any]) -> None:
    """Fixed lengths before strings and arrays, no tags anywhere."""
    messages, bodies = emitted["binary"]
    chunks: list[bytes] = []
    bodies.RECORD_WRITERS[0](chunks, messages.EveryTypeRecord(names=("hi",), null_string=None))
    body = b"".join(chunks).hex()
    assert body.startswith("01" + "00" + "ffff" + "00000000" + "7fffffffffffffff" + "0000" + "00000000")
    assert ("00056120226222" + "ffff" + "0000" + "00" * 16 + "00000000") in body
    assert "00000001" + "00026869" in body


def test_records_that_travel_beside_a_message_are_not_in_it(emitted: dict[str, Any]) -> None:
    messages, bodies = emitted["msgpack"]
    with pytest.raises(UnencodableError, match="has no records"):
        bodies.RECORD_CODECS[2].pack(messages.EveryTypeRecord(records=b"rrr"))


@pytest.mark.parametrize("encoding", ["binary", "msgpack"])
def test_a_value_is_never_silently_dropped(emitted: dict[str, Any], encoding: str) -> None:
    messages, bodies = emitted[encoding]

    def write(version: int, **values: Any) -> None:
        value = messages.EveryTypeRecord(**values)
        if encoding == "binary":
            bodies.RECORD_WRITERS[version]([], value)
        else:
            bodies.RECORD_CODECS[version].pack(value)

    write(0, dropped=5)
    for version, values in (
        (2, {"gone": 1}),
        (0, {"tagged_flag": False}),
        (1, {"tagged_uuids": (bytes(16),)}),
        (0, {"late_null_string": None}),
        (1, {"one": messages.EveryTypeRecordShared(late=1)}),
    ):
        with pytest.raises(UnencodableError):
            write(version, **values)


WRONG = {
    "another name": ({"name": "Other"}, "names itself Other"),
    "an unknown key": ({"colour": 1}, "unknown key 'colour'"),
    "no versions": ({"versions": None}, "versions"),
    "open versions": ({"versions": "0+"}, "open"),
    "an unknown type": ({"fields": [{"name": "A", "type": "int128", "meaning": "x"}]}, "unknown type int128"),
    "an array of arrays": (
        {"fields": [{"name": "A", "type": "[][]int8", "meaning": "x"}]},
        "array of arrays",
    ),
    "two fields of one name": ({"fields": [{"name": "A", "type": "int8", "meaning": "x"}] * 2}, "one name"),
    "a field outside the versions": (
        {"fields": [{"name": "A", "type": "int8", "versions": "0-5", "meaning": "x"}]},
        "not all among",
    ),
    "null where the field is not": (
        {"fields": [{"name": "A", "type": "string", "versions": "1+", "nullable": "0+", "meaning": "x"}]},
        "not all among",
    ),
    "a tag in a version without tags": (
        {"fields": [{"name": "A", "type": "int8", "tag": 0, "meaning": "x"}]},
        "without tags",
    ),
    "a tag twice": (
        {"flexible": "0+", "fields": [{"name": n, "type": "int8", "tag": 0, "meaning": "x"} for n in "AB"]},
        "a tag twice",
    ),
    "no meaning": ({"fields": [{"name": "A", "type": "int8"}]}, "meaning"),
    "a name the codecs need": (
        {"fields": [{"name": "Tags", "type": "int8", "meaning": "x"}]},
        "needs for itself",
    ),
    "a struct twice": (
        {"fields": [{"name": n, "type": "S", "meaning": "x", "fields": []} for n in "AB"]},
        "defines S twice",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_schema_is_named(tmp_path: Path, name: str) -> None:
    change, reason = WRONG[name]
    schema = {
        "name": "X",
        "api_key": 1,
        "versions": "0-1",
        "flexible": "1+",
        "meaning": "x",
        "fields": [],
    } | change
    path = tmp_path / "X.json"
    path.write_text(json.dumps({key: value for key, value in schema.items() if value is not None}))
    with pytest.raises(SchemaError, match=reason) as caught:
        read_schema(path)
    assert str(path) in str(caught.value)


def test_two_schemas_with_one_key_are_named(tmp_path: Path) -> None:
    for name in ("One", "Two"):
        (tmp_path / f"{name}.json").write_text(json.dumps(EVERY_TYPE | {"name": name}))
    with pytest.raises(SchemaError, match=r"Two\.json: its key 99 is that of One"):
        read_schemas(tmp_path)


@pytest.mark.parametrize(
    ("name", "attribute"),
    [
        ("ReplicaDirectoryId", "replica_directory_id"),
        ("KRaftVersion", "kraft_version"),
        ("KRaftVersionFeature", "kraft_version_feature"),
        ("LastKnownElr", "last_known_elr"),
        ("SizeBytes", "size_bytes"),
        ("To", "to"),
    ],
)
def test_names_of_attributes(name: str, attribute: str) -> None:
    assert snake_case(name) == attribute


def test_versions() -> None:
    assert list(Versions(1, 3)) == [1, 2, 3]
    assert Versions(0, 3).covers(Versions(1, 3))
    assert not Versions(1, 3).covers(Versions(0, 3))
