"""`kraftctl random-uuid`, `format`, `info DIR`: a directory before a node runs in it, or after.

No node is asked. `format` writes the files of a first start, `info` looks without changing a byte and says
what would keep the node from counting; it works on copies and on directories that Apache Kafka wrote.

Schema of `random-uuid`: uuid.
Schema of `format`: directory, cluster_id, node_id, directory_id, metadata_version, features (object), files
    (written, or would be), already_formatted, dry_run.
Schema of `info`: directory, formatted, metadata (null, or version, cluster_id, node_id, directory_id),
    election (null, or epoch, leader_id, voted_id; -1 none), log (null, or start_offset, end_offset,
    end_epoch, epochs, segments (file, base_offset, size_bytes), snapshots (end_offset, epoch)),
    flushed_offset (-1 unknown), start_counter (-1 unknown), notes, problems.

Follows: the labels of Kafka's `kafka-storage`; `info` ends with 1 if there are problems.
Differs: Kafka's `info` looks at `meta.properties` only; a feature that `format` is given twice is refused.
"""

import os
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from kraftd.cli.failures import CommandError, ExitCode, UsageError
from kraftd.cli.options import OutputOption, output_of
from kraftd.cli.output import emit
from kraftd.metadata.feature_levels import METADATA_VERSION, metadata_version_name
from kraftd.metadata.new_cluster import new_cluster_levels, parse_feature
from kraftd.protocol.limits import CLUSTER_ID_BYTES_MAX
from kraftd.records import names
from kraftd.types import NO_NODE, Uuid, uuid_text

if TYPE_CHECKING:
    from kraftd.logtools.inspection import DirectoryFacts

app = typer.Typer()

Json: TypeAlias = dict[str, Any]

_ReleaseOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--release-version",
        "-r",
        metavar="RELEASE",
        help="The release whose feature levels the cluster has, such as 3.9 or 4.0-IV1; brokers may be no"
        " older. Without it, the newest.",
        show_default=False,
    ),
]
_FeatureOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--feature",
        "-f",
        metavar="NAME=LEVEL",
        help="Set the level of one feature; 0 is off. May be repeated.",
        show_default=False,
    ),
]


@app.command("random-uuid")
def random_uuid(context: typer.Context, output: OutputOption = None) -> None:
    """Print a random id, fit for a cluster or a directory."""
    emit({"uuid": uuid_text(draw_uuid())}, output_of(context, output), lambda data: data["uuid"])


@app.command("format")
def format_storage(
    context: typer.Context,
    config: Annotated[
        Path,
        typer.Option(
            "--config", "-c", metavar="FILE", help="The node's properties file.", show_default=False
        ),
    ],
    cluster_id: Annotated[
        str,
        typer.Option(
            "--cluster-id",
            "-t",
            metavar="ID",
            help="The same for all nodes of the cluster: any text, as in Kafka; best one of random-uuid.",
            show_default=False,
        ),
    ],
    release: _ReleaseOption = None,
    features: _FeatureOption = None,
    ignore_formatted: Annotated[
        bool,
        typer.Option(
            "--ignore-formatted", "-g", help="Leave a formatted directory as it is, and be content."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be written, and write nothing.")
    ] = False,
    output: OutputOption = None,
) -> None:
    """Make a node's directory ready for its first start."""
    _check_cluster_id(cluster_id)
    try:
        levels = new_cluster_levels(_levels_of(features or ()), release)
    except ValueError as error:
        raise UsageError(str(error)) from None
    report = prepare(config, cluster_id, levels, ignore_formatted=ignore_formatted, dry_run=dry_run)
    done = f"{report['directory']} is formatted" if report["files"] and not dry_run else ""
    emit(report, output_of(context, output), format_table, done=done)


def _levels_of(features: Sequence[str]) -> Mapping[str, int]:
    """The levels that were asked for, by feature.

    Raises:
        UsageError: A feature is named twice.
        ValueError: One has another form, or there is no such feature or level.
    """
    levels: dict[str, int] = {}
    for name, level in map(parse_feature, features):
        if name in levels:
            raise UsageError(f"{name} is given twice, as {levels[name]} and as {level}; give it once")
        levels[name] = level
    return levels


def _check_cluster_id(cluster_id: str) -> None:
    if not cluster_id or cluster_id.strip() != cluster_id or not cluster_id.isprintable():
        raise UsageError(
            f"{cluster_id!r} cannot be a cluster id, which is not empty, neither begins nor ends with a blank"
            ", and holds no control character; draw one with kraftctl random-uuid"
        )
    size_bytes = len(cluster_id.encode())
    if size_bytes > CLUSTER_ID_BYTES_MAX:
        raise UsageError(
            f"a cluster id of {size_bytes} bytes is longer than nodes can tell each other, which is "
            f"{CLUSTER_ID_BYTES_MAX}; draw one with kraftctl random-uuid"
        )


@app.command("info")
def info(
    context: typer.Context,
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", readable=False, help="A node's log.dirs or metadata.log.dir.")
    ],
    output: OutputOption = None,
) -> None:
    """Show what a node's directory holds and what is wrong with it."""
    from kraftd.logtools.inspection import inspect_directory
    from kraftd.storage.filesystem import OsFileSystem

    node = directory.absolute()
    node = node.parent if node.name == names.LOG_DIRECTORY else node
    report = info_data(inspect_directory(OsFileSystem(), node))
    emit(report, output_of(context, output), info_table)
    if report["problems"]:
        raise typer.Exit(ExitCode.ERROR)


