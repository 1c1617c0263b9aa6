"""The log directories of brokers: which ids they may have, whose they are, and which fail or are cordoned.

A directory is known by the id in its `meta.properties`, which goes with the disk. So two brokers with one
directory are two machines that started from a copy, or one that was started twice.

Follows: Kafka's ClusterControlManager (directories of a registration), ReplicationControlManager
(handleDirectoriesOffline), KIP-858 and KIP-1066.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from kraftd.controller.sessions import Session
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.records.messages import RegisterBrokerRecord
from kraftd.types import NodeId, Uuid, uuid_text

_RESERVED_MAX: Final = 100
"""Directory ids below this number stand for something else: unassigned, lost, migrating."""


def directories_complaint(image: MetadataImage, broker_id: NodeId, log_dirs: Sequence[Uuid]) -> str | None:
    """What is wrong with the directories that a broker says it has, None if nothing is."""
    if not log_dirs:
        return "it names no log directory"
    if any(map(_is_reserved, log_dirs)):
        return "it names a log directory by a reserved id"
    if len(set(log_dirs)) < len(log_dirs):
        return "it names a log directory twice"
    for other_id, other in image[BROKERS].items():
        shared = set(other.log_dirs).intersection(log_dirs) if other_id != broker_id else ()
        if shared:
            return (
                f"broker {other_id} is registered with the same log directory {uuid_text(min(shared))}; "
                "a copied disk needs another directory.id in its meta.properties"
            )
    return None


def _is_reserved(directory: Uuid) -> bool:
    """Whether an id is kept for other things. To Kafka its halves are signed numbers, so that half of the ids
    that begin with eight zeros are.
    """
    high, low = (int.from_bytes(half, "big", signed=True) for half in (directory[:8], directory[8:]))
    return high == 0 and low < _RESERVED_MAX


def directories_of_another(
    broker: RegisterBrokerRecord, session: Session | None, named: Iterable[Uuid]
) -> Iterator[Uuid]:
    """Those of the directories that a broker names which its start never had: another process names them.

    What has failed since it registered is its own, though its registration does not list it any more. A
    controller that has just become the active one is told of it by the broker's next heartbeat.

    Not told apart: a process that was started from a copy of the broker's disks, ids and all; and any, if the
    registration lists none: it was made at a level of metadata.version that knew none, and is made once more
    when that is raised.
    """
    if broker.log_dirs:
        own = set(broker.log_dirs).union(session.failed_directories if session is not None else ())
        yield from (one for one in named if one not in own and not _is_reserved(one))


def newly_offline(broker: RegisterBrokerRecord, offline: Collection[Uuid]) -> tuple[Uuid, ...]:
    """The directories that a broker has lost since it last told."""
    return tuple(directory for directory in broker.log_dirs if directory in offline)


def is_cordoned_anew(broker: RegisterBrokerRecord, cordoned: Collection[Uuid] | None) -> bool:
    """Whether a broker tells of other cordoned directories than it is known to have."""
    if cordoned is None:
        return False
    return broker.cordoned_log_dirs is None or set(broker.cordoned_log_dirs) != set(cordoned)
