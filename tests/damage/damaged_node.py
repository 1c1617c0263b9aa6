"""A node's directory that Kafka wrote, to be damaged byte by byte.

`HurtNode` copies a directory and changes it: fields that no checksum covers, bits, cuts, swaps, doublings.
Places are found by offset in the log as it was before, so a variant says what it hurts in the log's terms.
"""

import shutil
import struct
from pathlib import Path
from typing import Final, NamedTuple

from kraftd.records import names
from kraftd.records.batch import BatchView, scan
from tests.fixtures import OWN_KLOGS

CLUSTER: Final = OWN_KLOGS / "generated-kafka-4.3-eligible-leader-replicas"
OTHER_CLUSTER: Final = OWN_KLOGS / "generated-kafka-4.3-dynamic-voters"
END: Final = 2308
"""Where node 3's log ends; its last batch is the LeaderChange of epoch 7, at 2307."""

FIELDS: Final = {
    "base_offset": (0, ">q"),
    "length": (8, ">i"),
    "epoch": (12, ">i"),
    "magic": (16, ">b"),
    "crc": (17, ">I"),
}
"""What of a batch's header its checksum does not cover, and the checksum: where and how."""


class Spot(NamedTuple):
    """A batch in a segment."""

    path: Path
    byte: int
    size: int
    offset: int
    end: int

    @property
    def behind(self) -> int:
        """The byte after it."""
        return self.byte + self.size


class DamagedNode:
    """Node 3 of a Kafka 4.3 cluster, copied: offsets 0 to 2307 in six segments, epochs 1, 3, 4, 5, 6, 7."""

    def __init__(self, home: Path, source: Path = CLUSTER / "node-3") -> None:
        shutil.copytree(source, home)
        self.home = home
        self.log = home / names.LOG_DIRECTORY
        self.segments = sorted(self.log.glob("*.log"))

    def segment(self, base_offset: int) -> Path:
        """A segment by its name."""
        return self.log / names.segment_name(base_offset)

    def snapshot(self, offset: int) -> Path:
        """A snapshot by its offset."""
        return next(self.log.glob(f"{offset:020d}-*.checkpoint"))

    def small(self, name: str) -> Path:
        """`quorum-state`, `leader-epoch-checkpoint` or `meta.properties`."""
        return (self.home if name == names.META_PROPERTIES else self.log) / name

    def spot(self, offset: int) -> Spot:
        """The batch that holds an offset."""
        path = next(path for path in reversed(self.segments) if int(path.stem) <= offset)
        return next(
            Spot(path, batch.position, batch.size_bytes, batch.base_offset, batch.end_offset)
            for batch in scan(path.read_bytes())
            if batch.base_offset <= offset < batch.end_offset
        )

    def put(self, path: Path, byte: int, data: bytes) -> None:
        """Write over what is there."""
        content = bytearray(path.read_bytes())
        content[byte : byte + len(data)] = data
        path.write_bytes(bytes(content))

    def flip(self, offset: int, at: int) -> Spot:
        """Turn one bit of a batch, at so many bytes from its beginning."""
        spot = self.spot(offset)
        byte = spot.path.read_bytes()[spot.byte + at]
        self.put(spot.path, spot.byte + at, bytes([byte ^ 1]))
        return spot

    def set_field(self, offset: int, field: str, value: int) -> Spot:
        """Write another value into a batch's header."""
        spot = self.spot(offset)
        at, form = FIELDS[field]
        self.put(spot.path, spot.byte + at, struct.pack(form, value))
        return spot

    def cut(self, path: Path, size: int) -> None:
        """Cut a file."""
        path.write_bytes(path.read_bytes()[:size])

    def append(self, path: Path, data: bytes) -> None:
        """Put bytes behind a file's end."""
        path.write_bytes(path.read_bytes() + data)

    def bytes_of(self, spot: Spot) -> bytes:
        """A batch."""
        return spot.path.read_bytes()[spot.byte : spot.behind]

    def replace(self, path: Path, byte: int, size: int, data: bytes) -> None:
        """Put something of another length in the place of some bytes."""
        content = path.read_bytes()
        path.write_bytes(content[:byte] + data + content[byte + size :])


def batches_of(path: Path) -> list[BatchView]:
    """The batches of a file in order."""
    return list(scan(path.read_bytes()))
