"""Which generated file holds what: a module a schema for its classes, and one a codec for each encoding.

A folder of generated modules holds nothing else. Its `__init__` is the index: by name for the classes, which
are imported at their first use, by key for the codecs (`kraftd.serde.generated.CodecModule`).

*Versions on kraftd's own wire.* A schema tells all versions of an API, for Kafka's clients. Msgpack is spoken
by kraftd's nodes and `kraftctl` only, and keeps the newest version and, from the first release on, that of
the release before (`RELEASED_VERSIONS`), since nodes and `kraftctl` are upgraded one at a time. A release
writes the newest version of each of its APIs into that table. Nodes that are two releases apart refuse each
other in one line that names both versions.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import structs

from generator import binary, packed
from generator.classes import class_texts
from generator.schema import (
    Kind,
    Message,
    Schema,
    Versions,
    on_kafkas_wire,
    read_schemas,
    snake_case,
)
from generator.text import docstring

QUORUM = ("Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "Fetch", "FetchSnapshot", "DescribeQuorum")
"""The APIs that the core itself handles, listed here alone.

`QuorumRequest` and `QuorumResponse` are made of it, and the daemon gives the core the requests of that union.
"""

ENCODINGS: Mapping[str, Sequence[str]] = {"rpc": ("msgpack", "binary"), "records": ("binary",)}
"""How each part of `proto/` is encoded, unless asked otherwise; of RPCs, those that a schema says."""

BACK_ENDS = {"msgpack": packed, "binary": binary}
"""By encoding, the module that writes codecs: `module_text` writes the codec of one schema."""

RELEASED_VERSIONS: Mapping[str, int] = {}
"""The newest version of each API in the last release, by name. There is no release yet."""

FOLDERS = {
    ("rpc", "msgpack"): ("protocol/msgpack", "The msgpack codec of every API of kraftd's own wire"),
    ("rpc", "binary"): ("protocol/kafka", "The codec of every API of Kafka's wire, in Kafka's encoding"),
    ("records", "msgpack"): ("records/msgpack", "The msgpack codec of every record kind"),
    ("records", "binary"): ("records/bodies", "The codec of every record kind in Kafka's encoding"),
}
"""Where the codecs of each part of `proto/` go in each encoding, and what they are."""

Files = dict[Path, str]


def generate(
    proto: Path, package: Path, encodings: Mapping[str, Sequence[str]] = ENCODINGS
) -> tuple[Files, set[Path]]:
    """Every generated file of a package by its path, and the files that should not exist any more.

    Args:
        proto: Where the schemas are.
        package: The directory of the package; its name is what the files import each other by.
        encodings: "msgpack" or "binary" or both for "rpc" and for "records" (control records included).
    """
    rpcs = read_schemas(proto / "rpc")
    controls = read_schemas(proto / "control")
    records = read_schemas(proto / "records")
    quorum = [schema.name for schema in rpcs if schema.name in QUORUM]
    files: dict[str, str] = {}
    files |= _part("rpc", rpcs, package.name, encodings["rpc"])
    files |= _classes(
        "protocol/messages",
        "Every request and response, as frozen values",
        rpcs,
        {
            "QuorumRequest": (
                [f"{name}Request" for name in quorum],
                "The requests that the core itself handles.",
            ),
            "QuorumResponse": (
                [f"{name}Response" for name in quorum],
                "The responses that the core itself handles.",
            ),
        },
        package=package.name,
    )
    files |= _part("records", controls + records, package.name, encodings["records"])
    files |= _classes(
        "records/messages",
        "Every control and metadata record, as frozen values",
        controls + records,
        {
            "ControlRecord": ([schema.name for schema in controls], "The control records of the quorum."),
            "Record": ([schema.name for schema in records], "The metadata records."),
        },
        package=package.name,
    )
    found = {package / name: text for name, text in _formatted(files).items()}
    folders = {path.parent for path in found}
    left_over = {path for folder in folders for path in folder.glob("*.py") if path not in found}
    return found, left_over


def module_name(schema: Schema) -> str:
    """The module of a schema: its name in snake case."""
    return snake_case(schema.name)


def _part(part: str, schemas: list[Schema], package: str, encodings: Sequence[str]) -> dict[str, str]:
    """The codecs of a part of `proto/`, in each encoding wanted."""
    files = {}
    for encoding in encodings:
        folder, what = FOLDERS[part, encoding]
        chosen = [schema for schema in schemas if part != "rpc" or encoding in schema.encodings]
        if (part, encoding) == ("rpc", "msgpack"):
            chosen = [_kept_on_msgpack(schema) for schema in chosen]
        if encoding == "binary":
            chosen = [_kept_on_kafkas_wire(schema) for schema in chosen]
        for schema in chosen:
            classes = f"{package}.{Path(folder).parts[0]}.messages.{module_name(schema)}"
            files[f"{folder}/{module_name(schema)}.py"] = BACK_ENDS[encoding].module_text(schema, classes)
        files[f"{folder}/__init__.py"] = _codec_index(what, chosen)
    return files


def _kept_on_msgpack(schema: Schema) -> Schema:
    """A schema in the versions that kraftd's own wire keeps: the newest, and those since the last release."""
    newest = schema.messages[0].versions.high
    versions = Versions(RELEASED_VERSIONS.get(schema.name, newest), newest)
    return structs.replace(
        schema, messages=tuple(structs.replace(message, versions=versions) for message in schema.messages)
    )


