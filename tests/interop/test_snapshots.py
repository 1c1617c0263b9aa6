"""Snapshots of ours, made from Kafka's, and read by Kafka: dump tool and shell show the same of both."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from fixtures import klog
from snapshots import rewritten_snapshot

from tests.interop.peer import Kafka
from tests.interop.test_both_ways_dump import kraftctl
from tests.interop.test_both_ways_shell import SNAPSHOTS, shell
from tests.interop.test_dumps import Line, printed


@pytest.mark.covers("SNAP-09")
@pytest.mark.parametrize("name", SNAPSHOTS)
def test_kafka_reads_a_snapshot_of_ours_like_its_own(kafka: Kafka, tmp_path: Path, name: str) -> None:
    cluster, file = SNAPSHOTS[name]
    theirs = klog(cluster) / file
    ours = tmp_path / theirs.name
    ours.write_bytes(rewritten_snapshot(theirs))
    said = kafka.dump([ours])
    assert kraftctl("log", "dump", "--show-secrets", ours) == said
    batches = [line for line in said.splitlines() if line.startswith("baseOffset: ")]
    assert all(line.endswith("isvalid: true") for line in batches)
    mine, original = printed(said)[str(ours)], printed(kafka.dump([theirs]))[str(theirs)]
    assert [line.offset for line in mine] == list(range(len(mine)))
    assert [line.kind for line in mine] == [line.kind for line in original]
    assert content(mine) == content(original)
    loaded, expected = shell(kafka, ours), shell(kafka, theirs)
    for tree in (loaded, expected):
        del tree["provenance"]  # the time of a batch, in Kafka's the wall clock's
    assert [key for key in expected if loaded.get(key) != expected[key]] == []


def content(lines: list[Line]) -> Counter[str]:
    """Each record, without the order that its lists have by chance."""
    return Counter(f"{line.kind} {json.dumps(in_order(line.data))}" for line in lines)


def in_order(shown: Any) -> Any:
    if isinstance(shown, dict):
        return {
            key: sorted(value) if key == "logDirs" else in_order(value)
            for key, value in sorted(shown.items())
        }
    if isinstance(shown, list) and all(isinstance(each, dict) for each in shown):
        return sorted(map(in_order, shown), key=json.dumps)
    return shown
