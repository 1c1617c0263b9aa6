"""Where the records of batches are, one entry a row: numpy finds the many, Python the few.

A record is *regular* if its batch is sound and as controllers write it, and its value has the frame of a kind
and version that are known: then all that is needed is where the value begins and ends. Any other is *odd*: a
control record, one of a foreign batch, of a kind from the future, or the one row of a batch that is damaged.
It is read by itself.
"""

from collections import Counter
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from kraftd.errors import CorruptBatchError
from kraftd.records.batch import BatchView
from kraftd.records.batch_header import CONTROL, HEADER_BYTES
from kraftd.records.frame import RECORD_CODECS, RECORD_NAMES
from kraftd.replay.source.contents import FRAME_BYTES, Content, control_content, odd_content
from kraftd.replay.source.filters import RecordFilter
from kraftd.replay.source.headers import Headers
from kraftd.replay.source.lockstep import Flags, Longs, find_values, worth_a_step

KINDS_MAX: Final = 128
"""Kinds and versions of one byte; all known ones are below."""
_KNOWN: Final = np.zeros((KINDS_MAX, KINDS_MAX), dtype=np.bool_)
for _kind, _version in RECORD_CODECS.known:
    _KNOWN[_kind, _version] = True

MAX_TIMESTAMP_MS: Final = 253_402_300_799_999
"""The end of the year 9999, the last that Spark can show; what is beyond it, or negative, is no time."""

UNDECODABLE: Final = "undecodable"
"""The name of what has no kind."""

_VARINT_STEPS: Final = np.array([1 << 6, 1 << 13, 1 << 20, 1 << 27])
"""From these lengths on, a zig-zag varint takes a byte more."""


class KindTotals(NamedTuple):
    """How many records there are of a kind (is control, type, version), and how long their values are."""

    kind: tuple[bool, str, int | None]
    records: int
    value_bytes: int


class Odd(msgspec.Struct, frozen=True):
    """A record that was read by itself. `moved` is how far its offset is from its place: zero, unless
    something foreign wrote the batch.
    """

    content: Content
    key: bytes | None = None
    value: bytes | None = None
    moved: int = 0
    later_ms: int = 0


