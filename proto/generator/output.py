"""Which generated file holds what."""

import subprocess
import sys
from pathlib import Path

from generator.classes import class_texts
from generator.schema import Schema, read_schemas
from generator.text import docstring

QUORUM = ("Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "Fetch", "DescribeQuorum")
"""The APIs that the core itself handles."""


def generate(proto: Path, package: Path) -> dict[Path, str]:
    """Every generated file, by its path, formatted."""
    rpcs = read_schemas(proto / "rpc")
    controls = read_schemas(proto / "control")
    records = read_schemas(proto / "records")
    files = {
        package / "protocol" / "messages.py": _protocol_messages(rpcs),
        package / "records" / "messages.py": _record_messages(controls, records),
    }
    return {path: _formatted(text, path) for path, text in files.items()}


def _protocol_messages(rpcs: list[Schema]) -> str:
    parts = [
        docstring(
            "Every request and response of the wire, as frozen values. Generated from `proto/rpc/` by `make proto`.",
            indent=0,
        ),
        "from typing import ClassVar, TypeAlias",
        "from msgspec import Struct",
        "from kraftd.types import ZERO_UUID, Uuid",
        _UNKNOWN_TAGS,
    ]
    for schema in rpcs:
        parts += class_texts(schema, records_inside=False)
    for side in ("Request", "Response"):
        names = " | ".join(name + side for name in QUORUM)
        parts.append(
            f"Quorum{side}: TypeAlias = {names}\n" + docstring(f"The {side.lower()}s of the core.", indent=0)
        )
    return "\n\n".join(parts)


def _record_messages(controls: list[Schema], records: list[Schema]) -> str:
    parts = [
        docstring(
            "Control and metadata records, as frozen values. Generated from `proto/control/` and `proto/records/` "
            "by `make proto`.",
            indent=0,
        ),
        "from typing import ClassVar, TypeAlias",
        "from msgspec import Struct",
        "from kraftd.types import ZERO_UUID, Uuid",
        _UNKNOWN_TAGS,
    ]
    for schema in controls + records:
        parts += class_texts(schema, records_inside=True)
    for alias, schemas, meaning in (
        ("ControlRecord", controls, "The control records of the quorum."),
        ("Record", records, "The metadata records."),
    ):
        names = " | ".join(schema.name for schema in schemas)
        parts.append(f"{alias}: TypeAlias = {names}\n" + docstring(meaning, indent=0))
    return "\n\n".join(parts)


_UNKNOWN_TAGS = '''UnknownTags: TypeAlias = tuple[tuple[int, bytes], ...]
"""Tagged fields that this program does not know, still encoded, by ascending tag."""'''


def _formatted(text: str, path: Path) -> str:
    ruff = [sys.executable, "-m", "ruff"]
    for arguments in (["check", "--fix", "--quiet", "--select", "I,F401"], ["format", "--quiet"]):
        command = [*ruff, *arguments, "--stdin-filename", str(path), "-"]
        text = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout  # noqa: S603
    return text
