"""Preparing a directory for its first start, as Kafka's `kafka-storage format` does for static voters.

Two files: `bootstrap.checkpoint`, then `meta.properties`, which alone says that the directory is
formatted. A crash before it leaves a directory that can be formatted again.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from kraftd.errors import MalformedError, StorageError
from kraftd.metadata.feature_levels import NEW_CLUSTER_LEVELS
from kraftd.records import meta_properties, names
from kraftd.records.meta_properties import MetaProperties
from kraftd.storage.bootstrap import encode_bootstrap
from kraftd.storage.disk import Disk
from kraftd.storage.filesystem import FileSystem
from kraftd.types import NodeId, Uuid


class Formatted(msgspec.Struct, frozen=True):
    """The result of formatting, or of a dry run of it."""

    directory: str
    properties: MetaProperties
    features: tuple[tuple[str, int], ...]
    written: tuple[str, ...]
    """The files, in order; none if the directory was formatted already."""
    already: bool
    """Whether the directory was formatted before; then nothing was changed, and `properties` are the old
    ones.
    """


def format_directory(
    fs: FileSystem,
    path: Path,
    *,
    cluster_id: str,
    node_id: NodeId,
    directory_id: Uuid,
    now_ms: int,
    features: Mapping[str, int] = NEW_CLUSTER_LEVELS,
    ignore_formatted: bool = False,
    dry_run: bool = False,
) -> Formatted:
    """Format a directory, which is created if it does not exist.

    Args:
        fs: How the disk is reached.
        path: `metadata.log.dir`.
        cluster_id: Kafka's text of it.
        node_id: Who will live here.
        directory_id: A new random id.
        now_ms: The wall clock, for the timestamps of the bootstrap records.
        features: Feature levels of a new cluster; see `NEW_CLUSTER_LEVELS`.
        ignore_formatted: Leave a formatted directory as it is, without an error.
        dry_run: Change nothing.

    Raises:
        StorageError: The directory is formatted already, or is no directory.
        StorageFailure: The disk refused a write.
    """
    disk = Disk(fs)
    chosen = tuple((name, level) for name, level in features.items() if level > 0)
    file = path / names.META_PROPERTIES
    if fs.exists(path) and not fs.is_directory(path):
        raise StorageError(f"{path}: is not a directory: choose another log.dirs")
    data = disk.read_file(file) if fs.is_directory(path) else None
    if data is not None:
        if not ignore_formatted:
            raise StorageError(
                f"{path}: is already formatted: use --ignore-formatted to leave it so, or choose another"
            )
        try:
            properties = meta_properties.decode(data)
        except MalformedError as error:
            raise StorageError(f"{file}: {error}: remove the file to format anew") from error
        if not dry_run:
            _sync_names(disk, path)
        return Formatted(str(path), properties, chosen, (), already=True)
    properties = MetaProperties(cluster_id, node_id, directory_id)
    contents = (
        (path / names.BOOTSTRAP_CHECKPOINT, encode_bootstrap(features, now_ms)),
        (file, meta_properties.encode(properties)),
    )
    if not dry_run:
        _make_directories(disk, path)
        for target, content in contents:
            disk.replace(target, content)
    return Formatted(
        str(path), properties, chosen, tuple(str(target) for target, _ in contents), already=False
    )


def _make_directories(disk: Disk, path: Path) -> None:
    """Create a directory and its missing parents, outermost first, each durably."""
    missing = []
    existing = path
    while not disk.fs.is_directory(existing) and existing.parent != existing:
        missing.append(existing)
        existing = existing.parent
    _sync_names(disk, existing)
    for directory in reversed(missing):
        disk.make_directory(directory)


def _sync_names(disk: Disk, directory: Path) -> None:
    """Make durable what a format that was killed may have left: names in a directory, and its own."""
    disk.sync_directory(directory)
    disk.sync_directory(directory.parent)
