"""Every fault of a log on disk is told once, with file, byte and offset; a log in order has none."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from crc32c import crc32c

from kraftd.logtools.integrity import Examined
from kraftd.logtools.integrity import examine as examine_files
from kraftd.logtools.node_files import describe
from kraftd.records.batch import BatchView, encode_batch, scan
from kraftd.records.frame import encode_record
from kraftd.records.messages import NoOpRecord
from tests.fixtures import clusters, klog

LOG = "__cluster_metadata-0"
NO_OP = encode_record(NoOpRecord())
FIRST, SECOND = f"{0:020}.log", f"{4:020}.log"


def batch(base_offset: int, epoch: int, count: int = 2) -> bytes:
    return encode_batch(base_offset, epoch, 1, [NO_OP] * count)


SIZE = len(batch(0, 1))


def examine(node: Path) -> Examined:
    return examine_files(describe(node / LOG))


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """Offsets 0-3 of epoch 1, 4-9 of epoch 3 in a second segment; epoch 5 has no record yet."""
    kafkas = klog("generated-kafka-4.3-dynamic-voters") / "node-1"
    (tmp_path / LOG).mkdir()
    for name in ("meta.properties", "bootstrap.checkpoint", f"{LOG}/partition.metadata"):
        shutil.copyfile(kafkas / name, tmp_path / name)
    snapshot = sorted((kafkas / LOG).glob("*.checkpoint"))[1]
    shutil.copyfile(snapshot, tmp_path / LOG / f"{4:020}-{1:010}.checkpoint")
    write(
        tmp_path,
        "quorum-state",
        b'{"leaderId":1,"leaderEpoch":5,"votedId":1,"votedDirectoryId":'
        b'"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}',
    )
    write(tmp_path, "leader-epoch-checkpoint", b"0\n3\n1 0\n3 4\n5 10\n")
    write(tmp_path, FIRST, batch(0, 1) + batch(2, 1))
    write(tmp_path, SECOND, batch(4, 3) + batch(6, 3) + batch(8, 3))
    return tmp_path


def write(node: Path, name: str, data: bytes) -> None:
    (node / LOG / name).write_bytes(data)


def change(node: Path, name: str, position: int, byte: int) -> None:
    data = bytearray((node / LOG / name).read_bytes())
    data[position] = byte
    write(node, name, bytes(data))


def cut(node: Path, name: str, size_bytes: int) -> None:
    write(node, name, (node / LOG / name).read_bytes()[:size_bytes])


def test_a_log_in_order_has_no_problems(node: Path) -> None:
    found = examine(node)
    assert found.problems == ()
    assert (found.start_offset, found.end_offset, found.torn) == (0, 10, None)
    assert found.last_batch == (node / LOG / SECOND, 2 * SIZE, SIZE)


def batches_of(path: Path) -> list[BatchView]:
    return list(scan(path.read_bytes()))


def header_of(node: Path) -> int:
    """The size of a snapshot's first batch."""
    return batches_of(node / LOG / CHECKPOINT)[0].size_bytes


