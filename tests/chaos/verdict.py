"""Was every promise kept? What clients were told, held against the logs that the nodes have at the end.

Entered by `complaints`, with the history, the logs, what was told of them while they grew, and the offset up
to which all of it must agree; none is the verdict that is hoped for. The history must be linearizable by
itself. And the log is the truth of what happened: what was acknowledged is in it, once; what was refused is
not; and what was acknowledged before another write was called stands before it.

Not here: how nodes ended and what they said, which `quorum` hears while it happens; snapshots (`bounds`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kraftd.audit.linearizability import FOREVER, Operation, check
from kraftd.errors import CorruptBatchError
from kraftd.records.batch import BatchView, scan
from kraftd.records.frame import decode_record
from kraftd.records.messages import ConfigRecord
from kraftd.records.names import LOG_DIRECTORY
from kraftd.types import NodeId, Offset
from tests.chaos.clients import CONFIG
from tests.chaos.ledger import Ledger

NAMED = 3
"""How many operations a complaint names; there may be thousands."""


class Logged(NamedTuple):
    """A write as it stands in the log."""

    offset: Offset
    key: str
    value: str


def complaints(
    history: Sequence[Operation],
    logs: Mapping[NodeId, Sequence[BatchView]],
    committed: Offset | None,
    ledger: Ledger | None = None,
) -> Iterator[str]:
    """Everything that is wrong, a line each. Where nobody knows what is committed, logs prove nothing.

    The ledger has what was told of the log while it grew: what was cut since is known from there.
    """
    ledger = ledger or Ledger()
    if committed is not None:
        disagreements = list(disagreements_of(logs, committed, ledger))
        yield from disagreements
        if not disagreements:
            batches, gap = ledger.up_to(committed)
            yield from [gap] if gap else contradictions(history, list(writes_in(batches)))
    not_linearizable = check(history)
    if not_linearizable is not None:
        yield f"not linearizable: {not_linearizable}"


def read_log(directory: Path) -> list[BatchView]:
    """The log of a node that has ended; raises CorruptBatchError if it cannot be read."""
    batches: list[BatchView] = []
    for file in sorted((directory / LOG_DIRECTORY).glob("*.log")):
        for batch in scan(file.read_bytes(), path=str(file)):
            batch.check()
            batches.append(batch)
    return batches


def disagreements_of(
    logs: Mapping[NodeId, Sequence[BatchView]], committed: Offset, ledger: Ledger
) -> Iterator[str]:
    """Where the logs differ below what is committed, byte for byte, from each other or the ledger."""
    for node_id, batches in logs.items():
        whole = _up_to(batches, committed)
        end = whole[-1].end_offset if whole else 0
        if end != committed:
            yield f"the log of node {node_id} ends at {end}, but everything below {committed} is committed"
        ledger.tell(node_id, whole)
    yield from ledger.disagreements


def writes_in(batches: Iterable[BatchView]) -> Iterator[Logged]:
    """The writes of our clients."""
    for batch in batches:
        for offset, value in enumerate(batch.values(), batch.base_offset):
            record = decode_record(value)
            if isinstance(record, ConfigRecord) and record.name == CONFIG and record.value is not None:
                yield Logged(offset, record.resource_name, record.value)


def contradictions(history: Sequence[Operation], logged: Sequence[Logged]) -> Iterator[str]:
    """What clients were told of their writes and the log denies."""
    writes = {operation.value: operation for operation in history if operation.kind == "write"}
    offsets: dict[str, Offset] = {}
    twice, strange = [], []
    for offset, key, value in logged:
        if value in offsets:
            twice.append(writes.get(value))
        offsets[value] = offset
        if value not in writes or writes[value].key != key:
            strange.append(f"{value!r} of key {key}")
    acknowledged = [o for o in writes.values() if o.outcome == "ok"]
    yield from named("acknowledged and lost", [o for o in acknowledged if o.value not in offsets])
    refused = [o for o in writes.values() if o.outcome == "failed" and o.value in offsets]
    yield from named("refused as not appended, and in the log", refused)
    yield from named("in the log twice", twice)
    yield from named("in the log, and nobody wrote it", strange)
    yield from named(
        "before a write in the log that was acknowledged before it was called",
        _misplaced([writes[value] for _, _, value in logged if value in writes]),
    )


def _misplaced(in_log_order: Sequence[Operation]) -> list[Operation]:
    """Writes that stand before one whose acknowledgement came before their call."""
    misplaced = []
    first_return = FOREVER
    for operation in reversed(in_log_order):
        if first_return < operation.called:
            misplaced.append(operation)
        if operation.outcome == "ok" and operation.returned is not None:
            first_return = min(first_return, operation.returned)
    return misplaced


def _up_to(batches: Sequence[BatchView], committed: Offset) -> list[BatchView]:
    return [batch for batch in batches if batch.base_offset < committed]


def named(what: str, found: Sequence[object]) -> Iterator[str]:
    """A line about what was found, if anything was; it names some."""
    if found:
        more = "" if len(found) <= NAMED else f" and {len(found) - NAMED} more"
        yield f"{what}: {'; '.join(map(str, found[:NAMED]))}{more}"


def readable(directories: Mapping[NodeId, Path]) -> tuple[dict[NodeId, list[BatchView]], list[str]]:
    """The logs that can be read, and what is wrong with the others."""
    logs, problems = {}, []
    for node_id, directory in directories.items():
        try:
            logs[node_id] = read_log(directory)
        except CorruptBatchError as error:
            problems.append(f"the log of node {node_id} cannot be read: {error}")
    return logs, problems
