"""`kraftctl log state DIR [--at OFFSET|TIME] [--path /topics/…]`: the cluster as it was at a point of a log.

The directory may be a running node's, a copy, or Apache Kafka's; no node is asked, nothing is locked. With
`--from HOST:PORT` in its place the log is fetched from a running quorum, kraftd's or Kafka's, as an observer
fetches it: the newest snapshot first, then what is committed behind it. An offset is exclusive: `--at 1000`
is the state that the records below 1000 make, as in a snapshot's name. A time means up to the last batch
before the first that is newer.

One log does not tell which of its last records are committed; `known_committed_offset` is what its snapshots
or the manifest of an export vouch for. `kraftctl replay` judges the logs of all nodes together.

Schema: log (as named), cluster_id (text or null), node_id (-1 unknown), offset, epoch, timestamp (ms, -1
    unknown), snapshot (null, or offset, epoch: what the fold began with), records (folded after it),
    known_committed_offset, leader_id, leader_epoch (-1 unknown), hash, is_partial, unknown_kinds (object:
    kind to number of records left out), transaction (null, or begin_offset, name), notes (list), problem
    (text or null: why the state is older than asked for), path, image (what is at the path, with the names
    of Kafka's records).

Ends with 1 if the log could not be read up to the point.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, TypeAlias

import msgspec
import typer

from kraftd.cli.failures import ExitCode, UsageError
from kraftd.cli.options import OutputOption, TimeoutOption, output_of, parse_endpoints
from kraftd.cli.output import Format, columns, emit, id_text, labels, note, to_json, to_yaml, write
from kraftd.cli.times import parse_point, time_text
from kraftd.logtools.finding import find_log
from kraftd.logtools.node_files import NodeFiles
from kraftd.logtools.state import State, state_at
from kraftd.logtools.tree import Place, data_of, match, root_of, walk
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.part import ImageView
from kraftd.metadata.registry import IN_OVERVIEW, PARTS
from kraftd.metadata.views import File, TextTable
from kraftd.records.frame import record_name

Json: TypeAlias = dict[str, Any]

_NOT_OF_THE_IMAGE = frozenset({"local"}).union(*(part.lookups for part in PARTS))
"""Sections of the tree that the image in the schema does not repeat."""

DirectoryArgument: TypeAlias = Annotated[
    Path,
    typer.Argument(
        metavar="DIR", readable=False, help="A node's directory, or a segment or snapshot of one."
    ),
]
SecretsOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--show-secrets", help="Tell keys of SCRAM credentials and values that may be passwords, too."
    ),
]


def state(
    context: typer.Context,
    directory: Annotated[
        Path | None,
        typer.Argument(
            metavar="DIR", readable=False, help="A node's directory, or a segment or snapshot of one."
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="HOST:PORT",
            help="Instead of DIR: fetch the log of the quorum that this controller, ours or Kafka's, is of.",
            show_default=False,
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="OFFSET|TIME",
            help="The state before this offset, or at this time (ISO 8601, UTC). (default: the end)",
            show_default=False,
        ),
    ] = None,
    path: Annotated[
        str,
        typer.Option("--path", metavar="PATH", help="Only this part, as in kraftctl shell: /topics/orders."),
    ] = "/",
    show_secrets: SecretsOption = False,
    timeout_ms: TimeoutOption = 30_000,
    output: OutputOption = None,
) -> None:
    """Show the cluster as it was at one point of a log."""
    point = None if at is None else parse_point(at)
    if (directory is None) == (source is None):
        raise UsageError("name either DIR or --from HOST:PORT")
    with _log_of(directory, source, timeout_ms) as log:
        found = state_at(log, point)
    root = root_of(found, show_secrets=show_secrets)
    places = match(root, path)
    wanted = output_of(context, output)
    if wanted is Format.TABLE:
        _write_tables(found, places, show_secrets=show_secrets)
    else:
        data = state_data(found, places)
        emit(data, wanted, to_json if wanted is Format.JSON else to_yaml)
    if found.damage is not None:
        raise typer.Exit(ExitCode.ERROR)


@contextmanager
def _log_of(directory: Path | None, source: str | None, timeout_ms: int) -> Iterator[NodeFiles]:
    """The log of a directory, or a copy of a running quorum's, which is gone afterwards."""
    if source is None:
        yield find_log(directory or Path())
        return
    from kraftd.cli.observing import copied_log

    nodes = parse_endpoints(source)
    with TemporaryDirectory(prefix="kraftctl-") as scratch:
        copy = Path(scratch) / "copy"
        copied_log(nodes, copy, timeout_ms)
        yield msgspec.structs.replace(find_log(copy), named=source)


