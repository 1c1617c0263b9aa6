"""A file system in memory that knows what a power cut may take from it.

Each file and each directory has what programs see (live) and what is durable, with the changes between
the two in order. `fsync` makes a file's changes durable, `sync_directory` a directory's. `crash_states`
yields what the disk may hold after a power cut at this moment; each is a new file system to open.

The model of a crash, coarser than a real one but in the same directions:
a directory keeps a prefix of its unsynced changes (journals keep order; a rename is one change); a file
keeps none of its unsynced changes, all of them, all but its content (size grew, bytes are zeros), all but
half of the last write, or only the last one. Files and directories choose independently of each other,
all files together and each file alone.

`fail` puts a fault in the place of a call: an error, or a write that takes only a part. A failed fsync
marks the pages clean, as Linux does: what was written stays visible until `drop_cache`.
"""

import errno
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

from kraftd.storage import Access

CHANGES = {
    "open",
    "pwrite",
    "pwritev",
    "fsync",
    "fdatasync",
    "ftruncate",
    "make_directory",
    "rename",
    "unlink",
}
CHANGES |= {"sync_directory"}


class PowerCutError(Exception):
    """The machine stops before the call that raises this."""


@dataclass
class File:
    durable: bytes = b""
    live: bytes = b""
    changes: list[Callable[[bytes], bytes]] = field(default_factory=list)
    writes: list[tuple[int, bytes] | None] = field(default_factory=list)

    def change(self, apply: Callable[[bytes], bytes], write: tuple[int, bytes] | None) -> None:
        self.live = apply(self.live)
        self.changes.append(apply)
        self.writes.append(write)

    def sync(self) -> None:
        for apply in self.changes:
            self.durable = apply(self.durable)
        self.forget()

    def forget(self) -> None:
        self.changes.clear()
        self.writes.clear()

    def outcomes(self) -> list[bytes]:
        if not self.changes:
            return [self.durable]
        found = [self.durable, self.live, self.durable.ljust(len(self.live), b"\0")]
        before = self.durable
        for apply in self.changes[:-1]:
            before = apply(before)
        last = self.writes[-1]
        if last is not None:
            position, data = last
            found.append(written(before, position, data[: len(data) // 2]))
            found.append(written(self.durable, position, data))
        return list(dict.fromkeys(found))


@dataclass
class Directory:
    durable: dict[str, "File | Directory"] = field(default_factory=dict)
    live: dict[str, "File | Directory"] = field(default_factory=dict)
    changes: list[Callable[[dict], None]] = field(default_factory=list)

    def change(self, apply: Callable[[dict], None]) -> None:
        apply(self.live)
        self.changes.append(apply)

    def sync(self) -> None:
        self.durable = dict(self.live)
        self.changes.clear()

    def outcomes(self) -> list[dict[str, "File | Directory"]]:
        state = dict(self.durable)
        found = [dict(state)]
        for apply in self.changes:
            apply(state)
            found.append(dict(state))
        return found


class MemoryFileSystem:
    """Fulfils `kraftd.storage.FileSystem`."""

    def __init__(self, root: Directory | None = None) -> None:
        self.root = root if root is not None else Directory()
        self.calls: list[tuple[str, str]] = []
        """Every change asked for, with the name it concerned."""
        self.fail: Callable[[str, str, int], int | None] | None = None
        """Called before each change with operation, name and count so far; raises a fault, or returns how
        many bytes a write takes."""
        self._handles: dict[int, tuple[Path, File]] = {}
        self._locked: dict[int, File] = {}
        self._next_handle = 100

    # -- the protocol --------------------------------------------------------------------------

    def open(self, path: Path, access: Access) -> int:
        parent = self._directory(path.parent)
        node = parent.live.get(path.name)
        if isinstance(node, Directory):
            raise OSError(errno.EISDIR, "is a directory")
        if node is None:
            if access in {Access.READ, Access.WRITE}:
                raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
            self._before("open", path)
            node = File()
            parent.change(lambda names, node=node: names.__setitem__(path.name, node))
        elif access is Access.CREATE_EMPTY and node.live:
            self._before("open", path)
            node.change(lambda _: b"", None)
        self._next_handle += 1
        self._handles[self._next_handle] = (path, node)
        return self._next_handle

    def close(self, handle: int) -> None:
        del self._handles[handle]
        self._locked.pop(handle, None)

    def size(self, handle: int) -> int:
        return len(self._handles[handle][1].live)

    def pread(self, handle: int, size_bytes: int, position: int) -> bytes:
        return self._handles[handle][1].live[position : position + size_bytes]

    def pwrite(self, handle: int, data: bytes, position: int) -> int:
        return self._write("pwrite", handle, bytes(data), position)

    def pwritev(self, handle: int, buffers: Sequence[bytes], position: int) -> int:
        return self._write("pwritev", handle, b"".join(buffers), position)

    def fsync(self, handle: int) -> None:
        self._sync("fsync", handle)

    def fdatasync(self, handle: int) -> None:
        self._sync("fdatasync", handle)

    def ftruncate(self, handle: int, size_bytes: int) -> None:
        path, file = self._handles[handle]
        self._before("ftruncate", path)
        file.change(lambda data: data[:size_bytes].ljust(size_bytes, b"\0"), None)

    def drop_cache(self, handle: int, position: int) -> None:
        file = self._handles[handle][1]
        if not file.changes:
            file.live = file.durable

    def lock(self, handle: int) -> bool:
        file = self._handles[handle][1]
        if any(other is file for other in self._locked.values()):
            return False
        self._locked[handle] = file
        return True

    def exists(self, path: Path) -> bool:
        return self._node(path) is not None

    def is_directory(self, path: Path) -> bool:
        return isinstance(self._node(path), Directory)

    def names(self, directory: Path) -> list[str]:
        return sorted(self._directory(directory).live)

    def make_directory(self, path: Path) -> None:
        parent = self._directory(path.parent)
        self._before("make_directory", path)
        node = Directory()
        parent.change(lambda names: names.__setitem__(path.name, node))

    def rename(self, source: Path, target: Path) -> None:
        parent = self._directory(source.parent)
        self._before("rename", target)

        def move(names: dict[str, File | Directory]) -> None:
            names[target.name] = names.pop(source.name)

        parent.change(move)

    def unlink(self, path: Path) -> None:
        parent = self._directory(path.parent)
        if path.name not in parent.live:
            raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
        self._before("unlink", path)
        parent.change(lambda names: names.pop(path.name))

    def sync_directory(self, path: Path) -> None:
        self._before("sync_directory", path)
        self._directory(path).sync()

    # -- faults and crashes --------------------------------------------------------------------

    def crash_states(self) -> Iterator["MemoryFileSystem"]:
        """Every disk that a power cut at this moment may leave, by the model above."""
        directories = list(self._directories(self.root))
        files = [file for file in self._files() if file.changes]
        for kept in product(*(range(len(directory.changes) + 1) for directory in directories)):
            prefix = {id(d): d.outcomes()[count] for d, count in zip(directories, kept, strict=True)}
            for contents in _choices(files):
                yield MemoryFileSystem(_copy(self.root, prefix, contents))

    def kill_program(self) -> None:
        """The program that holds files open is gone; what it wrote stays in the page cache."""
        self._handles.clear()
        self._locked.clear()

    def cut_power_before(self, number: int) -> None:
        """Stop at the change with this number, counted from now."""
        until = len(self.calls) + number

        def cut(_operation: str, _name: str, count: int) -> None:
            if count >= until:
                raise PowerCutError

        self.fail = cut

    def content(self, path: Path) -> bytes:
        """What programs see in a file."""
        node = self._node(path)
        assert isinstance(node, File)
        return node.live

    def damage(self, path: Path, position: int, data: bytes) -> None:
        """Change bytes behind everybody's back, durably."""
        node = self._node(path)
        assert isinstance(node, File)
        assert not node.changes
        node.live = node.durable = written(node.live, position, data)

    def replace_durable(self, path: Path, data: bytes) -> None:
        """Let the disk hold something else than the page cache shows."""
        node = self._node(path)
        assert isinstance(node, File)
        node.durable = data

    def _before(self, operation: str, path: Path) -> int | None:
        assert operation in CHANGES
        taken = self.fail(operation, path.name, len(self.calls)) if self.fail is not None else None
        self.calls.append((operation, path.name))
        return taken

    def _write(self, operation: str, handle: int, data: bytes, position: int) -> int:
        path, file = self._handles[handle]
        taken = self._before(operation, path)
        data = data[: len(data) if taken is None else taken]
        file.change(lambda before: written(before, position, data), (position, data))
        return len(data)

    def _sync(self, operation: str, handle: int) -> None:
        path, file = self._handles[handle]
        try:
            self._before(operation, path)
        except OSError:
            file.forget()
            raise
        file.sync()

    def _node(self, path: Path) -> File | Directory | None:
        node: File | Directory | None = self.root
        for part in path.parts[1:]:
            if not isinstance(node, Directory):
                return None
            node = node.live.get(part)
        return node

    def _directory(self, path: Path) -> Directory:
        node = self._node(path)
        if not isinstance(node, Directory):
            raise FileNotFoundError(errno.ENOENT, "no such directory", str(path))
        return node

    def _directories(self, top: Directory) -> Iterator[Directory]:
        yield top
        nodes = {id(node): node for node in (*top.live.values(), *top.durable.values())}
        for node in nodes.values():
            if isinstance(node, Directory):
                yield from self._directories(node)

    def _files(self) -> list[File]:
        found: dict[int, File] = {}
        for directory in self._directories(self.root):
            for state in directory.outcomes():
                found |= {id(node): node for node in state.values() if isinstance(node, File)}
        return list(found.values())


def written(before: bytes, position: int, data: bytes) -> bytes:
    """Bytes with some of them replaced, lengthened with zeros where needed."""
    return before[:position].ljust(position, b"\0") + data + before[position + len(data) :]


def _choices(files: list[File]) -> Iterator[dict[int, bytes]]:
    """What the files hold: all alike, or one unlike the others."""
    seen = set()
    outcomes = [file.outcomes() for file in files]
    lengths = [len(found) for found in outcomes]
    alike = [tuple(min(mode, n - 1) for n in lengths) for mode in range(max(lengths, default=1))]
    picks = list(alike)
    for base in alike[:2]:
        for number, n in enumerate(lengths):
            picks += [(*base[:number], mode, *base[number + 1 :]) for mode in range(n)]
    for pick in picks:
        if pick not in seen:
            seen.add(pick)
            yield {id(file): found[mode] for file, found, mode in zip(files, outcomes, pick, strict=True)}


def _copy(top: Directory, prefix: dict[int, dict], contents: dict[int, bytes]) -> Directory:
    names: dict[str, File | Directory] = {}
    for name, node in prefix.get(id(top), top.durable).items():
        if isinstance(node, Directory):
            names[name] = _copy(node, prefix, contents)
        else:
            data = contents.get(id(node), node.durable)
            names[name] = File(durable=data, live=data)
    return Directory(durable=dict(names), live=names)
