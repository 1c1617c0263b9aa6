"""In which order do effects happen, and what does each of them touch?

Entered through `Interpreter.run`, with the list that one call of `Member.handle` or `Member.poll`
returned. It carries the list out strictly in order (D-02): a barrier has returned, and with it is durable,
before the next effect begins; a start only begins; nothing here waits, and nothing here calls the member.
What an effect leads to comes back as an event, which the owner of the member must queue until the list
is done.

Not here: sockets, threads, loops and files. They are behind five ports, so that the daemon and a
simulator of whole clusters run this same code (D-17).
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from kraftd.raft.effects import (
    AlarmCleared,
    Alarmed,
    Append,
    AppendDone,
    AssignEpoch,
    ChallengePeer,
    ColdRead,
    Commit,
    ConfirmPeer,
    Effect,
    ElectionEnded,
    Flush,
    LeaderChanged,
    LearnEndpoint,
    PersistElection,
    ReadDone,
    RefusePeer,
    RejectNonce,
    RememberPeer,
    RememberWholeness,
    Reply,
    ResignDone,
    Send,
    ShowNonce,
    ShutdownReady,
    StateChanged,
    Truncate,
    VoteCast,
    Warned,
)
from kraftd.raft.events import PeerIdentity
from kraftd.types import Election, Epoch, Offset

News: TypeAlias = StateChanged | ElectionEnded | VoteCast | Warned | Alarmed | AlarmCleared
"""Effects that only tell people something."""


class Store(Protocol):
    """The node's directory. The first four are barriers: durable when they return."""

    def persist_election(self, election: Election) -> None:
        """Write who leads and whom we voted for."""

    def remember_peer(self, peer: PeerIdentity) -> None:
        """Write to whom a voter id belongs."""

    def remember_wholeness(self, wholeness: RememberWholeness) -> None:
        """Write whether our own promises can be relied on."""

    def truncate(self, end_offset: Offset, generation: int) -> None:
        """Cut the log and sync the cut. Waits for a running flush first (D-03)."""

    def append(self, append: Append) -> None:
        """Write batches at the end of the log, not durably."""

    def assign_epoch(self, epoch: Epoch, start_offset: Offset) -> None:
        """Note where an epoch starts that has no record yet."""

    def start_flush(self, flush: Flush) -> None:
        """Begin to make the log durable; ends as `LogFlushed`."""

    def start_read(self, read: ColdRead) -> None:
        """Begin to read old batches; ends as `BatchesRead`."""


class Network(Protocol):
    """The other nodes and the clients. Only queues bytes."""

    def send(self, send: Send) -> None:
        """Ask a peer; ends as `ResponseReceived` or `RequestFailed`."""

    def reply(self, reply: Reply) -> None:
        """Answer whoever holds this handle; a caller that is gone is no error."""

    def show_nonce(self, show: ShowNonce) -> None:
        """Show a peer's nonce on our connection to it."""

    def confirm(self, confirmation: ConfirmPeer) -> None:
        """Let the requests of a voter in; a connection that is gone is no error."""

    def reject_nonce(self, rejection: RejectNonce) -> None:
        """Answer that a nonce is none of ours."""

    def challenge(self, challenge: ChallengePeer) -> None:
        """Bring a nonce to a voter's address now."""

    def refuse(self, refusal: RefusePeer) -> None:
        """Close a connection and say why."""

    def learn(self, news: LearnEndpoint) -> None:
        """Remember where a member listens."""


class Machine(Protocol):
    """The state machine, behind whatever feeds it committed batches."""

    def commit(self, high_watermark: Offset) -> None:
        """Apply up to here soon; ends as `Applied`."""

    def leader_changed(self, change: LeaderChanged) -> None:
        """Hear who leads."""


class Callers(Protocol):
    """Those of our own process who wait for an outcome, by token."""

    def append_done(self, done: AppendDone) -> None:
        """An append was committed or refused."""

    def read_done(self, done: ReadDone) -> None:
        """A linearizable read may happen, or not."""

    def resign_done(self, done: ResignDone) -> None:
        """A resignation is on its way, or refused."""

    def shutdown_ready(self, ready: ShutdownReady) -> None:
        """The process may end."""


class Journal(Protocol):
    """People: the log, the metrics and the health page."""

    def note(self, news: News) -> None:
        """Something happened that an operator may want to read."""


class Interpreter:
    """Carries out effects in order, through ports. Holds no state of its own."""

    def __init__(
        self, *, store: Store, network: Network, machine: Machine, callers: Callers, journal: Journal
    ) -> None:
        # One table instead of a chain of `match`: this runs several times a request.
        self._deeds: dict[type[Effect], Callable[..., None]] = {
            PersistElection: lambda effect: store.persist_election(effect.election),
            RememberPeer: lambda effect: store.remember_peer(effect.peer),
            RememberWholeness: store.remember_wholeness,
            Truncate: lambda effect: store.truncate(effect.end_offset, effect.generation),
            Append: store.append,
            AssignEpoch: lambda effect: store.assign_epoch(effect.epoch, effect.start_offset),
            Flush: store.start_flush,
            ColdRead: store.start_read,
            Send: network.send,
            Reply: network.reply,
            ShowNonce: network.show_nonce,
            ConfirmPeer: network.confirm,
            RejectNonce: network.reject_nonce,
            ChallengePeer: network.challenge,
            RefusePeer: network.refuse,
            LearnEndpoint: network.learn,
            Commit: lambda effect: machine.commit(effect.high_watermark),
            LeaderChanged: machine.leader_changed,
            AppendDone: callers.append_done,
            ReadDone: callers.read_done,
            ResignDone: callers.resign_done,
            ShutdownReady: callers.shutdown_ready,
            StateChanged: journal.note,
            ElectionEnded: journal.note,
            VoteCast: journal.note,
            Warned: journal.note,
            Alarmed: journal.note,
            AlarmCleared: journal.note,
        }

    def run(self, effects: Sequence[Effect]) -> None:
        """Carry out a whole list, in order. An exception leaves the rest undone, and is fatal."""
        deeds = self._deeds
        for effect in effects:
            deeds[type(effect)](effect)

    @property
    def knows(self) -> frozenset[type[Effect]]:
        """The kinds of effect this can carry out; a test holds them against the whole union."""
        return frozenset(self._deeds)
