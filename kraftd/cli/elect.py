"""`kraftctl elect --preferred|--unclean (TOPIC-PARTITION… | --topic T [--partition N …] | --all)`: leaders
are elected now.

The request is Kafka's own (ElectLeaders, 43), sent to the active controller over Kafka's wire; so it works
with Kafka's controllers and brokers too. Only a topic without `--partition` needs a kraftd, which knows how
many it has. Each partition has an outcome of its own, and is told whatever became of the others. Elections
that may have been held are not repeated: the command ends with 5.

Exit code: 0 if every partition has the leader that was asked for, elected now or before; 4 if one has not.
With `--preferred --all` nobody asked for a partition by name: where the preferred replica cannot lead now,
mostly as its broker is down, that is told and is no failure.

Schema: a list of topic, partition, outcome (elected, not needed, not elected), error (Kafka's name and
    number; null if elected), why (text; null if elected, or where the node does not tell). With `--all`, the
    partitions that needed an election.

Follows: Kafka's ElectLeaders; `kafka-leader-election`, where a topic always comes with a partition.
Differs: with `--all-topic-partitions` that ends with 1 while any broker is down. A job that gives leaders
back every night would call every night a failure, until nobody reads its mail any more.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from kraftd.cli.active_controller import ask_controller
from kraftd.cli.client import KafkaConnection, LostError, error_name
from kraftd.cli.failures import RefusedError, UnhealthyError, UnknownOutcomeError, UsageError
from kraftd.cli.options import (
    PARTITION_MAX,
    BootstrapOption,
    OutputOption,
    TimeoutOption,
    bootstrap_of,
    check_line,
    output_of,
    parse_partition,
)
from kraftd.cli.outcomes import NOT_NOW, Row, unknown_outcome
from kraftd.cli.output import columns, emit, note
from kraftd.cli.topic_pages import describe_partitions
from kraftd.errors import ErrorCode
from kraftd.protocol.messages import (
    ElectLeadersRequest,
    ElectLeadersRequestTopicPartitions,
    ElectLeadersResponse,
    ElectLeadersResponsePartitionResult,
)
from kraftd.types import Endpoint

app = typer.Typer()

_PREFERRED, _UNCLEAN = 0, 1
"""Kafka's numbers of the types of elections."""

_ELECTED, _NOT_NEEDED, _NOT_ELECTED = "elected", "not needed", "not elected"
_OUTCOMES: Mapping[int, str] = {ErrorCode.NONE: _ELECTED, ErrorCode.ELECTION_NOT_NEEDED: _NOT_NEEDED}
"""By the error of a partition; any other is that none was elected."""

_CANNOT_NOW = error_name(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
_NO_ERROR = ""

_HINTS: Mapping[int, str] = {
    ErrorCode.POLICY_VIOLATION: "more partitions need it than one request may change; elect topic by topic"
}
"""What to say of errors of a response that has no place for a text."""


@app.command("elect")
def elect(
    context: typer.Context,
    named: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TOPIC-PARTITION]…", help="Of these, as orders-3.", show_default=False),
    ] = None,
    preferred: Annotated[
        bool, typer.Option("--preferred", help="Give partitions back to their first replicas.")
    ] = False,
    unclean: Annotated[
        bool,
        typer.Option("--unclean", help="Let any replica lead what nobody leads; records may be lost."),
    ] = False,
    topic: Annotated[
        str | None,
        typer.Option("--topic", metavar="NAME", help="Of all partitions of this topic.", show_default=False),
    ] = None,
    partition: Annotated[
        list[int] | None,
        typer.Option(
            "--partition",
            min=0,
            max=PARTITION_MAX,
            metavar="N",
            help="Of the topic, this one alone; may be repeated.",
            show_default=False,
        ),
    ] = None,
    of_all: Annotated[bool, typer.Option("--all", help="Of every partition that needs it.")] = False,
    timeout_ms: TimeoutOption = 30_000,
    output: OutputOption = None,
    bootstrap: BootstrapOption = None,
) -> None:
    """Elect the leaders of partitions now, preferred or unclean.

    Give one of --preferred and --unclean, and one of TOPIC-PARTITION…, --topic and --all.

    Exit code 4 if one was not elected; but with --preferred --all it is no failure that a preferred replica
    cannot lead now, as its broker is down: that is told, and the exit code is 0.
    """
    if preferred == unclean:
        raise UsageError("which election? give one of --preferred and --unclean")
    if partition and topic is None:
        raise UsageError("--partition is of a topic; give --topic, or leave it out")
    if [bool(named), topic is not None, of_all].count(True) != 1:
        raise UsageError("of which partitions? give one of TOPIC-PARTITION…, --topic and --all")
    check_line([] if topic is None else [topic], "a topic's name")
    wanted = _by_topic(named or ())
    endpoints = bootstrap_of(context, bootstrap)
    if topic is not None:
        wanted[topic] = list(dict.fromkeys(partition or _partitions_of(endpoints, topic, timeout_ms)))
    rows = elect_leaders(endpoints, _PREFERRED if preferred else _UNCLEAN, wanted, timeout_ms)
    elected = sum(row["outcome"] == _ELECTED for row in rows)
    emit(
        rows,
        output_of(context, output),
        elect_table,
        done=f"{elected} leader{'s were' if elected > 1 else ' was'} elected" * bool(elected),
        nothing="no partition needs it",
    )
    _check(rows, _CANNOT_NOW if preferred and of_all else _NO_ERROR)


