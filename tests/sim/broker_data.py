"""Is anything lost that a producer was told is there? The records of partitions, as far as that matters.

A `Data` is what one broker's disk holds of its replicas: messages by number, of which each leader writes one
now and then (acks=all). A follower that fetches cuts what its leader does not have, and takes the rest. A
message is acknowledged once all that may be in the ISR have it, and enough of them are. A power failure takes
messages from the end of every replica: Kafka does not sync them.

`Acknowledged` remembers what was promised, and judges every broker that begins to lead: unless it was elected
uncleanly, which its record says (RECOVERING), it has all of it. That is what ISRs, eligible replicas, broker
epochs and unclean stops are for (KAFKA-14617, KAFKA-18106, KIP-966).

Not here: who is in an ISR and why (`broker_replicas`, and the controller itself).
"""

from collections.abc import Callable, Iterable, Sequence

from kraftd.audit.invariant import Violation
from kraftd.audit.placements import PartitionKey
from kraftd.types import NodeId, Uuid

LOST_MAX = 4
"""How many messages of a replica a power failure takes, at most."""

Message = tuple[int, int]
"""The leader epoch that it was written in, and its number there."""


class Data:
    """The messages on one broker's disk."""

    def __init__(self) -> None:
        self.messages: dict[PartitionKey, list[Message]] = {}

    def of(self, key: PartitionKey) -> list[Message]:
        """The messages of a replica, oldest first."""
        return self.messages.setdefault(key, [])

    def write(self, key: PartitionKey, leader_epoch: int) -> None:
        """A producer's message comes to the leader."""
        messages = self.of(key)
        messages.append((leader_epoch, len(messages)))

    def copy(self, key: PartitionKey, leader: "Data") -> None:
        """Fetch: cut what the leader does not have, and take what it has."""
        mine, theirs = self.of(key), leader.of(key)
        while mine and (len(mine) > len(theirs) or theirs[len(mine) - 1] != mine[-1]):
            mine.pop()
        mine += theirs[len(mine) :]

    def lose_tail(self, draw: Callable[[], float]) -> None:
        """The power fails."""
        for messages in self.messages.values():
            del messages[len(messages) - min(len(messages), int(draw() * (LOST_MAX + 1))) :]

    def forget(self, keys: Iterable[PartitionKey]) -> None:
        """These replicas are deleted, or their directory is another one."""
        for key in keys:
            self.messages.pop(key, None)


class Acknowledged:
    """What producers were told."""

    def __init__(self) -> None:
        self._promised: dict[PartitionKey, list[tuple[Message, int]]] = {}
        """Each with the leader epoch in which it was acknowledged."""
        self._begun_anew: dict[PartitionKey, int] = {}
        """The leader epoch in which a partition last began with what its leader had of it, and no more: one
        that was elected uncleanly, or that an operator took the disk of.
        """
        self._replaced: dict[PartitionKey, set[NodeId]] = {}
        """Brokers whose replica an operator took the disk of, since they were last in sync."""

    def promise(self, key: PartitionKey, leader: Data, end: int, leader_epoch: int) -> None:
        """All messages of a leader up to an end are acknowledged.

        Nobody need keep what a leader promises that does not know yet of an unclean election: broker 1 alone
        was in sync, was fenced, and could still hear producers when broker 2 was elected uncleanly.
        """
        if leader_epoch < self._begun_anew.get(key, 0):
            return
        promised = self._promised.setdefault(key, [])
        if len(promised) < end:
            promised += [(message, leader_epoch) for message in leader.of(key)[len(promised) : end]]

    def forget_topic(self, topic_id: Uuid) -> None:
        """A topic is deleted."""
        for key in [key for key in self._promised if key[0] == topic_id]:
            del self._promised[key]
            self._begun_anew.pop(key, None)

    def replaced(self, broker_id: NodeId, keys: Iterable[PartitionKey]) -> None:
        """An operator put in an empty disk for one with these replicas: the log cannot tell."""
        for key in keys:
            self._replaced.setdefault(key, set()).add(broker_id)

    def in_sync(self, key: PartitionKey, isr: Iterable[NodeId], leader: NodeId) -> None:
        """A leader brought these into the ISR: they have all that it has."""
        known = self._replaced.get(key)
        if known:
            known.difference_update(set(isr) - {leader})

    def led(
        self, key: PartitionKey, leader: NodeId, data: Data, leader_epoch: int, *, is_clean: bool
    ) -> None:
        """A broker begins to lead a leader epoch. It may be late: what later leaders promised is not its own.

        Raises:
            Violation: It lacks what was acknowledged before, and nobody said so.
        """
        promised, messages = self._promised.get(key, []), data.of(key)
        before = [message for message, epoch in promised if epoch < leader_epoch]
        kept = _common(before, messages)
        is_whole = kept == len(before)
        if not is_whole and is_clean and leader not in self._replaced.get(key, ()):
            text = f"{leader} leads {key[0].hex()[-8:]}-{key[1]} in epoch {leader_epoch} with {len(messages)}"
            raise Violation(
                f"NothingAcknowledgedIsLost: {text} messages; of {len(before)} acknowledged {kept} are there"
            )
        if len(before) == len(promised) and not (is_whole and is_clean):
            del promised[kept:]
            self._begun_anew[key] = leader_epoch


def _common(one: Sequence[Message], other: Sequence[Message]) -> int:
    """How many messages two logs have in common from their start: equal ones follow equal ones."""
    length = min(len(one), len(other))
    while length and one[length - 1] != other[length - 1]:
        length -= 1
    return length
