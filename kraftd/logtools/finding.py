"""Finds the metadata logs that paths stand for: one, all at or below a path, or a whole fleet.

`find_logs` takes whatever an operator names: a node's directory, its `__cluster_metadata-0`, a segment, a
snapshot, or a folder above several nodes; `find_log` wants exactly one, `find_fleet` takes many paths and
patterns. `listed_again` asks a log anew when a file of it went meanwhile. Not here: what is in a directory
that was found (`node_files`).
"""

import glob
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from kraftd.errors import MalformedError
from kraftd.logtools.errors import FileGoneError, UnanswerableError, no_such_path
from kraftd.logtools.node_files import FileKind, LogFile, NodeFiles, describe, kind_of_name, problem_of_name
from kraftd.logtools.problem import Problem, ProblemKind
from kraftd.logtools.small_reading import read_small
from kraftd.records import names, partition_metadata
from kraftd.types import METADATA_TOPIC_ID

DEPTH = 4
"""How far below what was named a log may lie: `fleet/cluster/node/data` is the deepest in use."""

_NAMED_MAX = 3
"""Of several logs so many are named."""

_LISTINGS_MAX: Final = 5
"""How often the files of a log are listed that go while they are read."""

_Answer = TypeVar("_Answer")


def find_log(path: Path) -> NodeFiles:
    """The one log that a path stands for.

    Raises:
        UnanswerableError: There is none, or more than one.
    """
    found = find_logs(path)
    if len(found) > 1:
        some = ", ".join(str(log.home) for log in found[:_NAMED_MAX])
        more = f" and {len(found) - _NAMED_MAX} more" if len(found) > _NAMED_MAX else ""
        raise UnanswerableError(f"{path} holds several logs; name one: {some}{more}")
    return found[0]


def listed_again(
    log: NodeFiles,
    ask: Callable[[NodeFiles], _Answer],
    relist: Callable[[NodeFiles], NodeFiles] = lambda log: find_log(Path(log.named)),
) -> _Answer:
    """Ask a log; list its files again and ask anew whenever one of them went meanwhile.

    Node 2 runs and has the snapshots at 100 and 200. `log verify` lists both, the cleaner removes the first,
    and only then it is opened: nothing is wrong, and the list of now leads to an answer.

    Args:
        log: What was listed.
        ask: Answers from a list; what it did before a file was gone does not count.
        relist: How the files are listed again.

    Raises:
        UnanswerableError: `ask` says so; or a file went each time, however often they were listed.
    """
    for _ in range(_LISTINGS_MAX - 1):
        try:
            return ask(log)
        except FileGoneError:
            log = relist(log)
    try:
        return ask(log)
    except FileGoneError as error:
        raise UnanswerableError(
            f"{error.path}: was removed while it was read, as others were before it, {_LISTINGS_MAX} times: "
            "the node that runs there cuts its log: ask again, or copy it with `kraftctl export`"
        ) from error


def find_logs(path: Path) -> list[NodeFiles]:
    """Every log that a path stands for, by name.

    Raises:
        UnanswerableError: There is none.
    """
    if not path.exists():
        raise no_such_path(path)
    if not path.is_dir():
        return [_named_file(path)]
    directories = _log_directories(path)
    if not directories and (bootstrap := path / names.BOOTSTRAP_CHECKPOINT).is_file():
        raise UnanswerableError(
            f"{path} holds no metadata log yet: it was formatted, and no node has started there; {bootstrap} "
            "has what it was formatted with"
        )
    if not directories:
        raise UnanswerableError(
            f"{path} holds no metadata log; name a directory with {names.LOG_DIRECTORY}, .log or .checkpoint "
            "files in it"
        )
    if len(directories) == 1:
        return [describe(directories[0], named=str(path))]
    return [describe(directory) for directory in directories]


