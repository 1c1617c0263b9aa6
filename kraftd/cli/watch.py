"""`kraftctl watch [--from OFFSET] [--changes]`: what is committed, as it is committed, as JSON lines.

Any node answers, leader or not; what it has not heard is committed is not told. A lost connection is gone on
from at the next node, without a gap and without a repetition. To go on after an interruption, name the
offset after the last line's: `--from` OFFSET + 1. Where no node's log reaches back so far, a snapshot comes
first, in a line of its own: what is told of it replaces everything before.

Schema, one object a line, told apart by `kind`:
    record: offset, timestamp (ms), epoch, is_control, type, version, data (object or null), problem (text or
        null: why there is no data)
    change (with --changes): offset (of the last record of the batch that made it), timestamp, epoch, entity,
        name, what, text, before, after, as in `log diff`
    snapshot: offset (what it holds is before it), epoch, timestamp (of the last record in it)
Records and changes behind a snapshot's line that come from it have offset -1. With --changes they are what
differs between the snapshot and what was known before, so that nothing is told twice.

Keys of SCRAM credentials and values that may be passwords are hidden unless --show-secrets is given.
"""

import sys
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, TypeAlias

import typer

from kraftd.cli.active_controller import kafka_text
from kraftd.cli.dump import content_of
from kraftd.cli.failures import CommandError, NotConnectedError, RefusedError
from kraftd.cli.log_diff import change_data
from kraftd.cli.log_state import SecretsOption
from kraftd.cli.log_stream import LogEnds, LogStream, WholeSnapshot
from kraftd.cli.options import OFFSET_MAX, BootstrapOption, bootstrap_of
from kraftd.cli.output import note, to_json_line
from kraftd.errors import MalformedError
from kraftd.logtools.quorum_facts import QuorumFacts, controls_of, quorum_changes
from kraftd.metadata.image import EMPTY
from kraftd.metadata.image_builder import ImageBuilder
from kraftd.metadata.image_diff import changes
from kraftd.metadata.impossible import ImpossibleRecordError
from kraftd.records.batch import BatchView
from kraftd.types import Endpoint, Epoch, Offset, OffsetAndEpoch

app = typer.Typer()

Json: TypeAlias = dict[str, Any]

_OF_SNAPSHOT: Offset = -1


@app.command("watch")
def watch(
    context: typer.Context,
    from_offset: Annotated[
        int | None,
        typer.Option(
            "--from",
            min=0,
            max=OFFSET_MAX,
            metavar="OFFSET",
            help="Begin here. (default: what is committed from now on)",
            show_default=False,
        ),
    ] = None,
    as_changes: Annotated[
        bool, typer.Option("--changes", help="Tell what changed in the cluster instead of records.")
    ] = False,
    show_secrets: SecretsOption = False,
    bootstrap: BootstrapOption = None,
) -> None:
    """Tell what is committed as it is committed, one JSON object a line, until interrupted."""
    nodes = bootstrap_of(context, bootstrap)
    stream = LogStream(nodes, note)
    ends = _ends(stream, nodes)
    begin = ends.high_watermark if from_offset is None else from_offset
    if begin > ends.high_watermark:
        note(f"waiting for offset {begin}: what is committed ends before {ends.high_watermark}")
    if as_changes:
        lines = change_lines(stream, ends, begin, show_secrets=show_secrets)
    else:
        lines = record_lines(stream, begin, show_secrets=show_secrets)
    for line in lines:
        sys.stdout.write(to_json_line(line) + "\n")
        sys.stdout.flush()


def _ends(stream: LogStream, nodes: Iterable[Endpoint]) -> LogEnds:
    try:
        return stream.ends()
    except NotConnectedError as error:
        shows = "kraftctl log state --from HOST:PORT shows what is committed there"
        text = kafka_text(tuple(nodes), "cannot be watched", shows)
        if text is None:
            raise
        raise RefusedError(text) from error


# --- records ---------------------------------------------------------------------------------------------


def record_lines(stream: LogStream, begin: Offset, *, show_secrets: bool) -> Iterator[Json]:
    """Every committed record from an offset on."""
    for part in stream.follow(begin):
        if isinstance(part, WholeSnapshot):
            yield _snapshot_line(part)
            for batch in part.batches:
                for line in _lines_of(batch, show_secrets=show_secrets):
                    yield line | {"offset": _OF_SNAPSHOT}
            begin = part.id.offset
        else:
            lines = _lines_of(part, show_secrets=show_secrets)
            yield from (line for line in lines if line["offset"] >= begin)