class Records:
    """The records of batches whose positions are inside `part`, which begins at `part_at` in its file."""

    def __init__(self, part: bytes, headers: Headers, part_at: int) -> None:
        self.part = part
        self.headers = headers
        self._part_at = part_at
        whole_data = headers["whole"] & (headers["attributes"] & CONTROL == 0)
        counts = headers["record_count"].astype(np.int64)
        whole_data &= worth_a_step(np.where(whole_data, counts, 0))
        found = find_values(part, headers[whole_data])
        in_step = np.zeros(len(headers), dtype=np.bool_)
        in_step[np.flatnonzero(whole_data)[found.regular]] = True
        alone = {index: self._alone(index) for index in np.flatnonzero(~in_step).tolist()}
        for index, rows in alone.items():
            counts[index] = len(rows)
        firsts = np.cumsum(counts) - counts
        self.count = int(counts.sum())
        self.batch: Longs = np.repeat(np.arange(len(headers)), counts)
        self.offsets: Longs = (headers["base_offset"] - firsts)[self.batch] + np.arange(self.count)
        self.timestamps: Longs = headers["base_timestamp_ms"][self.batch]
        self.starts: Longs = np.zeros(self.count, dtype=np.int64)
        self.ends: Longs = np.zeros(self.count, dtype=np.int64)
        step_rows = in_step[self.batch]
        self.starts[step_rows] = found.starts
        self.ends[step_rows] = found.ends
        self.odd: dict[int, Odd] = {}
        for index, rows in alone.items():
            self._place(int(firsts[index]), rows)
        self._read_frames()

    def totals(self) -> list[KindTotals]:
        """Records by kind; those of damaged batches are none."""
        codes = self.kinds[~self.is_odd].astype(np.int64) * KINDS_MAX + self.versions[~self.is_odd]
        lengths = (self.ends - self.starts)[~self.is_odd]
        counts = np.bincount(codes)
        sizes = np.bincount(codes, weights=lengths)
        found = [
            KindTotals(
                (False, RECORD_NAMES[code // KINDS_MAX], code % KINDS_MAX),
                int(counts[code]),
                int(sizes[code]),
            )
            for code in np.flatnonzero(counts).tolist()
        ]
        odd_counts: Counter[tuple[bool, str, int | None]] = Counter()
        odd_sizes: Counter[tuple[bool, str, int | None]] = Counter()
        for row, odd in self.odd.items():
            header = self.headers[self.batch[row]]
            if header["whole"]:
                is_control = bool(header["attributes"] & CONTROL)
                kind = (is_control, odd.content.type or UNDECODABLE, odd.content.version)
                odd_counts[kind] += 1
                odd_sizes[kind] += len(odd.value or b"")
        return found + [KindTotals(kind, count, odd_sizes[kind]) for kind, count in odd_counts.items()]

    def passing(self, wanted: RecordFilter, rows: Longs) -> Flags:
        """Of these rows, the wanted ones."""
        mask = wanted.offsets(self.offsets[rows])
        if not wanted.any_time:
            times = self.timestamps[rows]
            mask &= wanted.times(times) & is_time(times)
        if wanted.types is not None:
            listed = np.array([RECORD_NAMES.get(kind) in wanted.types for kind in range(KINDS_MAX)])
            right = listed[self.kinds[rows]] & ~self.is_odd[rows]
            for index in np.flatnonzero(self.is_odd[rows]).tolist():
                right[index] = self.odd[int(rows[index])].content.type in wanted.types
            mask &= right
        return mask

    def _place(self, first: int, rows: "npt.NDArray[np.int64] | list[Odd]") -> None:
        """Put in what was read of a batch by itself: spans of regular records, or odd ones."""
        if isinstance(rows, np.ndarray):
            self.starts[first : first + len(rows)] = rows[:, 0]
            self.ends[first : first + len(rows)] = rows[:, 1]
            return
        for row, odd in enumerate(rows, first):
            self.odd[row] = odd
            self.offsets[row] += odd.moved
            self.timestamps[row] += odd.later_ms

    def _read_frames(self) -> None:
        """Read kind and version of every record with a span; what has no frame of a known kind is odd."""
        raw = np.frombuffer(self.part, dtype=np.uint8)
        framed = self.ends - self.starts >= FRAME_BYTES
        starts = np.where(framed, self.starts, 0)
        kinds, versions = raw[starts + 1], raw[starts + 2]
        framed &= (raw[starts] == 1) & (kinds < KINDS_MAX) & (versions < KINDS_MAX)
        self.kinds: npt.NDArray[np.uint8] = np.where(framed, kinds, 0).astype(np.uint8)
        self.versions: npt.NDArray[np.uint8] = np.where(framed, versions, 0).astype(np.uint8)
        self.is_odd: Flags = ~(framed & _KNOWN[self.kinds, self.versions])
        for row in np.flatnonzero(self.is_odd).tolist():
            if row not in self.odd:
                value = self.part[int(self.starts[row]) : int(self.ends[row])]
                self.odd[row] = Odd(odd_content(value), value=value)
        self.starts[self.is_odd] = 0
        self.ends[self.is_odd] = 0

    def _alone(self, index: int) -> "npt.NDArray[np.int64] | list[Odd]":
        """The records of a batch read by itself, or the one row that says why there are none."""
        position = int(self.headers["position"][index])
        batch = BatchView(self.part, position)
        try:
            batch.check()
            if not batch.is_control and (spans := self._plain_spans(batch)) is not None:
                return spans
            records = batch.records()
        except CorruptBatchError as error:
            problem = f"byte {self._part_at + position}: {error.reason}"
            return [Odd(Content(problem=problem))]
        return [
            Odd(
                control_content(record) if batch.is_control else odd_content(record.value),
                record.key,
                record.value,
                record.offset_delta - delta,
                record.timestamp_delta,
            )
            for delta, record in enumerate(records)
        ]

    def _plain_spans(self, batch: BatchView) -> "npt.NDArray[np.int64] | None":
        """The spans of the values of a batch as controllers write them, None if it is anything else.

        The reader gives values without their places; places follow from their lengths, and are checked.
        """
        try:
            values = batch.values()
        except CorruptBatchError:
            return None
        lengths = np.array([len(value) for value in values], dtype=np.int64)
        before = 2 + _varint_bytes(np.arange(len(values))) + 1 + _varint_bytes(lengths)
        inside = before + lengths + 1
        records = _varint_bytes(inside) + inside
        ends = batch.position + HEADER_BYTES + np.cumsum(records) - 1
        starts = ends - lengths
        spans = np.stack((starts, ends), axis=1)
        good = ends[-1] + 1 == batch.position + batch.size_bytes and all(
            self.part[start:end] == value for (start, end), value in zip(spans.tolist(), values, strict=True)
        )
        return spans if good else None


def is_time(milliseconds: Longs) -> Flags:
    """Which of these can be shown as times."""
    good: Flags = (milliseconds >= 0) & (milliseconds <= MAX_TIMESTAMP_MS)
    return good


def _varint_bytes(numbers: Longs) -> Longs:
    """How many bytes the zig-zag varints of these natural numbers take."""
    return 1 + np.searchsorted(_VARINT_STEPS, numbers, side="right")
