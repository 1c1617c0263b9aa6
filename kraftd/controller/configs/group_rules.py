"""Which configs a consumer, share or streams group can have: names that Kafka defines, values within the
brokers' bounds, and a session that is longer than the interval of its heartbeats.

A group needs not be there: its configs wait for it.

Follows: Kafka's GroupConfig.validate.
"""

import re
from collections.abc import Mapping
from typing import Final

from kraftd.controller.configs.effective import BrokerConfigs
from kraftd.controller.refused import RefusedError
from kraftd.controller.response_room import quoted
from kraftd.errors import ErrorCode
from kraftd.metadata.config_schema import group_key, trimmed, whole_number

_BOUNDS: Final = (
    (
        "consumer.heartbeat.interval.ms",
        "consumer.min.heartbeat.interval.ms",
        "consumer.max.heartbeat.interval.ms",
    ),
    ("consumer.session.timeout.ms", "consumer.min.session.timeout.ms", "consumer.max.session.timeout.ms"),
    (
        "consumer.assignment.interval.ms",
        "consumer.min.assignment.interval.ms",
        "consumer.max.assignment.interval.ms",
    ),
    ("share.heartbeat.interval.ms", "share.min.heartbeat.interval.ms", "share.max.heartbeat.interval.ms"),
    ("share.session.timeout.ms", "share.min.session.timeout.ms", "share.max.session.timeout.ms"),
    (
        "share.record.lock.duration.ms",
        "share.min.record.lock.duration.ms",
        "share.max.record.lock.duration.ms",
    ),
    ("share.delivery.count.limit", "share.min.delivery.count.limit", "share.max.delivery.count.limit"),
    (
        "share.partition.max.record.locks",
        "share.min.partition.max.record.locks",
        "share.max.partition.max.record.locks",
    ),
    ("share.assignment.interval.ms", "share.min.assignment.interval.ms", "share.max.assignment.interval.ms"),
    (
        "streams.heartbeat.interval.ms",
        "streams.min.heartbeat.interval.ms",
        "streams.max.heartbeat.interval.ms",
    ),
    ("streams.session.timeout.ms", "streams.min.session.timeout.ms", "streams.max.session.timeout.ms"),
    ("streams.num.standby.replicas", None, "streams.max.standby.replicas"),
    (
        "streams.assignment.interval.ms",
        "streams.min.assignment.interval.ms",
        "streams.max.assignment.interval.ms",
    ),
)
"""A group's config, and the brokers' configs that bound it, without their prefix."""

_BROKER_PREFIX: Final = "group."
_KINDS: Final = ("consumer", "share", "streams")
_OFFSET_RESET: Final = "share.auto.offset.reset"
_NUMBER: Final = r"\+?(?>0*(?=[0-9]))([0-9]{1,19}+)"
"""It can be matched in one way only: were its zeros tried out, thirty thousand of them would take 0.6 s."""
_BY_DURATION: Final = re.compile(
    rf"by_duration:(?i:\+?P(?=.)(?:{_NUMBER}D)?"
    rf"(?:T(?=.)(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}(?:[.,][0-9]{{0,9}})?S)?)?)"
)
_SECONDS: Final = (86_400, 3_600, 60, 1)
"""Of a day, an hour, a minute and a second: the numbers of a duration in their order."""
_DURATION_S_MAX: Final = (1 << 63) - 1
"""The longest duration that Kafka can read."""


def check_group_name(name: str) -> None:
    """Refuse the default of all groups: there is none."""
    if not name:
        raise RefusedError(
            ErrorCode.INVALID_REQUEST, "A group has a name; there is no default for all groups."
        )


def check_group_configs(brokers: BrokerConfigs, _old: Mapping[str, str], new: Mapping[str, str]) -> None:
    """Refuse the configs that a group would have, by INVALID_CONFIG."""
    for name, value in new.items():
        key = group_key(name)
        if key is None:
            raise _invalid(f"Groups have no config {quoted(name)}.")
        complaint = key.complaint(value)
        if complaint is None and name == _OFFSET_RESET:
            complaint = _offset_reset_complaint(trimmed(value))
        if complaint is not None:
            raise _invalid(f"{name} {complaint}.")
    for name, low_name, high_name in _BOUNDS:
        number = _number(brokers, new, name)
        low = None if low_name is None else brokers.number(_BROKER_PREFIX + low_name)
        high = brokers.number(_BROKER_PREFIX + high_name)
        if low is not None and number < low:
            raise _invalid(f"{name} must be at least {low}, the brokers' {_BROKER_PREFIX}{low_name}.")
        if number > high:
            raise _invalid(f"{name} must be at most {high}, the brokers' {_BROKER_PREFIX}{high_name}.")
    for kind in _KINDS:
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if _number(brokers, new, session) <= _number(brokers, new, heartbeat):
            raise _invalid(f"{session} must be above {heartbeat}.")


def _number(brokers: BrokerConfigs, own: Mapping[str, str], name: str) -> int:
    return whole_number(own[name]) if name in own else brokers.number(_BROKER_PREFIX + name)


def _offset_reset_complaint(value: str) -> str | None:
    if value in ("earliest", "latest"):
        return None
    duration = _BY_DURATION.fullmatch(value)
    if duration is not None:
        numbers = [int(number or 0) for number in duration.groups()]
        if sum(number * unit for number, unit in zip(numbers, _SECONDS, strict=True)) <= _DURATION_S_MAX:
            return None
    return f"must be earliest, latest or by_duration:PnDTnHnMn.nS, not {quoted(value)}"


def _invalid(text: str) -> RefusedError:
    return RefusedError(ErrorCode.INVALID_CONFIG, text)