def _lines_of(batch: BatchView, *, show_secrets: bool) -> Iterator[Json]:
    for record in batch.records():
        problem = None
        try:
            told = content_of(record, is_control=batch.is_control, show_secrets=show_secrets)
        except MalformedError as error:
            told, problem = {"type": "UNREADABLE", "version": -1, "data": None}, str(error)
        yield {
            "kind": "record",
            "offset": batch.base_offset + record.offset_delta,
            "timestamp": batch.base_timestamp + record.timestamp_delta,
            "epoch": batch.epoch,
            "is_control": batch.is_control,
            "type": told["type"],
            "version": told["version"],
            "data": told["data"],
            "problem": problem,
        }


def _snapshot_line(snapshot: WholeSnapshot) -> Json:
    return {
        "kind": "snapshot",
        "offset": snapshot.id.offset,
        "epoch": snapshot.id.epoch,
        "timestamp": snapshot.timestamp_ms,
    }


# --- changes ---------------------------------------------------------------------------------------------


def change_lines(stream: LogStream, ends: LogEnds, begin: Offset, *, show_secrets: bool) -> Iterator[Json]:
    """What each committed batch changes, from an offset on."""
    image = _FoldedImage(show_secrets=show_secrets)
    base = stream.snapshot(lambda ids: _base_of(ids, ends.start_offset, begin))
    if base is not None:
        image.replace(base)
    for part in stream.follow(image.end_offset):
        if isinstance(part, WholeSnapshot):
            yield _snapshot_line(part)
            yield from image.replace(part)
        elif part.end_offset <= begin:
            image.fold(part)
        else:
            yield from image.changes_by(part)


def _base_of(ids: Iterable[OffsetAndEpoch], start: Offset, begin: Offset) -> OffsetAndEpoch | None:
    """The newest snapshot that the log goes on from, and that holds nothing which is to be told."""
    return max(
        (one for one in ids if start <= one.offset <= begin), key=lambda one: one.log_order, default=None
    )


class _FoldedImage:
    """The image of what was read, and what changes in it."""

    def __init__(self, *, show_secrets: bool) -> None:
        self.end_offset: Offset = 0
        self._image, self._quorum = EMPTY, QuorumFacts()
        self._builder = ImageBuilder(EMPTY)
        self._show_secrets = show_secrets

    def fold(self, batch: BatchView) -> None:
        """Apply a batch of which nothing is to be told.

        Raises:
            CommandError: It cannot follow what came before it.
        """
        try:
            self._quorum = self._quorum.after(controls_of(batch), batch.epoch)
            if not batch.is_control:
                self._builder.apply_values(batch.values(), batch.base_offset)
        except (ImpossibleRecordError, MalformedError) as error:
            text = f"the records at offset {batch.base_offset} cannot follow what came before them: {error}"
            raise CommandError(text) from error
        self.end_offset = batch.end_offset

    def changes_by(self, batch: BatchView) -> list[Json]:
        """Apply a batch; what it changes. What is in an open transaction changes when that ends."""
        image, quorum = self._builder.image(), self._quorum
        self.fold(batch)
        return self._told(image, quorum, batch.last_offset, batch.max_timestamp, batch.epoch)

    def replace(self, snapshot: WholeSnapshot) -> list[Json]:
        """Go on from a snapshot; what differs between it and what was known."""
        image, quorum = self._builder.image(), self._quorum
        self._builder, self._quorum = ImageBuilder(EMPTY), QuorumFacts()
        for batch in snapshot.batches:
            self.fold(batch)
        self.end_offset = snapshot.id.offset
        if not self._quorum.voters:  # those of a static quorum are in no snapshot
            self._quorum = quorum
        return self._told(image, quorum, _OF_SNAPSHOT, snapshot.timestamp_ms, snapshot.id.epoch)

    def _told(
        self, image: Any, quorum: QuorumFacts, offset: Offset, timestamp_ms: int, epoch: Epoch
    ) -> list[Json]:
        after = self._builder.image()
        found = [
            *quorum_changes(quorum, self._quorum),
            *changes(image, after, show_secrets=self._show_secrets),
        ]
        return [
            {
                "kind": "change",
                "offset": offset,
                "timestamp": timestamp_ms,
                "epoch": epoch,
                **change_data(one),
            }
            for one in found
        ]
