"""`kraftctl partitions list|explain`: partitions in trouble, without a broker in between.

Both ask kraftd's leader, and work while no broker is up. `list` comes in pages, each linearizable and of its
own moment. `explain` holds the partition's elections on the committed image and tells their outcomes; it
changes nothing.

Schema of `list`: a list of topic, topic_id, partition, leader (-1 none), replicas, isr, elr, min_isr (what
    acks=all needs), adding_replicas, removing_replicas, left_alone (for `brokers can-stop`; else false).
Schema of `explain`: topic, topic_id, partition, state (Kafka's name: NonExistentPartition, NewPartition,
    OnlinePartition, OfflinePartition; the table leaves the last word out), leader (-1 none), leader_epoch,
    partition_epoch, isr, min_isr, unclean_election_allowed, leader_recovering, unclean_leader (-1 none),
    replicas (a list of broker_id, state (Kafka's name), broker, directory, directory_id, in_sync, eligible,
    adding, removing, leads), removed (replicas that were taken away: a list of broker_id, state, broker,
    offset, reason, data, set_aside, heard, directory_offline, as in `topics deletions`), findings
    (sentences).
    `leads` is yes for the leader, and no for the others; where there is none, what becomes of the partition
    once this replica can lead: without loss, unless it crashed, may lack records, or no.
    Of a partition that is not there, only state, removed and findings say something.

Follows: the options of `kafka-topics --describe`, which needs a broker.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeAlias

import typer

from kraftd.cli.deletion_pages import short_state
from kraftd.cli.failures import UsageError
from kraftd.cli.options import (
    BootstrapOption,
    OutputOption,
    TimeoutOption,
    bootstrap_of,
    output_of,
    parse_partition,
)
from kraftd.cli.output import columns, emit, id_text, ids_or_dash, labels
from kraftd.cli.partition_pages import (
    DIRECTORY_STATES,
    explain_partition,
    list_partitions,
    moves_text,
    state_name,
)
from kraftd.metadata.partition_conditions import DirectoryState, PartitionCondition
from kraftd.metadata.partition_states import PartitionState
from kraftd.metadata.views import ids_text

app = typer.Typer(help="List partitions in trouble, and explain one.")

Row: TypeAlias = Mapping[str, Any]

_NONE_FOUND: Mapping[PartitionCondition, str] = {
    PartitionCondition.OFFLINE: "no partition is offline",
    PartitionCondition.UNDER_REPLICATED: "no partition is under-replicated",
    PartitionCondition.UNDER_MIN_ISR: "no partition has fewer in sync than acks=all needs",
    PartitionCondition.AT_MIN_ISR: "no partition has just as many in sync as acks=all needs",
    PartitionCondition.NOT_PREFERRED: "every partition that is led is led by its first replica",
    PartitionCondition.REASSIGNING: "no partition is being moved",
}


@app.command("list")
def list_command(
    context: typer.Context,
    offline: Annotated[bool, typer.Option("--offline", help="Nobody leads them.")] = False,
    under_replicated: Annotated[
        bool, typer.Option("--under-replicated", help="A replica is not in sync.")
    ] = False,
    under_min_isr: Annotated[
        bool, typer.Option("--under-min-isr", help="Fewer are in sync than acks=all needs.")
    ] = False,
    at_min_isr: Annotated[
        bool, typer.Option("--at-min-isr", help="As many are in sync as acks=all needs.")
    ] = False,
    not_preferred: Annotated[
        bool, typer.Option("--not-preferred", help="Another replica leads than the first.")
    ] = False,
    reassigning: Annotated[
        bool, typer.Option("--reassigning", help="Their replicas are being moved.")
    ] = False,
    timeout_ms: TimeoutOption = 10_000,
    output: OutputOption = None,
    bootstrap: BootstrapOption = None,
) -> None:
    """List the partitions in the one condition that is named."""
    chosen = {
        PartitionCondition.OFFLINE: offline,
        PartitionCondition.UNDER_REPLICATED: under_replicated,
        PartitionCondition.UNDER_MIN_ISR: under_min_isr,
        PartitionCondition.AT_MIN_ISR: at_min_isr,
        PartitionCondition.NOT_PREFERRED: not_preferred,
        PartitionCondition.REASSIGNING: reassigning,
    }
    wanted = [condition for condition, is_chosen in chosen.items() if is_chosen]
    if len(wanted) != 1:
        flags = ", ".join(f"--{each.name.lower().replace('_', '-')}" for each in chosen)
        raise UsageError(f"name one condition: {flags}")
    rows = list_partitions(bootstrap_of(context, bootstrap), wanted[0], timeout_ms)
    emit(rows, output_of(context, output), list_table, nothing=_NONE_FOUND[wanted[0]])


@app.command("explain")
def explain_command(
    context: typer.Context,
    partition: Annotated[
        str, typer.Argument(metavar="TOPIC-PARTITION", help="As orders-3.", show_default=False)
    ],
    timeout_ms: TimeoutOption = 10_000,
    output: OutputOption = None,
    bootstrap: BootstrapOption = None,
) -> None:
    """Explain a partition: state of each replica, what keeps it from leading or in sync, what mends it."""
    topic, index = parse_partition(partition)
    row = explain_partition(bootstrap_of(context, bootstrap), topic, index, timeout_ms)
    emit(row, output_of(context, output), explain_table)


def list_table(rows: Sequence[Row]) -> str:
    """One row a partition; the topic's name, which may be long, comes last."""
    if not rows:
        return ""
    cells = [
        (
            row["partition"],
            id_text(row["leader"], "none"),
            ids_text(row["replicas"]),
            ids_text(row["isr"]),
            ids_or_dash(row["elr"]),
            row["min_isr"],
            moves_text(row) or "-",
            row["topic"],
        )
        for row in rows
    ]
    return columns(("Partition", "Leader", "Replicas", "Isr", "Elr", "MinIsr", "Moves", "Topic"), cells)


