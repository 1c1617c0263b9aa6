"""What the image keeps of a broker, and how a record changes it: the rules of registrations.

A broker is the RegisterBrokerRecord that would register it as it is now. In a canonical one the order of what
has none is fixed: listeners and features are by name, the last of a name counts, directories are sorted.

Follows: Kafka's ClusterDelta and BrokerRegistration.
Differs: a broker that is not registered, or not in that epoch, cannot be unregistered; Kafka's controller
refuses that too, its image does not look.
"""

from collections.abc import Sequence
from typing import Final, Protocol, TypeAlias, TypeVar

import msgspec

from kraftd.metadata.entities import Entities
from kraftd.metadata.impossible import ImpossibleRecordError
from kraftd.records.messages import BrokerRegistrationChangeRecord, RegisterBrokerRecord
from kraftd.types import NodeId, Offset, Uuid

Brokers: TypeAlias = Entities[NodeId, RegisterBrokerRecord]

_FENCED_AFTER: Final = {-1: False, 1: True}
"""What a change says of `fenced`; 0 says nothing."""

_SHUTDOWN_AFTER: Final = {1: True}


class _Named(Protocol):
    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=_Named)


def registered(record: RegisterBrokerRecord) -> RegisterBrokerRecord:
    """The canonical record of the broker that a record registers."""
    cordoned = record.cordoned_log_dirs
    return msgspec.structs.replace(
        record,
        end_points=_by_name(record.end_points),
        features=_by_name(record.features),
        log_dirs=_sorted(record.log_dirs),
        cordoned_log_dirs=None if cordoned is None else _sorted(cordoned),
    )


def in_epoch(brokers: Brokers, node_id: NodeId, epoch: int, offset: Offset) -> RegisterBrokerRecord:
    """The broker that a record tells of.

    Raises:
        ImpossibleRecordError: It is not registered, or in another epoch.
    """
    broker = brokers.get(node_id)
    if broker is None:
        raise ImpossibleRecordError(offset, f"broker {node_id} is not registered")
    if broker.broker_epoch != epoch:
        reason = f"broker {node_id} is in epoch {broker.broker_epoch}, not in {epoch}"
        raise ImpossibleRecordError(offset, reason)
    return broker


def fenced(broker: RegisterBrokerRecord, *, now: bool) -> RegisterBrokerRecord:
    """The broker after it was fenced (`now`) or unfenced."""
    return msgspec.structs.replace(broker, fenced=now)


def changed(
    broker: RegisterBrokerRecord, change: BrokerRegistrationChangeRecord, offset: Offset
) -> RegisterBrokerRecord:
    """The broker after a change, which names only what is new.

    Raises:
        ImpossibleRecordError: The change holds a value that means nothing.
    """
    if change.fenced not in (-1, 0, 1):
        raise ImpossibleRecordError(offset, f"fenced cannot change by {change.fenced}")
    if change.in_controlled_shutdown not in (0, 1):
        reason = f"in_controlled_shutdown cannot change by {change.in_controlled_shutdown}"
        raise ImpossibleRecordError(offset, reason)
    cordoned = change.cordoned_log_dirs
    return msgspec.structs.replace(
        broker,
        fenced=_FENCED_AFTER.get(change.fenced, broker.fenced),
        in_controlled_shutdown=_SHUTDOWN_AFTER.get(
            change.in_controlled_shutdown, broker.in_controlled_shutdown
        ),
        log_dirs=_sorted(change.log_dirs) if change.log_dirs else broker.log_dirs,
        cordoned_log_dirs=broker.cordoned_log_dirs if cordoned is None else _sorted(cordoned),
    )


def _by_name(items: Sequence[N]) -> tuple[N, ...]:
    last = {item.name: item for item in items}
    return tuple(last[name] for name in sorted(last))


def _sorted(directories: Sequence[Uuid]) -> tuple[Uuid, ...]:
    return tuple(sorted(directories))
