"""What did the operator ask for? Kafka's properties, checked, as one frozen value.

Entered through `load_config`, which reads a properties file, lets `KRAFTD_…` environment variables
override single keys, and reports *all* mistakes in one `ConfigError`. Nothing is opened, resolved or
bound here; only the modules of policies are imported. An unknown key is kept in `Config.unknown_keys`, for
one warning at the start.

It is long because every key is read, defaulted and checked here, so that all mistakes are told at once.

Follows: Kafka's key names, defaults and listener syntax, so that a Kafka controller's file works.
Differs: `controller.quorum.append.linger.ms` defaults to 0, because group commit does the batching; keys
that begin with `kraftd.` are ours; any key may come from the environment (`node.id` is `KRAFTD_NODE_ID`).
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import javaproperties
import msgspec

from kraftd.controller.authorizer import Authorizer
from kraftd.controller.context import ControllerSettings
from kraftd.controller.policies import Policies
from kraftd.controller.policy_checks import ALTER_CONFIG_POLICY, CREATE_TOPIC_POLICY
from kraftd.controller.token_secret import TokenSecret, TokenSettings
from kraftd.errors import ConfigError
from kraftd.metadata.config_schema import broker_key, broker_names, stands_in_for_topics
from kraftd.runtime.config_values import (
    UNSPECIFIED_HOSTS,
    dialable,
    parse_authorizer,
    parse_boolean,
    parse_http,
    parse_integer,
    parse_listeners,
    parse_servers,
    parse_super_users,
    parse_voters,
    split,
)
from kraftd.runtime.policy_loader import load_policy
from kraftd.types import NO_NODE, Endpoint, NodeId

ENVIRONMENT_PREFIX = "KRAFTD_"
_OTHER_VARIABLES = frozenset({"KRAFTD_BOOTSTRAP", "KRAFTD_KLOGS"})
"""Variables of our tools that look like keys and are none."""

HIDDEN = "[hidden]"
"""What stands for a password, as in Kafka."""

_JAVA_BLANKS = "".join(map(chr, range(0x21)))
_INT16_MAX = 2**15 - 1
_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1


class QuorumTiming(msgspec.Struct, frozen=True):
    """The clocks of the quorum, in milliseconds."""

    election_timeout_ms: int
    fetch_timeout_ms: int
    election_backoff_max_ms: int
    append_linger_ms: int
    request_timeout_ms: int
    retry_backoff_ms: int
    observer_linger_ms: int = 5


class LogLimits(msgspec.Struct, frozen=True):
    """When the metadata log rolls, when a snapshot of it is made, and how much of both is kept."""

    segment_bytes: int
    segment_ms: int
    snapshot_bytes: int = 20 << 20
    """Of batches between two snapshots."""
    snapshot_interval_ms: int = 3_600_000
    """Between two snapshots, by the timestamps of batches; 0 for any time."""
    retention_bytes: int = 100 << 20
    """What log and snapshots may hold together; negative for any number."""
    retention_ms: int = 604_800_000
    """How old a snapshot becomes that is not the newest; negative for any age."""


class Config(msgspec.Struct, frozen=True):
    """A checked configuration. Paths are as written; hosts are resolved when they are used."""

    node_id: NodeId
    voters: Mapping[NodeId, Endpoint]
    """The static voters; empty for a node that finds the quorum by `bootstrap_servers`."""
    bootstrap_servers: Sequence[Endpoint]
    """Where an observer finds the quorum; a static voter knows it and asks nobody here."""
    bind: Endpoint
    """Where to listen; an empty host means every address."""
    advertised: Endpoint
    """Where the others find us. Port 0 stands for the port that the kernel chose for `bind`."""
    log_dirs: Sequence[Path]
    metadata_dir: Path
    timing: QuorumTiming
    log: LogLimits
    idle_interval_ms: int
    request_timeout_ms: int
    max_idle_ms: int
    """For how long a connection of a client or an observer may ask nothing."""
    http: Endpoint | None
    """Where the pages are, with a host: that of this machine alone unless another one is written."""
    shutdown_timeout_ms: int
    metrics_interval_ms: int
    accumulator_bytes: int
    """How many bytes of records a leader accepts before they are committed, written or still queued."""
    unknown_keys: Sequence[str]
    request_bytes_max: int = 100 << 20
    """The longest request of Kafka's wire; the server's own bound is lower than this default of Kafka's."""
    snapshot_chunk_bytes: int = 1 << 20
    settings: ControllerSettings = ControllerSettings()
    """What the controller decides by."""