def prepare(
    config: Path, cluster_id: str, levels: Mapping[str, int], *, ignore_formatted: bool, dry_run: bool
) -> Json:
    """Format the directory that a properties file names, at these feature levels; the schema of `format`.

    Raises:
        ConfigError: The file holds mistakes.
        StorageError: The directory is formatted already, or cannot be written.
        CommandError: It is formatted for another node or cluster.
    """
    from kraftd.runtime.config import load_config
    from kraftd.storage.filesystem import OsFileSystem
    from kraftd.storage.formatting import format_directory

    settings = load_config(config, os.environ)
    done = format_directory(
        OsFileSystem(),
        settings.metadata_dir,
        cluster_id=cluster_id,
        node_id=settings.node_id,
        directory_id=draw_uuid(),
        now_ms=time.time_ns() // 1_000_000,
        features=levels,
        ignore_formatted=ignore_formatted,
        dry_run=dry_run,
    )
    known = done.properties
    if done.already and (known.cluster_id, known.node_id) != (cluster_id, settings.node_id):
        raise CommandError(
            f"{done.directory} belongs to node {known.node_id} of cluster {known.cluster_id}, not to node "
            f"{settings.node_id} of cluster {cluster_id}; name another metadata.log.dir, or the right ids"
        )
    features = dict(done.features)
    return {
        "directory": done.directory,
        "cluster_id": known.cluster_id,
        "node_id": known.node_id,
        "directory_id": _uuid_or_none(None if dry_run and not done.already else known.directory_id),
        "metadata_version": metadata_version_name(features[METADATA_VERSION]),
        "features": features,
        "files": list(done.written),
        "already_formatted": done.already,
        "dry_run": dry_run,
    }


def info_data(facts: "DirectoryFacts") -> Json:
    """The schema of `info`."""
    properties, election, sidecar = facts.properties, facts.election, facts.sidecar
    return {
        "directory": facts.path,
        "formatted": facts.formatted,
        "metadata": properties
        and {
            "version": properties.version,
            "cluster_id": properties.cluster_id,
            "node_id": properties.node_id,
            "directory_id": _uuid_or_none(properties.directory_id),
        },
        "election": election
        and {
            "epoch": election.epoch,
            "leader_id": election.leader_id,
            "voted_id": election.voted.id if election.voted else NO_NODE,
        },
        "log": _log_data(facts) if facts.segments or facts.snapshots else None,
        "flushed_offset": sidecar.recovery_point.offset if sidecar and sidecar.recovery_point else -1,
        "start_counter": sidecar.local_state.start_counter if sidecar else -1,
        "notes": list(facts.notes),
        "problems": list(facts.problems),
    }


def _log_data(facts: "DirectoryFacts") -> Json:
    return {
        "start_offset": facts.log_start_offset,
        "end_offset": facts.log_end_offset,
        "end_epoch": facts.log_end_epoch,
        "epochs": [{"epoch": entry.epoch, "start_offset": entry.start_offset} for entry in facts.epochs],
        "segments": [
            {"file": each.file, "base_offset": each.base_offset, "size_bytes": each.size_bytes}
            for each in facts.segments
        ],
        "snapshots": [{"end_offset": each.offset, "epoch": each.epoch} for each in facts.snapshots],
    }


def draw_uuid() -> Uuid:
    """A random id whose text does not look like an option; as Kafka draws them."""
    while True:
        drawn = uuid.uuid4().bytes
        if not uuid_text(drawn).startswith("-"):
            return drawn


def format_table(report: Mapping[str, Any]) -> str:
    """Kafka's closing line."""
    if report["already_formatted"]:
        return f"{report['directory']} is formatted already, nothing was changed."
    verb = "Would format" if report["dry_run"] else "Formatting"
    return (
        f"{verb} metadata directory {report['directory']} with metadata.version {report['metadata_version']}."
    )


def info_table(report: Mapping[str, Any]) -> str:
    """Kafka's blocks, and blocks of the same kind for what Kafka's command does not look at."""
    blocks = [_block("Found log directory", [report["directory"]])]
    metadata, election, log = report["metadata"], report["election"], report["log"]
    if metadata:
        known = {
            "cluster.id": metadata["cluster_id"],
            "directory.id": metadata["directory_id"],
            "node.id": metadata["node_id"],
            "version": metadata["version"],
        }
        blocks.append(f"Found metadata: {_braces(known)}\n")
    if election:
        blocks.append(
            f"Found election: {_braces({key.replace('_', '.'): election[key] for key in election})}\n"
        )
    if log:
        known = {
            "start.offset": log["start_offset"],
            "end.offset": log["end_offset"],
            "end.epoch": log["end_epoch"],
            "epochs": len(log["epochs"]),
            "segments": len(log["segments"]),
            "snapshots": len(log["snapshots"]),
        }
        blocks.append(f"Found log: {_braces(known)}\n")
    for label, lines in (("note", report["notes"]), ("problem", report["problems"])):
        if lines:
            blocks.append(_block(f"Found {label}{'s' if len(lines) > 1 else ''}", lines))
    return "\n".join(blocks).rstrip("\n")


def _block(label: str, lines: list[str]) -> str:
    return "\n".join([f"{label}:", *(f"  {line}" for line in lines), ""])


def _braces(known: Mapping[str, object]) -> str:
    return "{" + ", ".join(f"{key}={value}" for key, value in known.items() if value is not None) + "}"


def _uuid_or_none(value: Uuid | None) -> str | None:
    return None if value is None else uuid_text(value)
