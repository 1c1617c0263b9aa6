"""`kraftctl log dump FILE|DIR…`: what is in segments and snapshots, as Kafka's dump prints it or as JSON.

Reads a live directory, a copy, or one that Apache Kafka wrote; a DIR stands for its segments, snapshots are
named as files. Ends with 1 if anything was damaged or undecodable, and says at which byte and offset. A batch
that was being written is told, too, and is no fault.

Schema of `-o json` (one object a line) and `-o yaml`, told apart by `kind`:
    file: file, type (segment, snapshot, bootstrap), offset (where a segment starts or a snapshot ends; -1
        unknown), epoch (of a snapshot; -1 otherwise)
    batch: file, position, base_offset, last_offset, count, epoch, is_control, is_transactional, timestamp
        (the newest, in ms), size_bytes, magic, compression, crc, is_valid, problem (text or
        null)
    record: file, position (of its batch), offset, timestamp, epoch, is_control, type, version, data (object
        or null), key_size, value_size, is_valid, problem (text or null)
    problem: file, position, size_bytes, offset (where the log should go on), reason, is_torn
Kinds that this program does not know yet have their body in hexadecimal as `data.raw`.

Follows: the text of DumpLogSegments with `--cluster-metadata-decoder`.
Differs: filters, JSON, several files and directories, `--follow`, a bad checksum is explained, exit code 1.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeAlias, assert_never

import msgspec
import typer

from kraftd.cli import dump, log_diff, log_history, log_state, log_verify
from kraftd.cli.dump import DumpedRecord, FileStart, Item, Selection
from kraftd.cli.failures import ExitCode, UsageError
from kraftd.cli.options import OutputOption, output_of
from kraftd.cli.output import Format, note, to_json_line, to_yaml
from kraftd.cli.times import parse_time
from kraftd.logtools.batch_reader import Batch
from kraftd.logtools.problem import Problem, ProblemKind
from kraftd.records.control import CONTROL_NAMES
from kraftd.records.frame import RECORD_NAMES
from kraftd.types import Offset

app = typer.Typer(
    help="Ask metadata logs on a disk: dump, state, diff, history, verify; state --from, a running quorum."
)

Json: TypeAlias = dict[str, Any]

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")

PathsArgument: TypeAlias = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE|DIR…",
        readable=False,
        help="Segments and snapshots; a node's directory stands for its segments alone.",
    ),
]

TypesOption: TypeAlias = Annotated[
    list[str],
    typer.Option(
        "--type",
        metavar="NAME",
        help="Only records of this type, for example Config or LeaderChange; may be repeated.",
        autocompletion=lambda: [*RECORD_NAMES.values(), *CONTROL_NAMES.values()],
        show_default=False,
    ),
]


@app.callback()
def log() -> None:
    """Ask metadata logs on a disk: dump, state, diff, history, verify; state --from, a running quorum."""


@app.command("dump")
def dump_files(
    context: typer.Context,
    paths: PathsArgument,
    types: TypesOption = [],  # noqa: B006 - the parser makes a new list for each call
    without_types: Annotated[
        list[str],
        typer.Option(
            "--without-type",
            metavar="NAME",
            help="No records of this type, for example NoOp.",
            show_default=False,
        ),
    ] = [],  # noqa: B006 - as above
    from_offset: Annotated[
        int, typer.Option("--from-offset", min=0, metavar="OFFSET", help="From here on.")
    ] = 0,
    to_offset: Annotated[
        int | None,
        typer.Option(
            "--to-offset", min=0, metavar="OFFSET", help="Up to here, exclusive.", show_default=False
        ),
    ] = None,
    from_time: Annotated[
        str | None,
        typer.Option(
            "--from-time",
            metavar="TIME",
            help="From then on; ISO 8601 (UTC) or ms since 1970.",
            show_default=False,
        ),
    ] = None,
    to_time: Annotated[
        str | None,
        typer.Option("--to-time", metavar="TIME", help="Up to then, exclusive.", show_default=False),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Go on with what a running node appends, until interrupted."),
    ] = False,
    show_secrets: Annotated[
        bool,
        typer.Option(
            "--show-secrets", help="Tell keys of SCRAM credentials and values that may be passwords, too."
        ),
    ] = False,
    output: OutputOption = None,
) -> None:
    """Dump batches and decoded records of segments and snapshots."""
    selection = msgspec.structs.replace(
        make_selection(types, without_types, from_offset, to_offset, from_time, to_time),
        show_secrets=show_secrets,
    )
    if follow and len(paths) > 1:
        raise UsageError("--follow takes one FILE or DIR; open a second terminal for another")
    items = dump.follow(paths[0], selection) if follow else read_all(paths, selection)
    written = write_items(items, output_of(context, output), flush_each=follow)
    is_all = selection == msgspec.structs.replace(Selection(), show_secrets=show_secrets)
    _finish(paths, from_offset, written, is_all=is_all)


app.command("state")(log_state.state)
app.command("diff")(log_diff.diff)
app.command("history")(log_history.history)
app.command("verify")(log_verify.verify)


def make_selection(
    types: list[str],
    without_types: list[str],
    from_offset: int,
    to_offset: int | None,
    from_time: str | None,
    to_time: str | None,
) -> Selection:
    """Check the filters of the command line.

    Raises:
        UsageError: A type or time is none.
    """
    everything = Selection()
    return Selection(
        types=frozenset(map(check_type, types)),
        without_types=frozenset(map(check_type, without_types)),
        from_offset=from_offset,
        to_offset=everything.to_offset if to_offset is None else to_offset,
        from_ms=everything.from_ms if from_time is None else parse_time(from_time),
        to_ms=everything.to_ms if to_time is None else parse_time(to_time),
    )


def check_type(name: str) -> str:
    """The key of a record type.

    Raises:
        UsageError: Kafka has no such type.
    """
    known = {dump.type_key(kind): kind for kind in (*RECORD_NAMES.values(), *CONTROL_NAMES.values())}
    key = dump.type_key(name)
    if key in known or key.startswith("unknown"):
        return key
    from difflib import get_close_matches

    near = get_close_matches(key, list(known), n=1)
    hint = f"did you mean {known[near[0]]}?" if near else f"known are {', '.join(sorted(known.values()))}"
    raise UsageError(f"there is no record type {name}; {hint}")


def read_all(paths: Iterable[Path], selection: Selection) -> Iterator[Item]:
    """Everything wanted in all files, one after the other; directories stand for their segments."""
    for path in paths:
        yield from dump.read_directory(path, selection) if path.is_dir() else dump.read_file(path, selection)


class WrittenItems(NamedTuple):
    """What was written: how many batches, and whether anything was bad."""

    batches: int
    is_bad: bool


def write_items(items: Iterable[Item], output: Format, *, flush_each: bool) -> WrittenItems:
    """Write each item as it comes."""
    bad, batches = False, 0
    for item in items:
        bad = bad or is_bad(item)
        batches += isinstance(item, Batch)
        sys.stdout.write(_render(item, output))
        if flush_each:
            sys.stdout.flush()
    return WrittenItems(batches, bad)


def _finish(paths: Sequence[Path], from_offset: Offset, written: WrittenItems, *, is_all: bool) -> None:
    """End with 1 if anything was bad; say what is empty, and if nothing is what was asked for: where the logs
    end, if they end before it.
    """
    said = False
    for path in paths:
        if path.is_file() and not path.stat().st_size:
            said = True
            note(f"{path} is empty: it holds no batch")
    for path in paths if from_offset and not written.batches else ():
        end = dump.end_of(path)
        if end <= from_offset and path.stat().st_size:
            said = True
            note(f"{path} ends at offset {end}: nothing in it is at or after {from_offset}")
    if not (is_all or said or written.batches or written.is_bad):
        note("nothing is within the offsets, times and types that were asked for")
    if written.is_bad:
        raise typer.Exit(ExitCode.ERROR)


def is_bad(item: Item) -> bool:
    """Whether something is wrong with it. Nothing is with a batch that was being written."""
    if isinstance(item, Problem):
        return item.is_fault
    return isinstance(item, Batch | DumpedRecord) and item.problem is not None


def _render(item: Item, output: Format) -> str:
    match output:
        case Format.TABLE:
            return text_of(item) + "\n"
        case Format.JSON:
            return to_json_line(data_of(item)) + "\n"
        case Format.YAML:
            return to_yaml([data_of(item)])


def data_of(item: Item) -> Json:
    """The schema of `-o json`; see the module."""
    match item:
        case FileStart():
            return {
                "kind": "file",
                "file": item.path,
                "type": item.kind,
                "offset": item.offset,
                "epoch": item.epoch,
            }
        case Batch():
            return _batch_data(item)
        case DumpedRecord():
            return _entry_data(item)
        case Problem():
            return {
                "kind": "problem",
                "file": f"{item.directory}/{item.file}",
                "position": item.position_bytes,
                "size_bytes": item.size_bytes,
                "offset": item.offset,
                "reason": item.what,
                "is_torn": item.kind is ProblemKind.TORN,
            }
        case unknown:
            assert_never(unknown)


def _batch_data(batch: Batch) -> Json:
    view = batch.view
    return {
        "kind": "batch",
        "file": batch.path,
        "position": batch.position,
        "base_offset": view.base_offset,
        "last_offset": view.last_offset,
        "count": view.record_count,
        "epoch": view.epoch,
        "is_control": view.is_control,
        "is_transactional": view.is_transactional,
        "timestamp": view.max_timestamp,
        "size_bytes": view.size_bytes,
        "magic": view.magic,
        "compression": _compression(view.attributes),
        "crc": view.crc,
        "is_valid": batch.problem is None,
        "problem": batch.problem and batch.problem.what,
    }


def _entry_data(entry: DumpedRecord) -> Json:
    return {
        "kind": "record",
        "file": entry.batch.path,
        "position": entry.batch.position,
        "offset": entry.offset,
        "timestamp": entry.timestamp_ms,
        "epoch": entry.batch.view.epoch,
        "is_control": entry.batch.view.is_control,
        "type": entry.type,
        "version": entry.version,
        "data": entry.data,
        "key_size": _size(entry.record.key),
        "value_size": _size(entry.record.value),
        "is_valid": entry.batch.problem is None and entry.problem is None,
        "problem": entry.problem,
    }


def text_of(item: Item) -> str:
    """One line of Kafka's dump; the first of a file is two."""
    match item:
        case FileStart():
            return f"Dumping {item.path}\n{_start_text(item)}"
        case Batch():
            return _batch_text(item)
        case DumpedRecord():
            return _entry_text(item)
        case Problem(kind=ProblemKind.TORN):
            size, name = item.size_bytes, item.file
            return f"Found {size} invalid bytes at the end of {name} {_where(item)}: {item.what}"
        case Problem():
            left_out = f"; {item.size_bytes} bytes left out" if item.size_bytes > 0 else ""
            return f"Damaged: {item}{left_out}"
        case unknown:
            assert_never(unknown)