def load_config(path: Path, env: Mapping[str, str]) -> Config:
    """Read and check a configuration file, with overrides from `env`.

    Each byte is a character (ISO-8859-1), as for Java, whatever the machine's encoding: what is no ASCII of a
    password is the same to kraftd and to Kafka's brokers, in whichever encoding it was written.

    Raises:
        ConfigError: The file cannot be read, or holds mistakes; the text lists every one of them.
    """
    try:
        properties = javaproperties.loads(path.read_bytes().decode("iso-8859-1"))
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise ConfigError(f"cannot read the configuration {path}: {error}") from error
    return parse_config(properties, env, source=str(path))


def parse_config(properties: Mapping[str, str], env: Mapping[str, str], *, source: str = "") -> Config:
    """Check already read properties. `source` only names them in the error.

    Raises:
        ConfigError: As for `load_config`.
    """
    values, unknown = _with_environment(properties, env)
    reader = _Reader(values)
    config = _build(reader, unknown)
    if reader.mistakes:
        where = f" in {source}" if source else ""
        count = len(reader.mistakes)
        head = f"{count} mistake{'s' if count > 1 else ''} in the configuration{where}:"
        raise ConfigError("\n".join([head, *(f"  - {mistake}" for mistake in reader.mistakes)]))
    return config


def environment_name(key: str) -> str:
    """The environment variable that overrides `key`."""
    return ENVIRONMENT_PREFIX + key.upper().replace(".", "_").replace("-", "_")


Parser: TypeAlias = Callable[[str], Any]


