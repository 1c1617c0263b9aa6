"""The committed log of a running quorum, batch after batch, from whichever node answers (FetchCommitted).

`LogStream.follow` goes on for ever: where a connection is lost it goes on at another node with the next
offset, one that was named or one that a node told of while it answered. What it tells meanwhile is a remark,
not a failure: where it has gone on, and once, that nobody answers. It ends when every node says no, as to one
who lacks the right: that does not pass, while a node that cannot be reached may come back, and one that has
just started says that it does not know yet who may read. Where a log does not reach back to that offset, a
whole snapshot comes first: the oldest that the log goes on from, so that as little as can be is skipped. It
is taken with an export, on a connection of its own, and proved before it is told.

Not here: what is made of the records (`watch`).
"""

import time
from collections.abc import Callable, Iterator, Sequence
from math import inf
from pathlib import PurePath
from typing import TypeAlias

import msgspec

from kraftd.cli.client import Connection, error_name, raise_for
from kraftd.cli.export import NodeSource
from kraftd.cli.failures import CommandError, NotConnectedError, RefusedError, UnhealthyError
from kraftd.cli.survey import NAMED_BY_ONE_MAX, named_by
from kraftd.errors import ErrorCode, MalformedError
from kraftd.protocol.messages import (
    DescribeNodeRequest,
    DescribeNodeResponse,
    FetchCommittedRequest,
    FetchCommittedResponse,
)
from kraftd.records import names
from kraftd.records.batch import BatchView, scan
from kraftd.records.names import ExportKind
from kraftd.records.snapshot import SnapshotDecoder
from kraftd.types import Endpoint, Offset, OffsetAndEpoch

TIMEOUT_MS = 5_000
"""How long a node may take to answer, besides what it waits for records."""

_WAIT_MS = 2_000
_BATCHES_BYTES = 256 << 10
_PIECE_BYTES = 1 << 20
_PAUSE_S = 0.5
"""Before the nodes are asked once more, and before one that has no room for waiting readers is."""
_NODES_TOLD_EVERY_S = 60
"""How often the node that is read from is asked which others there are: controllers come and go."""


class WholeSnapshot(msgspec.Struct, frozen=True):
    """A snapshot that was taken from a node and proved."""

    id: OffsetAndEpoch
    timestamp_ms: int
    """Of the last record that it stands for."""
    batches: tuple[BatchView, ...]


Part: TypeAlias = BatchView | WholeSnapshot


class LogEnds(msgspec.Struct, frozen=True):
    """What a node has of the log."""

    start_offset: Offset
    high_watermark: Offset


