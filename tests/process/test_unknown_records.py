"""A daemon whose log holds what it cannot apply stops before it, in one line, and leaves the log as it is."""

import os
from collections.abc import Callable

import pytest
from cluster import Cluster, Node

from kraftd.records.batch import encode_batch
from kraftd.records.frame import RawRecord, encode_record
from kraftd.records.messages import ConfigRecord
from kraftd.storage import OsFileSystem
from kraftd.storage.node_directory import NodeDirectory

Start = Callable[..., Cluster]


def append(node: Node, *records: RawRecord | ConfigRecord) -> int:
    """Put a batch at the end of a stopped node's log; its base offset."""
    directory = NodeDirectory.open(
        OsFileSystem(), node.directory, node_id=node.node_id, random_uuid=lambda: os.urandom(16)
    )
    base = directory.log.end_offset
    batch = encode_batch(base, directory.log.last_epoch, 0, [encode_record(record) for record in records])
    directory.log.append([batch], base, base + len(records))
    directory.log.flush()
    directory.close()
    return base


@pytest.mark.covers("D-18")
def test_a_record_from_the_future_ends_every_start_in_one_line(start: Start) -> None:
    cluster = start(1)
    node = cluster.wait_leader()
    assert node.stop() == 0
    base = append(node, ConfigRecord(4, "", "log.retention.ms", "1"), RawRecord(99, 3, b"what it says"))
    segment = node.directory / "__cluster_metadata-0" / f"{0:020}.log"
    before = segment.read_bytes()
    for _ in range(2):
        mark = node.mark()
        node.start()
        assert node.wait_exit() == 1
        fatal = node.wait_for("fatal", since=mark)
        assert f"offset {base + 1} is of kind UnknownRecord99, version 3" in fatal["reason"]
        assert "exception" not in fatal
    assert node.count("fatal") == 2
    assert segment.read_bytes().startswith(before)