def state_data(found: State, places: list[Place]) -> Json:
    """The schema of `log state`."""
    whole = len(places) == 1 and places[0].path == "/"
    image = data_of(places[0].node) if len(places) == 1 else {one.path: data_of(one.node) for one in places}
    if whole and isinstance(image, dict):
        image = {name: image[name] for name in image if name not in _NOT_OF_THE_IMAGE}
    return {
        **summary(found),
        "path": places[0].path if len(places) == 1 else [place.path for place in places],
        "image": image,
    }


def summary(found: State) -> Json:
    """All of the schema but the image."""
    image, snapshot, transaction = found.image, found.snapshot, found.image.transaction
    return {
        "log": found.log.named,
        "cluster_id": found.log.cluster_id or None,
        "node_id": found.log.node_id,
        "offset": found.end_offset,
        "epoch": found.epoch,
        "timestamp": found.timestamp_ms,
        "snapshot": snapshot and {"offset": snapshot.offset, "epoch": snapshot.epoch},
        "records": found.record_count,
        "known_committed_offset": found.known_committed,
        "leader_id": found.quorum.leader_id,
        "leader_epoch": found.quorum.leader_epoch,
        "hash": image.hash(),
        "is_partial": image.is_partial,
        "unknown_kinds": {record_name(kind): count for kind, count in image.unknown_kinds()},
        "transaction": transaction and {"begin_offset": transaction.begin_offset, "name": transaction.name},
        "notes": list(found.notes),
        "problem": None if found.damage is None else str(found.damage),
    }


def remarks(found: State) -> list[str]:
    """What whoever reads the state must know: lines of their own in every table."""
    lines = list(found.notes)
    if found.image.is_partial:
        lines.append(f"PARTIAL: {found.unknown_text}")
    if found.damage is not None:
        lines.append(f"the log is damaged, this is the state before: {found.damage}")
    return lines


def _write_tables(found: State, places: list[Place], *, show_secrets: bool) -> None:
    if len(places) == 1 and places[0].path == "/":
        write(_overview(found))
        return
    several = len(places) > 1
    for place in places:
        table = _table_of(found.image, place, show_secrets=show_secrets)
        write(f"{place.path}:\n{table or '(none)'}\n" if several else table)
        if not (several or table):
            note(f"there is nothing at {place.path}")
    for remark in remarks(found):
        note(remark)


def _overview(found: State) -> str:
    blocks = [_header(found), *_tables_of_all(found.image)]
    return "\n\n".join(block for block in blocks if block)


def _header(found: State) -> str:
    data = summary(found)
    snapshot = data["snapshot"]
    base = f"snapshot {snapshot['offset']}-{snapshot['epoch']} and " if snapshot else ""
    records = f"{data['records']} record" + ("" if data["records"] == 1 else "s")
    pairs: list[tuple[str, object]] = [
        ("Log", data["log"]),
        ("ClusterId", data["cluster_id"] or "-"),
        ("NodeId", id_text(data["node_id"])),
        ("Offset", data["offset"]),
        ("Epoch", data["epoch"]),
        ("Timestamp", time_text(data["timestamp"])),
        ("LeaderId", id_text(data["leader_id"])),
        ("Voters", ",".join(str(voter.id) for voter in found.quorum.voters) or "-"),
        ("MadeFrom", base + records),
        ("KnownCommitted", data["known_committed_offset"] or "-"),
        ("Hash", data["hash"]),
        *(("Note", remark) for remark in remarks(found)),
    ]
    return labels(pairs)


def _table_of(image: MetadataImage, place: Place, *, show_secrets: bool) -> str:
    """What lies at one place of the tree, as a table."""
    view, path = ImageView(image, show_secrets), place.path.strip("/").split("/")
    for part in PARTS:
        if path[0] in part.sections(view) and (table := part.text_table(view, path)) is not None:
            return _laid_out(table)
    if isinstance(place.node, File):
        data = place.node.data
        return data if isinstance(data, str) else json.dumps(data, indent=2, ensure_ascii=False)
    files = [(each.path, _compact(each.node.data)) for each in walk(place) if isinstance(each.node, File)]
    return columns(("Path", "Value"), files) if files else ""


def _tables_of_all(image: MetadataImage) -> list[str]:
    """The tables of an overview, and how much there is of what it does not list; `--path` shows that."""
    tables = [_laid_out(table) for part in PARTS if (table := part.overview(image)) is not None]
    counts = [found for part in IN_OVERVIEW if (found := part.overview_count(image)) is not None]
    lines = [f"  {path:<20}{count}" for path, count in counts if count]
    return [*tables, "\n".join(["Also there, with --path:", *lines]) if lines else ""]


def _laid_out(table: TextTable) -> str:
    return columns(table.headers, table.rows) if table.rows or table.is_shown_empty else ""


def _compact(data: object) -> str:
    return data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, separators=(",", ":"))
