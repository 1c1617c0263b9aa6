"""`kraftctl configs set|get|list|delete`: dynamic configs in the metadata log, of the cluster or one broker.

Writes go to the leader and are confirmed only when committed; reads are linearizable. All of them follow
the leader through an election until `--timeout-ms` is over. But a change that may have been appended is not
repeated: somebody else may have changed the same config since. The command ends with 5 and says so.

`list` comes in pages, each of them linearizable, and of its own moment: what is set and not changed while it
runs is listed once, what is changed meanwhile is listed as it was before or after, and a set of changes made
together may be seen in part. The same holds for a `get` of more than one response holds.

A `get` of a name that Kafka does not define shows whether and where it is set, and not to what: it may be a
secret. If it is not set, the others are shown, and the exit code is 4.

Schema of `get` and `list`: a list of entity ("cluster" or "broker N"), name, value (text; null if there is
    none, or it is secret), source (Kafka's name of where the value comes from; null if there is none),
    sensitive (bool: a password, or of a name that Kafka does not define, which may be one).
Schema of `set` and `delete`: entity, changes (list of name, value or null; "[redacted]" if it is secret).

`set`, `delete` and `get` work at Kafka's own controllers and brokers too, in Kafka's protocol; `list` is an
API of kraftd's own.

Follows: Kafka's IncrementalAlterConfigs and DescribeConfigs; the closing line of `kafka-configs`.
Differs: refuses names that Kafka 4.3 does not define, which Kafka takes and nobody ever reads; `--force`
lets them pass.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeAlias

import typer
from msgspec.structs import replace

from kraftd.cli.active_controller import ask_either
from kraftd.cli.client import Connection, KafkaConnection, LostError, raise_for
from kraftd.cli.failures import RefusedError, UnknownOutcomeError, UsageError
from kraftd.cli.options import (
    NODE_ID_MAX,
    BootstrapOption,
    OutputOption,
    TimeoutOption,
    bootstrap_of,
    check_line,
    check_utf8,
    output_of,
)
from kraftd.cli.output import columns, emit, note
from kraftd.cli.pages import REQUEST_TIMEOUT_MS, Listing, ask_pages
from kraftd.errors import ErrorCode
from kraftd.metadata.config_schema import (
    CLUSTER_DEFAULT,
    ConfigOperation,
    ResourceType,
    broker_key,
    broker_names,
)
from kraftd.metadata.redaction import REDACTED, is_secret_config, redacted_config_value
from kraftd.protocol.brief import has_control_characters
from kraftd.protocol.messages import (
    DescribeConfigsRequest,
    DescribeConfigsRequestDescribeConfigsResource,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsResponse,
    ListConfigsRequest,
    ListConfigsRequestCursor,
    ListConfigsResponse,
    ListConfigsResponseEntry,
)
from kraftd.types import Endpoint

app = typer.Typer(help="Set, get, list and delete dynamic configs of brokers.")

Row: TypeAlias = dict[str, Any]

SOURCES = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
}
"""Kafka's names of its numbers, widest last."""

DEFAULT = SOURCES[5]
"""Nobody sets it; of a password the default is that there is none."""

_MADE = "the change was made, and is committed"

_REQUEST_CHARACTERS_MAX = 128 * 1024
"""Of the names in one request: a node takes a mebibyte, and a character has four bytes at most."""

BrokerOption: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--broker",
        min=0,
        max=NODE_ID_MAX,
        metavar="ID",
        help="Of this broker. (default: the cluster default)",
        show_default=False,
    ),
]
ListedBrokerOption: TypeAlias = Annotated[
    int | None,
    typer.Option("--broker", min=0, max=NODE_ID_MAX, metavar="ID", help="Only this broker's."),
]
ForceOption: TypeAlias = Annotated[
    bool, typer.Option("--force", help="Take names that Kafka 4.3 does not define.")
]
NamesArgument: TypeAlias = Annotated[
    list[str],
    typer.Argument(metavar="NAME…", help="As log.retention.ms.", autocompletion=lambda: list(broker_names())),
]


@app.command("set")
def set_configs(
    context: typer.Context,
    assignments: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME=VALUE…",
            help="As log.retention.ms=604800000.",
            autocompletion=lambda: [f"{n}=" for n in broker_names()],
        ),
    ],
    broker: BrokerOption = None,
    force: ForceOption = False,
    timeout_ms: TimeoutOption = 10_000,
    output: OutputOption = None,
    bootstrap: BootstrapOption = None,
) -> None:
    """Set configs, all of them or none; confirmed when committed."""
    pairs = [_assignment(text) for text in assignments]
    values = dict(pairs)
    check_line([*values], "a config's name")
    check_utf8(values.values(), "a config's value")
    if twice := [name for name, times in Counter(name for name, _ in pairs).items() if times > 1]:
        raise UsageError(f"{', '.join(twice)} is set twice; name each once")
    check_names(list(values), force)
    done = change(bootstrap_of(context, bootstrap), resource_name(broker), values, timeout_ms)
    emit(done, output_of(context, output), change_table, done=_MADE)