class _Reader:
    """Reads keys one by one and collects what is wrong instead of stopping at the first mistake."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self.mistakes: list[str] = []
        self._values = values

    def text(self, key: str) -> str:
        """The value as written; empty when absent."""
        return self._values.get(key, "").strip()

    def password(self, key: str) -> str:
        """The value without the blanks around it that Java trims off; empty when absent."""
        return self._values.get(key, "").strip(_JAVA_BLANKS)

    def parse(self, key: str, parser: Parser, default: Any) -> Any:
        """The parsed value, or `default` when the key is absent, empty or wrong. No boolean is empty."""
        text = self.text(key)
        if not text and not (parser is parse_boolean and key in self._values):
            return default
        try:
            return parser(text)
        except ValueError as error:
            self.mistakes.append(f"{key}: {error}")
            return default

    def of_brokers(self) -> Mapping[str, str]:
        """What is set of the keys that Kafka's brokers have, as written, those that kraftd does not use too.

        A value that its key cannot have is a mistake, as it is in Kafka. Passwords are left out: what is here
        can be shown.
        """
        found = {}
        for name, value in self._values.items():
            key = broker_key(name)
            if key is None:
                continue
            found[name] = HIDDEN if key.is_sensitive else value
            complaint = key.complaint(value) if name not in KEYS else None
            if complaint is not None:
                self.mistakes.append(f"{name}: {complaint}")
        return found

    def integer(self, key: str) -> int:
        """An integer within the bounds of `INTEGERS`."""
        default, low, high = INTEGERS[key]
        value: int = self.parse(key, lambda text: parse_integer(text, low, high), default)
        return value


INTEGERS: Mapping[str, tuple[int, int, int]] = {
    "controller.quorum.election.timeout.ms": (1_000, 1, _INT32_MAX),
    "controller.quorum.fetch.timeout.ms": (2_000, 1, _INT32_MAX),
    "controller.quorum.fetch.snapshot.max.bytes": (1 << 20, 1, _INT32_MAX),
    "controller.quorum.election.backoff.max.ms": (1_000, 0, _INT32_MAX),
    "controller.quorum.append.linger.ms": (0, 0, _INT32_MAX),
    "controller.quorum.request.timeout.ms": (2_000, 1, _INT32_MAX),
    "controller.quorum.retry.backoff.ms": (20, 0, _INT32_MAX),
    "metadata.log.segment.bytes": (1 << 30, 1, _INT32_MAX),
    "metadata.log.segment.min.bytes": (8 << 20, 1, _INT32_MAX),
    "metadata.log.segment.ms": (604_800_000, 1, _INT64_MAX),
    "metadata.max.retention.bytes": (100 << 20, -_INT64_MAX, _INT64_MAX),
    "metadata.max.retention.ms": (604_800_000, -_INT64_MAX, _INT64_MAX),
    "metadata.log.max.record.bytes.between.snapshots": (20 << 20, 1, _INT64_MAX),
    "metadata.log.max.snapshot.interval.ms": (3_600_000, 0, _INT64_MAX),
    "metadata.max.idle.interval.ms": (500, 0, _INT32_MAX),
    "request.timeout.ms": (30_000, 1, _INT32_MAX),
    "connections.max.idle.ms": (600_000, 1, _INT64_MAX),
    "socket.request.max.bytes": (100 << 20, 1, _INT32_MAX),
    "broker.session.timeout.ms": (9_000, 1, _INT32_MAX),
    "broker.heartbeat.interval.ms": (2_000, 1, _INT32_MAX),
    "num.partitions": (1, 1, _INT32_MAX),
    "default.replication.factor": (1, 1, _INT16_MAX),
    "min.insync.replicas": (1, 1, _INT32_MAX),
    "unclean.leader.election.interval.ms": (300_000, 1, _INT64_MAX),
    "leader.imbalance.check.interval.seconds": (300, 1, _INT64_MAX),
    "delegation.token.max.lifetime.ms": (604_800_000, 1, _INT64_MAX),
    "delegation.token.expiry.time.ms": (86_400_000, 1, _INT64_MAX),
    "delegation.token.expiry.check.interval.ms": (3_600_000, 1, _INT64_MAX),
    "controller.quota.window.num": (11, 1, _INT32_MAX),
    "controller.quota.window.size.seconds": (1, 1, _INT32_MAX),
    "kraftd.shutdown.timeout.ms": (5_000, 0, _INT32_MAX),
    "kraftd.metrics.interval.ms": (10_000, 0, _INT32_MAX),
    "kraftd.accumulator.bytes": (64 << 20, 8 << 20, _INT32_MAX),
    "kraftd.observer.linger.ms": (5, 0, _INT32_MAX),
}
"""Every key with an integer: its default, the lowest and the highest value."""
TEXTS = frozenset(
    {
        "process.roles",
        "node.id",
        "controller.quorum.voters",
        "controller.quorum.bootstrap.servers",
        "controller.listener.names",
        "listeners",
        "advertised.listeners",
        "listener.security.protocol.map",
        "log.dir",
        "log.dirs",
        "metadata.log.dir",
        "unclean.leader.election.enable",
        "auto.leader.rebalance.enable",
        "delete.topic.enable",
        CREATE_TOPIC_POLICY,
        ALTER_CONFIG_POLICY,
        "authorizer.class.name",
        "super.users",
        "allow.everyone.if.no.acl.found",
        "delegation.token.secret.key",
        "kraftd.http.listener",
    }
)
KEYS = frozenset(INTEGERS) | TEXTS
"""Every key that kraftd reads."""

_IN_PLACE_OF: Mapping[str, str] = {
    "metadata.snapshot.min.changed_records.ratio": "metadata.log.max.record.bytes.between.snapshots",
    "metadata.snapshot.min.new_records.size": "metadata.log.max.record.bytes.between.snapshots",
}
"""Keys of KIP-630 that articles repeat and no release of Kafka has had, and what Kafka has instead."""


def keys_in_place_of(unknown: Sequence[str]) -> dict[str, str]:
    """The keys that have taken the place of those among unknown ones, by the names as they were written."""
    by_name = {name: new for old, new in _IN_PLACE_OF.items() for name in (old, environment_name(old))}
    return {name: by_name[name] for name in unknown if name in by_name}


def _with_environment(
    properties: Mapping[str, str], env: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """The values after overrides, and the names that have no effect here."""
    by_variable = {environment_name(key): key for key in (*broker_names(), *KEYS)}
    values = dict(properties)
    unknown = [key for key in properties if not _has_effect(key)]
    for name, value in env.items():
        if not name.startswith(ENVIRONMENT_PREFIX) or name in _OTHER_VARIABLES:
            continue
        key = by_variable.get(name)
        if key is not None:
            values[key] = value
        if key is None or not _has_effect(key):
            unknown.append(name)
    return values, sorted(unknown)


def _has_effect(key: str) -> bool:
    return key in KEYS or stands_in_for_topics(key)


def _build(reader: _Reader, unknown: Sequence[str]) -> Config:
    node_id = _read_node_id(reader)
    voters: dict[NodeId, Endpoint] = reader.parse("controller.quorum.voters", parse_voters, {})
    servers: list[Endpoint] = reader.parse("controller.quorum.bootstrap.servers", parse_servers, [])
    _check_quorum(reader, node_id, voters)
    bind, advertised = _read_listeners(reader, voters.get(node_id))
    log_dirs, metadata_dir = _read_directories(reader)
    return Config(
        node_id=node_id,
        voters=voters,
        bootstrap_servers=servers,
        bind=bind,
        advertised=advertised,
        log_dirs=log_dirs,
        metadata_dir=metadata_dir,
        timing=QuorumTiming(
            election_timeout_ms=reader.integer("controller.quorum.election.timeout.ms"),
            fetch_timeout_ms=reader.integer("controller.quorum.fetch.timeout.ms"),
            election_backoff_max_ms=reader.integer("controller.quorum.election.backoff.max.ms"),
            append_linger_ms=reader.integer("controller.quorum.append.linger.ms"),
            request_timeout_ms=reader.integer("controller.quorum.request.timeout.ms"),
            retry_backoff_ms=reader.integer("controller.quorum.retry.backoff.ms"),
            observer_linger_ms=reader.integer("kraftd.observer.linger.ms"),
        ),
        log=_read_log_limits(reader),
        idle_interval_ms=reader.integer("metadata.max.idle.interval.ms"),
        request_timeout_ms=reader.integer("request.timeout.ms"),
        max_idle_ms=reader.integer("connections.max.idle.ms"),
        request_bytes_max=reader.integer("socket.request.max.bytes"),
        settings=_read_settings(reader),
        http=reader.parse("kraftd.http.listener", parse_http, None),
        shutdown_timeout_ms=reader.integer("kraftd.shutdown.timeout.ms"),
        metrics_interval_ms=reader.integer("kraftd.metrics.interval.ms"),
        accumulator_bytes=reader.integer("kraftd.accumulator.bytes"),
        snapshot_chunk_bytes=reader.integer("controller.quorum.fetch.snapshot.max.bytes"),
        unknown_keys=unknown,
    )


def _read_settings(reader: _Reader) -> ControllerSettings:
    session_ms = reader.integer("broker.session.timeout.ms")
    heartbeat_ms = reader.integer("broker.heartbeat.interval.ms")
    if session_ms <= heartbeat_ms:
        reader.mistakes.append(
            f"broker.session.timeout.ms: {session_ms} is not above {heartbeat_ms}, "
            "broker.heartbeat.interval.ms: brokers would be fenced between two heartbeats"
        )
    return ControllerSettings(
        num_partitions=reader.integer("num.partitions"),
        default_replication_factor=reader.integer("default.replication.factor"),
        min_insync_replicas=reader.integer("min.insync.replicas"),
        unclean_leader_election=reader.parse("unclean.leader.election.enable", parse_boolean, default=False),
        unclean_leader_election_interval_ms=reader.integer("unclean.leader.election.interval.ms"),
        mutation_window_s=reader.integer("controller.quota.window.num")
        * reader.integer("controller.quota.window.size.seconds"),
        delete_topic=reader.parse("delete.topic.enable", parse_boolean, default=True),
        auto_leader_rebalance=reader.parse("auto.leader.rebalance.enable", parse_boolean, default=True),
        leader_imbalance_check_interval_seconds=reader.integer("leader.imbalance.check.interval.seconds"),
        broker_session_timeout_ms=session_ms,
        broker_heartbeat_interval_ms=heartbeat_ms,
        authorizer=_read_authorizer(reader),
        tokens=_read_tokens(reader),
        policies=Policies(
            create_topic=reader.parse(CREATE_TOPIC_POLICY, load_policy, None),
            alter_config=reader.parse(ALTER_CONFIG_POLICY, load_policy, None),
        ),
        static_configs=reader.of_brokers(),
    )


def _read_tokens(reader: _Reader) -> TokenSettings | None:
    """How long delegation tokens live, if there is a secret to make them with."""
    max_lifetime_ms = reader.integer("delegation.token.max.lifetime.ms")
    expiry_time_ms = reader.integer("delegation.token.expiry.time.ms")
    check_interval_ms = reader.integer("delegation.token.expiry.check.interval.ms")
    secret = reader.password("delegation.token.secret.key")
    if not secret:
        return None
    return TokenSettings(TokenSecret(secret), max_lifetime_ms, expiry_time_ms, check_interval_ms)


def _read_authorizer(reader: _Reader) -> Authorizer | None:
    """What decides who may do what; its other keys are checked even if there is none."""
    is_there = reader.parse("authorizer.class.name", parse_authorizer, default=False)
    super_users = reader.parse("super.users", parse_super_users, frozenset())
    allow_everyone = reader.parse("allow.everyone.if.no.acl.found", parse_boolean, default=False)
    return Authorizer(super_users, allow_everyone) if is_there else None


def _read_node_id(reader: _Reader) -> NodeId:
    def parser(text: str) -> int:
        if not text.isascii() or not text.isdigit() or int(text) > _INT32_MAX:
            raise ValueError(f"{text!r} is not a node id: an integer from 0 on")
        return int(text)

    if not reader.text("node.id"):
        reader.mistakes.append("node.id: missing; every node needs an id of its own")
    roles = split(reader.text("process.roles"))
    if roles != ["controller"]:
        reader.mistakes.append(
            f"process.roles: must be 'controller', not {reader.text('process.roles')!r}: kraftd is a "
            "controller, and Kafka's brokers are processes of their own, with controller.quorum.voters"
        )
    node_id: NodeId = reader.parse("node.id", parser, NO_NODE)
    return node_id


def _check_quorum(reader: _Reader, node_id: NodeId, voters: Mapping[NodeId, Endpoint]) -> None:
    has_voters = bool(reader.text("controller.quorum.voters"))
    if not has_voters and not reader.text("controller.quorum.bootstrap.servers"):
        reader.mistakes.append(
            "controller.quorum.voters or controller.quorum.bootstrap.servers: one of them must be set"
        )
    if voters and node_id != NO_NODE and node_id not in voters:
        named = ", ".join(str(voter) for voter in sorted(voters))
        reader.mistakes.append(
            f"node.id: {node_id} is not among the voters ({named}) of controller.quorum.voters"
        )


def _read_listeners(reader: _Reader, as_voter: Endpoint | None) -> tuple[Endpoint, Endpoint]:
    """Where to listen, and where the others find us; both with the name of the listener.

    Without `advertised.listeners` that is where we listen; if that is every address, as the voters have it.
    """
    names = [name.upper() for name in split(reader.text("controller.listener.names"))]
    if not names:
        reader.mistakes.append("controller.listener.names: missing; name the listener of the quorum")
        names = ["CONTROLLER"]
    nowhere = Endpoint("", 0, names[0])
    listeners: dict[str, Endpoint] = reader.parse("listeners", parse_listeners, {})
    if not reader.text("listeners"):
        reader.mistakes.append(f"listeners: missing; for example {names[0]}://:9093")
    bind = listeners.get(names[0])
    if bind is None:
        if listeners:
            reader.mistakes.append(f"listeners: {names[0]} of controller.listener.names is not among them")
        bind = nowhere
    advertised_by_name: dict[str, Endpoint] = reader.parse("advertised.listeners", parse_listeners, {})
    everywhere = not bind.host or bind.host in UNSPECIFIED_HOSTS
    default = as_voter if everywhere and as_voter is not None else bind
    advertised = advertised_by_name.get(names[0], Endpoint(default.host, default.port, names[0]))
    if names[0] in advertised_by_name:
        try:
            dialable(advertised)
        except ValueError as error:
            reader.mistakes.append(f"advertised.listeners: {error}")
    _check_protocols(reader, names[0])
    return bind, advertised


def _check_protocols(reader: _Reader, name: str) -> None:
    for entry in split(reader.text("listener.security.protocol.map")):
        listener, separator, protocol = entry.partition(":")
        if not separator:
            reader.mistakes.append(f"listener.security.protocol.map: {entry!r} is not NAME:PROTOCOL")
        elif listener.upper() == name and protocol.upper() != "PLAINTEXT":
            reader.mistakes.append(
                f"listener.security.protocol.map: {name} asks for {protocol}; only PLAINTEXT is spoken"
            )


def _read_directories(reader: _Reader) -> tuple[list[Path], Path]:
    log_dirs = [Path(part) for part in split(reader.text("log.dirs") or reader.text("log.dir"))]
    if not log_dirs:
        reader.mistakes.append("log.dirs: missing; name the directory that keeps the metadata log")
        log_dirs = [Path()]
    metadata_text = reader.text("metadata.log.dir")
    return log_dirs, Path(metadata_text) if metadata_text else log_dirs[0]


def _read_log_limits(reader: _Reader) -> LogLimits:
    segment_bytes = reader.integer("metadata.log.segment.bytes")
    segment_bytes_min = reader.integer("metadata.log.segment.min.bytes")
    if segment_bytes < segment_bytes_min:
        reader.mistakes.append(
            f"metadata.log.segment.bytes: {segment_bytes} is below {segment_bytes_min}, "
            "metadata.log.segment.min.bytes"
        )
    return LogLimits(
        segment_bytes=segment_bytes,
        segment_ms=reader.integer("metadata.log.segment.ms"),
        snapshot_bytes=reader.integer("metadata.log.max.record.bytes.between.snapshots"),
        snapshot_interval_ms=reader.integer("metadata.log.max.snapshot.interval.ms"),
        retention_bytes=reader.integer("metadata.max.retention.bytes"),
        retention_ms=reader.integer("metadata.max.retention.ms"),
    )