def find_fleet(paths: Iterable[str | Path]) -> tuple[list[NodeFiles], list[Problem]]:
    """Every log at or below these directories, each once, by absolute paths.

    A path with `*`, `?` or `[` in it that is no directory's name is a pattern; it means all directories it
    fits. A directory without a log is a problem, as long as another has one.

    Raises:
        UnanswerableError: A path does not exist, or there is no log at all.
    """
    found: dict[Path, None] = {}
    lost = []
    for root in _expanded(paths):
        if not root.is_dir():
            raise UnanswerableError(f"{root}: {'not a directory' if root.exists() else 'no such directory'}")
        directories = _log_directories(root.resolve())
        found.update(dict.fromkeys(directories))
        if not directories:
            text = f"no {names.LOG_DIRECTORY} directory in it or up to {DEPTH} levels below"
            action = "name a controller's metadata directory or an export"
            lost.append(Problem(ProblemKind.INCOMPLETE, str(root), text, action=action))
    if not found:
        raise UnanswerableError(lost[0] if lost else "name a directory")
    return [describe(directory) for directory in found], lost


def _named_file(path: Path) -> NodeFiles:
    """A snapshot stands for itself, a segment for its log up to its end.

    Raises:
        UnanswerableError: It is neither, or of another topic.
    """
    _refuse_other_topic(path.parent)
    if (problem := problem_of_name(path)) is not None:
        raise UnanswerableError(problem)
    kind, base, epoch = kind_of_name(path.name)
    if path.name == names.BOOTSTRAP_CHECKPOINT:
        kind, base, epoch = FileKind.SNAPSHOT, 0, 0
    if kind is FileKind.SNAPSHOT:
        file = LogFile(path, kind, base, epoch, path.stat().st_size)
        return NodeFiles(str(path), path.parent, path.parent, (file,))
    if kind is None:
        raise UnanswerableError(f"{path} is neither a segment (….log) nor a snapshot (….checkpoint)")
    log = describe(path.parent.absolute(), named=str(path))
    later = [segment.offset for segment in log.segments if segment.offset > base]
    ends = {FileKind.LOG: base, FileKind.SNAPSHOT: later[0] if later else base, FileKind.BOOTSTRAP: 0}
    kept = (file for file in log.files if not later or file.offset <= ends[file.kind])
    return msgspec.structs.replace(log, files=tuple(kept))


def _expanded(paths: Iterable[str | Path]) -> Iterator[Path]:
    """The paths, patterns replaced by what they fit.

    Raises:
        UnanswerableError: A pattern fits no directory.
    """
    for path in paths:
        text = str(path)
        if not glob.has_magic(text) or Path(text).exists():
            yield Path(text)
            continue
        found = sorted(entry for entry in glob.glob(text) if Path(entry).is_dir())  # noqa: PTH207 - keeps the text as it is
        if not found:
            raise UnanswerableError(f"{text}: no directory fits this pattern")
        yield from map(Path, found)


def _log_directories(path: Path) -> list[Path]:
    """The directories with segments at or below a path.

    Raises:
        UnanswerableError: The path is a directory of another topic, or a folder cannot be read.
    """
    _refuse_other_topic(path)
    try:
        return list(_below(path, DEPTH))
    except OSError as error:
        raise UnanswerableError(f"{error.filename} cannot be read: {error.strerror}") from error


def _below(path: Path, depth: int) -> Iterator[Path]:
    inner = path / names.LOG_DIRECTORY
    if inner.is_dir():
        yield inner
        return
    children = sorted(os.scandir(path), key=lambda entry: entry.name)
    if path.name == names.LOG_DIRECTORY or any(
        entry.is_file() and _is_ours(entry.name) for entry in children
    ):
        yield path
    elif depth:
        for entry in children:
            below = Path(entry.path)
            if entry.is_dir() and not entry.name.startswith(".") and not _is_of_another_topic(below):
                yield from _below(below, depth - 1)


def _is_ours(name: str) -> bool:
    try:
        return kind_of_name(name)[0] is not None
    except MalformedError:
        return False


def _refuse_other_topic(path: Path) -> None:
    """Say what a directory is that holds no metadata, but the records of a topic.

    Raises:
        UnanswerableError: It does.
    """
    if _is_of_another_topic(path):
        raise UnanswerableError(
            f"{path} is a partition of a topic, not the metadata log, which is in {names.LOG_DIRECTORY}"
        )


def _is_of_another_topic(path: Path) -> bool:
    """Whether a directory holds the records of a topic: its id says so, in a file that Kafka puts there."""
    try:
        topic_id = partition_metadata.decode(read_small(path / names.PARTITION_METADATA))
    except (OSError, MalformedError):
        return False
    return topic_id != METADATA_TOPIC_ID