def _where(problem: Problem) -> str:
    return f"at byte {problem.position_bytes}, after offset {problem.offset - 1}"


def _start_text(start: FileStart) -> str:
    match start.kind:
        case "bootstrap":
            return "KRaft bootstrap snapshot"
        case "snapshot":
            return f"Snapshot end offset: {start.offset}, epoch: {start.epoch}"
        case _:
            return f"Log starting offset: {start.offset}"


def _batch_text(batch: Batch) -> str:
    view = batch.view
    last_sequence = -1 if view.base_sequence < 0 else view.base_sequence + view.last_offset_delta
    text = (
        f"baseOffset: {view.base_offset} lastOffset: {view.last_offset} count: {view.record_count} "
        f"baseSequence: {view.base_sequence} lastSequence: {last_sequence} "
        f"producerId: {view.producer_id} producerEpoch: {view.producer_epoch} "
        f"partitionLeaderEpoch: {view.epoch} isTransactional: {_bool(view.is_transactional)} "
        f"isControl: {_bool(view.is_control)} deleteHorizonMs: OptionalLong.empty position: {batch.position} "
        f"CreateTime: {view.max_timestamp} size: {view.size_bytes} magic: {view.magic} "
        f"compresscodec: {_compression(view.attributes)} crc: {view.crc} "
        f"isvalid: {_bool(batch.problem is None)}"
    )
    return text if batch.problem is None else f"{text}\nDamaged: {batch.problem}"


def _entry_text(entry: DumpedRecord) -> str:
    record = entry.record
    text = (
        f"| offset: {entry.offset} CreateTime: {entry.timestamp_ms} keySize: {_size(record.key)} "
        f"valueSize: {_size(record.value)} sequence: -1 "
        f"headerKeys: [{','.join(name.decode(errors='replace') for name, _ in record.headers)}]"
    )
    if entry.problem is not None:
        return f"{text} payload: Error at {entry.offset}, skipping. {entry.problem}"
    if entry.batch.view.is_control:
        colon = ":" if entry.type == "LeaderChange" else ""  # so Kafka prints it
        return f"{text} {entry.type}{colon} {_compact(entry.data)}"
    return f"{text} payload: {_compact({'type': entry.type, 'version': entry.version, 'data': entry.data})}"


def _compact(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _compression(attributes: int) -> str:
    code = attributes & 0x07
    return COMPRESSIONS[code] if code < len(COMPRESSIONS) else f"unknown{code}"


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _bool(value: bool) -> str:
    return "true" if value else "false"
