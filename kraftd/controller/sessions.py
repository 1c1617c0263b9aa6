"""What the active controller knows of brokers and the log does not hold: their sessions.

A broker's session is alive while its heartbeats come; with it goes how far the broker has followed the
metadata log. All times are monotonic milliseconds. A new active controller makes this object of the brokers
in its image, and starts the clock of each unfenced one anew: it cannot know when its predecessor last heard
of it. Who is fenced has no session until it is heard of: its predecessor knew that it is over.

A session belongs to one epoch of a broker, that is to one incarnation of it: what an earlier one sends late
touches nothing.

Follows: Kafka's BrokerHeartbeatManager and BrokerHeartbeatTracker; KAFKA-18138 (a new active controller that
took brokers for stale that it had never heard of).
Differs: the session of a broker that was told that it may stop is over, so that it can start again at once.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec
from msgspec.structs import replace

from kraftd.metadata.image import MetadataImage
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.types import NodeId, Offset, Uuid

NO_CONTACT_MS = -1
_FAILED_MAX = 1_000
"""No broker has so many directories: what whoever names more of them costs is bounded."""


class Session(msgspec.Struct):
    """One incarnation of one broker. A heartbeat changes it; for all else `BrokerSessions` replaces it."""

    broker_epoch: int
    registered_offset: Offset
    """A broker that has read the log up to here has seen its registration."""
    contact_ms: int
    """When its last heartbeat arrived; NO_CONTACT_MS before the first, and once the session is over."""
    metadata_offset: Offset = -1
    """The offset that it has read the log up to, as its newest heartbeat says; -1 before the first."""
    shutdown_offset: Offset = -1
    """The last record that its controlled shutdown entailed; -1 while that is not known."""
    failed_directories: frozenset[Uuid] = frozenset()
    """What it said has failed. A broker says so in each heartbeat, as long as it runs."""


class BrokerSessions:
    """The sessions of all registered brokers, by id. Mutable; decisions only read it."""

    __slots__ = ("_sessions", "timeout_ms")

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        """How long a session lives without a heartbeat (`broker.session.timeout.ms`)."""
        self._sessions: dict[NodeId, Session] = {}

    # -- what decisions ask

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, broker_id: NodeId, broker_epoch: int) -> Session | None:
        """The session of this incarnation of a broker, alive or over."""
        session = self._sessions.get(broker_id)
        return session if session is not None and session.broker_epoch == broker_epoch else None

    def is_alive(self, broker_id: NodeId, broker_epoch: int, now_ms: int) -> bool:
        """Whether this incarnation of a broker was heard of within the session timeout."""
        session = self.get(broker_id, broker_epoch)
        return (
            session is not None
            and session.contact_ms != NO_CONTACT_MS
            and now_ms - session.contact_ms < self.timeout_ms
        )

    def items(self) -> Iterator[tuple[NodeId, Session]]:
        """Every session by broker id, in no order."""
        return iter(self._sessions.items())

    # -- what the controller notes

    def begin(self, image: MetadataImage, log_end: Offset, now_ms: int) -> None:
        """Begin a leadership: every unfenced broker of the image was heard of now.

        Were a fenced one, too, its next start would be refused for another session: broker 5 is killed and
        fenced, and while controllers 1 and 2 take turns at the lead, it could not come back.

        Which offsets their registrations have is not known here; the end of the log is above them all.
        """
        self._sessions = {}
        self.begin_missing(image, log_end, now_ms)

    def begin_missing(self, image: MetadataImage, log_end: Offset, now_ms: int) -> None:
        """Begin the session of each broker of the image that has none, as at the beginning of a leadership.

        The log refused an unregistration of broker 5. Its session ended with the decision, and the broker is
        still there: without a session it would never be fenced, however silent it falls.
        """
        for broker in image[BROKERS].values():
            if self.get(broker.broker_id, broker.broker_epoch) is None:
                contact_ms = NO_CONTACT_MS if broker.fenced else now_ms
                self._sessions[broker.broker_id] = Session(broker.broker_epoch, log_end - 1, contact_ms)

    def withdrawn(self, log_end: Offset) -> None:
        """Forget what was noted of records that the log refused: they would have been from its end on.

        Say the last slice of what broker 5's controlled shutdown entails was refused. What it has to wait for
        is known once that is repeated, by a timer or for its next heartbeat.
        """
        for broker_id, session in self._sessions.items():
            if session.shutdown_offset >= log_end:
                self._sessions[broker_id] = replace(session, shutdown_offset=-1)

    def end(self) -> None:
        """End a leadership."""
        self._sessions = {}

    @contextmanager
    def all_or_none(self) -> Iterator[None]:
        """Note what a decision entails: if anything raises meanwhile, nothing of it was noted (D-14)."""
        before = self._sessions.copy()
        try:
            yield
        except BaseException:
            self._sessions = before
            raise

    def heard(
        self,
        broker_id: NodeId,
        broker_epoch: int,
        metadata_offset: Offset,
        now_ms: int,
        *,
        failed_directories: Sequence[Uuid] = (),
    ) -> None:
        """Note a heartbeat as it arrives: how far its sender has read the log, and what has failed."""
        session = self.get(broker_id, broker_epoch)
        if session is None:
            return
        session.contact_ms = now_ms
        session.metadata_offset = metadata_offset
        if failed_directories:
            failed = frozenset(failed_directories[:_FAILED_MAX])
            known = session.failed_directories | failed
            # Somebody else may have named a thousand in its name: what it says itself, it says again.
            session.failed_directories = known if len(known) <= _FAILED_MAX else failed

    def registered(self, broker_id: NodeId, broker_epoch: int, offset: Offset) -> None:
        """Note a registration whose record has this offset: a new incarnation, or more of the same one.

        It begins no session: who is killed between this and its first heartbeat can start again at once.
        """
        known = self.get(broker_id, broker_epoch)
        if known is None:
            self._sessions[broker_id] = Session(broker_epoch, offset, NO_CONTACT_MS)
        else:
            self._sessions[broker_id] = replace(known, registered_offset=offset)

    def unregistered(self, broker_id: NodeId) -> None:
        """Forget a broker that is not registered any more."""
        self._sessions.pop(broker_id, None)

    def over(self, broker_id: NodeId, broker_epoch: int) -> None:
        """End the session of a broker that was told that it may stop.

        What it waited for stays: if the log refuses the fencing, the broker is in controlled shutdown as
        before, and its next heartbeat asks for that again.
        """
        session = self.get(broker_id, broker_epoch)
        if session is not None:
            self._sessions[broker_id] = replace(session, contact_ms=NO_CONTACT_MS)

    def fenced_for_silence(self, broker_id: NodeId, broker_epoch: int, contact_ms: int) -> None:
        """End the session of a broker that was fenced, unless it was heard since then: it lives.

        Broker 1 has 2,500 partitions and is fenced in ten slices; its process goes on after the third. Its
        heartbeat unfences it once they are done. Were its session over by then, another start would get its
        id, and it would be fenced again at the next look.
        """
        session = self.get(broker_id, broker_epoch)
        if session is not None and session.contact_ms == contact_ms:
            self.over(broker_id, broker_epoch)

    def unfenced(self, broker_id: NodeId, broker_epoch: int) -> None:
        """Note that a broker is up, and stops no more: a shutdown that it begins later is another one."""
        session = self.get(broker_id, broker_epoch)
        if session is not None:
            self._sessions[broker_id] = replace(session, shutdown_offset=-1)

    def shutting_down(self, broker_id: NodeId, broker_epoch: int, offset: Offset) -> None:
        """Note the last record of what the controlled shutdown of a broker entails (KAFKA-14292)."""
        session = self.get(broker_id, broker_epoch)
        if session is not None:
            self._sessions[broker_id] = replace(session, shutdown_offset=offset)
