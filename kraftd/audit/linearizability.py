"""Checks what clients saw: whether one machine, doing one thing at a time, could have given these responses.

Entered by `check`, with the history of all clients: None if every key behaved like a single register, else
one line that names the operation for which there is no place. The history may come from a simulator, from
real processes or from a user's log; where it comes from, and what else must hold (that nothing acknowledged
is lost), is not decided here.

An operation has one of three ends (D-13). `ok`: it took effect between its call and its return. `failed`: it
surely took no effect (NOT_CONTROLLER). `unknown`: it may take effect at any time after its call, or never.

Follows: Wing and Gong's search with Lowe's memory of what was tried, split by key, as Porcupine does it. What
is ours: an unknown write costs nothing. If no client read its value it is as if it had never been; if one
did, it took effect before that read returned. Both need the value to be written once; other unknown writes
stay open to the end.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from itertools import pairwise
from typing import Literal

import msgspec

Kind = Literal["write", "read"]
Outcome = Literal["ok", "failed", "unknown"]

FOREVER = 1 << 62
"""A time after every return, until which an unknown operation may still take effect."""


class Operation(msgspec.Struct, frozen=True):
    """One call of a client. `value` is what was written, or what was read; times are of one clock."""

    client: int
    key: str
    kind: Kind
    value: Hashable
    called: int
    returned: int | None
    outcome: Outcome

    def __str__(self) -> str:
        """The operation as a violation names it."""
        ended = "open" if self.returned is None else self.returned
        return f"{self.kind} of {self.value!r} by client {self.client} ({self.called}..{ended})"


def check(operations: Sequence[Operation], initial: Hashable = None) -> str | None:
    """Return None if the history is linearizable, else one line that explains. `initial` is what a new key
    reads.
    """
    by_key: dict[str, list[Operation]] = defaultdict(list)
    for operation in operations:
        by_key[operation.key].append(operation)
    for key in sorted(by_key):
        complaint = _check_key(by_key[key], initial)
        if complaint is not None:
            return f"key {key}: {complaint}"
    return None


def _check_key(operations: Sequence[Operation], initial: Hashable) -> str | None:
    """Check one key, which is one register."""
    spans = _spans(operations, initial)
    return _unexplained(operations, spans, initial) or _search(spans, initial)


class _Span(msgspec.Struct):
    """An operation that has to be placed, and when: `called <= place <= returned`."""

    operation: Operation
    is_read: bool
    value: Hashable
    called: int
    returned: int


def _spans(operations: Sequence[Operation], initial: Hashable) -> list[_Span]:
    """Return the operations that have to be placed, by call. Those that failed, or had no visible effect,
    need no place.
    """
    first_seen: dict[Hashable, int] = {}
    for read in _completed_reads(operations):
        first_seen[read.value] = min(first_seen.get(read.value, FOREVER), _end(read))
    written = Counter(operation.value for operation in operations if operation.kind == "write")
    written[initial] += 1
    spans = []
    for operation in operations:
        end = _end(operation)
        if operation.outcome == "failed" or (operation.kind == "read" and operation.outcome == "unknown"):
            continue
        if operation.outcome == "unknown":
            if operation.value not in first_seen:
                continue  # as if it had never been, however often it was tried
            if written[operation.value] == 1:
                end = max(operation.called, first_seen[operation.value])
        is_read = operation.kind == "read"
        spans.append(_Span(operation, is_read, operation.value, operation.called, end))
    spans.sort(key=lambda span: (span.called, span.returned))
    return spans


def _completed_reads(operations: Iterable[Operation]) -> Iterable[Operation]:
    return (o for o in operations if o.kind == "read" and o.outcome == "ok")


def _end(operation: Operation) -> int:
    if operation.outcome == "unknown" or operation.returned is None:
        return FOREVER
    return operation.returned


def _unexplained(operations: Sequence[Operation], spans: Sequence[_Span], initial: Hashable) -> str | None:
    """Return the commonest faults in plain words: a value never written, or written only later."""
    written_at: dict[Hashable, int] = {initial: -FOREVER}
    for span in spans:
        if not span.is_read:
            written_at[span.value] = min(written_at.get(span.value, FOREVER), span.called)
    refused = {o.value for o in operations if o.kind == "write" and o.outcome == "failed"}
    for span in spans:
        if not span.is_read:
            continue
        if span.value not in written_at:
            why = "its write was refused" if span.value in refused else "nobody wrote it"
            return f"{span.operation} is impossible: {why}"
        if written_at[span.value] > span.returned:
            return f"{span.operation} is impossible: it was written later"
    return None


class _Places:
    """The calls and returns not yet placed, in order of time: a doubly linked list that undoes its cuts.

    Place `2i` is the call of span `i`, `2i + 1` its return; the two after them are the list's ends.
    """

    def __init__(self, spans: Sequence[_Span]) -> None:
        size = 2 * len(spans)
        # At one instant calls come before returns: what touches is concurrent.
        order = sorted(range(size), key=lambda place: (_time(spans, place), place & 1, place))
        self.head, self.tail = size, size + 1
        self.next = [0] * (size + 2)
        self.previous = [0] * (size + 2)
        ring = [self.head, *order, self.tail]
        for before, after in pairwise(ring):
            self.next[before], self.previous[after] = after, before

    def lift(self, span: int) -> None:
        """Take a span's call and return out."""
        for place in (2 * span, 2 * span + 1):
            before, after = self.previous[place], self.next[place]
            self.next[before], self.previous[after] = after, before

    def put_back(self, span: int) -> None:
        """Undo the newest `lift`, which was of this span."""
        for place in (2 * span + 1, 2 * span):
            self.next[self.previous[place]] = place
            self.previous[self.next[place]] = place


