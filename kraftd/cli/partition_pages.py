"""Partitions as kraftd's leader lists and explains them: asked for, and put into words.

What is said of a partition follows from the response alone, by tables: so it can be read here what every
state of a replica is called and what mends it.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from kraftd.cli.active_controller import ask_kraftd
from kraftd.cli.client import Connection, raise_for
from kraftd.cli.deletion_pages import REASONS, STATES, data_text
from kraftd.cli.failures import RefusedError
from kraftd.cli.pages import REQUEST_TIMEOUT_MS, Listing, ask_pages, is_later_cursor
from kraftd.cli.reassignment_progress import awaited
from kraftd.errors import ErrorCode
from kraftd.metadata.partition_conditions import BrokerState, DirectoryState, LeadsThen, PartitionCondition
from kraftd.metadata.partition_states import PartitionState
from kraftd.metadata.replica_states import ReplicaState
from kraftd.metadata.views import ids_text
from kraftd.protocol.messages import (
    ExplainPartitionRequest,
    ExplainPartitionResponse,
    ExplainPartitionResponseRemoval,
    ExplainPartitionResponseReplica,
    ListPartitionsRequest,
    ListPartitionsRequestCursor,
    ListPartitionsResponse,
    ListPartitionsResponsePartition,
    ListPartitionsResponseTopic,
)
from kraftd.types import NO_NODE, Endpoint, NodeId, uuid_text

Row: TypeAlias = dict[str, Any]

BROKER_STATES: Final[Mapping[int, str]] = MappingProxyType(
    {
        BrokerState.ACTIVE: "active",
        BrokerState.FENCED: "fenced",
        BrokerState.SHUTTING_DOWN: "shutting down",
        BrokerState.UNREGISTERED: "not registered",
    }
)
DIRECTORY_STATES: Final[Mapping[int, str]] = MappingProxyType(
    {
        DirectoryState.ONLINE: "online",
        DirectoryState.NOT_TOLD: "not told yet",
        DirectoryState.GONE: "offline",
    }
)
LEADS: Final[Mapping[int, str]] = MappingProxyType(
    {
        LeadsThen.NOTHING: "no",
        LeadsThen.WITHOUT_LOSS: "without loss",
        LeadsThen.UNLESS_IT_CRASHED: "unless it crashed",
        LeadsThen.MAY_LACK_RECORDS: "may lack records",
    }
)
PRICES: Final[Mapping[int, str]] = MappingProxyType(
    {
        LeadsThen.WITHOUT_LOSS: "and nothing is lost",
        LeadsThen.UNLESS_IT_CRASHED: (
            "and nothing is lost, if it still runs or was stopped in order; after a crash it is not eligible "
            "any more, and leads at most as the last known leader, which may lack records"
        ),
        LeadsThen.MAY_LACK_RECORDS: "and may lack records that were acknowledged",
    }
)
_ABSENT: Final[Mapping[str, str]] = MappingProxyType(
    {
        PartitionState.NON_EXISTENT: "there is no such partition any more: nothing brings it back",
        PartitionState.NEW: "it is decided, and committed once a majority of the controllers has it",
    }
)
_UNKNOWN: Final = "unknown"
_YES: Final = "yes"


# --- in a condition


def list_partitions(
    bootstrap: Sequence[Endpoint],
    condition: PartitionCondition,
    timeout_ms: int,
    *,
    broker_id: NodeId = NO_NODE,
) -> list[Row]:
    """Every partition in a condition, by topic and index; the schema of `partitions list`."""
    found: dict[tuple[str, int], Row] = {}

    def take(_: ListPartitionsRequest, response: ListPartitionsResponse) -> ListPartitionsRequest | None:
        for topic in response.topics:
            found.update({(topic.name, each.partition_index): _row(topic, each) for each in topic.partitions})
        at = response.next_cursor
        if at is None:
            return None
        cursor = ListPartitionsRequestCursor(at.name, at.topic_id, at.partition_index)
        return ListPartitionsRequest(condition, broker_id, cursor)

    listing = Listing("partitions", ListPartitionsResponse, take, is_later_cursor)
    ask_pages(bootstrap, ListPartitionsRequest(condition, broker_id), listing, timeout_ms)
    return [found[key] for key in sorted(found)]


def _row(topic: ListPartitionsResponseTopic, partition: ListPartitionsResponsePartition) -> Row:
    return {
        "topic": topic.name,
        "topic_id": uuid_text(topic.topic_id),
        "partition": partition.partition_index,
        "leader": partition.leader_id,
        "replicas": list(partition.replicas),
        "isr": list(partition.isr),
        "elr": list(partition.eligible_leader_replicas),
        "min_isr": topic.min_isr,
        "adding_replicas": list(partition.adding_replicas),
        "removing_replicas": list(partition.removing_replicas),
        "left_alone": partition.is_left_alone,
    }


def moves_text(row: Mapping[str, Any]) -> str:
    """Which replicas of a partition are added and removed, as `+3 -1`; nothing if it is not being moved."""
    signs = (("+", "adding_replicas"), ("-", "removing_replicas"))
    return " ".join(f"{sign}{ids_text(row[name])}" for sign, name in signs if row[name])


# --- explained


def explain_partition(bootstrap: Sequence[Endpoint], topic: str, partition: int, timeout_ms: int) -> Row:
    """One partition with its replicas; the schema of `partitions explain`."""
    name = f"{topic}-{partition}"
    found: list[ExplainPartitionResponse] = []

    def ask(leader: Connection) -> None:
        request = ExplainPartitionRequest(topic, partition)
        response = leader.call(request, ExplainPartitionResponse, min(timeout_ms, REQUEST_TIMEOUT_MS))
        if response.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise RefusedError(f"there is no partition {name}: {response.error_message}")
        raise_for(response.error_code, response.error_message, f"partition {name} cannot be read")
        found.append(response)

    ask_kraftd(bootstrap, ask, timeout_ms, f"partition {name}")
    return _explained(topic, partition, found[-1])


def _explained(topic: str, partition: int, response: ExplainPartitionResponse) -> Row:
    return {
        "topic": topic,
        "topic_id": uuid_text(response.topic_id),
        "partition": partition,
        "state": state_name(response.state),
        "leader": response.leader_id,
        "leader_epoch": response.leader_epoch,
        "partition_epoch": response.partition_epoch,
        "isr": [one.broker_id for one in response.replicas if one.is_in_sync],
        "min_isr": response.min_isr,
        "unclean_election_allowed": response.is_unclean_allowed,
        "leader_recovering": response.is_leader_recovering,
        "unclean_leader": response.unclean_leader_id,
        "replicas": [_replica(one, response.leader_id) for one in response.replicas],
        "removed": [_removal(one) for one in response.removals],
        "findings": findings(topic, partition, response),
    }


def state_name(state: str) -> str:
    """Kafka's name of a partition's state: `OnlinePartition`."""
    return f"{state}Partition"


def _replica(replica: ExplainPartitionResponseReplica, leader_id: NodeId) -> Row:
    return {
        "broker_id": replica.broker_id,
        "state": STATES.get(replica.state, _UNKNOWN),
        "broker": BROKER_STATES.get(replica.broker_state, _UNKNOWN),
        "directory": DIRECTORY_STATES.get(replica.directory_state, _UNKNOWN),
        "directory_id": uuid_text(replica.directory),
        "in_sync": replica.is_in_sync,
        "eligible": replica.is_eligible,
        "adding": replica.is_adding,
        "removing": replica.is_removing,
        "leads": _YES if replica.broker_id == leader_id else LEADS.get(replica.leads, _UNKNOWN),
    }


def _removal(removal: ExplainPartitionResponseRemoval) -> Row:
    return {
        "broker_id": removal.broker_id,
        "state": STATES.get(removal.state, _UNKNOWN),
        "broker": BROKER_STATES.get(removal.broker_state, _UNKNOWN),
        "offset": removal.offset,
        "reason": REASONS.get(removal.reason, _UNKNOWN),
        "data": data_text(removal),
        "set_aside": removal.is_set_aside,
        "heard": removal.is_heard,
        "directory_offline": removal.is_directory_offline,
    }


def findings(topic: str, partition: int, response: ExplainPartitionResponse) -> list[str]:
    """What is wrong with a partition and what mends it, in sentences; none if all is well."""
    told = [_ABSENT[response.state]] if response.state in _ABSENT else []
    if response.state == PartitionState.OFFLINE:
        told += _offline(topic, partition, response) + _moving(response)
    elif response.state == PartitionState.ONLINE:
        told += _online(response)
    for one in map(_removal, response.removals):
        if one["state"] != ReplicaState.NON_EXISTENT.label:
            told.append(
                f"the replica on broker {one['broker_id']} was taken away ({one['reason']}); its data is "
                f"{one['data']}"
            )
    return told


def _online(response: ExplainPartitionResponse) -> list[str]:
    """Why a partition that is led is not as it should be."""
    told = []
    if response.is_leader_recovering:
        told.append(
            f"broker {response.leader_id} was not in sync when it was elected (uncleanly, or as the last "
            "known leader): it may lack records that were acknowledged"
        )
    lacking = [one for one in response.replicas if not one.is_in_sync and not one.is_adding]
    told += [f"broker {one.broker_id} is not in sync: {_why_not_in_sync(one)}" for one in lacking]
    in_sync = sum(one.is_in_sync for one in response.replicas)
    if in_sync < response.min_isr:
        told.append(
            f"writes with acks=all are refused: {in_sync} of {response.min_isr} that they need are in sync"
        )
    told += _moving(response)
    preferred = response.replicas[0].broker_id if response.replicas else NO_NODE
    if preferred not in (NO_NODE, response.leader_id):
        told.append(f"broker {response.leader_id} leads it, and not broker {preferred}, which is preferred")
    return told


def _moving(response: ExplainPartitionResponse) -> list[str]:
    """What a reassignment waits for, if there is one; or that it waits for nobody, and what ends it."""
    replicas = response.replicas
    adding = [one.broker_id for one in replicas if one.is_adding]
    removing = [one.broker_id for one in replicas if one.is_removing]
    if not adding and not removing:
        return []
    staying = [one.broker_id for one in replicas if not one.is_removing]
    missing = awaited(staying, [one.broker_id for one in replicas if one.is_in_sync], adding, removing)
    catches_up = f"for {_brokers(missing)} to be in sync" if missing else ""
    if response.leader_id == NO_NODE:
        return [f"a reassignment waits until it is led{f', and {catches_up}' * bool(missing)}"]
    if missing:
        return [f"a reassignment waits {catches_up}"]
    ends = "asked for again, it ends (kraftctl reassign execute)"
    return [f"a reassignment to {_brokers(staying)} waits for nobody any more: {ends}"]


def _why_not_in_sync(replica: ExplainPartitionResponseReplica) -> str:
    if replica.broker_state != BrokerState.ACTIVE:
        return f"it is {BROKER_STATES.get(replica.broker_state, _UNKNOWN)}"
    if replica.directory_state == DirectoryState.GONE:
        return "the log directory of its replica is offline"
    return "it runs, and has not caught up with the leader; its own log says why"


def _offline(topic: str, partition: int, response: ExplainPartitionResponse) -> list[str]:
    """Why nobody leads a partition, what would bring it back, and at what price.

    Where a clean election finds a leader now, it is what is offered: an unclean one would find the same.
    """
    told = []
    ready = [one for one in response.replicas if _leads_cleanly_now(one)]
    if ready:
        told.append(
            f"a preferred election makes broker {ready[0].broker_id} the leader now, and nothing is lost: "
            f"kraftctl elect --preferred {topic}-{partition}"
        )
    for leads, price in PRICES.items():
        heirs = [one for one in response.replicas if one.leads == leads and one not in ready]
        told += [
            f"it is led again {_once_back(one)}: broker {one.broker_id} leads it then, {price}"
            for one in heirs
        ]
    if not told:
        told.append(_no_heir(response.replicas))
    if ready:
        return told
    unclean = response.unclean_leader_id
    if unclean != NO_NODE:
        told.append(
            f"an unclean election makes broker {unclean} the leader now; what the others acknowledged and it "
            f"lacks is lost for good: kraftctl elect --unclean {topic}-{partition}"
        )
    elif not response.is_unclean_allowed:
        told.append(f"an unclean election finds nobody now: {_why_nobody(response.replicas)}")
    return told


def _no_heir(replicas: Sequence[ExplainPartitionResponseReplica]) -> str:
    lost = [
        one.broker_id for one in replicas if one.is_eligible and one.directory_state == DirectoryState.GONE
    ]
    if not lost:
        return "no replica that may lead it is known: no broker that comes back brings it back"
    return (
        "no replica is known that leads it without loss: a start that brings an offline log directory back "
        f"makes {_brokers(lost)} not eligible, as after a crash; the last known leader, if there is one, "
        f"leads it then, {PRICES[LeadsThen.MAY_LACK_RECORDS]}"
    )


def _why_nobody(replicas: Sequence[ExplainPartitionResponseReplica]) -> str:
    if any(one.broker_state == BrokerState.ACTIVE for one in replicas):
        return "no broker that is active has the log directory of its replica"
    return "no replica's broker is active"


def _leads_cleanly_now(replica: ExplainPartitionResponseReplica) -> bool:
    """Whether only an election is missing for a replica to lead without loss. ElectLeaders holds one by hand:
    of the preferred kind, which takes the next replica that has everything where the first one cannot lead.
    """
    is_there = replica.broker_state == BrokerState.ACTIVE and replica.directory_state != DirectoryState.GONE
    return is_there and replica.leads == LeadsThen.WITHOUT_LOSS


def _once_back(replica: ExplainPartitionResponseReplica) -> str:
    broker = f"broker {replica.broker_id}"
    if replica.directory_state == DirectoryState.GONE:
        is_active = replica.broker_state == BrokerState.ACTIVE
        state = "" if is_active else f", which is {BROKER_STATES.get(replica.broker_state, _UNKNOWN)},"
        return f"when {broker}{state} is started anew with the log directory of its replica, which is offline"
    if replica.broker_state == BrokerState.FENCED:
        return f"when {broker}, which is fenced, sends heartbeats and has caught up with the metadata"
    if replica.broker_state == BrokerState.UNREGISTERED:
        return f"when {broker}, which is not registered, is started"
    if replica.broker_state == BrokerState.SHUTTING_DOWN:
        return f"when {broker}, which is shutting down, has been started again"
    return f"as soon as the next election is held for {broker}"


def _brokers(ids: Sequence[NodeId]) -> str:
    return f"broker {ids[0]}" if len(ids) == 1 else f"brokers {ids_text(ids)}"
