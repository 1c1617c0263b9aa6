"""Which config names there are, where each may be set, and which values each takes.

`broker_key` and `topic_key` look a name up, listener prefixes included; `ConfigKey.complaint` says what is
wrong with a value; `topic_synonyms` are the broker's configs that stand in for a topic's. What a request may
do with them is decided in `kraftd.controller.configs`.

Follows: Kafka 4.3's tables (`config_table`). As in Kafka, a name that is in no table is allowed: plug-ins
read their own.
"""

import re
from collections.abc import Iterator, Mapping
from enum import Enum, IntEnum
from functools import cache

import msgspec

from kraftd.metadata import config_table
from kraftd.metadata.java_numbers import double_in, whole_number_in


class ResourceType(IntEnum):
    """What a config belongs to: Kafka's codes in ConfigRecord and in the config requests."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigOperation(IntEnum):
    """What a config request does to a value: Kafka's codes of AlterConfigOp."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


CLUSTER_DEFAULT = ""
"""The name of the BROKER resource that stands for all brokers."""

MIN_IN_SYNC_REPLICAS = "min.insync.replicas"
UNCLEAN_LEADER_ELECTION = "unclean.leader.election.enable"


class ConfigType(IntEnum):
    """How a value is written: Kafka's codes in DescribeConfigs."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Update(Enum):
    """Where a value can be changed while a broker runs."""

    CLUSTER = "cluster"
    """The cluster default or a single broker."""
    BROKER = "broker"
    """A single broker only."""
    FIXED = "fixed"
    """Nowhere: only in the broker's file, with a restart."""


class ConfigKey(msgspec.Struct, frozen=True):
    """A config name that Kafka defines. `default` is as Kafka prints it, None if there is none."""

    name: str
    type: ConfigType
    default: str | None
    update: Update
    low: float | None = None
    high: float | None = None
    allowed: frozenset[str] = frozenset()

    @property
    def is_list(self) -> bool:
        """Whether values can be appended and subtracted."""
        return self.type is ConfigType.LIST

    @property
    def is_sensitive(self) -> bool:
        """Whether a value must never be shown."""
        return self.type is ConfigType.PASSWORD

    def complaint(self, value: str) -> str | None:
        """What is wrong with `value`, in words that follow the name; None if nothing is."""
        value = trimmed(value)
        if self.type in _INTEGER_BITS:
            return self._integer_complaint(value)
        if self.type is ConfigType.DOUBLE:
            number = double_in(value)
            return f"must be a number, not {value!r}" if number is None else self._range_complaint(number)
        if self.type is ConfigType.BOOLEAN and value.lower() not in ("true", "false"):
            return f"must be true or false, not {value!r}"
        if self.allowed:
            words = split_list(value) if self.is_list else [value]
            strangers = [word for word in words if word not in self.allowed]
            if strangers:
                return f"must be {_one_of(self.allowed)}, not {strangers[0]!r}"
        return None

    def _integer_complaint(self, value: str) -> str | None:
        number = whole_number_in(value)
        if number is None:
            return f"must be a whole number, not {value!r}"
        if self.allowed and str(number) not in self.allowed:
            return f"must be {_one_of(self.allowed)}, not {value}"
        bits = _INTEGER_BITS[self.type]
        if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
            return f"must fit {bits} bits, and {value} does not"
        return self._range_complaint(number)

    def _range_complaint(self, number: float) -> str | None:
        if self.low is not None and number < self.low:
            return f"must be at least {self.low}, not {number}"
        if self.high is not None and number > self.high:
            return f"must be at most {self.high}, not {number}"
        return None


class Synonym(msgspec.Struct, frozen=True):
    """A broker's config that stands in for a topic's where that is not set."""

    name: str
    factor: int = 1
    """One of its units is so many of the topic's config."""

    def convert(self, value: str) -> str:
        """Its value as one of the topic's config. As in Kafka, hours that are no number are none."""
        if self.factor == 1:
            return value
        try:
            return str(whole_number(value) * self.factor)
        except ValueError:
            return "0"


_INTEGER_BITS = {ConfigType.INT: 32, ConfigType.SHORT: 16, ConfigType.LONG: 64}


def _one_of(words: frozenset[str]) -> str:
    return "one of " + ", ".join(sorted(words))


_TRIMMED = "".join(map(chr, range(ord(" ") + 1)))
"""What Java's `String.trim` takes away."""
_BESIDE_COMMAS = " \t\n\v\f\r"
"""What Java's patterns call white space, unless told otherwise."""


def trimmed(value: str) -> str:
    """A value without the blanks around it that Kafka takes away.

    Python's `strip` takes more. If `retention.ms` were "1000" with a no-break space before it, controllers
    would read 1000, and each broker with a replica would end as it loads its logs: Kafka reads no number.
    """
    return value.strip(_TRIMMED)


def whole_number(value: str) -> int:
    """The value of a config that is a whole number.

    Raises:
        ValueError: It is none.
    """
    number = whole_number_in(trimmed(value))
    if number is None:
        raise ValueError(value)
    return number


