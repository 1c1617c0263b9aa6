"""A file system in memory that knows what a power cut may take, and what a disk may do worse.

One model for the simulator and for the crash points: it stands in the place of
`kraftd.storage.OsFileSystem`, below the same storage code that the daemon runs. The same calls give the
same bytes and errno as Linux does (`tests/crash/test_parity.py`).

Each file has what programs see (live: the page cache), what the disk holds (durable), and the changes
between the two, numbered in the order in which they were made. Each directory likewise. Nothing costs more
than the bytes it names: a write adds to a list, a sync applies what is on it, a long run of zeros has no
bytes.

*A sync* covers what was changed before it began: `mark` says when that was, `as_of(mark)` runs what ends
later (a flush job in its thread), and everything between stays unsynced. A failed sync leaves the pages
looking clean: programs still read what they wrote, nothing will write it again, and `drop_cache` shows what
the disk really holds.

*A crash of the process* (`crash_process`) takes handles and locks; the page cache stays, and a later power
cut may take it. *A power cut* (`cut_power`) keeps of each file's unsynced changes none, all, some, or some
sectors of some, in any order. The size goes by itself, in order, since file systems keep a journal. Each
directory keeps a prefix of its changes, or any set that keeps the order for each name. A directory entry
says nothing about the file's content, and a sync of the file nothing about its entry. `crash_states`
enumerates such outcomes instead of drawing one.

*A bad disk* (`damage`) changes what is durable behind everybody's back. *A failing call* is the business of
`faults`, which is asked before each one.

Not here: time (a hook that counts latency sees every call), and which faults a run has.
"""

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from itertools import product
from math import prod
from pathlib import Path
from random import Random
from typing import NamedTuple

from kraftd.storage import Access

PAGE_BYTES = 4_096
SECTOR_BYTES = 512

Faults = Callable[[str, Path, int], int | None]
"""Asked before each call with its name, the path and how many bytes it is about (else 0). Raises `OSError`,
or says how many of the bytes are taken; None lets the call be."""

CHANGES = frozenset(
    ["create", "pwrite", "pwritev", "fsync", "fdatasync", "ftruncate", "make_directory", "rename", "unlink"]
    + ["sync_directory"]
)
"""The calls that change a disk. `create` is an open that makes a file or empties one; others are `open`."""

DAMAGES = ("bit_flip", "zeroed_sector", "misdirected", "truncation", "unreadable", "lost_write")
"""What `damage` knows to do."""

_IOV_MAX = 1_024
NOWHERE = 1 << 62
"""A position beyond every file's end."""

_CREATING = (Access.CREATE, Access.CREATE_EMPTY)
_ZEROS = bytes(SECTOR_BYTES)


class Change(NamedTuple):
    """An unsynced change of a file."""

    number: int
    position: int
    """Where the bytes go; the new size if there are none."""
    data: bytes | None
    size_bytes: int
    """The size of the file afterwards."""
    resizes: bool


class Image:
    """Content of a file, whose end may be a hole: zeros that have no bytes."""

    __slots__ = ("data", "size_bytes")

    def __init__(self, data: bytes = b"", size_bytes: int | None = None) -> None:
        self.data = bytearray(data)
        self.size_bytes = len(data) if size_bytes is None else size_bytes

    def read(self, position: int, size_bytes: int) -> bytes:
        """What is there, with zeros for the hole; shorter at the end of the file."""
        end = min(position + size_bytes, self.size_bytes)
        found = bytes(self.data[position:end])
        return found if len(found) == end - position else found.ljust(max(end - position, 0), b"\0")

    def write(self, position: int, data: bytes) -> None:
        """Put bytes somewhere; the size follows."""
        held = self.data
        if position > len(held):
            held.extend(bytes(position - len(held)))
        end = position + len(data)
        held[position:end] = data
        if end > self.size_bytes:
            self.size_bytes = end

    def resize(self, size_bytes: int) -> None:
        """Cut, or lengthen by a hole."""
        if size_bytes < len(self.data):
            del self.data[size_bytes:]
        self.size_bytes = size_bytes

    def copy(self) -> "Image":
        """Another one like it."""
        return Image(self.data, self.size_bytes)

    def whole(self) -> bytes:
        """All of it."""
        return bytes(self.data).ljust(self.size_bytes, b"\0")


