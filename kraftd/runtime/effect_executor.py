"""Carries out the effects of a raft node, in order.

Entered through `EffectExecutor.run`, with the list that one call of `RaftNode.handle` or `RaftNode.poll`
returned. A barrier has returned, and with it is durable, before the next effect begins: only for barriers is
anything waited for. An asynchronous effect only begins. Nothing here calls the raft node (D-02): the outcome
of an effect comes back as an event, which the driver queues until the whole list is done.

Not here: sockets, threads, loops and files. They are behind six protocols, so that the daemon and the
simulator run this same code (D-17).
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
    CutLog,
    DropSnapshot,
    Effect,
    ElectionEnded,
    Flush,
    InstallSnapshot,
    LeaderChanged,
    LearnEndpoint,
    LoadSnapshot,
    PersistElection,
    ReadDone,
    ReadSnapshot,
    RefusePeer,
    RejectNonce,
    RememberPeer,
    RememberStateHealth,
    Reply,
    ResignDone,
    Send,
    ShowNonce,
    ShutdownReady,
    StateChanged,
    Truncate,
    VoteAnswered,
    Warned,
    WriteSnapshot,
)
from kraftd.types import Election, Epoch, Offset, OffsetAndEpoch, PeerIdentity

Notice: TypeAlias = StateChanged | ElectionEnded | VoteAnswered | Warned | Alarmed | AlarmCleared
"""Effects that only tell something: each is a log line, and is counted, or shown on the status page."""


class Store(Protocol):
    """The node's directory. The first six are barriers: durable when they return."""

    def persist_election(self, election: Election) -> None:
        """Write who leads and whom we voted for."""

    def remember_peer(self, peer: PeerIdentity) -> None:
        """Write to whom a voter id belongs."""

    def remember_state_health(self, effect: RememberStateHealth) -> None:
        """Write whether our own promises can be relied on."""

    def truncate(self, end_offset: Offset, generation: int) -> None:
        """Truncate the log, durably. Waits for a running flush first (D-03)."""

    def install_snapshot(self, snapshot_id: OffsetAndEpoch, generation: int) -> None:
        """Put a snapshot in the place of the log, durably. Waits for a running flush first (D-03)."""

    def cut_log(self, start: OffsetAndEpoch) -> None:
        """Begin the log at the end of a snapshot, durably."""

    def append(self, append: Append) -> None:
        """Write batches at the end of the log, not durably."""

    def assign_epoch(self, epoch: Epoch, start_offset: Offset) -> None:
        """Note where an epoch starts that has no record yet."""

    def start_flush(self, flush: Flush) -> None:
        """Begin to make the log durable; ends as `LogFlushed`."""

    def start_read(self, read: ColdRead) -> None:
        """Begin to read old batches; ends as `BatchesRead`."""


class SnapshotPort(Protocol):
    """The files of snapshots, a piece at a time."""

    def start_read(self, read: ReadSnapshot) -> None:
        """Begin to read a piece; ends as `SnapshotRead`."""

    def start_write(self, write: WriteSnapshot) -> None:
        """Begin to write a piece; ends as `SnapshotReceived`."""

    def drop(self, drop: DropSnapshot) -> None:
        """Give up what is being written."""


class Network(Protocol):
    """The other nodes and the clients. Only queues bytes."""

    def send(self, send: Send) -> None:
        """Send a request to a peer; ends as `ResponseReceived` or `RequestFailed`."""

    def reply(self, reply: Reply) -> None:
        """Answer the request of this handle; does nothing if its connection is closed."""

    def show_nonce(self, show: ShowNonce) -> None:
        """Send a peer's nonce back on our connection to it (D-37)."""

    def confirm(self, confirmation: ConfirmPeer) -> None:
        """Serve the requests of a voter from now on; does nothing if its connection is closed."""

    def reject_nonce(self, rejection: RejectNonce) -> None:
        """Answer that a nonce is not one that this node gave."""

    def challenge(self, challenge: ChallengePeer) -> None:
        """Connect to a voter's address now, with a nonce."""

    def refuse(self, refusal: RefusePeer) -> None:
        """Close a connection and say why."""

    def learn(self, learned: LearnEndpoint) -> None:
        """Connect to a node at this endpoint from now on."""