@app.command("delete")
def delete_configs(
    context: typer.Context,
    names: NamesArgument,
    broker: BrokerOption = None,
    force: ForceOption = False,
    timeout_ms: TimeoutOption = 10_000,
    output: OutputOption = None,
    bootstrap: BootstrapOption = None,
) -> None:
    """Delete configs, so that the next wider default holds; confirmed when committed."""
    check_utf8(names, "a config's name")  # one with a line break can be set by an older kraftd
    check_names(names, force)
    done = change(bootstrap_of(context, bootstrap), resource_name(broker), dict.fromkeys(names), timeout_ms)
    emit(done, output_of(context, output), change_table, done=_MADE)


@app.command("get")
def get_configs(
    context: typer.Context,
    names: NamesArgument,
    broker: BrokerOption = None,
    timeout_ms: TimeoutOption = 10_000,
    output: OutputOption = None,
    bootstrap: BootstrapOption = None,
) -> None:
    """Get configs by name, as of now."""
    check_line(names, "a config's name")
    found = describe(bootstrap_of(context, bootstrap), resource_name(broker), names, timeout_ms)
    unknown = [row["name"] for row in found if row["source"] is None and broker_key(row["name"]) is None]
    rows = [row for row in found if row["name"] not in unknown]
    for row in rows:
        if broker_key(row["name"]) is None:
            note(_no_such_config(row["name"]))
    emit(rows, output_of(context, output), configs_table)
    if unknown:
        raise RefusedError("; ".join(map(_not_set, dict.fromkeys(unknown))))


@app.command("list")
def list_configs(
    context: typer.Context,
    broker: ListedBrokerOption = None,
    timeout_ms: TimeoutOption = 10_000,
    output: OutputOption = None,
    bootstrap: BootstrapOption = None,
) -> None:
    """List every config that is set: the cluster's and every broker's, or one broker's."""
    wanted = None if broker is None else resource_name(broker)
    rows = list_all(bootstrap_of(context, bootstrap), timeout_ms, wanted)
    of_whom = "" if wanted is None else f" for {entity_text(wanted)}"
    emit(rows, output_of(context, output), configs_table, nothing=f"no config is set{of_whom}")


def change(
    bootstrap: Sequence[Endpoint], resource: str, values: Mapping[str, str | None], timeout_ms: int
) -> Row:
    """Set (text) or delete (None) configs of one resource; the schema of `set` and `delete`."""
    configs = tuple(
        IncrementalAlterConfigsRequestAlterableConfig(
            name=name,
            config_operation=ConfigOperation.DELETE if value is None else ConfigOperation.SET,
            value=value,
        )
        for name, value in values.items()
    )
    target = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=ResourceType.BROKER, resource_name=resource, configs=configs
    )
    request = IncrementalAlterConfigsRequest(resources=(target,))

    def ask(leader: Connection | KafkaConnection) -> None:
        try:
            response = leader.call(
                request, IncrementalAlterConfigsResponse, min(timeout_ms, REQUEST_TIMEOUT_MS)
            )
        except LostError as error:
            raise _unknown_outcome(resource, str(error)) from error
        if not response.responses:
            raise RefusedError(f"{leader.endpoint}: it does not say what became of {entity_text(resource)}")
        for outcome in response.responses:
            if outcome.error_code == ErrorCode.REQUEST_TIMED_OUT:
                raise _unknown_outcome(resource, f"{leader.endpoint}: it was not committed in time")
            raise_for(outcome.error_code, outcome.error_message, f"{entity_text(resource)} is left as it was")

    ask_either(bootstrap, ask, timeout_ms, changes=True)
    return {
        "entity": entity_text(resource),
        "changes": [
            {"name": name, "value": value and redacted_config_value(ResourceType.BROKER, name, value)}
            for name, value in values.items()
        ],
    }


def _unknown_outcome(resource: str, why: str) -> UnknownOutcomeError:
    unknown = f"whether the change of {entity_text(resource)} was made is unknown"
    return UnknownOutcomeError(f"{unknown}: {why}; read the values before repeating it")


def describe(
    bootstrap: Sequence[Endpoint], resource: str, names: Sequence[str], timeout_ms: int
) -> list[Row]:
    """Some configs of one resource, in the order asked; the schema of `get`."""

    def ask(leader: Connection | KafkaConnection) -> list[Row]:
        return _describe(leader, resource, names, min(timeout_ms, REQUEST_TIMEOUT_MS))

    return ask_either(bootstrap, ask, timeout_ms, changes=False)


def _describe(
    leader: Connection | KafkaConnection, resource: str, names: Sequence[str], timeout_ms: int
) -> list[Row]:
    """As many in one response as fit: half of them at a time where all are too many."""
    half = len(names) // 2
    if half and sum(map(len, names)) > _REQUEST_CHARACTERS_MAX:
        return _halves(leader, resource, names, timeout_ms)
    target = DescribeConfigsRequestDescribeConfigsResource(
        resource_type=ResourceType.BROKER, resource_name=resource, configuration_keys=tuple(names)
    )
    response = leader.call(DescribeConfigsRequest(resources=(target,)), DescribeConfigsResponse, timeout_ms)
    found: dict[str, Row] = {}
    for result in response.results:
        if half and result.error_code == ErrorCode.POLICY_VIOLATION:
            return _halves(leader, resource, names, timeout_ms)
        raise_for(result.error_code, result.error_message, f"{entity_text(resource)} cannot be read")
        for config in result.configs:
            source = SOURCES.get(config.config_source)
            found[config.name] = _row(resource, config.name, config.value, source)
    return [found.get(name) or _row(resource, name, None, None) for name in names]


