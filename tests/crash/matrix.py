"""One fault of the disk, in each structure of each file: what becomes of a node that is started on it?
Where there are two snapshots, the same fault also hits both.

    python -m tests.crash.matrix                     the whole matrix
    python -m tests.crash.matrix --cell 'stopped/quorum-state/value of votedId/bit flip, first'

A cell is a base (how the node ended), a file, a structure in it (`structures`), and a fault (`FAULTS`).
The disk of the base is hurt in that one way, and opened as the daemon opens it; what the start took unread
is read then, at once or after another start. What may come of it
(`OUTCOMES`): nothing is lost, what no flush had covered is cut, the node knows that it is not whole and
says where, or it refuses to start and says why. A *hole* is anything else: a committed log that is shorter
without a word, bytes that were never written and would be given to others, a promise forgotten unnoticed,
damage that the next start does not know of any more, a traceback; and `kraftctl info` that tells of this disk
otherwise than the start does.
"""

import errno
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from pathlib import Path
from random import Random
from typing import NamedTuple

from kraftd.errors import KraftdError, StorageError
from kraftd.logtools.inspection import inspect_directory
from kraftd.records import names
from kraftd.records.batch import scan
from kraftd.storage import LogConfig, NodeDirectory, StorageFailure
from kraftd.types import Election, HealthKind, OffsetAndEpoch, PeerIdentity, ReplicaKey
from tests import commands
from tests.crash.checking import check_unread
from tests.crash.promises import HOME, Ids, format_home, open_home, snapshot_of
from tests.crash.structures import Structure, is_leftover, structures
from tests.sim.filesystem import SECTOR_BYTES, SimFileSystem
from tests.unit.storage.batches import batch

CONFIG = LogConfig(segment_bytes=9_000, index_bytes=96)

UNTOUCHED = "nothing lost"
NOTED = "nothing lost, with a line"
TORN = "cut above the recovery point"
FOREIGN = "taken for another program's"
"""With a line. Without its sidecar its start counter begins again: the others do not count it (D-06)."""
NOT_WHOLE = "not whole"
REFUSED = "refuses to start"
OUTCOMES = (UNTOUCHED, NOTED, TORN, FOREIGN, NOT_WHOLE, REFUSED)


class Base(NamedTuple):
    """A disk in order, and what is on it."""

    name: str
    fs: SimFileSystem
    older: SimFileSystem
    """The same disk some time before: what a write that never reached it leaves."""
    log: tuple[bytes, ...]
    """All batches that there ever were."""
    flushed: int
    """So many batches were acknowledged."""
    snapshots: tuple[OffsetAndEpoch, ...]
    election: Election
    peers: tuple[object, ...]
    start_counter: int
    whole: bool


class Cell(NamedTuple):
    """One fault in one place."""

    base: str
    structure: Structure
    fault: str

    def __str__(self) -> str:
        return f"{self.base}/{self.structure.path.name}/{self.structure.name}/{self.fault}"


class Verdict(NamedTuple):
    """What came of a cell."""

    outcome: str
    hole: str = ""


Hurt = Callable[[SimFileSystem, Base, Structure], object]


def _flip(position_of: Callable[[Structure], int], bit: int) -> Hurt:
    def hurt(fs: SimFileSystem, _: Base, where: Structure) -> None:
        position = position_of(where)
        fs.overwrite(where.path, position, bytes([fs.content(where.path)[position] ^ 1 << bit]))

    return hurt


def _fill(byte: int) -> Hurt:
    def hurt(fs: SimFileSystem, _: Base, where: Structure) -> None:
        start, room = _sector(fs, where)
        fs.overwrite(where.path, start, bytes([byte]) * room)

    return hurt


