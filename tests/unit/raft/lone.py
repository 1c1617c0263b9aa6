"""One real node and nobody else: what it hears is made by hand, and what it does is kept.

For tests that need it in one exact state. Flushes and the state machine keep up by themselves unless told not
to; nothing else answers. Whole quorums are `tests.stories.cluster`.
"""

from collections.abc import Sequence
from itertools import count
from typing import TypeVar

from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.raft import effects as fx
from kraftd.raft import events as ev
from kraftd.raft import rpc, snapshot_rpc
from kraftd.raft.node import OpenedLog, RaftNode
from kraftd.raft.rejoin import StateHealth
from kraftd.raft.rpc import FetchParams, LeaderAndEpoch, VoteParams
from kraftd.raft.snapshot_rpc import FetchSnapshotParams
from kraftd.raft.timing import Timing
from kraftd.records.batch import encode_batch
from kraftd.types import (
    NEVER_MS,
    NO_NODE,
    Election,
    Endpoint,
    EpochEntry,
    NodeId,
    Now,
    Offset,
    OffsetAndEpoch,
    PeerIdentity,
    ReplicaKey,
)
from tests.stories.cluster import FixedRandom, SeededRandom, voter_set

CLUSTER_ID = "lone"
ME = 1
WALL_MS = 1_700_000_000_000

Kind = TypeVar("Kind", bound=fx.Effect)


def key_of(node_id: NodeId) -> ReplicaKey:
    return ReplicaKey(node_id, node_id.to_bytes(16, "big", signed=True))


def identity_of(node_id: NodeId) -> PeerIdentity:
    return PeerIdentity(node_id, key_of(node_id).directory_id, 1, b"start of node %2d" % node_id)