class LogStream:
    """Reads from one node at a time, and from the next when that one is lost."""

    def __init__(self, nodes: Sequence[Endpoint], tell: Callable[[str], None]) -> None:
        """Read from these nodes first; `tell` is given remarks for the person at the terminal."""
        self._named = tuple(nodes)
        self._nodes = list(nodes)
        """All that are known; the first is read from."""
        self._tell = tell
        self._offset: Offset = 0
        self._cluster_id = ""
        """Of the first node that answered. The log of another cluster does not go on here."""
        self._is_reading = False
        """Whether the node that is read from has given what was asked for."""
        self._lost = ""
        """Why no more was read from the last that did."""
        self._failures: dict[Endpoint, CommandError | MalformedError] = {}
        """Why the nodes gave nothing that were asked since."""
        self._told = ""
        """Which failures of all nodes were told last; empty once a node gives something."""

    def ends(self) -> LogEnds:
        """Where the log of the first node that answers begins, and up to where it is committed.

        Raises:
            NotConnectedError: None answers.
            RefusedError: None of those that answer serves this.
            CommandError: None does, and what one of them failed with is no such refusal.
        """
        reasons: dict[Endpoint, CommandError] = {}
        while (node := self._nodes[0]) not in reasons:
            try:
                with self._connect() as connection:
                    self._learn_nodes(connection)
                    response, _ = fetch_committed(connection, 0)
                    _raise_for(response, connection.endpoint)
                    return LogEnds(response.start_offset, max(response.high_watermark, 0))
            except CommandError as error:
                reasons[node] = error
                self._turn_to_next()
        answers = [error for error in reasons.values() if not isinstance(error, NotConnectedError)]
        if answers:
            raise next((error for error in answers if isinstance(error, RefusedError)), answers[0])
        text = "; ".join(dict.fromkeys(map(str, reasons.values())))
        raise NotConnectedError(
            f"no node answers: {text}; check that they run, and the ports that were named"
        )

    def follow(self, offset: Offset) -> Iterator[Part]:
        """Every committed batch from the one that holds `offset`, or a snapshot and what is behind it.

        Raises:
            RefusedError: Every node has refused, one after the other.
        """
        self._offset = offset
        while True:
            try:
                with self._connect() as connection:
                    yield from self._read_from(connection)
            except (CommandError, MalformedError) as error:
                self._note_failure(error)
                if all(isinstance(self._failures.get(node), RefusedError) for node in self._nodes):
                    raise
                self._turn_to_next()
                self._tell_silence()
                time.sleep(_PAUSE_S)

    def snapshot(
        self, choose: Callable[[Sequence[OffsetAndEpoch]], OffsetAndEpoch | None]
    ) -> WholeSnapshot | None:
        """One of a node's snapshots, oldest first, that `choose` names; None if it names none.

        Raises:
            CommandError: It cannot be had from this node.
        """
        with self._connect() as connection:
            source = NodeSource(connection)
            found = {
                names.parse_snapshot_name(PurePath(file.name).name): file
                for file in source.files()
                if file.kind == ExportKind.SNAPSHOT
            }
            ids = sorted(
                (one for one in found if one is not None and one.offset > 0), key=lambda one: one.log_order
            )
            chosen = choose(ids)
            if chosen is None:
                return None
            return _read_snapshot(source, found[chosen].name, chosen)

    def _connect(self) -> Connection:
        """A connection to the first node.

        Raises:
            CommandError: It cannot be reached, refuses, or is of another cluster than those before.
        """
        connection = Connection(self._nodes[0], TIMEOUT_MS)
        theirs = connection.peer.cluster_id
        self._cluster_id = self._cluster_id or theirs
        if theirs != self._cluster_id:
            connection.close()
            ours = self._cluster_id
            raise CommandError(f"{self._nodes[0]}: a node of another cluster answers: {theirs}, not {ours}")
        return connection

    def _learn_nodes(self, connection: Connection) -> None:
        """Learn from the first node which others there are; nothing, if it must not or cannot tell us.

        Those of before are forgotten, unless the user named them.
        """
        try:
            said = connection.call(DescribeNodeRequest(), DescribeNodeResponse, TIMEOUT_MS)
            raise_for(said.error_code, None, str(connection.endpoint))
        except (RefusedError, UnhealthyError):
            return
        others = [endpoint for endpoint, _ in named_by(said)[:NAMED_BY_ONE_MAX]]
        if others:
            kept = [node for node in self._nodes[1:] if node in self._named or node in others]
            self._nodes = list(dict.fromkeys([self._nodes[0], *kept, *others]))

    def _turn_to_next(self) -> None:
        self._nodes.append(self._nodes.pop(0))

    def _note_failure(self, error: CommandError | MalformedError) -> None:
        """Note why nothing more comes from the first node. One that did give something may only have lost a
        connection, and is asked again before it counts as one that gives nothing.
        """
        if self._is_reading:
            self._lost = str(error)
        if not self._is_reading or isinstance(error, RefusedError):
            self._failures[self._nodes[0]] = error
        self._is_reading = False

    def _tell_silence(self) -> None:
        """Tell that no node gives anything, once, and again when they fail in another way."""
        if not self._failures.keys() >= set(self._nodes):
            return
        reasons: dict[str, list[Endpoint]] = {}
        for node, error in self._failures.items():
            if node in self._nodes:
                reasons.setdefault(str(error).removeprefix(f"{node}: "), []).append(node)
        is_silent = all(isinstance(self._failures[node], NotConnectedError) for node in self._nodes)
        what = "no node answers" if is_silent else "no node tells what is committed"
        why = "; ".join(f"{', '.join(map(str, nodes))}: {reason}" for reason, nodes in reasons.items())
        if self._told != why:
            self._told = why
            self._tell(f"{what}: {why}; asking on, to go on at offset {self._offset}")

    def _tell_success(self) -> None:
        """Tell where it goes on, and why not where it did before, unless nothing has failed."""
        if self._is_reading:
            return
        reasons = [] if self._told else [self._lost, *map(str, self._failures.values())]
        if self._told or any(reasons):
            going_on = f"going on at offset {self._offset} from {self._nodes[0]}"
            self._tell("; ".join([*filter(None, dict.fromkeys(reasons)), going_on]))
        self._is_reading, self._lost, self._told = True, "", ""
        self._failures.clear()

    def _read_from(self, connection: Connection) -> Iterator[Part]:
        learned_at = -inf
        while True:
            asked_at = time.monotonic()
            if asked_at - learned_at >= _NODES_TOLD_EVERY_S:
                self._learn_nodes(connection)
                learned_at = asked_at
            response, records = fetch_committed(connection, self._offset, _WAIT_MS)
            if response.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                snapshot = self._snapshot_after(response.start_offset)
                self._tell_success()
                self._offset = snapshot.id.offset
                yield snapshot
                continue
            _raise_for(response, connection.endpoint)
            for batch in scan(records):
                self._tell_success()
                self._offset = batch.end_offset
                yield batch
            self._tell_success()
            if not records and time.monotonic() - asked_at < _PAUSE_S:
                time.sleep(_PAUSE_S)

    def _snapshot_after(self, start: Offset) -> WholeSnapshot:
        """The oldest snapshot that the log goes on from.

        Raises:
            CommandError: It cannot be had; never a `RefusedError`, since the node does give us its records.
        """
        try:
            taken = self.snapshot(lambda ids: next((one for one in ids if one.offset >= start), None))
        except RefusedError as error:
            raise CommandError(str(error)) from error
        if taken is None:
            raise CommandError(
                f"{self._nodes[0]}: its log begins at offset {start}, and it has no snapshot there"
            )
        return taken