def _halves(
    leader: Connection | KafkaConnection, resource: str, names: Sequence[str], timeout_ms: int
) -> list[Row]:
    half = len(names) // 2
    return [
        *_describe(leader, resource, names[:half], timeout_ms),
        *_describe(leader, resource, names[half:], timeout_ms),
    ]


def list_all(bootstrap: Sequence[Endpoint], timeout_ms: int, resource: str | None = None) -> list[Row]:
    """Every config of the cluster default and of brokers, or of one of these; the schema of `list`."""
    begin = None if resource is None else ListConfigsRequestCursor(ResourceType.BROKER, resource, "")
    entries: list[ListConfigsResponseEntry] = []

    def take(request: ListConfigsRequest, response: ListConfigsResponse) -> ListConfigsRequest | None:
        mine = [entry for entry in response.entries if resource in (None, entry.resource_name)]
        entries.extend(mine)
        following = response.next_cursor
        if following is None or len(mine) < len(response.entries):
            return None
        cursor = ListConfigsRequestCursor(following.resource_type, following.resource_name, following.name)
        return replace(request, cursor=cursor)

    first = ListConfigsRequest(resource_type=ResourceType.BROKER, cursor=begin)
    listing = Listing("configs that are set", ListConfigsResponse, take, _comes_after)
    ask_pages(bootstrap, first, listing, timeout_ms)
    return [_listed(entry) for entry in sorted(entries, key=_entry_order)]


def _comes_after(following: ListConfigsRequest, request: ListConfigsRequest) -> bool:
    return request.cursor is None or _place(following.cursor) > _place(request.cursor)


def _place(cursor: ListConfigsRequestCursor | None) -> tuple[int, str, str]:
    return (-1, "", "") if cursor is None else (cursor.resource_type, cursor.resource_name, cursor.name)


def check_names(names: Sequence[str], force: bool) -> None:
    """Refuse names that no broker would ever read.

    One with a line break cannot be mistyped: it may be deleted where an older kraftd has set it, and nowhere
    else does the leader take it, `--force` or not.

    Raises:
        UsageError: Kafka 4.3 does not define one of them.
    """
    unknown = [name for name in names if broker_key(name) is None and not has_control_characters(name)]
    if not unknown or force:
        return
    raise UsageError(f"{_no_such_config(unknown[0])}; --force takes it as it is")


def _no_such_config(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, list(broker_names()), n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    return f"Kafka 4.3 defines no broker config {name}{hint}"


def _not_set(name: str) -> str:
    return f"{_no_such_config(name)}, and none of that name is set"


def resource_name(broker: int | None) -> str:
    """The name that Kafka gives the resource."""
    return CLUSTER_DEFAULT if broker is None else str(broker)


def entity_text(resource: str) -> str:
    """The resource for a person."""
    return "cluster" if resource == CLUSTER_DEFAULT else f"broker {resource}"


def change_table(done: Row) -> str:
    """The line that `kafka-configs` ends with."""
    if done["entity"] == "cluster":
        return "Completed updating default config for brokers in the cluster."
    return f"Completed updating config for {done['entity']}."


def configs_table(rows: Sequence[Row]) -> str:
    """One row a config."""
    if not rows:
        return ""
    cells = [(row["entity"], row["name"], _value_text(row), row["source"] or "-") for row in rows]
    return columns(("Entity", "Name", "Value", "Source"), cells)


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    name = name.strip(" ")
    if not equals or not name:
        raise UsageError(f"{text!r} sets nothing; write NAME=VALUE")
    return name, value


def _entry_order(entry: ListConfigsResponseEntry) -> tuple[int, str, str]:
    name = entry.resource_name
    return (-1 if name == CLUSTER_DEFAULT else int(name) if name.isdecimal() else 1 << 31, name, entry.name)


def _listed(entry: ListConfigsResponseEntry) -> Row:
    source = SOURCES[3 if entry.resource_name == CLUSTER_DEFAULT else 2]
    return _row(entry.resource_name, entry.name, entry.value, source)


def _row(resource: str, name: str, value: str | None, source: str | None) -> Row:
    """A row as it may leave: nodes tell no value that may be a secret, and if one did, this would not."""
    is_secret = is_secret_config(ResourceType.BROKER, name)
    return {
        "entity": entity_text(resource),
        "name": name,
        "value": None if is_secret else value,
        "source": source,
        "sensitive": is_secret,
    }


def _value_text(row: Row) -> str:
    if row["source"] is None:
        return "(none)"
    if row["value"] is None:
        return REDACTED if row["sensitive"] and row["source"] != DEFAULT else "(none)"
    return str(row["value"])