def _time(spans: Sequence[_Span], place: int) -> int:
    span = spans[place // 2]
    return span.returned if place & 1 else span.called


def _search(spans: Sequence[_Span], initial: Hashable) -> str | None:
    """Place one span after the other; where the next return has no span placed, go back and try another.

    What is placed is `base` (all spans below it) and `ahead` (a bit for each above it), so that the memory of
    what was tried costs as much as spans overlap, not as many as there are.
    """
    places = _Places(spans)
    following, tail = places.next, places.tail
    tried: set[tuple[int, int, Hashable]] = set()
    stack: list[tuple[int, Hashable, int, int]] = []
    value, base, ahead = initial, 0, 0
    deepest, stuck, values = -1, 0, set[Hashable]()
    place = following[places.head]
    while following[places.head] != tail:
        if place & 1:
            if len(stack) > deepest:
                deepest, stuck, values = len(stack), place // 2, set()
            if len(stack) == deepest and stuck == place // 2:
                values.add(value)
            if not stack:
                return _complaint(spans[stuck], deepest, len(spans), values)
            span, value, base, ahead = stack.pop()
            places.put_back(span)
            place = following[2 * span]
            continue
        span = place // 2
        if spans[span].is_read and spans[span].value != value:
            place = following[place]
            continue
        then_base, then_ahead = base, ahead | 1 << (span - base)
        while then_ahead & 1:
            then_base, then_ahead = then_base + 1, then_ahead >> 1
        key = (then_base, then_ahead, spans[span].value)
        if key in tried:
            place = following[place]
            continue
        tried.add(key)
        stack.append((span, value, base, ahead))
        value, base, ahead = spans[span].value, then_base, then_ahead
        places.lift(span)
        place = following[places.head]
    return None


def _complaint(stuck: _Span, placed: int, total: int, values: Iterable[Hashable]) -> str:
    could_be = ", ".join(sorted(map(repr, values)))
    return (
        f"{stuck.operation} has no place after {placed} of {total} operations; the value is {could_be} there"
    )
