"""The committed log of a running quorum, batch after batch, from whichever node answers (FetchCommitted).

`LogStream.follow` goes on for ever: where a connection is lost it goes on at another node with the next
offset, and what it tells meanwhile is a remark, not a failure. It ends when every node says no, as to one who
lacks the right: that does not pass, while a node that cannot be reached may come back, and one that has just
started says that it does not know yet who may read. Where a log does not reach back to that offset, a whole
snapshot comes first: the oldest that the log goes on from, so that as little as can be is skipped. It is
taken with an export, on a connection of its own, and proved before it is told.

Not here: what is made of the records (`watch`).
"""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath
from typing import TypeAlias

import msgspec

from kraftd.cli.client import Connection, error_name, raise_for
from kraftd.cli.export import NodeSource
from kraftd.cli.failures import CommandError, NotConnectedError, RefusedError
from kraftd.errors import ErrorCode, MalformedError
from kraftd.protocol.messages import FetchCommittedRequest, FetchCommittedResponse
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
        """Read from these nodes; `tell` is given remarks for the person at the terminal."""
        self._nodes = list(nodes)
        self._tell = tell
        self._offset: Offset = 0
        self._refused: set[Endpoint] = set()
        """Who said no when it was last asked; nobody, once records have come."""

    def ends(self) -> LogEnds:
        """Where the log of the first node that answers begins, and up to where it is committed.

        Raises:
            NotConnectedError: None answers.
            RefusedError: None of those that answer serves this.
            CommandError: None does, and what one of them failed with is no such refusal.
        """
        reasons = []
        for _ in self._nodes:
            try:
                with Connection(self._nodes[0], TIMEOUT_MS) as connection:
                    response, _ = fetch_committed(connection, 0)
                    _raise_for(response, connection.endpoint)
                    return LogEnds(response.start_offset, max(response.high_watermark, 0))
            except CommandError as error:
                reasons.append(error)
                self._turn_to_next()
        answers = [error for error in reasons if not isinstance(error, NotConnectedError)]
        if answers:
            raise next((error for error in answers if isinstance(error, RefusedError)), answers[0])
        text = "; ".join(dict.fromkeys(map(str, reasons)))
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
                with Connection(self._nodes[0], TIMEOUT_MS) as connection:
                    yield from self._read_from(connection)
            except (CommandError, MalformedError) as error:
                if isinstance(error, RefusedError):
                    self._refused.add(self._nodes[0])
                    if self._refused.issuperset(self._nodes):
                        raise
                else:
                    self._refused.discard(self._nodes[0])
                self._turn_to_next()
                self._tell(f"{error}; going on at offset {self._offset} from {self._nodes[0]}")
                time.sleep(_PAUSE_S)

    def snapshot(
        self, choose: Callable[[Sequence[OffsetAndEpoch]], OffsetAndEpoch | None]
    ) -> WholeSnapshot | None:
        """One of a node's snapshots, oldest first, that `choose` names; None if it names none.

        Raises:
            CommandError: It cannot be had from this node.
        """
        with Connection(self._nodes[0], TIMEOUT_MS) as connection:
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

    def _turn_to_next(self) -> None:
        self._nodes.append(self._nodes.pop(0))

    def _read_from(self, connection: Connection) -> Iterator[Part]:
        while True:
            asked_at = time.monotonic()
            response, records = fetch_committed(connection, self._offset, _WAIT_MS)
            if response.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                yield self._snapshot_after(response.start_offset)
                continue
            _raise_for(response, connection.endpoint)
            self._refused.clear()
            for batch in scan(records):
                self._offset = batch.end_offset
                yield batch
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
        self._offset = taken.id.offset
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
