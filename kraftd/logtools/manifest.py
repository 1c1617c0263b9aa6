"""`manifest.json` of an export: what the node knew when it was copied, and what was copied."""

from pathlib import Path

import crc32c
import msgspec

from kraftd.errors import MalformedError
from kraftd.logtools.problem import Problem, ProblemKind
from kraftd.regular_file import open_to_read
from kraftd.types import Epoch, NodeId, Offset

MANIFEST = "manifest.json"
MANIFEST_FORMAT = 1
_CHUNK_BYTES = 1 << 20


class ManifestFile(msgspec.Struct, frozen=True):
    """A file as the exporter saw it."""

    name: str
    size_bytes: int
    crc32c: str


class Manifest(msgspec.Struct, frozen=True):
    """What the node knew when it was copied."""

    format: int
    cluster_id: str | None
    node_id: NodeId
    directory_id: str | None
    epoch: Epoch
    leader_id: NodeId
    high_watermark: Offset
    log_start_offset: Offset
    log_end_offset: Offset
    exported_at_ms: int
    files: tuple[ManifestFile, ...] = ()


def decode_manifest(data: bytes) -> Manifest:
    """What a manifest says.

    Raises:
        MalformedError: It is none, or of a format that this program does not read.
    """
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedError(f"not a manifest: {error}") from error
    if manifest.format != MANIFEST_FORMAT:
        raise MalformedError(
            f"manifest format {manifest.format}; this program reads format {MANIFEST_FORMAT}"
        )
    return manifest


def manifest_problems(home: Path, manifest: Manifest) -> list[Problem]:
    """Compare an export with what its manifest says was exported; reads every file."""
    problems = []
    for expected in manifest.files:
        path = home / expected.name
        inside = path.resolve().is_relative_to(home.resolve())
        if not inside or not path.is_file():
            text = (
                "in the manifest, but not there" if inside else "the manifest names a file outside the export"
            )
            problems.append(Problem(ProblemKind.INCOMPLETE, str(home), text, file=expected.name))
        elif (size := path.stat().st_size) != expected.size_bytes:
            text = f"{size:,} bytes, but {expected.size_bytes:,} were exported"
            problems.append(Problem(ProblemKind.INCOMPLETE, str(home), text, file=expected.name))
        elif (found := f"{_checksum(path):08x}") != expected.crc32c.lower():
            text = f"checksum {found}, but {expected.crc32c} was exported: changed since"
            problems.append(Problem(ProblemKind.DAMAGED, str(home), text, file=expected.name))
    return problems


def _checksum(path: Path) -> int:
    total = 0
    with open_to_read(path) as file:
        while chunk := file.read(_CHUNK_BYTES):
            total = crc32c.crc32c(chunk, total)
    return total