class RaftListener(Protocol):
    """What is told of commits and leaders, for the state machine; Kafka's `RaftClient.Listener`."""

    def commit(self, high_watermark: Offset) -> None:
        """Apply the log up to here in one of the next turns; ends as `Applied`."""

    def leader_changed(self, change: LeaderChanged) -> None:
        """Tell the state machine who leads."""

    def load_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        """Become what a snapshot says, in one of the next turns; ends as `Applied`."""


class OutcomeHandler(Protocol):
    """Takes the outcomes of appends, reads and resignations that this process asked for, by token."""

    def append_done(self, done: AppendDone) -> None:
        """An append was committed or refused."""

    def read_done(self, done: ReadDone) -> None:
        """A linearizable read was confirmed or refused."""

    def resign_done(self, done: ResignDone) -> None:
        """A resignation has begun or was refused."""

    def shutdown_ready(self, ready: ShutdownReady) -> None:
        """The process may end."""


class NoticeLogger(Protocol):
    """Writes the log lines of the raft node."""

    def log_notice(self, notice: Notice) -> None:
        """Log one notice and count it."""


class EffectExecutor:
    """Calls the handler of each effect, in order. Holds no state of its own."""

    def __init__(
        self,
        *,
        store: Store,
        snapshots: SnapshotPort,
        network: Network,
        listener: RaftListener,
        outcomes: OutcomeHandler,
        notice_logger: NoticeLogger,
    ) -> None:
        # One table instead of a chain of `match`: this runs several times a request.
        self._handlers: dict[type[Effect], Callable[..., None]] = {
            PersistElection: lambda effect: store.persist_election(effect.election),
            RememberPeer: lambda effect: store.remember_peer(effect.peer),
            RememberStateHealth: store.remember_state_health,
            Truncate: lambda effect: store.truncate(effect.end_offset, effect.generation),
            InstallSnapshot: lambda effect: store.install_snapshot(effect.id, effect.generation),
            CutLog: lambda effect: store.cut_log(effect.start),
            Append: store.append,
            AssignEpoch: lambda effect: store.assign_epoch(effect.epoch, effect.start_offset),
            Flush: store.start_flush,
            ColdRead: store.start_read,
            ReadSnapshot: snapshots.start_read,
            WriteSnapshot: snapshots.start_write,
            DropSnapshot: snapshots.drop,
            LoadSnapshot: lambda effect: listener.load_snapshot(effect.id),
            Send: network.send,
            Reply: network.reply,
            ShowNonce: network.show_nonce,
            ConfirmPeer: network.confirm,
            RejectNonce: network.reject_nonce,
            ChallengePeer: network.challenge,
            RefusePeer: network.refuse,
            LearnEndpoint: network.learn,
            Commit: lambda effect: listener.commit(effect.high_watermark),
            LeaderChanged: listener.leader_changed,
            AppendDone: outcomes.append_done,
            ReadDone: outcomes.read_done,
            ResignDone: outcomes.resign_done,
            ShutdownReady: outcomes.shutdown_ready,
            StateChanged: notice_logger.log_notice,
            ElectionEnded: notice_logger.log_notice,
            VoteAnswered: notice_logger.log_notice,
            Warned: notice_logger.log_notice,
            Alarmed: notice_logger.log_notice,
            AlarmCleared: notice_logger.log_notice,
        }

    def run(self, effects: Sequence[Effect]) -> None:
        """Carry out a list of effects, in order. An exception skips the rest and must end the process."""
        handlers = self._handlers
        for effect in effects:
            handlers[type(effect)](effect)
