"""`kraftctl brokers list|describe|can-stop|pending`: the brokers as the active controller knows them.

No broker is in between: all of it works while none is up.

What is registered comes from the metadata log. When a broker was last heard of, and how far it has read that
log, is what the active controller knows; a new one begins anew, and takes every unfenced broker for heard of
at that moment. Brokers that are fenced are listed too: no broker of Kafka's tells of those.

`can-stop` asks by the rules of a controlled shutdown which partitions need a broker, changes nothing, and
exits with 5 if there are any: nobody could lead them without it, or too few would be in sync for acks=all.
Of a broker that is not active it tells which offline partitions wait for it: one that hangs and is killed may
not lead them any more. They are in trouble whether it stops or not, and change neither verdict nor exit code.

`pending` counts the committed records behind the offset that a broker reported last, which the active
controller hears from it: so what the broker did not know at its last heartbeat. It takes the right to read
the log, as `watch` does.

Schema of `list` and `describe`: a list of broker_id, state (active, fenced, shutting down), broker_epoch,
    incarnation_id, rack (text or null), listeners (NAME://HOST:PORT), log_dirs, cordoned_log_dirs (ids),
    last_contact_ms (since its last heartbeat), session_timeout_ms, metadata_offset (the last it has),
    metadata_lag (what is committed now behind that, as Kafka counts a lag; all -1 unknown), leaders, in_sync,
    replicas (numbers of partitions).
Schema of `pending`: broker_id, state, last_contact_ms, metadata_offset (the last record that it had read as
    of its last heartbeat), begin_offset and counted_to_offset (of what was counted), end_offset (of the log),
    is_complete (false if the log does not reach back, or --limit was reached), records (an object of numbers
    by kind), topics (a list of topic (null where nobody knows the name of a deleted one), topic_id, change
    (created, changed, deleted), partitions (how many)).
Schema of `can-stop`: broker_id, state (as in `list`), can_stop (bool), without_leader, under_min_isr, offline
    (that wait for it; lists of partitions, as in `kraftctl partitions list`).
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeAlias

import typer

from kraftd.cli.failures import ExitCode, RefusedError
from kraftd.cli.options import (
    NODE_ID_MAX,
    BootstrapOption,
    OutputOption,
    TimeoutOption,
    bootstrap_of,
    output_of,
)
from kraftd.cli.output import columns, emit, id_text, labels
from kraftd.cli.pages import Listing, ask_pages
from kraftd.cli.partition_pages import list_partitions
from kraftd.cli.pending import pending_since
from kraftd.metadata.partition_conditions import PartitionCondition
from kraftd.metadata.views import ids_text
from kraftd.protocol.messages import ListBrokersRequest, ListBrokersResponse, ListBrokersResponseBroker
from kraftd.types import Endpoint, uuid_text

app = typer.Typer(help="List and describe brokers, say which can stop, and what they have not read.")

Row: TypeAlias = dict[str, Any]

BrokerArgument: TypeAlias = Annotated[
    int,
    typer.Argument(metavar="ID", min=0, max=NODE_ID_MAX, help="The broker's node.id.", show_default=False),
]

_NO_MORE = -1

_ACTIVE = "active"

_ALREADY: Mapping[str, str] = {
    "fenced": "\nIt is fenced already: it is down, or sends no heartbeats, and leads nothing.",
    "shutting down": "\nIt is shutting down already.",
}
"""What `can-stop` says of a broker that is not active, below its verdict, by state."""


@app.command("list")
def list_command(
    context: typer.Context,
    timeout_ms: TimeoutOption = 10_000,
    output: OutputOption = None,
    bootstrap: BootstrapOption = None,
) -> None:
    """List every registered broker, with its state, session and partitions."""
    rows = list_brokers(bootstrap_of(context, bootstrap), None, timeout_ms)
    emit(rows, output_of(context, output), list_table, nothing="no broker is registered")


@app.command("describe")
def describe_command(
    context: typer.Context,
    broker_ids: Annotated[
        list[int],
        typer.Argument(metavar="ID…", min=0, max=NODE_ID_MAX, help="Ids of brokers.", show_default=False),
    ],
    timeout_ms: TimeoutOption = 10_000,
    output: OutputOption = None,
    bootstrap: BootstrapOption = None,
) -> None:
    """Describe brokers: all that is known of each."""
    wanted = sorted({*broker_ids})
    rows = list_brokers(bootstrap_of(context, bootstrap), wanted, timeout_ms)
    if rows:
        emit(rows, output_of(context, output), describe_table)
    _check_all_known(wanted, rows)


@app.command("can-stop")
def can_stop_command(
    context: typer.Context,
    broker_id: BrokerArgument,
    timeout_ms: TimeoutOption = 10_000,
    output: OutputOption = None,
    bootstrap: BootstrapOption = None,
) -> None:
    """Say whether a broker can stop without a partition that nobody leads or acks=all cannot write to.

    Exit code 5 if it cannot. Nothing is changed.
    """
    nodes = bootstrap_of(context, bootstrap)
    (broker,) = registered_brokers(nodes, [broker_id], timeout_ms)
    needed = list_partitions(nodes, PartitionCondition.NEEDS_BROKER, timeout_ms, broker_id=broker_id)
    data: Row = {
        "broker_id": broker_id,
        "state": broker["state"],
        "can_stop": not needed,
        "without_leader": [row for row in needed if row["left_alone"]],
        "under_min_isr": [row for row in needed if not row["left_alone"]],
        "offline": [] if broker["state"] == _ACTIVE else _waiting_for(nodes, broker_id, timeout_ms),
    }
    emit(data, output_of(context, output), can_stop_table)
    if needed:
        raise typer.Exit(ExitCode.UNHEALTHY)


def _waiting_for(bootstrap: Sequence[Endpoint], broker_id: int, timeout_ms: int) -> list[Row]:
    """The partitions that nobody leads and this broker is in sync for, or eligible to lead."""
    offline = list_partitions(bootstrap, PartitionCondition.OFFLINE, timeout_ms)
    return [row for row in offline if broker_id in row["isr"] or broker_id in row["elr"]]


@app.command("pending")
def pending_command(
    context: typer.Context,
    broker_id: BrokerArgument,
    limit: Annotated[
        int, typer.Option("--limit", min=1, metavar="N", help="Count so many records, and no more.")
    ] = 100_000,
    timeout_ms: TimeoutOption = 10_000,
    output: OutputOption = None,
    bootstrap: BootstrapOption = None,
) -> None:
    """Show what a broker had not read of the metadata log at its last heartbeat."""
    nodes = bootstrap_of(context, bootstrap)
    (broker,) = registered_brokers(nodes, [broker_id], timeout_ms)
    reported = broker["metadata_offset"]
    if reported < 0:
        raise RefusedError(
            f"broker {broker_id} ({broker['state']}) has reported no offset to this active controller; "
            "it does with its next heartbeat"
        )
    data = {
        "broker_id": broker_id,
        "state": broker["state"],
        "last_contact_ms": broker["last_contact_ms"],
        "metadata_offset": reported,
        **pending_since(nodes, reported, limit, timeout_ms),
    }
    emit(data, output_of(context, output), pending_table)


def pending_table(data: Mapping[str, Any]) -> str:
    """How much it is, records by kind, and a row for each topic."""
    broker, count = f"Broker {data['broker_id']} ({data['state']})", sum(data["records"].values())
    if not count:
        return f"{broker} has read all of the log, up to offset {data['metadata_offset']}."
    least = "" if data["is_complete"] else "at least "
    behind = f"{least}{count} {'record is' if count == 1 else 'records are'} behind that"
    ago = _ago(data["last_contact_ms"])
    heard = "as of its last heartbeat" if ago == "-" else f"as of its heartbeat {ago} ago"
    head = f"{broker} had read the log up to offset {data['metadata_offset']} {heard}; {behind}, from "
    head += f"{data['begin_offset']} on."
    tables = [head, columns(("Kind", "Records"), data["records"].items())]
    cells = [
        (row["change"], row["partitions"], row["topic"] or f"({row['topic_id']})") for row in data["topics"]
    ]
    if cells:
        tables.append(columns(("Change", "Partitions", "Topic"), cells))
    return "\n\n".join(tables)


def can_stop_table(data: Mapping[str, Any]) -> str:
    """A line with the verdict, one if it is not active, and one row for each partition that needs it."""
    broker_id = data["broker_id"]
    already = _ALREADY.get(data["state"], "") + _offline_text(data["offline"])
    if data["can_stop"]:
        verdict = f"Broker {broker_id} can stop: no partition loses its leader or acks=all by that."
        return f"{verdict}{already}"
    alone, few = data["without_leader"], data["under_min_isr"]
    leaderless = f"{len(alone)} partition{'s' * (len(alone) != 1)} without leader"
    verdict = f"Broker {broker_id} is needed: {leaderless}, {len(few)} without acks=all if it stops."
    cells = [
        (
            row["partition"],
            ids_text(row["replicas"]),
            ids_text(row["isr"]),
            row["min_isr"],
            then,
            row["topic"],
        )
        for then, rows in (("no leader", alone), ("no acks=all", few))
        for row in rows
    ]
    table = columns(("Partition", "Replicas", "Isr", "MinIsr", "Without", "Topic"), cells)
    return f"{verdict}{already}\n{table}"


def _offline_text(offline: Sequence[Row]) -> str:
    if not offline:
        return ""
    count = f"{len(offline)} offline partitions wait" if len(offline) > 1 else "1 offline partition waits"
    first = f"{offline[0]['topic']}-{offline[0]['partition']}"
    return f"\n{count} for it: before it is killed, see kraftctl partitions explain {first}."


def list_brokers(
    bootstrap: Sequence[Endpoint], broker_ids: Sequence[int] | None, timeout_ms: int
) -> list[Row]:
    """Brokers by id, all or some; those that are not registered are left out."""
    ids = None if broker_ids is None else tuple(broker_ids)
    found: dict[int, Row] = {}

    def take(_: ListBrokersRequest, response: ListBrokersResponse) -> ListBrokersRequest | None:
        found.update({entry.broker_id: _row(entry, response) for entry in response.brokers})
        if response.next_after_broker_id == _NO_MORE:
            return None
        return ListBrokersRequest(ids, response.next_after_broker_id)

    listing = Listing("brokers", ListBrokersResponse, take, _is_later)
    ask_pages(bootstrap, ListBrokersRequest(ids), listing, timeout_ms)
    return [found[broker_id] for broker_id in sorted(found)]


def registered_brokers(
    bootstrap: Sequence[Endpoint], broker_ids: Sequence[int], timeout_ms: int
) -> list[Row]:
    """Brokers by id, each of which is registered.

    Raises:
        RefusedError: One of them is not.
    """
    rows = list_brokers(bootstrap, broker_ids, timeout_ms)
    _check_all_known(broker_ids, rows)
    return rows


def _check_all_known(broker_ids: Sequence[int], rows: Sequence[Row]) -> None:
    known = {row["broker_id"] for row in rows}
    if unknown := [str(broker_id) for broker_id in broker_ids if broker_id not in known]:
        raise RefusedError(f"there is no broker {' and no broker '.join(unknown)}")


def _is_later(request: ListBrokersRequest, before: ListBrokersRequest) -> bool:
    return request.after_broker_id > before.after_broker_id


def _row(broker: ListBrokersResponseBroker, response: ListBrokersResponse) -> Row:
    offset = broker.metadata_offset
    return {
        "broker_id": broker.broker_id,
        "state": _state_text(broker),
        "broker_epoch": broker.broker_epoch,
        "incarnation_id": uuid_text(broker.incarnation_id),
        "rack": broker.rack,
        "listeners": [f"{at.name}://{at.host}:{at.port}" for at in broker.listeners],
        "log_dirs": list(map(uuid_text, broker.log_dirs)),
        "cordoned_log_dirs": list(map(uuid_text, broker.cordoned_log_dirs)),
        "last_contact_ms": broker.last_contact_ms,
        "session_timeout_ms": response.session_timeout_ms,
        "metadata_offset": offset,
        "metadata_lag": -1 if offset < 0 else max(response.applied_offset - 1 - offset, 0),
        "leaders": broker.leader_count,
        "in_sync": broker.in_sync_count,
        "replicas": broker.replica_count,
    }


def _state_text(broker: ListBrokersResponseBroker) -> str:
    if broker.is_fenced:
        return "fenced"
    return "shutting down" if broker.in_controlled_shutdown else _ACTIVE


def list_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """One row a broker."""
    if not rows:
        return ""
    cells = [
        (
            row["broker_id"],
            row["state"],
            row["broker_epoch"],
            _ago(row["last_contact_ms"]),
            id_text(row["metadata_lag"]),
            row["leaders"],
            row["in_sync"],
            row["replicas"],
            row["rack"] or "-",
        )
        for row in rows
    ]
    headers = ("Broker", "State", "Epoch", "Heartbeat", "Lag", "Leaders", "InSync", "Replicas", "Rack")
    return columns(headers, cells)


def describe_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """A block of labels for each broker."""
    return "\n\n".join(labels(_pairs(row)) for row in rows)


def _pairs(row: Mapping[str, Any]) -> list[tuple[str, object]]:
    return [
        ("Broker", row["broker_id"]),
        ("State", row["state"]),
        ("Epoch", row["broker_epoch"]),
        ("IncarnationId", row["incarnation_id"]),
        ("Rack", row["rack"] or "-"),
        ("Listeners", ", ".join(row["listeners"]) or "-"),
        ("LogDirs", ", ".join(row["log_dirs"]) or "-"),
        ("CordonedLogDirs", ", ".join(row["cordoned_log_dirs"]) or "-"),
        ("Heartbeat", _session_text(row)),
        ("MetadataOffset", id_text(row["metadata_offset"])),
        ("MetadataLag", id_text(row["metadata_lag"])),
        ("Leaders", row["leaders"]),
        ("InSync", row["in_sync"]),
        ("Replicas", row["replicas"]),
    ]


def _session_text(row: Mapping[str, Any]) -> str:
    ago = _ago(row["last_contact_ms"])
    if ago == "-" or row["state"] == "fenced":
        return ago
    return f"{ago} ago; fenced {row['session_timeout_ms']} ms after the last one"


def _ago(ms: int) -> str:
    return "-" if ms < 0 else f"{ms} ms"