def _misdirect(sectors: int) -> Hurt:
    """The sector holds what belongs so many sectors further (around the end)."""

    def hurt(fs: SimFileSystem, _: Base, where: Structure) -> None:
        start, room = _sector(fs, where)
        data = fs.content(where.path)
        source = (start + sectors * SECTOR_BYTES) % max(len(data) // SECTOR_BYTES * SECTOR_BYTES, 1)
        fs.overwrite(where.path, start, data[source : source + room].ljust(room, b"\0"))

    return hurt


def _strange(fs: SimFileSystem, base: Base, where: Structure) -> None:
    """The sector holds what belongs into another file."""
    start, room = _sector(fs, where)
    log = next(path for path in fs.paths() if path.suffix == ".log")
    other = log if where.path != log else HOME / "kraftd.state"
    fs.overwrite(where.path, start, fs.content(other)[:room].ljust(room, b"\0"))


def _lose(fs: SimFileSystem, base: Base, where: Structure) -> None:
    """The sector holds what it held before its last write."""
    start, room = _sector(fs, where)
    before = base.older.content(where.path) if base.older.exists(where.path) else b""
    fs.overwrite(where.path, start, before[start : start + room].ljust(room, b"\0"))


def _sector(fs: SimFileSystem, where: Structure) -> tuple[int, int]:
    start = where.position - where.position % SECTOR_BYTES
    return start, min(SECTOR_BYTES, len(fs.content(where.path)) - start)


def _snapshots(fs: SimFileSystem) -> list[Path]:
    """The snapshots that count, oldest first."""
    return [path for path in fs.paths() if path.suffix == ".checkpoint" and path.parent != HOME]


def _both(fault: str) -> Hurt:
    """The fault hits the newest snapshot, and the one before it in the same way."""

    def hurt(fs: SimFileSystem, base: Base, where: Structure) -> None:
        found = _snapshots(fs)
        if len(found) < 2 or where.path != found[-1]:
            return
        for path in found[-2:]:
            same = (each for each in structures(fs) if (each.path, each.name) == (path, where.name))
            for each in list(same)[:1]:
                FAULTS[fault](fs, base, each)

    return hurt


def _rename(new_name: Callable[[str], str], suffixes: tuple[str, ...]) -> Hurt:
    """The file has another name, as after a repair of the file system, or a copy by hand."""

    def hurt(fs: SimFileSystem, _: Base, where: Structure) -> None:
        if where.path.suffix in suffixes and where.path.parent != HOME:
            fs.rename(where.path, where.path.with_name(new_name(where.path.name)))

    return hurt


def _forbid(fs: SimFileSystem, _: Base, where: Structure) -> None:
    """The mode of the file forbids to open it."""

    def refuse(operation: str, path: Path, _size_bytes: int) -> None:
        if operation in {"open", "create"} and path == where.path:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    fs.faults = refuse


SEGMENTS = (".log", ".index", ".timeindex")
"""A batch says its offset. The end of a snapshot stands in its name alone, as Kafka writes it, so another
offset in that name is another snapshot, and nothing can be told from it.
"""

FAULTS: dict[str, Hurt] = {
    "bit flip, first": _flip(lambda where: where.position, 0),
    "bit flip, high": _flip(lambda where: where.position, 7),
    "bit flip, last": _flip(lambda where: where.position + where.size_bytes - 1, 0),
    "bit flip, next": _flip(lambda where: where.position + where.size_bytes - 1, 1),
    "zeroed sector": _fill(0),
    "sector of ones": _fill(0xFF),
    "misdirected, near": _misdirect(1),
    "misdirected, far": _misdirect(5),
    "misdirected, strange": _strange,
    "lost write": _lose,
    "truncated": lambda fs, _, where: fs.damage(where.path, "truncation", where.position, Random(0)),
    "unreadable": lambda fs, _, where: fs.damage(where.path, "unreadable", where.position, Random(0)),
    "gone": lambda fs, _, where: fs.unlink(where.path),
    "later offset in its name": _rename(lambda name: f"{int(name[:20]) + 1:020}{name[20:]}", SEGMENTS),
    "earlier offset in its name": _rename(
        lambda name: f"{max(int(name[:20]) - 1, 0):020}{name[20:]}", SEGMENTS
    ),
    "another epoch in its name": _rename(
        lambda name: name.replace("-000000000", "-000000001"), (".checkpoint",)
    ),
    "no such name": _rename(lambda name: name[1:], (*SEGMENTS, ".checkpoint")),
    "forbidden": _forbid,
    "both: bit flip": _both("bit flip, first"),
    "both: zeroed sector": _both("zeroed sector"),
    "both: truncated": _both("truncated"),
    "both: unreadable": _both("unreadable"),
    "both: gone": _both("gone"),
}
WHOLE_FILE = (
    "gone",
    "later offset in its name",
    "earlier offset in its name",
    "another epoch in its name",
    "no such name",
    "forbidden",
    "both: gone",
)
"""Faults of a file; the others are of a structure."""


# -- bases -------------------------------------------------------------------------------------------


BASES = ("stopped", "killed", "promised", "amnesiac", "cut", "installed", "leftovers", "truncated")
"""How the node ended: in order, with batches that no flush had covered, right after a promise; in order, with
a log that was cut at the older of two snapshots, or that a snapshot has taken the place of; while it wrote
one, with files that were retired; right after a truncation of what was flushed.
"""


def base_of(name: str) -> Base:
    """Make a base; the same each time."""
    fs = SimFileSystem()
    ids = Ids(3)
    format_home(fs, ids)
    node = open_home(fs, CONFIG, ids)
    node.remember_state_health(HealthKind.WHOLE)
    node.remember_peer(PeerIdentity(2, b"2" * 16, 5, b"s" * 16))
    log: list[bytes] = []
    older = fs
    for epoch, count in ((1, 14), (2, 1), (3, 9), (5, 12)):
        node.write_election(Election(epoch, -1, ReplicaKey(2)))
        node.write_election(Election(epoch, 2, ReplicaKey(2)))
        if epoch == 5:
            older = fs.copy()
            older.sync_everything()
            node.write_election(Election(6, 2, ReplicaKey(2)))
            node.remember_peer(PeerIdentity(3, b"3" * 16, 7, b"t" * 16))
        _append(node, log, epoch, count)
        node.log.flush()
        if epoch in (2, 3) or (epoch == 1 and name == "leftovers"):
            _freeze(node, OffsetAndEpoch(len(log), epoch))
        if epoch == 3 and name == "installed":
            newest = node.snapshots.infos[-1].id
            node.install_snapshot(newest, 1)
    if name == "cut":
        node.cut_front(node.snapshots.infos[0].id)
    node.log.flush()  # of nothing new: the recovery point becomes durable
    flushed = len(log)
    if name == "killed":
        _append(node, log, 5, 5)
    elif name == "promised":
        node.remember_peer(PeerIdentity(2, b"4" * 16, 9, b"u" * 16))
    elif name == "amnesiac":
        node.remember_state_health(HealthKind.AMNESIA, [f"{HOME}: a vote may be forgotten"])
    elif name == "truncated":
        flushed = node.log.truncate(flushed - 4, 1)
        del log[flushed:]
    elif name == "leftovers":
        node.cut_front(node.snapshots.infos[1].id)
        unfinished = OffsetAndEpoch(len(log), 5)
        data = snapshot_of(unfinished)
        node.snapshots.writer(unfinished).append(data[: len(data) * 2 // 3])
    snapshots = tuple(info.id for info in node.snapshots.infos)
    if name != "leftovers":
        node.take_removal().run()
    if name in {"killed", "promised", "amnesiac", "leftovers", "truncated"}:
        fs.crash_process()
    else:
        node.close()
    fs.sync_everything()
    return Base(
        name,
        fs,
        older,
        tuple(log),
        flushed,
        snapshots,
        node.election,
        node.peers,
        node.start_counter,
        name != "amnesiac",
    )


def _append(node: NodeDirectory, log: list[bytes], epoch: int, count: int) -> None:
    for _ in range(count):
        data = batch(len(log), epoch, size_bytes=500 + 40 * (len(log) % 7))
        node.log.append((data,), len(log), len(log) + 1)
        log.append(data)


def _freeze(node: NodeDirectory, snapshot_id: OffsetAndEpoch) -> None:
    writer = node.snapshots.writer(snapshot_id)
    writer.append(snapshot_of(snapshot_id))
    node.snapshots.add(writer.freeze())


def cells(base: Base, beginning: str = "", every: int = 1) -> Iterator[Cell]:
    """The cells of a base whose faults change something, each in its own way.

    Args:
        base: The disk in order.
        beginning: Only those whose names begin so.
        every: Only every so manyeth.
    """
    seen: set[object] = set()
    places = (
        Cell(base.name, where, fault)
        for where in structures(base.fs)
        for fault in FAULTS
        if (where.name == "file") == (fault in WHOLE_FILE)
    )
    for cell in islice((cell for cell in places if str(cell).startswith(beginning)), 0, None, every):
        path = cell.structure.path
        print_ = _print(hurt(base, cell), path)
        if print_ not in seen and print_ != _print(base.fs, path):
            seen.add(print_)
            yield cell


def _print(fs: SimFileSystem, path: Path) -> object:
    """What tells two states of a file apart, and of all snapshots."""
    content = fs.content(path) if fs.exists(path) else None
    snapshots = tuple((each, fs.content(each)) for each in _snapshots(fs))
    names_beside = tuple(fs.names(path.parent))
    return path, content, snapshots, names_beside, tuple(fs.bad_sectors()), fs.faults is not None


def hurt(base: Base, cell: Cell) -> SimFileSystem:
    """The disk of the base with this one fault."""
    fs = base.fs.copy()
    FAULTS[cell.fault](fs, base, cell.structure)
    fs.sync_everything()
    return fs


# -- verdicts ----------------------------------------------------------------------------------------


def judge(base: Base, cell: Cell) -> Verdict:
    """Start a node on the hurt disk, and say what came of it."""
    fs = hurt(base, cell)
    try:
        problems = inspect_directory(fs, HOME).problems
        try:
            node = open_home(fs, CONFIG, Ids(4))
            node.bootstrap_records()
        except (KraftdError, StorageFailure) as error:
            return _of_refusal(cell, error, problems)
        if hole := _wrong_bytes(base, node) or _of_info(problems, node):
            return Verdict("", hole)
        lines = check_unread(node)
        if hole := _of_check(lines, hurt(base, cell)):
            return Verdict("", hole)
        verdict = _of_start(base, node)
        if lines and verdict.outcome == UNTOUCHED:
            verdict = verdict._replace(outcome=NOTED)
        if is_leftover(cell.structure.path) and not verdict.hole:
            verdict = _of_leftover(fs, verdict)
        if not verdict.hole:
            verdict = verdict._replace(hole=_of_slot(base, cell, verdict) or _of_epochs(base, fs, node))
        return verdict if verdict.hole else _of_later(base, fs, node, verdict)
    except Exception as error:
        return Verdict("", f"{type(error).__name__}: {error}")


def _of_refusal(cell: Cell, error: KraftdError, told: Sequence[str]) -> Verdict:
    text = str(error)
    if cell.structure.path.suffix in {".index", ".timeindex"} and cell.fault != "forbidden":
        return Verdict("", f"refuses for a file that is made from the log: {text!r}")
    if "\n" in text or str(HOME) not in text:
        return Verdict("", f"refuses without one clear line that names the file: {text!r}")
    # Nobody told `info` which node this should be; it reads no index, which would be made anew, and takes no
    # lock.
    is_unknown = "not to node" in text or cell.structure.path.suffix in {".index", ".timeindex"}
    is_unknown = is_unknown or cell.structure.path.name == names.LOCK
    if not is_unknown and not any(line.startswith(text.split(": ")[0]) for line in told):
        return Verdict("", f"refuses with {text!r}, and `info` tells {told}")
    return Verdict(REFUSED)


def _of_info(problems: Sequence[str], node: NodeDirectory) -> str:
    """What `info` told of a disk that a node starts on: of problems exactly if the node does not count."""
    if bool(problems) == bool(node.damage or node.amnesia):
        return ""
    return f"`info` tells {problems}, the start {(*node.damage, *node.amnesia)}"


def _of_leftover(fs: SimFileSystem, verdict: Verdict) -> Verdict:
    """What promised nothing costs nothing, and goes."""
    if verdict.outcome not in {UNTOUCHED, NOTED}:
        return verdict._replace(hole=f"{verdict.outcome}, for a file that promised nothing")
    left = [path.name for path in fs.paths() if is_leftover(path)]
    return verdict._replace(hole=f"leaves {left}" if left else "")


def _wrong_bytes(base: Base, node: NodeDirectory) -> str:
    served = served_by(node)
    wrong = [n for n, data in served.items() if n >= len(base.log) or base.log[n] != data]
    return f"gives others wrong bytes for the batches at {wrong}" if wrong else ""


def _of_check(lines: tuple[str, ...], fs: SimFileSystem) -> str:
    """What is wrong with what the check has told: it may be any line that names file and byte, and a start
    that ends before its check takes nothing of that away.
    """
    if not all(str(HOME) in line and "at byte" in line and "no loss" in line for line in lines):
        return f"the check does not say where it found what: {lines}"
    if not lines:
        return ""
    open_home(fs, CONFIG, Ids(4)).abandon()
    later = check_unread(open_home(fs, CONFIG, Ids(5)))
    return "" if later == lines else f"the check found {lines}, and after another start {later}"


def _of_start(base: Base, node: NodeDirectory) -> Verdict:
    if hole := _wrong_bytes(base, node):
        return Verdict("", hole)
    served = served_by(node)
    lines = (*node.damage, *node.amnesia)
    if lines:
        if not all(str(HOME) in line for line in lines):
            return Verdict("", f"does not say which file: {lines}")
        told = [(damage.offset, damage.end_offset) for damage in node.report.damage]
        missing = [n for n in range(node.log.start_offset, base.flushed) if n not in served]
        untold = [n for n in missing if not any(start <= n < end for start, end in told)]
        if untold and not any("what this node acknowledged is lost" in line for line in lines):
            return Verdict("", f"does not tell of lost batches {untold}")
        return Verdict(NOT_WHOLE, _without_state(base, node))
    if node.start_counter <= base.start_counter and any("kraftd.state" in line for line in node.warnings):
        return Verdict(FOREIGN)
    if not base.whole:
        return Verdict("", "was not whole, and counts")
    if node.log.end_offset < base.flushed:
        return Verdict("", f"has {node.log.end_offset} batches of {base.flushed} acknowledged, and counts")
    if missing := _without_state(base, node):
        return Verdict("", missing)
    if len(served) < node.log.end_offset - node.log.start_offset:
        return Verdict("", f"cannot read all of its log, and counts: {sorted(served)}")
    return _of_promises(base, node)


def _without_state(base: Base, node: NodeDirectory) -> str:
    """Whether nothing whole holds the state that its log goes on from."""
    if node.log.start_offset == 0:
        return ""
    newest = node.snapshots.newest
    if newest is None or newest.id.offset < node.log.start_offset:
        return f"the log begins at {node.log.start_offset}, and no snapshot leads there"
    reader = node.snapshots.open_reader(newest.id)
    whole = reader is not None and reader.read(0, 1 << 30) == snapshot_of(newest.id)
    return "" if whole and newest.id in base.snapshots else f"the state is that of a bad snapshot: {newest}"


def _of_promises(base: Base, node: NodeDirectory) -> Verdict:
    newest = node.snapshots.newest
    if newest is not None and newest.last_contained_timestamp_ms != newest.id.offset:
        return Verdict("", f"believes in a snapshot that nobody wrote: {newest}")
    if node.uninitialized:
        return Verdict("", "believes to be new")
    if node.start_counter <= base.start_counter:
        return Verdict("", f"start counter {node.start_counter} comes again, after {base.start_counter}")
    if node.peers != base.peers:
        return Verdict("", f"forgot whom it knew: {node.peers} of {base.peers}")
    if node.election != base.election:
        if node.election.epoch > base.election.epoch and node.warnings:
            return Verdict(FOREIGN)
        return Verdict("", f"believes in {node.election}, after {base.election}")
    if node.log.end_offset < len(base.log):
        return Verdict(TORN)
    return Verdict(NOTED if node.warnings else UNTOUCHED)


def _of_slot(base: Base, cell: Cell, verdict: Verdict) -> str:
    """One slot of the sidecar costs nothing: the other one holds as much. A cut in the first takes both."""
    where = cell.structure
    is_slot = where.path.name == "kraftd.state" and where.name.startswith("slot") and base.whole
    lost = verdict.outcome not in {UNTOUCHED, NOTED, TORN}
    return f"{verdict.outcome}, for one slot" if is_slot and lost and cell.fault != "truncated" else ""


def _of_epochs(base: Base, fs: SimFileSystem, node: NodeDirectory) -> str:
    """What is wrong with the election of this start, and of another one after which nothing was written."""
    if node.election.epoch < base.election.epoch:
        return f"believes in {node.election}, after {base.election}"
    other = fs.copy()
    other.faults = fs.faults
    again = open_home(other, CONFIG, Ids(6))
    found = (again.election, bool(again.amnesia))
    if found != (node.election, bool(node.amnesia)):
        return f"the same disk, started again, believes in {again.election}, after {node.election}"
    return ""


def _of_later(base: Base, fs: SimFileSystem, node: NodeDirectory, verdict: Verdict) -> Verdict:
    """Go on for a while, and start again: what is not whole stays so, what is whole too."""
    end, epoch = node.log.end_offset, max(node.election.epoch, node.log.last_epoch) + 1
    node.write_election(Election(epoch, 2))
    more = batch(end, epoch)
    node.log.append((more,), end, end + 1)
    node.close()
    again = open_home(fs, CONFIG, Ids(5))
    check_unread(again)
    whole = not again.damage and not again.amnesia
    if verdict.outcome == NOT_WHOLE:
        return verdict._replace(hole="the next start believes to be whole" if whole else "")
    if not whole:
        return verdict._replace(hole=f"the next start finds {(*again.damage, *again.amnesia)}")
    start = again.log.start_offset
    if (missing := _without_state(base, again)) or start < node.log.start_offset:
        return verdict._replace(hole=f"the next start begins at {start}: {missing}")
    if served_by(again) != {**{n: base.log[n] for n in range(start, end)}, end: more}:
        return verdict._replace(hole="the next start does not have the same log")
    return verdict


def verdicts_of(name: str, beginning: str = "", every: int = 1) -> list[tuple[Cell, Verdict]]:
    """The cells of a base, or those whose name begins so, or every so manyeth; in whatever process."""
    base = base_of(name)
    return [(cell, judge(base, cell)) for cell in cells(base, beginning, every)]


def served_by(node: NodeDirectory) -> dict[int, bytes]:
    """The batches that the log would give to others, by offset."""
    found: dict[int, bytes] = {}
    offset = node.log.start_offset
    while offset < node.log.end_offset:
        try:
            data = node.log.read(offset, 1)
        except StorageError:
            offset += 1
            continue
        for view in scan(data):
            found[offset] = bytes(view.raw)
            offset = max(view.end_offset, offset + 1)
    return found


# -- the table ---------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Walk through the matrix; returns the exit code."""
    parser = commands.Parser(
        prog="python -m tests.crash.matrix", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--cell", default="", help="only the cells whose name begins so")
    parser.add_argument("--jobs", type=commands.count, default=os.cpu_count() or 1, help="processes at once")
    options = parser.parse_args(arguments)
    begin = time.monotonic()
    with ProcessPoolExecutor(options.jobs, initializer=commands.end_when_interrupted) as pool:
        found = pool.map(verdicts_of, BASES, [options.cell] * len(BASES))
        verdicts = [verdict for verdicts in found for verdict in verdicts]
    if not verdicts:
        parser.error(f"no such cell: {options.cell}")
    _print_table(verdicts)
    print(commands.spent(begin))
    holes = [(cell, verdict.hole) for cell, verdict in verdicts if verdict.hole]
    for cell, hole in holes[: None if options.cell else 40]:
        print(f"HOLE {cell}: {hole}")
    if holes:
        print(f"{len(holes)} holes; one again: python -m tests.crash.matrix --cell '{holes[0][0]}'")
    return 1 if holes else 0


def _print_table(verdicts: Sequence[tuple[Cell, Verdict]]) -> None:
    print(f"{'FILE':<28}{'CELLS':>7}" + "".join(f"{name:>28}" for name in OUTCOMES) + f"{'HOLES':>7}")
    for kind in [*sorted({_kind(cell.structure.path) for cell, _ in verdicts}), "all"]:
        mine = [verdict for cell, verdict in verdicts if kind in {_kind(cell.structure.path), "all"}]
        counts = Counter(verdict.outcome for verdict in mine if not verdict.hole)
        figures = "".join(f"{counts[name]:>28}" for name in OUTCOMES)
        print(f"{kind:<28}{len(mine):>7}{figures}{sum(bool(verdict.hole) for verdict in mine):>7}")


def _kind(path: Path) -> str:
    return path.name if path.suffix not in {".log", ".index", ".timeindex"} else f"*{path.suffix}"


if __name__ == "__main__":
    commands.run(main)