def elect_leaders(
    bootstrap: Sequence[Endpoint], election: int, wanted: Mapping[str, Sequence[int]], timeout_ms: int
) -> list[Row]:
    """Elect leaders of partitions by their topics, of all if none is named; the schema of this command."""
    topics = [ElectLeadersRequestTopicPartitions(topic, tuple(numbers)) for topic, numbers in wanted.items()]
    request = ElectLeadersRequest(election, tuple(topics) if topics else None, timeout_ms)

    def ask(controller: KafkaConnection) -> list[Row]:
        try:
            response = controller.call(request, ElectLeadersResponse, timeout_ms)
        except LostError as error:
            raise _unknown(str(error)) from error
        _check_whole(controller, response)
        rows = [
            _row(each.topic, result)
            for each in response.replica_election_results
            for result in each.partition_result
        ]
        return sorted(rows, key=lambda row: (row["topic"], row["partition"]))  # Kafka's come in no order

    return ask_controller(bootstrap, ask, timeout_ms)


def _by_topic(named: Sequence[str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, number in dict.fromkeys(map(parse_partition, named)):
        found.setdefault(topic, []).append(number)
    return found


def _partitions_of(bootstrap: Sequence[Endpoint], topic: str, timeout_ms: int) -> list[int]:
    try:
        found, _ = describe_partitions(bootstrap, [topic], timeout_ms, changes=True)
    except RefusedError as error:
        raise RefusedError(f"which partitions topic {topic} has is not known, name them: {error}") from error
    if not found:
        raise RefusedError(f"there is no topic {topic}")
    return [each["partition"] for each in found[0]["partitions"]]


def _check_whole(controller: KafkaConnection, response: ElectLeadersResponse) -> None:
    """End as the error of a whole response demands; return if there is none.

    Raises:
        UnhealthyError: Not now, but perhaps in a moment or at another node.
        UnknownOutcomeError: Leaders may have been elected, or may still be.
        RefusedError: No, and asking again would not help.
    """
    code = response.error_code
    if code == ErrorCode.NONE:
        return
    texts = (one.error_message for each in response.replica_election_results for one in each.partition_result)
    text = next(filter(None, texts), _HINTS.get(code) or error_name(code))
    if code == ErrorCode.REQUEST_TIMED_OUT:
        raise _unknown(text)
    if code in NOT_NOW:
        raise UnhealthyError(f"no leader was elected: {controller.endpoint}: {text}")
    raise RefusedError(f"no leader was elected: {text}")


def _unknown(why: str) -> UnknownOutcomeError:
    return unknown_outcome("leaders were elected", why, "topics describe")


def _row(topic: str, result: ElectLeadersResponsePartitionResult) -> Row:
    code = result.error_code
    return {
        "topic": topic,
        "partition": result.partition_id,
        "outcome": _OUTCOMES.get(code, _NOT_ELECTED),
        "error": None if code == ErrorCode.NONE else error_name(code),
        "why": (result.error_message or "").strip() or None,
    }


def _check(rows: Sequence[Row], excused: str) -> None:
    """End as the partitions demand that have not the leader that was asked for. The rows tell why.

    Args:
        rows: Every partition.
        excused: The error that is no failure, and is told.

    Raises:
        RefusedError: There are such.
    """
    failed = [row for row in rows if row["outcome"] == _NOT_ELECTED and row["error"] != excused]
    waiting = sum(row["error"] == excused for row in rows)
    if waiting:
        note(f"{waiting} not elected, as their preferred replicas cannot lead now; see brokers list")
    if not failed:
        return
    first = failed[0]
    many = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
    which = f"{first['topic']}-{first['partition']}"
    raise RefusedError(f"no leader was elected for {which}{many}")


def elect_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """One row a partition, its topic, which may be long, at the end; then what the errors mean, each once."""
    if not rows:
        return ""
    cells = [(row["partition"], row["outcome"], row["error"] or "-", row["topic"]) for row in rows]
    told = dict.fromkeys(f"{row['error']}: {row['why']}" for row in rows if row["error"] and row["why"])
    table = columns(("Partition", "Outcome", "Error", "Topic"), cells)
    return "\n".join([table, *([""] if told else []), *told])
