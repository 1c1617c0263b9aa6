"""`kraftctl format`: the files of Kafka's own `kafka-storage format`, and nothing twice."""

from pathlib import Path

import pytest

from kraftd.errors import StorageError
from kraftd.records.batch import scan
from kraftd.storage import Disk, OsFileSystem, format_directory
from kraftd.storage.bootstrap import encode_bootstrap, read_bootstrap
from tests.fixtures import klog

FS = OsFileSystem()


def make(path: Path, **kwargs: object) -> object:
    wanted: dict = {"cluster_id": "c" * 22, "node_id": 1, "directory_id": b"d" * 16, "now_ms": 1}
    return format_directory(FS, path, **(wanted | kwargs))


def test_the_bootstrap_records_are_those_of_a_real_kafka() -> None:
    """Byte for byte, given the two moments at which Kafka wrote it."""
    path = klog("generated-kafka-4.3-eligible-leader-replicas") / "node-1" / "bootstrap.checkpoint"
    data = path.read_bytes()
    header, records, footer = scan(data)
    ours = list(scan(encode_bootstrap({"metadata.version": 30}, records.base_timestamp)))
    assert [batch.is_control for batch in ours] == [True, False, True]
    full = encode_bootstrap(
        {
            "metadata.version": 30,
            "eligible.leader.replicas.version": 1,
            "group.version": 1,
            "share.version": 1,
            "streams.version": 1,
            "transaction.version": 2,
        },
        records.base_timestamp,
    )
    assert full[header.size_bytes :] == data[header.size_bytes :]
    assert encode_bootstrap({}, header.base_timestamp)[: header.size_bytes] == bytes(header.raw)
    assert footer.is_control


def test_a_directory_is_made_with_its_parents(tmp_path: Path) -> None:
    done = make(tmp_path / "a" / "b")
    assert done.already is False
    assert [Path(name).name for name in done.written] == ["bootstrap.checkpoint", "meta.properties"]
    assert sorted(path.name for path in (tmp_path / "a" / "b").iterdir()) == [
        "bootstrap.checkpoint",
        "meta.properties",
    ]
    text = (tmp_path / "a" / "b" / "meta.properties").read_text()
    assert {"version=1", "node.id=1", "cluster.id=" + "c" * 22} <= set(text.splitlines())
    values = read_bootstrap(Disk(FS), tmp_path / "a" / "b" / "bootstrap.checkpoint")
    assert values is not None
    assert len(values) == 6


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    done = make(tmp_path / "n", dry_run=True)
    assert len(done.written) == 2
    assert list(tmp_path.iterdir()) == []


def test_a_formatted_directory_is_left_alone(tmp_path: Path) -> None:
    make(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(StorageError, match="already formatted: use --ignore-formatted"):
        make(tmp_path, node_id=2)
    again = make(tmp_path, node_id=2, ignore_formatted=True)
    assert (again.already, again.written, again.properties.node_id) == (True, (), 1)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="is not a directory"):
        make(tmp_path / "file")


@pytest.mark.covers("Q-21")
def test_a_bootstrap_file_without_its_footer_is_refused(tmp_path: Path) -> None:
    data = encode_bootstrap({"metadata.version": 30}, 1)
    *_, footer = scan(data)
    path = tmp_path / "bootstrap.checkpoint"
    for size in (len(data) - footer.size_bytes, len(data) - 1, 0):
        path.write_bytes(data[:size])
        with pytest.raises(StorageError, match="format the directory anew"):
            read_bootstrap(Disk(FS), path)
