"""Any log, spoiled bytes and recovery point: nothing flushed is cut, nothing unreadable goes unreported."""

import tempfile
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kraftd.storage import DamagedReadError, Disk, Log, LogConfig, OsFileSystem
from kraftd.types import OffsetAndEpoch
from tests.unit.storage.batches import batch

CONFIG = LogConfig(segment_bytes=700, index_bytes=120)
COUNTS = st.lists(st.integers(1, 4), min_size=1, max_size=25)
SPOILS = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True),
        st.one_of(st.just("flip"), st.just("zero"), st.just("cut"), st.just("remove")),
        st.integers(1, 200),
    ),
    min_size=1,
    max_size=3,
)


class Original:
    """A log as it was written, and where each of its batches lies."""

    def __init__(self, folder: Path, counts: list[int]) -> None:
        self.folder = folder
        self.batches: list[tuple[int, int, bytes]] = []
        self.open(None)
        for number, count in enumerate(counts):
            base = self.end
            data = batch(base, 1 + number // 7, count)
            self.log.append((data,), base, base + count)
            self.batches.append((base, base + count, data))
        self.log.close()

    @property
    def end(self) -> int:
        return self.batches[-1][1] if self.batches else 0

    def open(self, recovery_point: int | None) -> None:
        # The epoch of what lies before it, as whoever flushed it knew: a later one would be a lie.
        before = sum(end <= recovery_point for _, end, _ in self.batches) if recovery_point is not None else 0
        known = (
            None if recovery_point is None else OffsetAndEpoch(recovery_point, 1 + max(before - 1, 0) // 7)
        )
        self.log, self.report = Log.open(
            Disk(OsFileSystem()), self.folder, recovery_point=known, config=CONFIG
        )

    @property
    def holes(self) -> list[tuple[int, int]]:
        return [(damage.offset, damage.end_offset) for damage in self.report.damage]

    def files(self) -> list[Path]:
        return sorted(self.folder.glob("*.log"))

    def contents(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.files()}

    def spoil(self, spoils: list[tuple[float, str, int]]) -> None:
        for where, how, size in spoils:
            files = [path for path in self.files() if path.stat().st_size]
            if not files:
                return
            path = files[int(where * len(files))]
            raw = bytearray(path.read_bytes())
            at = int(where * len(files) % 1 * len(raw))
            if how == "remove" and path != files[0]:
                path.unlink()
                continue
            if how == "cut":
                del raw[at:]
            elif how == "zero":
                raw[at : at + size] = bytes(len(raw[at : at + size]))
            else:
                # The top bytes of the epoch and the offset: no checksum covers them.
                raw[at] ^= 0x80
            path.write_bytes(raw)

    def check_reads(self) -> None:
        """What can be read is what was written, and what cannot be read is reported."""
        holes = self.holes
        for base, end, data in self.batches:
            if end > self.log.end_offset:
                break
            try:
                found = self.log.read(base, 1)
            except DamagedReadError:
                assert any(start <= base < stop for start, stop in holes), (base, holes)
            else:
                assert found[:12] + found[16:] == data[:12] + data[16:]


@settings(max_examples=50, deadline=None)
@example(counts=[1, 1], spoils=[(0.5625, "flip", 1)], flushed=1.0, cut=0.5)
@given(counts=COUNTS, spoils=SPOILS, flushed=st.floats(0, 1), cut=st.floats(0, 1))
def test_with_a_recovery_point(
    counts: list[int], spoils: list[tuple[float, str, int]], flushed: float, cut: float
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        original = Original(Path(folder), counts)
        recovery_point = original.batches[min(int(flushed * len(counts)), len(counts) - 1)][1]
        original.spoil(spoils)
        before = original.contents()
        flushed_bytes = {
            path.name: sum(
                len(data)
                for base, end, data in original.batches
                if end <= recovery_point and base >= int(path.stem) and base < next_base
            )
            for path, next_base in zip(
                original.files(), [*(int(p.stem) for p in original.files()[1:]), 1 << 60], strict=True
            )
        }
        original.open(recovery_point)
        assert original.log.end_offset >= recovery_point
        original.check_reads()
        after = original.contents()
        for name, size in flushed_bytes.items():
            assert after.get(name, b"")[:size] == before[name][:size]
        # The next opening, with nothing cut, finds the same.
        damage, end = original.holes, original.log.end_offset
        original.log.close()
        original.open(end)
        assert (original.holes, original.log.end_offset) == (damage, end)
        # A truncation forgets no hole below it, and the log goes on from there.
        to = original.log.truncate(int(cut * end), 1)
        original.log.append((batch(to, epoch=99),), to, to + 1)
        original.log.close()
        original.open(to + 1)
        assert original.log.end_offset == to + 1
        assert original.log.read(to, 1) == batch(to, epoch=99)
        lost = {offset for start, stop in damage for offset in range(start, min(stop, to))}
        assert lost == {offset for start, stop in original.holes for offset in range(start, stop)}
        original.log.close()


@settings(max_examples=40, deadline=None)
@given(counts=COUNTS, spoils=SPOILS)
def test_without_a_recovery_point_only_the_last_segment_gets_shorter(
    counts: list[int], spoils: list[tuple[float, str, int]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        original = Original(Path(folder), counts)
        original.spoil(spoils)
        before = original.contents()
        original.open(None)
        original.check_reads()
        after = original.contents()
        used = [name for name, data in before.items() if data]
        for name in used[:-1]:
            assert after[name] == before[name]
        if used:
            assert before[used[-1]].startswith(after[used[-1]])
        original.log.close()