def explain_table(row: Row) -> str:
    """The partition's labels, one row a replica, and a line for each finding."""
    pairs = [("Partition", f"{row['topic']}-{row['partition']}"), ("State", short_state(row["state"]))]
    if row["replicas"]:
        pairs += [
            ("Leader", id_text(row["leader"], "none")),
            ("LeaderEpoch", row["leader_epoch"]),
            ("Isr", ids_text(row["isr"])),
            ("MinIsr", row["min_isr"]),
            ("UncleanElection", "allowed" if row["unclean_election_allowed"] else "not allowed"),
        ]
    is_offline = row["state"] == state_name(PartitionState.OFFLINE)
    cells = [
        *(_replica_cells(one, is_offline) for one in row["replicas"]),
        *map(_removed_cells, row["removed"]),
    ]
    parts = [labels(pairs)]
    if cells:
        parts.append(
            columns(("Replica", "State", "Broker", "Directory", "InSync", "Move", "LeadsIfBack"), cells)
        )
    told = [f"- {text}" for text in row["findings"] or ["nothing is wrong with it"]]
    return "\n".join((*parts, *told))


def _replica_cells(replica: Row, is_offline: bool) -> tuple[object, ...]:
    return (
        replica["broker_id"],
        short_state(replica["state"]),
        replica["broker"],
        replica["directory"],
        "yes" if replica["in_sync"] else "eligible" if replica["eligible"] else "no",
        "adding" if replica["adding"] else "removing" if replica["removing"] else "-",
        replica["leads"] if is_offline else "-",
    )


def _removed_cells(removed: Row) -> tuple[object, ...]:
    directory = DIRECTORY_STATES[DirectoryState.GONE] if removed["directory_offline"] else "-"
    return (removed["broker_id"], short_state(removed["state"]), removed["broker"], directory, "-", "-", "-")