class Lone:
    """Node 1 of a quorum whose others exist only in what the test says."""

    def __init__(
        self,
        *,
        voters: Sequence[NodeId] = (1, 2, 3),
        election: Election | None = None,
        epochs: Sequence[int] = (),
        timing: Timing | None = None,
        random: FixedRandom | SeededRandom | None = None,
        health: StateHealth | None = None,
        bootstrap: Sequence[Endpoint] = (),
        connected: Sequence[NodeId] = (2, 3),
        flushes: bool = True,
        applies: bool = True,
        in_memory: bool = True,
        high_watermark: int = -1,
        start_offset: Offset = 0,
        snapshots: Sequence[OffsetAndEpoch] = (),
        now_ms: int = 1_000,
    ) -> None:
        """A node that has one record of each of these epochs, and starts with this election file.

        Without `in_memory` it must ask the disk for them. `high_watermark` is what a snapshot says, and the
        log may begin behind one.
        """
        self.now_ms = now_ms
        self.flushes, self.applies = flushes, applies
        self.effects: list[fx.Effect] = []
        self.stored = election
        self._handles = count(10**8)
        self._tokens = count(10**6)
        starts: dict[int, int] = {}
        for offset, epoch in enumerate(epochs, start_offset):
            starts.setdefault(epoch, offset)
        uninitialized = election is None and not epochs and not start_offset
        self.raft_node = RaftNode(
            me=key_of(ME),
            cluster_id=CLUSTER_ID,
            voters=voter_set(*voters),
            log=OpenedLog(
                start_offset=start_offset,
                end_offset=start_offset + len(epochs),
                snapshots=tuple(snapshots),
                epochs=tuple(EpochEntry(epoch, start) for epoch, start in starts.items()),
                tail=tuple(
                    encode_batch(n, epoch, 0, [b"old"])
                    for n, epoch in enumerate(epochs, start_offset)
                    if in_memory
                ),
                high_watermark=high_watermark,
            ),
            election=election or Election(),
            timing=timing or Timing(),
            random_source=random or FixedRandom(0.5),
            health=health or StateHealth(uninitialized=uninitialized),
            known_peers=(),
            advertised=Endpoint("host1", 9_001),
            bootstrap=bootstrap,
        )
        self.started = self._keep(self.raft_node.start(self.now))
        for node_id in connected:
            self.connect(node_id)

    @property
    def now(self) -> Now:
        return Now(self.now_ms, WALL_MS + self.now_ms)

    @property
    def epoch(self) -> int:
        return self.raft_node.epoch

    # --- driving ----------------------------------------------------------------------------------------

    def feed(self, event: ev.Event) -> list[fx.Effect]:
        """Tell it of one event, and let its turn end; returns all that came of it."""
        return self._keep(self.raft_node.handle(event, self.now)) + self.poll()

    def poll(self) -> list[fx.Effect]:
        effects = self._keep(self.raft_node.poll(self.now))
        assert self.raft_node.wake_at_ms > self.now_ms
        return effects

    def run(self, duration_ms: int) -> list[fx.Effect]:
        """Let time pass, waking it whenever it wants to be woken."""
        until, effects = self.now_ms + duration_ms, []
        while self.raft_node.wake_at_ms <= until:
            self.now_ms = self.raft_node.wake_at_ms
            effects += self.poll()
        self.now_ms = until
        return effects

    def run_to_deadline(self) -> list[fx.Effect]:
        """Let the time pass that its state gives itself, while nobody answers anything."""
        return self.run(self.raft_node.state.deadline_ms - self.now_ms)  # type: ignore[union-attr]

    def _keep(self, effects: list[fx.Effect]) -> list[fx.Effect]:
        self.effects += effects
        done = list(effects)
        for effect in effects:
            match effect:
                case fx.PersistElection(election=election):
                    self.stored = election
                case fx.Flush(generation=generation, end_offset=end_offset) if self.flushes:
                    done += self._keep(self.raft_node.handle(ev.LogFlushed(generation, end_offset), self.now))
                case fx.Commit(high_watermark=offset) if self.applies:
                    done += self._keep(self.raft_node.handle(ev.Applied(offset), self.now))
                case _:
                    pass
        return done

    def connect(self, node_id: NodeId) -> list[fx.Effect]:
        """The handshakes with that node are done, on one connection of each direction."""
        effects = self._keep(
            self.raft_node.handle(
                ev.PeerIdentified(100 + node_id, identity_of(node_id), outbound=True), self.now
            )
        )
        return effects + self.confirm(200 + node_id, identity_of(node_id))

    def confirm(self, connection: int, peer: PeerIdentity) -> list[fx.Effect]:
        """Somebody connects, and proves to be that voter with a nonce that only it was told (D-37)."""
        nonce = b"nonce of %7d" % connection
        meeting: tuple[ev.Event, ...] = (
            ev.NonceGiven(connection + 10**6, peer.node_id, nonce),
            ev.PeerClaimed(connection, peer.node_id, peer.directory_id, nonce),
            ev.NonceShown(connection, nonce, peer.start_counter, peer.start_id),
            ev.ConnectionClosed(connection + 10**6, peer.node_id),
        )
        return [effect for event in meeting for effect in self._keep(self.raft_node.handle(event, self.now))]

    def close(self, node_id: NodeId) -> list[fx.Effect]:
        """The connection on which requests to that node go ends."""
        return self.feed(ev.ConnectionClosed(100 + node_id, node_id))

    # --- what it sent and what comes back ---------------------------------------------------------------

    def open_requests(self) -> list[fx.Send]:
        """What it asked and still waits for, the oldest first."""
        in_flight = self.raft_node._raft.requests._in_flight
        sent = {e.correlation_id: e for e in self.effects if isinstance(e, fx.Send)}
        return [sent[correlation_id] for correlation_id in in_flight]

    def asked(self, to: NodeId, kind: type[m.QuorumRequest]) -> fx.Send | None:
        """Its open request of that kind to that node."""
        found = [s for s in self.open_requests() if s.to == to and isinstance(s.request, kind)]
        return found[-1] if found else None

    def fetching(self) -> list[NodeId]:
        """Whom it is fetching from: not those who are only asked for their epoch, which do not wait."""
        fetches = [s for s in self.open_requests() if isinstance(s.request, m.FetchRequest)]
        return [send.to for send in fetches if send.request.max_wait_ms > 0]  # type: ignore[union-attr]

    def answer(self, send: fx.Send, response: m.QuorumResponse, records: bytes = b"") -> list[fx.Effect]:
        return self.feed(ev.ResponseReceived(send.to, send.correlation_id, response, records))

    def vote_response(
        self,
        voter: NodeId,
        *,
        granted: bool,
        leader_and_epoch: LeaderAndEpoch | None = None,
        error: ErrorCode = ErrorCode.NONE,
    ) -> list[fx.Effect]:
        """A voter answers the open request for its vote or pre-vote."""
        send = self.asked(voter, m.VoteRequest)
        assert send is not None
        leader_and_epoch = leader_and_epoch or LeaderAndEpoch(
            send.request.topics[0].partitions[0].replica_epoch, NO_NODE
        )  # type: ignore[union-attr]
        return self.answer(send, rpc.vote_response(error, leader_and_epoch, granted=granted))

    def fetch_response(
        self,
        records: bytes = b"",
        *,
        of: NodeId = 2,
        high_watermark: Offset = -1,
        diverging: OffsetAndEpoch | None = None,
        leader_and_epoch: LeaderAndEpoch | None = None,
        error: ErrorCode = ErrorCode.NONE,
        snapshot_id: OffsetAndEpoch | None = None,
    ) -> list[fx.Effect]:
        """Who was asked answers the open fetch."""
        send = self.asked(of, m.FetchRequest)
        assert send is not None, f"no fetch from {of} is open"
        leader_and_epoch = leader_and_epoch or LeaderAndEpoch(self.epoch, of)
        response = rpc.fetch_response(
            error,
            leader_and_epoch,
            high_watermark=high_watermark,
            diverging=diverging,
            snapshot_id=snapshot_id,
        )
        return self.answer(send, response, records)

    def piece(
        self,
        data: bytes = b"",
        *,
        of: NodeId = 2,
        size_bytes: int = 10,
        snapshot_id: OffsetAndEpoch | None = None,
        position: int | None = None,
        error: ErrorCode = ErrorCode.NONE,
        leader_and_epoch: LeaderAndEpoch | None = None,
    ) -> list[fx.Effect]:
        """Who was asked sends the piece of the snapshot that was asked for, unless told otherwise."""
        send = self.asked(of, m.FetchSnapshotRequest)
        assert send is not None, f"no piece of a snapshot is asked of {of}"
        asked = send.request.topics[0].partitions[0]  # type: ignore[union-attr]
        told = OffsetAndEpoch(asked.snapshot_id.end_offset, asked.snapshot_id.epoch)
        response = snapshot_rpc.response_of(
            error,
            leader_and_epoch or LeaderAndEpoch(self.epoch, of),
            snapshot_id=snapshot_id or told,
            size_bytes=size_bytes,
            position=asked.position if position is None else position,
        )
        return self.answer(send, response, data)

    def written(self, snapshot_id: OffsetAndEpoch, end: int, **outcome: object) -> list[fx.Effect]:
        """The disk has the piece that ends there."""
        return self.feed(ev.SnapshotReceived(snapshot_id, end, **outcome))  # type: ignore[arg-type]

    # --- requests of others -----------------------------------------------------------------------------

    def ask(
        self,
        request: m.QuorumRequest,
        sender: NodeId | None = 2,
        version: int | None = None,
        connection: int = 0,
    ) -> m.QuorumResponse | None:
        """A request comes in; returns the response, unless it is held back."""
        handle = next(self._handles)
        peer = None if sender is None else identity_of(sender)
        version = type(request).MAX_VERSION if version is None else version
        effects = self.feed(ev.RequestReceived(handle, request, version, peer, connection))
        return self.reply_to(handle, effects)

    def reply_to(self, handle: int, effects: Sequence[fx.Effect]) -> m.QuorumResponse | None:
        return next((e.response for e in effects if isinstance(e, fx.Reply) and e.handle == handle), None)

    def ask_vote(
        self,
        epoch: int,
        *,
        candidate: NodeId = 2,
        position: OffsetAndEpoch | None = None,
        receiver: ReplicaKey | None = None,
        directory_id: bytes | None = None,
        pre: bool = False,
    ) -> m.VoteResponsePartitionData:
        """A node asks for the vote, by default with a log as good as ours."""
        key = key_of(candidate) if directory_id is None else ReplicaKey(candidate, directory_id)
        position = self.raft_node.log.position if position is None else position
        ask = VoteParams(epoch, key, position, receiver or ReplicaKey(ME), pre)
        response = self.ask(rpc.vote_request(CLUSTER_ID, ask), candidate)
        assert isinstance(response, m.VoteResponse)
        return response.topics[0].partitions[0]

    def ask_begin(
        self,
        epoch: int,
        leader: NodeId = 2,
        *,
        endpoint: Endpoint | None = None,
        receiver: ReplicaKey | None = None,
        sender: NodeId | None = None,
    ) -> m.BeginQuorumEpochResponsePartitionData:
        """A leader announces itself."""
        endpoint = endpoint or Endpoint(f"host{leader}", 9_000 + max(0, leader))
        request = rpc.begin_request(CLUSTER_ID, receiver or ReplicaKey(ME), epoch, leader, endpoint)
        response = self.ask(request, leader if sender is None else sender)
        assert isinstance(response, m.BeginQuorumEpochResponse)
        return response.topics[0].partitions[0]

    def ask_end(
        self,
        epoch: int,
        leader: NodeId = 2,
        successors: Sequence[ReplicaKey] = (),
        *,
        sender: NodeId | None = None,
    ) -> m.EndQuorumEpochResponsePartitionData:
        """A leader says goodbye."""
        request = rpc.end_request(CLUSTER_ID, epoch, leader, tuple(successors))
        response = self.ask(request, leader if sender is None else sender)
        assert isinstance(response, m.EndQuorumEpochResponse)
        return response.topics[0].partitions[0]

    def ask_fetch(
        self,
        offset: Offset,
        last_epoch: int,
        *,
        epoch: int | None = None,
        replica: NodeId = 2,
        sender: NodeId | None = None,
        wait_ms: int = 0,
        known: Offset = 1 << 62,
    ) -> m.FetchResponsePartitionData | None:
        """A replica fetches; None while the fetch is parked."""
        key = key_of(replica) if replica >= 0 else ReplicaKey(replica)
        at = OffsetAndEpoch(offset, last_epoch)
        ask = FetchParams(key, self.epoch if epoch is None else epoch, at, known, wait_ms)
        request = rpc.fetch_request(CLUSTER_ID, ask, 1 << 20)
        response = self.ask(request, replica if sender is None else sender)
        assert response is None or isinstance(response, m.FetchResponse)
        return None if response is None else response.responses[0].partitions[0]

    def ask_snapshot(
        self,
        snapshot_id: OffsetAndEpoch,
        position: int = 0,
        *,
        epoch: int | None = None,
        replica: NodeId = 2,
        sender: NodeId | None = 2,
        max_bytes: int = 1 << 20,
        prefix_checksum: int = -1,
        cluster_id: str = CLUSTER_ID,
        connection: int | None = None,
    ) -> m.FetchSnapshotResponsePartitionSnapshot | None:
        """A replica asks for a piece of a snapshot, on its connection; None while the disk is read."""
        key = key_of(replica) if replica >= 0 else ReplicaKey(replica)
        epoch = self.epoch if epoch is None else epoch
        ask = FetchSnapshotParams(key, epoch, snapshot_id, position, max_bytes, prefix_checksum)
        connection = 300 + replica if connection is None else connection
        response = self.ask(snapshot_rpc.request_of(cluster_id, ask), sender, connection=connection)
        assert response is None or isinstance(response, m.FetchSnapshotResponse)
        return None if response is None or not response.topics else response.topics[0].partitions[0]

    # --- our own callers --------------------------------------------------------------------------------

    def append(self, *values: bytes, epoch: int | None = None, deadline_ms: int = 60_000) -> int:
        token = next(self._tokens)
        epoch = self.epoch if epoch is None else epoch
        self.feed(ev.AppendRequested(token, epoch, values or (b"value",), self.now_ms + deadline_ms))
        return token

    def read(self, deadline_ms: int = 60_000) -> int:
        token = next(self._tokens)
        self.feed(ev.ReadRequested(token, self.now_ms + deadline_ms))
        return token

    def resign(self, to: NodeId = NO_NODE, deadline_ms: int = 1_000) -> int:
        token = next(self._tokens)
        self.feed(ev.ResignRequested(token, to, self.now_ms + deadline_ms))
        return token

    def shut_down(self, deadline_ms: int = 5_000) -> list[fx.Effect]:
        return self.feed(ev.ShutdownRequested(self.now_ms + deadline_ms))

    def outcome(self, token: int) -> ErrorCode | None:
        done = (fx.AppendDone, fx.ReadDone, fx.ResignDone)
        return next((e.error for e in self.effects if isinstance(e, done) and e.token == token), None)

    # --- ready-made states ------------------------------------------------------------------------------

    def become_candidate(self) -> "Lone":
        """From waiting, by its election timer and a majority of pre-votes."""
        self.run_to_deadline()
        self.vote_response(2, granted=True)
        return self

    def become_leader(self) -> "Lone":
        """Elected by 2; nothing of its own epoch is committed yet."""
        self.become_candidate()
        self.vote_response(2, granted=True)
        return self

    def establish(self) -> "Lone":
        """2 holds everything: the leader's first record is committed."""
        position = self.raft_node.log.position
        self.ask_fetch(position.offset, position.epoch)
        return self


def every(effects: Sequence[fx.Effect], kind: type[Kind]) -> list[Kind]:
    """The effects of that kind."""
    return [effect for effect in effects if isinstance(effect, kind)]


def requests_to(effects: Sequence[fx.Effect], kind: type[m.QuorumRequest]) -> list[NodeId]:
    """Who is sent a request of that kind, in order."""
    return [effect.to for effect in every(effects, fx.Send) if isinstance(effect.request, kind)]


__all__ = ["NEVER_MS", "Lone", "every", "identity_of", "key_of", "requests_to"]
