"""`kraftctl forget-peers DIR…`: stopped nodes forget who the other voters are, and learn it anew.

For a quorum in which every voter takes the others for old copies of their directories, and which therefore
elects nobody. Each directory is locked meanwhile, so that a node that runs is refused.

Schema: directories (directory, node_id, forgotten (node_id, directory_id, start_counter), counts_again:
    whether the node had taken itself for an old copy because the others said so, and does not any more).

Differs: Kafka has nothing like it; its voters remember no starts.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from kraftd.cli.options import OutputOption, output_of
from kraftd.cli.output import columns, emit
from kraftd.records import names
from kraftd.types import uuid_text

if TYPE_CHECKING:
    from kraftd.storage.forgetting import Forgotten

app = typer.Typer()

Json: TypeAlias = dict[str, Any]


@app.command("forget-peers")
def forget(
    context: typer.Context,
    directories: Annotated[
        list[Path], typer.Argument(metavar="DIR…", readable=False, help="log.dirs of nodes that are stopped.")
    ],
    output: OutputOption = None,
) -> None:
    """Make stopped nodes forget who the other voters are: when each takes the others for old copies."""
    from kraftd.storage.filesystem import OsFileSystem
    from kraftd.storage.forgetting import forget_peers

    paths = [path.absolute() for path in directories]
    paths = [path.parent if path.name == names.LOG_DIRECTORY else path for path in paths]
    report = {"directories": [_data(one) for one in forget_peers(OsFileSystem(), paths)]}
    emit(report, output_of(context, output), forgotten_table, done="the other voters are forgotten")


def forgotten_table(report: Mapping[str, Any]) -> str:
    """A row for each voter that was forgotten, and a line for each node that counts again."""
    rows = [
        (one["node_id"], peer["node_id"], peer["directory_id"], peer["start_counter"], one["directory"])
        for one in report["directories"]
        for peer in one["forgotten"] or [{"node_id": "-", "directory_id": "-", "start_counter": "-"}]
    ]
    table = columns(("Node", "Forgot", "DirectoryId", "Start", "Directory"), rows)
    again = [
        f"Node {one['node_id']} does not take itself for an old copy any more."
        for one in report["directories"]
        if one["counts_again"]
    ]
    return "\n".join([table, *([""] if again else []), *again])


def _data(one: "Forgotten") -> Json:
    return {
        "directory": one.directory,
        "node_id": one.node_id,
        "forgotten": [
            {
                "node_id": peer.node_id,
                "directory_id": uuid_text(peer.directory_id),
                "start_counter": peer.start_counter,
            }
            for peer in one.peers
        ],
        "counts_again": one.counts_again,
    }