def fetch_committed(
    connection: Connection, offset: Offset, wait_ms: int = 0
) -> tuple[FetchCommittedResponse, bytes]:
    """Some committed batches from the one that holds an offset on; none if there is none in that time."""
    request = FetchCommittedRequest(offset=offset, max_wait_ms=wait_ms, max_bytes=_BATCHES_BYTES)
    return connection.call_with_records(request, FetchCommittedResponse, wait_ms + TIMEOUT_MS)


def _raise_for(response: FetchCommittedResponse, who: Endpoint) -> None:
    """End as the error of a response demands; that a log begins later than was asked for is none.

    Raises:
        RefusedError: The node says no, and would again.
        CommandError: It cannot; another may, or this one later.
    """
    if response.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        return
    if response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR:
        raise CommandError(f"{who}: {response.error_message or error_name(response.error_code)}")
    raise_for(response.error_code, response.error_message, str(who))


def _read_snapshot(source: NodeSource, name: str, snapshot_id: OffsetAndEpoch) -> WholeSnapshot:
    decoder = SnapshotDecoder(name, snapshot_id.epoch)
    batches: list[BatchView] = []
    position = 0
    try:
        while piece := source.read(name, position, _PIECE_BYTES):
            batches += decoder.feed(piece)
            position += len(piece)
        decoder.finish()
    except MalformedError as error:
        raise CommandError(str(error)) from error
    header = decoder.header
    timestamp_ms = -1 if header is None else header.last_contained_log_timestamp
    return WholeSnapshot(snapshot_id, timestamp_ms, tuple(batches))
