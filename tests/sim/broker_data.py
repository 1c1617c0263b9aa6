"""Is anything lost that a producer was told is there? The records of partitions, as far as that matters.

A `Data` is what one broker's disk holds of its replicas: messages by number, of which each leader writes one
now and then (acks=all). A follower that fetches cuts what its leader does not have, epoch by epoch as Kafka's
do (KIP-101), takes the rest, and learns the high watermark. A message is below that, and acknowledged, once
all that may be in the ISR have it, and enough of them are. Kafka does not sync what it writes: a power
failure takes messages from the end of every replica, back to where its broker last stopped in order.

`Acknowledged` remembers what was promised, and judges every broker that begins to lead or enters an ISR:
unless it was elected uncleanly, which its record says (RECOVERING), it has all of it. That is what ISRs,
eligible replicas, broker epochs and unclean stops are for (KAFKA-14617, KAFKA-18106, KIP-966). And no
follower cuts what is below the high watermark.

Not here: who is in an ISR and why (`broker_replicas`, and the controller itself).
"""

from bisect import bisect_right
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
        self.high_watermarks: dict[PartitionKey, tuple[int, int]] = {}
        """The last one that each replica heard of, and in which leader epoch."""
        self._flushed: dict[PartitionKey, int] = {}
        """How many messages of each replica no power failure takes."""

    def of(self, key: PartitionKey) -> list[Message]:
        """The messages of a replica, oldest first."""
        return self.messages.setdefault(key, [])

    def write(self, key: PartitionKey, leader_epoch: int) -> None:
        """A producer's message comes to the leader."""
        messages = self.of(key)
        messages.append((leader_epoch, len(messages)))

    def copy(self, key: PartitionKey, leader: "Data") -> int | None:
        """Fetch: cut what the leader does not have, and take what it has. How many messages were kept, if
        some were cut.
        """
        mine, theirs = self.of(key), leader.of(key)
        end = len(mine)
        while mine:
            epoch = mine[-1][0]
            known, known_end = _end_of(theirs, epoch)
            if known == epoch and known_end >= len(mine):
                break
            # The leader tells its last epoch up to that one, and where that ends.
            del mine[min(known_end, _end_of(mine, known)[1]) :]
        kept = len(mine)
        mine += theirs[kept:]
        if kept == end:
            return None
        self._flushed[key] = min(kept, self._flushed.get(key, 0))
        return kept

    def learn(self, key: PartitionKey, high_watermark: int, leader_epoch: int) -> None:
        """A fetch tells how far all is committed."""
        self.high_watermarks[key] = min(high_watermark, len(self.of(key))), leader_epoch

    def flush(self) -> None:
        """The broker stops in order."""
        self._flushed = {key: len(messages) for key, messages in self.messages.items()}

    def lose_tail(self, draw: Callable[[], float]) -> None:
        """The power fails."""
        for key, messages in self.messages.items():
            unflushed = len(messages) - self._flushed.get(key, 0)
            del messages[len(messages) - min(unflushed, int(draw() * (LOST_MAX + 1))) :]
            heard = self.high_watermarks.get(key)
            if heard is not None and heard[0] > len(messages):
                self.high_watermarks[key] = len(messages), heard[1]

    def forget(self, keys: Iterable[PartitionKey]) -> None:
        """These replicas are deleted, or their directory is another one."""
        for key in keys:
            for what in (self.messages, self.high_watermarks, self._flushed):
                what.pop(key, None)


def _end_of(messages: Sequence[Message], epoch: int) -> tuple[int, int]:
    """The last epoch of messages that is not above one, and where it ends; epoch -1 if there is none."""
    end = len(messages)
    if end and messages[-1][0] > epoch:
        end = bisect_right(messages, epoch, key=lambda message: message[0])
    return (messages[end - 1][0] if end else -1), end


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

    def lacks(self, key: PartitionKey, data: Data, leader_epoch: int) -> int:
        """How much of what was acknowledged up to a leader epoch is missing on a disk."""
        promised = self._promised.get(key, [])
        end = len(promised)
        while end and promised[end - 1][1] > leader_epoch:
            end -= 1
        if not end:
            return 0
        messages = data.of(key)
        if len(messages) >= end and messages[end - 1] == promised[end - 1][0]:
            return 0
        return end - _common([message for message, _ in promised[:end]], messages)

    def cut(self, key: PartitionKey, follower: NodeId, data: Data, kept: int) -> None:
        """A follower has cut its log, and has kept so many messages.

        Raises:
            Violation: It had heard that more are committed, and nobody was elected uncleanly since.
        """
        high_watermark, epoch = data.high_watermarks.get(key, (0, 0))
        if kept < high_watermark and epoch >= self._begun_anew.get(key, 0):
            text = f"{follower} cuts {key[0].hex()[-8:]}-{key[1]} to {kept} messages"
            raise Violation(f"NothingBelowTheHighWatermarkIsCut: {text}, and heard of {high_watermark}")

    def forget_topic(self, topic_id: Uuid) -> None:
        """A topic is deleted. In which epochs its partitions were led uncleanly is kept: a follower that has
        not read of the deletion yet may still cut its log to what such a leader had.
        """
        for key in [key for key in self._promised if key[0] == topic_id]:
            del self._promised[key]

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