class File:
    """A file, whatever names it has."""

    __slots__ = ("bad_sectors", "changes", "durable", "live", "lying", "stale_pages", "unsynced_from")

    def __init__(self, durable: Image | None = None) -> None:
        self.durable = durable if durable is not None else Image()
        self.live = self.durable.copy()
        self.changes: list[Change] = []
        self.stale_pages: set[int] = set()
        """Pages that look clean and are not what the disk holds."""
        self.bad_sectors: set[int] = set()
        """What cannot be read until it is written again."""
        self.lying = False
        """Whether the next sync reports success and loses the bytes."""
        self.unsynced_from = NOWHERE
        """From where on a sync has reported that it failed."""

    def copy(self) -> "File":
        """Another one like it, unsynced changes and all."""
        other = File(self.durable.copy())
        other.live = self.live.copy()
        other.changes = list(self.changes)
        other.stale_pages = set(self.stale_pages)
        other.bad_sectors = set(self.bad_sectors)
        other.lying = self.lying
        return other

    def write(self, number: int, position: int, data: bytes) -> None:
        """Write into the page cache."""
        live = self.live
        before = live.size_bytes
        live.write(position, data)
        if self.bad_sectors:
            self._heal(position, position + len(data))
        self.changes.append(Change(number, position, data, live.size_bytes, live.size_bytes != before))

    def resize(self, number: int, size_bytes: int) -> None:
        """Cut or lengthen in the page cache. What is cut off is given back, bad sectors with it."""
        self.live.resize(size_bytes)
        self.bad_sectors = {sector for sector in self.bad_sectors if sector * SECTOR_BYTES < size_bytes}
        self.changes.append(Change(number, size_bytes, None, size_bytes, resizes=True))

    def sync(self, until: int | None) -> None:
        """Make the changes up to a number durable."""
        changes = self.changes
        if not changes:
            return
        covered = changes if until is None else [c for c in changes if c.number <= until]
        if self.lying and covered:
            self.lying = False
            reported, self.unsynced_from = self.unsynced_from, NOWHERE
            self.lose(until)
            self.unsynced_from = reported
            self.sync(until)
            return
        durable = self.durable
        for _, position, data, _, _ in covered:
            if data is None:
                durable.resize(position)
            else:
                durable.write(position, data)
        if self.stale_pages:
            self._write_back(covered)
        if until is None:
            changes.clear()
        else:
            del changes[: len(covered)]

    def _write_back(self, changes: Sequence[Change]) -> None:
        """Pages are written as a whole: a dirty one takes along what the disk did not have of it."""
        for page in sorted(self.stale_pages & pages_of(changes)):
            start = page * PAGE_BYTES
            room = min(PAGE_BYTES, self.live.size_bytes - start, self.durable.size_bytes - start)
            if room > 0:
                self.durable.write(start, self.live.read(start, room))
            self.stale_pages.discard(page)

    def lose(self, until: int | None, random: Random | None = None) -> None:
        """A sync failed: the bytes never reach the disk, or some do; the size will, in its time."""
        covered = [c for c in self.changes if until is None or c.number <= until]
        rest = self.changes[len(covered) :]
        sizes: list[Change] = []
        for change in covered:
            if change.data is not None:
                self.unsynced_from = min(self.unsynced_from, change.position)
                if random is not None and random.random() < 0.3:
                    self.durable.write(change.position, change.data)
                self.stale_pages |= pages_of([change])
            if change.resizes:
                sizes.append(Change(change.number, change.size_bytes, None, change.size_bytes, resizes=True))
        self.changes = sizes + rest

    def drop_cache(self) -> None:
        """Let the clean pages go; the dirty ones stay."""
        if not self.stale_pages:
            return
        live, durable = self.live, self.durable
        for page in self.stale_pages - pages_of(self.changes):
            start = page * PAGE_BYTES
            room = min(PAGE_BYTES, live.size_bytes - start)
            if room > 0:
                live.write(start, durable.read(start, room).ljust(room, b"\0"))
            self.stale_pages.discard(page)

    def unreadable(self, position: int, size_bytes: int) -> bool:
        """Whether a read meets a bad sector."""
        end = min(position + size_bytes, self.live.size_bytes)
        return any(position < (s + 1) * SECTOR_BYTES and s * SECTOR_BYTES < end for s in self.bad_sectors)

    def _heal(self, start: int, end: int) -> None:
        """A bad sector that is written as a whole is good again."""
        whole = range((start + SECTOR_BYTES - 1) // SECTOR_BYTES, end // SECTOR_BYTES)
        self.bad_sectors.difference_update(whole)

    # -- what a power cut leaves ---------------------------------------------------------------

    def after(self, kept: Sequence[Sequence[tuple[int, bytes]] | None], sizes: int) -> Image:
        """What is left of the file.

        Args:
            kept: For each change, the pieces of its bytes that reached the disk.
            sizes: How many of the changes of the size did, oldest first.
        """
        image = self.durable.copy()
        size_bytes = image.size_bytes
        for change, pieces in zip(self.changes, kept, strict=True):
            reached = change.resizes and sizes > 0
            sizes -= change.resizes
            if reached:
                size_bytes = change.size_bytes
                if change.data is None:
                    image.resize(size_bytes)
            for position, data in pieces or ():
                image.write(position, data)
        image.resize(size_bytes)
        return image

    def drawn(self, random: Random) -> Image:
        """What one power cut leaves."""
        changes = self.changes
        if not changes:
            return self.durable
        resizes = sum(change.resizes for change in changes)
        manner = random.randrange(6)
        if manner == 0:
            return self.durable
        if manner == 1:
            return self.after([whole_of(change) for change in changes], resizes)
        if manner == 2:
            return self.after([None] * len(changes), random.randint(0, resizes))
        if manner == 3:
            count = random.randrange(len(changes))
            torn = [whole_of(change) for change in changes[:count]]
            torn += [prefix_of(changes[count], random.random())] + [None] * (len(changes) - count - 1)
            return self.after(torn, sum(change.resizes for change in changes[: count + 1]))
        sizes = random.choice([random.randint(0, resizes), resizes])
        if manner == 4:
            return self.after([whole_of(c) if random.random() < 0.5 else None for c in changes], sizes)
        share = random.random()
        picked = [[piece for piece in sectors_of(c) if random.random() < share] for c in changes]
        return self.after(picked, sizes)

    def outcomes(self, subsets_max: int = 3, tears: Sequence[float] = (0.5,)) -> list[Image]:
        """What power cuts may leave: none, all, sizes alone, bytes alone, torn, and some of the changes."""
        changes = self.changes
        if not changes:
            return [self.durable]
        resizes = sum(change.resizes for change in changes)
        everything = [whole_of(change) for change in changes]
        nothing: list[Sequence[tuple[int, bytes]] | None] = [None] * len(changes)
        found = [self.durable, self.after(everything, resizes), self.after(nothing, resizes)]
        found.append(self.after(everything, 0))
        before = 0
        for number, change in enumerate(changes[-subsets_max:], len(changes) - len(changes[-subsets_max:])):
            before = sum(c.resizes for c in changes[: number + 1])
            rest = [None] * (len(changes) - number - 1)
            found.append(self.after([*everything[: number + 1], *rest], before))
            if change.data:
                found += [
                    self.after([*everything[:number], prefix_of(change, share), *rest], before)
                    for share in tears
                ]
                found.append(self.after([*everything[:number], None, *everything[number + 1 :]], resizes))
                found.append(self.after([*nothing[:number], whole_of(change), *rest], before))
        return _distinct(found)


def pages_of(changes: Iterable[Change]) -> set[int]:
    """The pages that changes make dirty."""
    found: set[int] = set()
    for change in changes:
        if change.data:
            last = change.position + len(change.data) - 1
            found.update(range(change.position // PAGE_BYTES, last // PAGE_BYTES + 1))
    return found


def whole_of(change: Change) -> list[tuple[int, bytes]] | None:
    """All bytes of a change."""
    return [(change.position, change.data)] if change.data is not None else None


def prefix_of(change: Change, share: float) -> list[tuple[int, bytes]] | None:
    """The first bytes of a change: a torn write."""
    data = change.data
    return [(change.position, data[: int(len(data) * share)])] if data is not None else None


def sectors_of(change: Change) -> Iterator[tuple[int, bytes]]:
    """The bytes of a change, sector by sector."""
    data = change.data or b""
    start = 0
    while start < len(data):
        end = start + SECTOR_BYTES - (change.position + start) % SECTOR_BYTES
        yield change.position + start, data[start:end]
        start = end


def _distinct(images: Sequence[Image]) -> list[Image]:
    found = {(bytes(image.data), image.size_bytes): image for image in images}
    return list(found.values())


class Directory:
    """A directory: names, and which of them would survive."""

    __slots__ = ("changes", "durable", "live")

    def __init__(self) -> None:
        self.durable: dict[str, Node] = {}
        self.live: dict[str, Node] = {}
        self.changes: list[tuple[int, dict[str, Node | None]]] = []

    def change(self, number: int, names: dict[str, "Node | None"]) -> None:
        """Set and remove names, at once."""
        put(self.live, names)
        self.changes.append((number, names))

    def sync(self, until: int | None) -> None:
        """Make the changes up to a number durable."""
        while self.changes and (until is None or self.changes[0][0] <= until):
            put(self.durable, self.changes.pop(0)[1])

    def after(self, kept: Sequence[bool]) -> dict[str, "Node"]:
        """The names that are left if these changes reached the disk."""
        names = dict(self.durable)
        for (_, change), reached in zip(self.changes, kept, strict=True):
            if reached:
                put(names, change)
        return names

    def drawn(self, random: Random) -> dict[str, "Node"]:
        """What one power cut leaves: a prefix of the changes, or a set that keeps each name's order."""
        if not self.changes:
            return self.durable
        if random.random() < 0.6:
            count = random.randint(0, len(self.changes))
            return self.after([number < count for number in range(len(self.changes))])
        return self.after(self._closed([random.random() < 0.5 for _ in self.changes]))

    def outcomes(self) -> list[dict[str, "Node"]]:
        """All prefixes, and the sets without one of the changes and those that need it."""
        count = len(self.changes)
        found = [self.after([n < kept for n in range(count)]) for kept in range(count + 1)]
        found += [self.after(self._closed([n != left for n in range(count)])) for left in range(count - 1)]
        return list({tuple(sorted((k, id(v)) for k, v in names.items())): names for names in found}.values())

    def _closed(self, wanted: list[bool]) -> list[bool]:
        """The wanted changes, without those that follow an unwanted one of the same name."""
        blocked: set[str] = set()
        kept = []
        for (_, names), want in zip(self.changes, wanted, strict=True):
            keep = want and not blocked & names.keys()
            if not keep:
                blocked |= names.keys()
            kept.append(keep)
        return kept


Node = File | Directory


def put(names: dict[str, Node], change: dict[str, Node | None]) -> None:
    """Apply a change of names."""
    for name, node in change.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


class _Open(NamedTuple):
    node: Node
    path: Path
    writable: bool


class Sync(NamedTuple):
    """A sync that has begun."""

    file: File
    path: Path
    until: int


class SimFileSystem:
    """Fulfils `kraftd.storage.FileSystem`."""

    def __init__(self, random: Random | None = None) -> None:
        """An empty disk.

        Args:
            random: Draws what part of a failed sync reached the disk; without it, nothing does.
        """
        self.root = Directory()
        self.random = random
        self.faults: Faults | None = None
        self.mark = 0
        """The number of the newest change; everything made so far is at or below it."""
        self._until: int | None = None
        self._handles: dict[int, _Open] = {}
        self._locks: dict[int, File] = {}
        self._next_handle = 100

    # -- the protocol: files -------------------------------------------------------------------

    def open(self, path: Path, access: Access, /) -> int:
        parent, node = self._look(path)
        if node is None and access not in _CREATING:
            self._ask("open", path)
            raise _error(errno.ENOENT, path)
        if isinstance(node, Directory):
            raise _error(errno.EISDIR, path)
        emptied = access is Access.CREATE_EMPTY and isinstance(node, File) and node.live.size_bytes > 0
        self._ask("create" if node is None or emptied else "open", path)
        if node is None:
            node = File()
            self.mark += 1
            parent.change(self.mark, {path.name: node})
        elif emptied and isinstance(node, File):
            self.mark += 1
            node.resize(self.mark, 0)
        self._next_handle += 1
        self._handles[self._next_handle] = _Open(node, path, access is not Access.READ)
        return self._next_handle

    def close(self, handle: int, /) -> None:
        if self._handles.pop(handle, None) is None:
            raise _error(errno.EBADF)
        self._locks.pop(handle, None)

    def size(self, handle: int, /) -> int:
        node, path, _ = self._opened(handle)
        self._ask("size", path)
        return node.live.size_bytes if isinstance(node, File) else PAGE_BYTES

    def pread(self, handle: int, size_bytes: int, position: int, /) -> bytes:
        if size_bytes < 0 or position < 0:
            raise _error(errno.EINVAL)
        node, path, _ = self._opened(handle)
        if isinstance(node, Directory):
            raise _error(errno.EISDIR, path)
        if self.faults is not None:
            taken = self.faults("pread", path, size_bytes)
            size_bytes = size_bytes if taken is None else taken
        if node.bad_sectors and node.unreadable(position, size_bytes):
            raise _error(errno.EIO, path)
        return node.live.read(position, size_bytes)

    def pwrite(self, handle: int, data: bytes, position: int, /) -> int:
        return self._write("pwrite", handle, bytes(data), position)

    def pwritev(self, handle: int, buffers: Sequence[bytes], position: int, /) -> int:
        if len(buffers) > _IOV_MAX:
            raise _error(errno.EINVAL)
        return self._write("pwritev", handle, b"".join(buffers), position)

    def fsync(self, handle: int, /) -> None:
        self._sync("fsync", handle)

    def fdatasync(self, handle: int, /) -> None:
        self._sync("fdatasync", handle)

    def ftruncate(self, handle: int, size_bytes: int, /) -> None:
        if size_bytes < 0:
            raise _error(errno.EINVAL)
        node, path, writable = self._opened(handle)
        if not writable or isinstance(node, Directory):
            raise _error(errno.EINVAL, path)
        self._ask("ftruncate", path)
        if size_bytes != node.live.size_bytes:
            self.mark += 1
            node.resize(self.mark, size_bytes)

    def make_read_only(self, handle: int, /) -> None:
        """`fchmod`; nobody here writes to such a file again, so the rights themselves are not kept."""
        self._ask("fchmod", self._opened(handle).path)

    def drop_cache(self, handle: int, /) -> None:
        node, path, _ = self._opened(handle)
        if isinstance(node, File):
            self._ask("drop_cache", path)
            node.drop_cache()

    def lock(self, handle: int, /) -> bool:
        node, path, writable = self._opened(handle)
        if not writable or isinstance(node, Directory):
            raise _error(errno.EBADF, path)
        self._ask("lock", path)
        if any(held is node for other, held in self._locks.items() if other != handle):
            return False
        self._locks[handle] = node
        return True

    # -- the protocol: names -------------------------------------------------------------------

    def exists(self, path: Path, /) -> bool:
        return self._node(path) is not None

    def is_directory(self, path: Path, /) -> bool:
        return isinstance(self._node(path), Directory)

    def is_at(self, path: Path, handle: int, /) -> bool:
        node, _, _ = self._opened(handle)
        return self._node(path) is node

    def names(self, directory: Path, /) -> list[str]:
        node = self._directory(directory)
        self._ask("names", directory)
        return sorted(node.live)

    def make_directory(self, path: Path, /) -> None:
        parent, node = self._look(path)
        if node is not None:
            raise _error(errno.EEXIST, path)
        self._ask("make_directory", path)
        self.mark += 1
        parent.change(self.mark, {path.name: Directory()})

    def rename(self, source: Path, target: Path, /) -> None:
        source_parent, node = self._look(source)
        target_parent, old = self._look(target)
        if node is None:
            raise _error(errno.ENOENT, source)
        if source_parent is not target_parent:  # else neither can be within the other
            if source in target.parents:
                raise _error(errno.EINVAL, source)
            if target in source.parents:
                raise _error(errno.ENOTEMPTY, target)
        if isinstance(node, Directory):
            if isinstance(old, File):
                raise _error(errno.ENOTDIR, target)
            if isinstance(old, Directory) and old is not node and old.live:
                raise _error(errno.ENOTEMPTY, target)
        elif isinstance(old, Directory):
            raise _error(errno.EISDIR, target)
        self._ask("rename", target)
        if old is node:
            return
        self.mark += 1
        if source_parent is target_parent:
            source_parent.change(self.mark, {source.name: None, target.name: node})
        else:
            target_parent.change(self.mark, {target.name: node})
            source_parent.change(self.mark, {source.name: None})

    def unlink(self, path: Path, /) -> None:
        parent, node = self._look(path)
        if node is None:
            raise _error(errno.ENOENT, path)
        if isinstance(node, Directory):
            raise _error(errno.EISDIR, path)
        self._ask("unlink", path)
        self.mark += 1
        parent.change(self.mark, {path.name: None})

    def sync_directory(self, path: Path, /) -> None:
        node = self._directory(path)
        self._ask("sync_directory", path)
        node.sync(self._until)

    # -- syncs that take time ------------------------------------------------------------------

    def begin_fsync(self, handle: int) -> Sync:
        """Begin a sync of a file: it will cover what has been written by now."""
        node, path, _ = self._opened(handle)
        assert isinstance(node, File)
        return Sync(node, path, self.mark)

    def end_fsync(self, sync: Sync) -> None:
        """End a sync: what it covers is durable. `faults` may refuse it, as any sync."""
        self._finish("fsync", sync.file, sync.path, sync.until)

    @contextmanager
    def as_of(self, mark: int) -> Iterator[None]:
        """Syncs in here cover what had been changed when `mark` was that number, and no more."""
        before, self._until = self._until, mark
        try:
            yield
        finally:
            self._until = before

    # -- crashes -------------------------------------------------------------------------------

    def crash_process(self) -> None:
        """The program that holds files open is gone; what it wrote stays in the page cache."""
        self._handles.clear()
        self._locks.clear()

    def cut_power(self, random: Random) -> None:
        """The machine stops: what is left is drawn, and is all that programs see from now on."""
        self.crash_process()
        self._settle(lambda file: file.drawn(random), lambda directory: directory.drawn(random))

    def sync_everything(self) -> None:
        """Make all durable, as a machine that is shut down in order does."""
        for directory in list(self._directories()):
            directory.sync(None)
            for node in directory.live.values():
                if isinstance(node, File):
                    node.sync(None)

    def crash_states(
        self,
        *,
        subsets_max: int = 3,
        tears: Sequence[float] = (0.5,),
        product_max: int = 0,
        states_max: int | None = None,
        aside: Sequence[str] = (),
    ) -> Iterator["SimFileSystem"]:
        """Disks that a power cut at this moment may leave, each a new file system, all different.

        Directories choose independently. Files choose independently while that makes no more than
        `product_max` combinations; beyond, all files alike and each file unlike the others.

        Args:
            subsets_max: For how many of a file's newest changes to try that they are torn, missing, or alone.
            tears: What shares of a torn write to try.
            product_max: See above.
            states_max: Try no more than so many, from all over.
            aside: Endings of names whose files take turns with what is left of them, and multiply nothing.
        """
        directories = [directory for directory in self._directories() if directory.changes]
        files = [file for file in self._files() if file.changes]
        beside = {id(file) for file in self._named(aside)} if aside else set()
        outcomes = [file.outcomes(subsets_max, tears) for file in files if id(file) not in beside]
        turns = [file.outcomes(subsets_max, tears) for file in files if id(file) in beside]
        order = [file for file in files if id(file) not in beside]
        order += [file for file in files if id(file) in beside]
        kept = list(product(*(directory.outcomes() for directory in directories)))
        choices = list(_choices(outcomes, product_max))
        total = len(kept) * len(choices)
        tried = total if states_max is None else min(total, states_max)
        seen = set()
        for turn in range(tried):
            first, second = divmod(turn * total // tried, len(choices))
            names = {id(d): found for d, found in zip(directories, kept[first], strict=True)}
            chosen = (*choices[second], *(found[turn % len(found)] for found in turns))
            contents = {id(file): image for file, image in zip(order, chosen, strict=True)}
            other = SimFileSystem(self.random)
            other.root = _surviving(self.root, names, contents)
            print_ = other.fingerprint(aside)
            if print_ not in seen:
                seen.add(print_)
                yield other

    def forget_unsynced(self) -> None:
        """The power is cut, and nothing survives but what was synced."""
        self.crash_process()
        self._settle(lambda file: file.durable, lambda directory: directory.durable)

    def copy(self) -> "SimFileSystem":
        """Another disk like this one, unsynced changes and all; nobody holds a file open on it."""
        other = SimFileSystem(self.random)
        other.mark = self.mark
        other.root = _copy(self.root, {})
        return other

    # -- behind the back of programs -----------------------------------------------------------

    def content(self, path: Path) -> bytes:
        """What programs see in a file."""
        return self._file(path).live.whole()

    def directory(self, path: Path) -> Directory:
        """A directory that programs see under this name."""
        return self._directory(path)

    def durable_content(self, path: Path) -> bytes:
        """What the disk holds of a file that programs see under this name."""
        return self._file(path).durable.whole()

    def overwrite(self, path: Path, position: int, data: bytes, *, cached: bool = False) -> None:
        """Let the disk hold other bytes; if `cached`, programs see them once the page cache lets go."""
        file = self._file(path)
        file.durable.write(position, data)
        self._show(file, position, position + len(data), cached=cached)

    def damage(self, path: Path, kind: str, position: int, random: Random, *, cached: bool = False) -> str:
        """Let the disk break a promise; says what it did.

        Args:
            path: The file, as programs name it.
            kind: One of `DAMAGES`.
            position: The byte, or a byte of the sector; where the file ends from now on for a truncation.
            random: Draws the bit, or where the misdirected block came from.
            cached: Programs see it only once the page cache lets go.
        """
        file = self._file(path)
        durable = file.durable
        start = position - position % SECTOR_BYTES
        if kind == "lost_write":
            file.lying = True
            return f"{path}: the next sync loses its bytes"
        if position >= durable.size_bytes:
            return f"{path}: nothing at byte {position}"
        if kind == "bit_flip":
            bit = random.randrange(8)
            self.overwrite(path, position, bytes([durable.read(position, 1)[0] ^ 1 << bit]), cached=cached)
            return f"{path}: bit {bit} of byte {position} flipped"
        if kind == "truncation":
            file.durable.resize(position)
            file.live.resize(min(position, file.live.size_bytes))
            file.changes = [change for change in file.changes if change.size_bytes <= position]
            return f"{path}: cut to {position} bytes"
        if kind == "unreadable":
            file.bad_sectors.add(start // SECTOR_BYTES)
            return f"{path}: the sector at byte {start} cannot be read"
        room = min(SECTOR_BYTES, durable.size_bytes - start)
        if kind == "zeroed_sector":
            self.overwrite(path, start, _ZEROS[:room], cached=cached)
            return f"{path}: the sector at byte {start} is zeros"
        if kind == "misdirected":
            source = random.randrange(max(durable.size_bytes // SECTOR_BYTES, 1)) * SECTOR_BYTES
            if source == start:
                source = start + SECTOR_BYTES
            self.overwrite(path, start, durable.read(source, room).ljust(room, b"\xa5"), cached=cached)
            return f"{path}: the sector at byte {start} holds what was meant for byte {source}"
        raise ValueError(f"{kind!r} is not one of {', '.join(DAMAGES)}")

    def is_dirty(self, path: Path, position: int) -> bool:
        """Whether the page of this byte has unsynced bytes: it is written back as a whole, in its time."""
        return position // PAGE_BYTES in pages_of(self._file(path).changes)

    def paths(self) -> list[Path]:
        """All files that programs see."""
        return sorted(_paths(self.root, Path("/")))

    def bad_sectors(self) -> list[tuple[Path, int]]:
        """What cannot be read, in the files that programs see."""
        return [(path, sector) for path in self.paths() for sector in sorted(self._file(path).bad_sectors)]

    def fingerprint(self, aside: Sequence[str] = ()) -> bytes:
        """Equal for disks that hold the same names and bytes (what programs see).

        Args:
            aside: Endings of names whose files' bytes do not matter.
        """
        digest = blake2b(digest_size=12)
        _digest(self.root, tuple(aside), digest.update)
        return digest.digest()

    # -- inside --------------------------------------------------------------------------------

    def _ask(self, operation: str, path: Path) -> None:
        if self.faults is not None:
            self.faults(operation, path, 0)

    def _write(self, operation: str, handle: int, data: bytes, position: int) -> int:
        if position < 0:
            raise _error(errno.EINVAL)
        node, path, writable = self._handles.get(handle) or self._opened(handle)
        if not writable or isinstance(node, Directory):
            raise _error(errno.EBADF, path)
        if self.faults is not None:
            taken = self.faults(operation, path, len(data))
            data = data if taken is None else data[:taken]
        if data:
            self.mark += 1
            node.write(self.mark, position, data)
        return len(data)

    def _sync(self, operation: str, handle: int) -> None:
        node, path, _ = self._opened(handle)
        if isinstance(node, Directory):
            node.sync(self._until)
        else:
            self._finish(operation, node, path, self._until)

    def _finish(self, operation: str, file: File, path: Path, until: int | None) -> None:
        if self.faults is not None:
            try:
                self.faults(operation, path, 0)
            except OSError:
                file.lose(until, self.random)
                raise
        file.sync(until)

    def _opened(self, handle: int) -> _Open:
        found = self._handles.get(handle)
        if found is None:
            raise _error(errno.EBADF)
        return found

    def _node(self, path: Path) -> Node | None:
        node: Node | None = self.root
        for part in path.parts[1:]:
            if not isinstance(node, Directory):
                return None
            node = node.live.get(part)
        return node

    def _file(self, path: Path) -> File:
        node = self._node(path)
        if not isinstance(node, File):
            raise _error(errno.ENOENT, path)
        return node

    def _directory(self, path: Path) -> Directory:
        node: Node | None = self.root
        for part in path.parts[1:]:
            if isinstance(node, File):
                raise _error(errno.ENOTDIR, path)
            assert node is not None
            node = node.live.get(part)
            if node is None:
                raise _error(errno.ENOENT, path)
        if isinstance(node, File):
            raise _error(errno.ENOTDIR, path)
        assert node is not None
        return node

    def _look(self, path: Path) -> tuple[Directory, Node | None]:
        parts = path.parts
        node: Node | None = self.root
        for part in parts[1:-1]:
            node = node.live.get(part) if isinstance(node, Directory) else None
        if not isinstance(node, Directory):
            node = self._directory(path.parent)
        return node, node.live.get(parts[-1])

    def _show(self, file: File, start: int, end: int, *, cached: bool) -> None:
        """Pages of which the disk holds something else now."""
        pages = range(start // PAGE_BYTES, (end - 1) // PAGE_BYTES + 1)
        file.stale_pages.update(pages)
        if not cached:
            file.live.resize(max(file.live.size_bytes, min(end, file.durable.size_bytes)))
            file.drop_cache()

    def _settle(
        self, content: Callable[[File], Image], names: Callable[[Directory], dict[str, Node]]
    ) -> None:
        """Let disk and page cache be what a power cut leaves."""
        contents = {id(file): content(file) for file in self._files()}
        kept = {id(directory): names(directory) for directory in self._directories()}
        self.root = _surviving(self.root, kept, contents)

    def _directories(self) -> Iterator[Directory]:
        """All of them: those that programs see and those that a power cut would bring back."""
        waiting = [self.root]
        seen = set()
        while waiting:
            directory = waiting.pop()
            if id(directory) in seen:
                continue
            seen.add(id(directory))
            yield directory
            waiting += [node for node in _nodes(directory) if isinstance(node, Directory)]

    def _named(self, endings: Sequence[str]) -> Iterator[File]:
        """Files that have, had or may get a name with such an ending."""
        for directory in self._directories():
            for names in (directory.live, directory.durable, *(change for _, change in directory.changes)):
                for name, node in names.items():
                    if isinstance(node, File) and name.endswith(tuple(endings)):
                        yield node

    def _files(self) -> list[File]:
        found = {id(node): node for d in self._directories() for node in _nodes(d) if isinstance(node, File)}
        return list(found.values())


def _nodes(directory: Directory) -> Iterator[Node]:
    yield from directory.live.values()
    yield from directory.durable.values()
    for _, names in directory.changes:
        yield from (node for node in names.values() if node is not None)


def _error(number: int, path: Path | None = None) -> OSError:
    return OSError(number, os.strerror(number), str(path) if path is not None else None)


def _surviving(top: Directory, names: dict[int, dict[str, Node]], contents: dict[int, Image]) -> Directory:
    """A directory of what a power cut leaves: nothing in it is unsynced."""
    other = Directory()
    for name, node in names.get(id(top), top.durable).items():
        if isinstance(node, Directory):
            other.durable[name] = _surviving(node, names, contents)
        else:
            file = File(contents.get(id(node), node.durable).copy())
            file.bad_sectors = set(node.bad_sectors)
            other.durable[name] = file
    other.live = dict(other.durable)
    return other


def _copy(top: Directory, known: dict[int, Node]) -> Directory:
    other = Directory()
    known[id(top)] = other

    def twin(node: Node) -> Node:
        if id(node) not in known:
            if isinstance(node, Directory):
                _copy(node, known)
            else:
                known[id(node)] = node.copy()
        return known[id(node)]

    other.live = {name: twin(node) for name, node in top.live.items()}
    other.durable = {name: twin(node) for name, node in top.durable.items()}
    other.changes = [
        (number, {name: None if node is None else twin(node) for name, node in names.items()})
        for number, names in top.changes
    ]
    return other


def _paths(top: Directory, path: Path) -> Iterator[Path]:
    for name, node in top.live.items():
        if isinstance(node, Directory):
            yield from _paths(node, path / name)
        else:
            yield path / name


def _digest(top: Directory, aside: tuple[str, ...], update: Callable[[bytes], object]) -> None:
    for name, node in sorted(top.live.items()):
        update(f"{name}\0".encode())
        if isinstance(node, Directory):
            update(b"(")
            _digest(node, aside, update)
            update(b")")
        elif not name.endswith(aside or "\0"):
            image = node.live
            update(image.size_bytes.to_bytes(8, "big"))
            update(bytes(image.data).rstrip(b"\0"))
            update(b";")


def _choices(outcomes: list[list[Image]], product_max: int) -> Iterator[tuple[Image, ...]]:
    """What the files hold: every combination, or all alike and one unlike the others."""
    lengths = [len(found) for found in outcomes]
    if prod(lengths) <= product_max:
        yield from product(*outcomes)
        return
    alike = [tuple(min(mode, n - 1) for n in lengths) for mode in range(max(lengths, default=1))]
    picks = list(alike)
    for base in alike[:2]:
        for number, n in enumerate(lengths):
            picks += [(*base[:number], mode, *base[number + 1 :]) for mode in range(n)]
    for pick in dict.fromkeys(picks):
        yield tuple(found[mode] for found, mode in zip(outcomes, pick, strict=True))