CHECKPOINT = f"{4:020}-{1:010}.checkpoint"
FAULTS: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "a flipped bit": (
        lambda node: change(node, SECOND, SIZE + 70, 0xFF),
        [f"{LOG}/{SECOND} at byte {SIZE}, offset 6: the checksum is "],
    ),
    "a flipped bit in the last batch": (
        lambda node: change(node, SECOND, 3 * SIZE - 1, 1),
        [f"{LOG}/{SECOND} at byte {2 * SIZE}, offset 8: the checksum is "],
    ),
    "a size that swallows what follows": (
        lambda node: change(node, SECOND, SIZE + 10, 1),
        [f"{LOG}/{SECOND} at byte {SIZE}, offset 6: the batch claims "],
    ),
    "records that do not fill their batch": (
        lambda node: write(node, SECOND, batch(4, 3) + unfilled(6, 3) + batch(8, 3)),
        [f"{LOG}/{SECOND} at byte {SIZE}, offset 6: "],
    ),
    "an offset that no checksum covers": (
        lambda node: change(node, FIRST, SIZE + 7, 3),
        [
            f"{LOG}/{FIRST} at byte {SIZE}, offset 2: the batch says offset 3 where 2 must come",
        ],
    ),
    "a batch that is there twice": (
        lambda node: write(node, SECOND, batch(4, 3) + batch(4, 3) + batch(6, 3) + batch(8, 3)),
        [f"{LOG}/{SECOND} at byte {SIZE}, offset 6: the batch says offset 4 where 6 must come"],
    ),
    "an epoch that falls": (
        lambda node: change(node, SECOND, SIZE + 15, 1),
        [f"{LOG}/{SECOND} at byte {SIZE}, offset 6: the batch says epoch 1 after epoch 3"],
    ),
    "an epoch that nobody was elected in": (
        lambda node: change(node, SECOND, 2 * SIZE + 15, 7),
        [f"{LOG}/{SECOND} at byte {2 * SIZE}, offset 8: the batch says epoch 7, but leader-epoch-chec"],
    ),
    "an epoch that begins elsewhere": (
        lambda node: change(node, SECOND, 2 * SIZE + 15, 4),
        [f"{LOG}/{SECOND} at byte {2 * SIZE}, offset 8: the batch says epoch 4, but leader-epoch-chec"],
    ),
    "a missing segment": (
        lambda node: (node / LOG / SECOND).rename(node / LOG / f"{6:020}.log"),
        [
            f"{LOG}/{6:020}.log: its name says offset 6, its first batch offset 4",
        ],
    ),
    "a segment in the middle that is cut short": (
        lambda node: cut(node, FIRST, SIZE + 20),
        [f"{LOG}/{FIRST} at byte {SIZE}, offset 2: the batch claims "],
    ),
    "a log that lost its end": (
        lambda node: cut(node, SECOND, SIZE),
        [f"{LOG}/{SECOND}: ends at offset 6, but leader-epoch-checkpoint knows that epoch 5 "],
    ),
    "a snapshot that is cut short": (
        lambda node: cut(node, CHECKPOINT, (node / LOG / CHECKPOINT).stat().st_size - 1),
        [f"{LOG}/{CHECKPOINT} at byte "],
    ),
    "a snapshot without its footer": (
        lambda node: cut(node, CHECKPOINT, batches_of(node / LOG / CHECKPOINT)[-1].position),
        [f"{LOG}/{CHECKPOINT} at byte 4087: has no footer, so it was cut short"],
    ),
    "a snapshot without its header": (
        lambda node: write(node, CHECKPOINT, (node / LOG / CHECKPOINT).read_bytes()[header_of(node) :]),
        [f"{LOG}/{CHECKPOINT} at byte 0, offset 3: record 3 of the snapshot comes where record 0 must"],
    ),
    "a flipped bit in a snapshot": (
        lambda node: change(node, CHECKPOINT, header_of(node) + 70, 0xFF),
        [f"{LOG}/{CHECKPOINT} at byte "],
    ),
    "an empty snapshot": (
        lambda node: cut(node, CHECKPOINT, 0),
        [f"{LOG}/{CHECKPOINT} at byte 0: is empty, so it is no snapshot"],
    ),
    "a snapshot of another epoch": (
        lambda node: (node / LOG / CHECKPOINT).rename(node / LOG / f"{4:020}-{3:010}.checkpoint"),
        [f"{LOG}/{4:020}-{3:010}.checkpoint at byte 0, offset 0: is a snapshot of epoch 1, its name says 3"],
    ),
    "a damaged bootstrap": (
        lambda node: (node / "bootstrap.checkpoint").write_bytes(b"\0" * 100),
        ["bootstrap.checkpoint at byte 0, offset 0: zeros, where a batch must begin"],
    ),
    "an election that cannot be read": (
        lambda node: write(node, "quorum-state", b"{"),
        [f"{LOG}/quorum-state: "],
    ),
    "epochs that cannot be read": (
        lambda node: write(node, "leader-epoch-checkpoint", b"0\n9\n"),
        [f"{LOG}/leader-epoch-checkpoint: "],
    ),
    "properties that cannot be read": (
        lambda node: (node / "meta.properties").write_bytes(b"node.id=x\nversion=1\n"),
        ["meta.properties: "],
    ),
}


def unfilled(base_offset: int, epoch: int) -> bytes:
    """A batch with a good checksum whose records claim more than there is."""
    data = bytearray(batch(base_offset, epoch))
    data[61] += 2
    data[17:21] = crc32c(data[21:]).to_bytes(4, "big")
    return bytes(data)


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_is_told_once(node: Path, name: str) -> None:
    hurt, wanted = FAULTS[name]
    hurt(node)
    problems = [problem.short for problem in examine(node).problems]
    assert len(problems) == len(wanted), problems
    assert [text.startswith(start) for text, start in zip(problems, wanted, strict=True)] == [True] * len(
        wanted
    )


def test_a_batch_that_is_being_written_is_no_fault(node: Path) -> None:
    cut(node, SECOND, 3 * SIZE - 5)
    write(node, "leader-epoch-checkpoint", b"0\n2\n1 0\n3 4\n")
    found = examine(node)
    assert found.problems == ()
    assert found.torn == (node / LOG / SECOND, 2 * SIZE, SIZE - 5)
    assert found.end_offset == 8


@pytest.mark.parametrize("cluster", clusters(), ids=lambda path: path.name)
def test_what_kafka_wrote_is_sound(cluster: Path) -> None:
    """The incomplete export lacks the end of its logs."""
    for node in sorted(cluster.iterdir()):
        if not (node / LOG).is_dir():
            continue
        problems = examine(node).problems
        if "incomplete" in cluster.name:
            assert [text for text in map(str, problems) if ": ends at offset" not in text] == []
        else:
            assert problems == ()
