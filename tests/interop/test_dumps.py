"""Every record of every log and snapshot at hand, against what Kafka's own dump prints of the same files.

Kafka's tool decodes with Kafka's classes and prints JSON; ours must be the same for each record, by offset,
kind, version and every field, tagged ones that are absent included.
"""

import json
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import msgspec
import pytest
from fixtures import clusters, klogs
from strategies import EVERY_RECORD, MESSAGES

from kraftd.records.batch import encode_batch, encode_control_batch, scan
from kraftd.records.control import control_to_json, decode_control, encode_control
from kraftd.records.frame import decode_record, encode_record, read_frame, to_json
from tests.interop.peer import Kafka
from tests.interop.random_records import random_record


class Line(NamedTuple):
    """One record of a dump. `kind` is a control record's type; a metadata record's is inside its data."""

    offset: int
    kind: str
    data: dict[str, Any]


def files_of(cluster: Path) -> list[Path]:
    return sorted([*cluster.rglob("*.log"), *cluster.rglob("*.checkpoint")])


def printed(dump: str) -> dict[str, list[Line]]:
    """Kafka's dump of many files, by file."""
    found: dict[str, list[Line]] = {}
    lines: list[Line] = []
    for text in dump.removesuffix("\n").split("\n"):
        if text.startswith("Dumping "):
            lines = found.setdefault(text.removeprefix("Dumping "), [])
        elif text.startswith("| offset: "):
            lines.append(parsed(text))
        elif not text.startswith(("baseOffset: ", "Log starting", "Snapshot end", "KRaft bootstrap")):
            raise ValueError(f"Kafka's dump says what nothing here knows: {text}")
    return found


def parsed(text: str) -> Line:
    offset = int(text.split(maxsplit=3)[2])
    kind, brace, rest = text.partition("headerKeys: [] ")[2].partition("{")
    return Line(offset, kind.strip(" :"), json.loads(brace + rest))


def ours(path: Path) -> Iterator[Line]:
    for batch in scan(path.read_bytes(), path=str(path)):
        for record in batch.records():
            offset = batch.base_offset + record.offset_delta
            if batch.is_control:
                shown = control_to_json(decode_control(record.key, record.value))
                yield Line(offset, str(shown["type"]), plain(shown["data"]))
            else:
                value = record.value or b""
                yield Line(offset, "payload", plain(to_json(decode_record(value), read_frame(value)[1])))


def plain(shown: Any) -> Any:
    return json.loads(json.dumps(shown))


@pytest.mark.covers("REC-05", "REC-06")
@pytest.mark.parametrize("cluster", clusters(), ids=lambda path: path.name)
def test_every_record_is_what_kafka_prints(kafka: Kafka, cluster: Path) -> None:
    files = files_of(cluster)
    theirs = printed(kafka.dump(files))
    assert list(theirs) == [str(path) for path in files]
    compared = 0
    for path in files:
        for mine, line in zip_longest(ours(path), theirs[str(path)]):
            assert mine == line, path
            compared += 1
    assert compared > 100


def test_a_dump_that_is_not_ours_is_seen(kafka: Kafka, tmp_path: Path) -> None:
    """The comparison reads Kafka's own words: another field, kind or offset is no match."""
    path = files_of(klogs() / clusters()[0].name)[0]
    first = printed(kafka.dump([path]))[str(path)]
    assert len({line.kind for line in first}) > 1
    assert list(ours(path)) == first
    assert list(ours(path))[1:] != first[:-1]


@pytest.mark.parametrize("seed", [1, 2])
def test_kafka_reads_what_we_write_of_every_kind_in_every_version(
    kafka: Kafka, tmp_path: Path, seed: int
) -> None:
    """Also of those that no log at hand holds, with values that no cluster has."""
    random = Random(seed)
    batches: list[bytes] = []
    offset = 0
    for message, version in EVERY_RECORD:
        records = [random_record(random, message, version) for _ in range(20)]
        values = [encode_record(record, version) for record in records]
        batches.append(encode_batch(offset, 1, 1_700_000_000_000, values))
        offset += len(values)
    for message in MESSAGES["control"]:  # in version 0: Kafka's tool reads every body as if it were of that
        drawn = [random_record(random, message, 0) for _ in range(20)]
        controls = [encode_control(msgspec.structs.replace(record, version=0)) for record in drawn]
        batches.append(encode_control_batch(offset, 1, 1_700_000_000_000, controls))
        offset += len(controls)
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(b"".join(batches))
    (theirs,) = printed(kafka.dump([path])).values()
    for mine, line in zip_longest(ours(path), theirs):
        assert mine == line
    assert len(theirs) == offset == 20 * (len(EVERY_RECORD) + len(MESSAGES["control"]))