def split_list(value: str) -> list[str]:
    """The items of a list value; an empty value has none."""
    items = trimmed(value)
    return [item.strip(_BESIDE_COMMAS) for item in items.split(",")] if items else []


def split_at_commas(value: str) -> list[str]:
    """The items of a list value with their blanks, which APPEND and SUBTRACT compare, as Java's `split` does.

    `split_list` reads a value; here "compact, delete" holds " delete": a "delete" cannot be taken from it.
    Empty items at the end are none; an empty value is one empty item.
    """
    if "," not in value:
        return [value]
    items = value.rstrip(",")
    return items.split(",") if items else []


def broker_key(name: str) -> ConfigKey | None:
    """What Kafka knows of a broker's config, or None for a name it does not define.

    `listener.name.<listener>.<name>` and `listener.name.<listener>.<mechanism>.<name>` are the config
    `<name>` of one listener.
    """
    key = _broker_keys().get(name)
    if key is None and name.startswith(_LISTENER_PREFIX):
        return _listener_key(name)
    return key


def topic_key(name: str) -> ConfigKey | None:
    """What Kafka knows of a topic's config, or None for a name it does not define."""
    return _topic_keys().get(name)


def group_key(name: str) -> ConfigKey | None:
    """What Kafka knows of a group's config, or None for a name it does not define."""
    return _group_keys().get(name)


def client_metrics_key(name: str) -> ConfigKey | None:
    """What Kafka knows of a client metrics subscription's config, or None for a name it does not define."""
    return _client_metrics_keys().get(name)


def topic_synonyms(name: str) -> tuple[Synonym, ...]:
    """The broker's configs that stand in for a topic's, the one that goes first, first."""
    return _topic_synonyms().get(name, ())


def stands_in_for_topics(name: str) -> bool:
    """Whether a broker's config is the value of topics that have none of their own."""
    return name in _names_of_synonyms()


def topic_names() -> Iterator[str]:
    """Every name of a topic's config, sorted."""
    return iter(sorted(_topic_keys()))


def group_names() -> Iterator[str]:
    """Every name of a group's config, sorted."""
    return iter(sorted(_group_keys()))


def client_metrics_names() -> Iterator[str]:
    """Every name of a client metrics subscription's config, sorted."""
    return iter(sorted(_client_metrics_keys()))


def broker_names() -> Iterator[str]:
    """Every name of a broker's config, sorted."""
    return iter(sorted(_broker_keys()))


def needs_listener_prefix(name: str) -> bool:
    """Whether a broker takes this name dynamically only with a listener's prefix (keys and trust of TLS)."""
    return name in _ONLY_PER_LISTENER


_LISTENER_PREFIX = "listener.name."
_LISTENER_NAME = re.compile(r"listener\.name\.[^.]+\.(.+)")
_PER_MECHANISM = (
    "connections.max.reauth.ms",
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
)
_ONLY_PER_LISTENER = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)


def _listener_key(name: str) -> ConfigKey | None:
    match = _LISTENER_NAME.fullmatch(name)
    if match is None:
        return None
    base = match[1]
    mechanism_free = next((known for known in _PER_MECHANISM if base.endswith("." + known)), base)
    return _broker_keys().get(mechanism_free)


@cache
def _broker_keys() -> Mapping[str, ConfigKey]:
    return _read_table(config_table.BROKER)


@cache
def _topic_keys() -> Mapping[str, ConfigKey]:
    return _read_table(config_table.TOPIC)


@cache
def _group_keys() -> Mapping[str, ConfigKey]:
    return _read_table(config_table.GROUP)


@cache
def _client_metrics_keys() -> Mapping[str, ConfigKey]:
    return _read_table(config_table.CLIENT_METRICS)


@cache
def _topic_synonyms() -> Mapping[str, tuple[Synonym, ...]]:
    rows = (line.split("|") for line in config_table.TOPIC_SYNONYMS.splitlines())
    return {name: tuple(map(_read_synonym, synonyms)) for name, *synonyms in rows}


@cache
def _names_of_synonyms() -> frozenset[str]:
    return frozenset(synonym.name for synonyms in _topic_synonyms().values() for synonym in synonyms)


def _read_synonym(text: str) -> Synonym:
    name, _, factor = text.partition("=")
    return Synonym(name, int(factor or 1))


def _read_table(table: str) -> dict[str, ConfigKey]:
    return {key.name: key for key in map(_read_row, table.splitlines())}


def _read_row(line: str) -> ConfigKey:
    name, kind, default, update, *rest = line.split("|")
    values = rest[0] if rest else ""
    low: float | None = None
    high: float | None = None
    allowed: frozenset[str] = frozenset()
    if ".." in values:
        first, last = values.split("..")
        low = _read_number(first)
        high = _read_number(last)
    elif values:
        allowed = frozenset(values.split(","))
    return ConfigKey(
        name=name,
        type=ConfigType[kind.upper()],
        default=None if default == "~" else default,
        update=Update(update),
        low=low,
        high=high,
        allowed=allowed,
    )


def _read_number(text: str) -> float | None:
    if not text:
        return None
    return float(text) if "." in text else int(text)
