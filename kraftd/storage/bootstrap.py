"""`bootstrap.checkpoint`: the records that the first active controller of a new cluster begins with.

It has the form of a snapshot (`kraftd.records.snapshot`) and must be whole like one.
"""

from collections.abc import Mapping
from pathlib import Path

from kraftd.errors import MalformedError, StorageError
from kraftd.records.frame import encode_record
from kraftd.records.messages import FeatureLevelRecord
from kraftd.records.snapshot import SnapshotDecoder, encode_snapshot
from kraftd.storage.disk import Disk


def encode_bootstrap(features: Mapping[str, int], now_ms: int) -> bytes:
    """Return the file's bytes for a new cluster with these feature levels; levels of 0 are left out."""
    values = (
        encode_record(FeatureLevelRecord(name=name, feature_level=level))
        for name, level in features.items()
        if level > 0
    )
    return b"".join(encode_snapshot(values, 0, now_ms, last_contained_timestamp_ms=0))


def read_bootstrap(disk: Disk, path: Path) -> tuple[bytes, ...] | None:
    """Return the framed records of the file; None if there is no file.

    Raises:
        StorageError: The file cannot be read, or is not whole.
    """
    data = disk.read_file(path)
    if data is None:
        return None
    decoder = SnapshotDecoder(str(path))
    values: list[bytes] = []
    try:
        for batch in decoder.feed(data):
            values += batch.values()
        decoder.finish()
    except MalformedError as error:
        raise StorageError(f"{error}: format the directory anew, or restore the file") from error
    return tuple(values)