def _kept_on_kafkas_wire(schema: Schema) -> Schema:
    """A schema with the fields that Kafka has."""
    return structs.replace(schema, messages=tuple(map(on_kafkas_wire, schema.messages)))


def _codec_index(what: str, schemas: list[Schema]) -> str:
    parts = [
        docstring(f"{what}, a module each, by key. Generated by `make proto`.", indent=0),
        "from collections.abc import Mapping\nfrom typing import Final",
        "from kraftd.serde.generated import CodecModule",
    ]
    for kind, name in _INDEXES.items():
        chosen = [schema for schema in schemas if schema.messages[0].kind == kind]
        if chosen:
            rows = "\n".join(_codec_row(schema, schema.messages[0]) for schema in chosen)
            parts.append(f"{name}: Final[Mapping[int, CodecModule]] = {{\n{rows}\n}}")
    return "\n\n".join(parts)


_INDEXES: Mapping[Kind, str] = {
    "request": "API_MODULES",
    "control": "CONTROL_MODULES",
    "record": "RECORD_MODULES",
}


def _codec_row(schema: Schema, message: Message) -> str:
    low, high = message.versions.low, message.versions.high
    module = f'f"{{__name__}}.{module_name(schema)}"'
    return f'{message.key}: CodecModule("{schema.name}", {module}, {low}, {high}),'


def _classes(
    folder: str,
    what: str,
    schemas: list[Schema],
    unions: Mapping[str, tuple[list[str], str]],
    *,
    package: str,
) -> dict[str, str]:
    dotted = f"{package}.{folder.replace('/', '.')}"
    files = {f"{folder}/{module_name(schema)}.py": _class_module(schema) for schema in schemas}
    names = {module_name(schema): _class_names(schema) for schema in schemas}
    files[f"{folder}/unions.py"] = _unions(dotted, names, unions)
    files[f"{folder}/__init__.py"] = _class_index(what, dotted, {**names, "unions": sorted(unions)})
    return files


def _class_module(schema: Schema) -> str:
    source = f"proto/{schema.path.parent.name}/{schema.path.name}"
    parts = [
        docstring(f"{schema.meaning} Generated from `{source}`.", indent=0),
        "from typing import ClassVar",
        "from msgspec import Struct",
        "from kraftd.serde.generated import Records, UnknownTags, shown_without",
        "from kraftd.types import ZERO_UUID, Uuid",
        *class_texts(schema),
    ]
    return "\n\n".join(parts)


def _class_names(schema: Schema) -> list[str]:
    return sorted(
        struct.class_name for message in schema.messages for struct in (*message.structs, message.root)
    )


def _unions(dotted: str, names: Mapping[str, list[str]], unions: Mapping[str, tuple[list[str], str]]) -> str:
    wanted = {name for classes, _ in unions.values() for name in classes}
    imports = [
        f"from {dotted}.{module} import {', '.join(name for name in classes if name in wanted)}"
        for module, classes in names.items()
        if wanted.intersection(classes)
    ]
    aliases = [
        f"{name}: TypeAlias = {' | '.join(classes)}\n{docstring(meaning, indent=0)}"
        for name, (classes, meaning) in unions.items()
    ]
    title = docstring("Messages that are handled together. Generated by `make proto`.", indent=0)
    return "\n\n".join([title, "from typing import TypeAlias", *imports, *aliases])


def _class_index(what: str, dotted: str, names: Mapping[str, Iterable[str]]) -> str:
    title = f"{what}, a module each, imported at the first use. Generated by `make proto`."
    imports = "\n".join(
        f"    from {dotted}.{module} import {name} as {name}"
        for module, classes in names.items()
        for name in classes
    )
    rows = "\n".join(f'        "{module}": ({_quoted(classes)}),' for module, classes in names.items())
    return f"""{docstring(title, indent=0)}

from importlib import import_module
from typing import TYPE_CHECKING

from kraftd.serde.generated import UnknownTags as UnknownTags

if TYPE_CHECKING:
{imports}
else:
    _CLASSES = {{
{rows}
    }}
    _MODULES = {{name: module for module, names in _CLASSES.items() for name in names}}

    def __getattr__(name: str) -> object:
        module = _MODULES.get(name)
        if module is None:
            raise AttributeError(f"module {{__name__!r}} has no attribute {{name!r}}")
        value = globals()[name] = getattr(import_module(f"{{__name__}}.{{module}}"), name)
        return value
"""


def _quoted(names: Iterable[str]) -> str:
    return "".join(f'"{name}",' for name in names)


def _formatted(files: Mapping[str, str]) -> dict[str, str]:
    """The files as ruff formats them, without imports that are not used."""
    settings = Path(__file__).parents[2] / "pyproject.toml"
    ours = 'lint.isort.known-first-party = ["kraftd"]'
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
        for arguments in (["check", "--fix", "--select", "I,F401"], ["format"]):
            options = ["--quiet", "--no-cache", "--config", str(settings), "--config", ours]
            subprocess.run([sys.executable, "-m", "ruff", *arguments, *options, name], check=True)  # noqa: S603
        return {path: (folder / path).read_text(encoding="utf-8") for path in files}
