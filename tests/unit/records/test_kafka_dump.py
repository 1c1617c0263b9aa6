"""What we read, against what Kafka's own tool printed of the same file.

`tests/data/dumps` holds the output of Kafka 4.3.1's `DumpLogSegments --cluster-metadata-decoder`.
"""

import json
import re
from typing import Any

import pytest
from fixtures import OWN_KLOGS, ROOT

from kraftd.records.batch import scan
from kraftd.records.control import control_to_json, decode_control
from kraftd.records.frame import decode_record, read_frame, to_json

LOG = OWN_KLOGS / "generated-kafka-4.3-dynamic-voters/node-1/__cluster_metadata-0/00000000000000000000.log"
DUMP = ROOT / "tests/data/dumps/generated-kafka-4.3-dynamic-voters.txt"


@pytest.fixture(scope="module")
def dump() -> list[str]:
    return DUMP.read_text().splitlines()[2:]


def test_batch_headers(dump: list[str]) -> None:
    theirs = [dict(re.findall(r"(\w+): (\S+)", line)) for line in dump if not line.startswith("|")]
    ours = [
        {
            "baseOffset": str(batch.base_offset),
            "lastOffset": str(batch.last_offset),
            "count": str(batch.record_count),
            "partitionLeaderEpoch": str(batch.epoch),
            "isTransactional": str(batch.is_transactional).lower(),
            "isControl": str(batch.is_control).lower(),
            "position": str(batch.position),
            "CreateTime": str(batch.max_timestamp),
            "size": str(batch.size_bytes),
            "magic": str(batch.magic),
            "crc": str(batch.crc),
            "isvalid": "true",
        }
        for batch in scan(LOG.read_bytes())
    ]
    assert ours == [{key: line[key] for key in ours[0]} for line in theirs]


def test_records(dump: list[str]) -> None:
    theirs = [line for line in dump if line.startswith("|")]
    for batch in scan(LOG.read_bytes()):
        for record in batch.records():
            line = theirs.pop(0)
            assert line.startswith(f"| offset: {batch.base_offset + record.offset_delta} ")
            printed: dict[str, Any] = json.loads(line[line.index("{") :])
            if batch.is_control:
                assert control_to_json(decode_control(record.key, record.value))["data"] == printed
                continue
            assert record.value is not None
            assert to_json(decode_record(record.value), read_frame(record.value)[1]) == printed
    assert theirs == []
