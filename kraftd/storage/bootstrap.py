"""`bootstrap.checkpoint`: the records that the first active controller of a new cluster begins with.

It has the form of a snapshot: a header batch, the records, a footer batch. A file without the footer was cut
short, so the footer is required.

Differs: Kafka reads snapshots without requiring the footer (Q-21).
"""

from collections.abc import Mapping
from pathlib import Path

from kraftd.errors import MalformedError, StorageError
from kraftd.records.batch import encode_batch, encode_control_batch, scan
from kraftd.records.control import decode_control, encode_control
from kraftd.records.frame import encode_record
from kraftd.records.messages import FeatureLevelRecord, SnapshotFooterRecord, SnapshotHeaderRecord
from kraftd.storage.disk import Disk


def encode_bootstrap(features: Mapping[str, int], now_ms: int) -> bytes:
    """Return the file's bytes for a new cluster with these feature levels; levels of 0 are left out."""
    values = [
        encode_record(FeatureLevelRecord(name=name, feature_level=level))
        for name, level in features.items()
        if level > 0
    ]
    header = encode_control(SnapshotHeaderRecord(version=0, last_contained_log_timestamp=0))
    footer = encode_control(SnapshotFooterRecord(version=0))
    batches = [encode_control_batch(0, 0, now_ms, [header])]
    if values:
        batches.append(encode_batch(1, 0, now_ms, values))
    batches.append(encode_control_batch(1 + len(values), 0, now_ms, [footer]))
    return b"".join(batches)


def read_bootstrap(disk: Disk, path: Path) -> tuple[bytes, ...] | None:
    """Return the framed records of the file; None if there is no file.

    Raises:
        StorageError: The file cannot be read, or ends before its footer.
    """
    data = disk.read_file(path)
    if data is None:
        return None
    values: list[bytes] = []
    last: object = None
    try:
        for batch in scan(data, path=str(path)):
            values += batch.values()
            for record in batch.records() if batch.is_control else ():
                last = decode_control(record.key, record.value)
    except MalformedError as error:
        raise StorageError(f"{error}: format the directory anew, or restore the file") from error
    if not isinstance(last, SnapshotFooterRecord):
        raise StorageError(f"{path}: ends without a footer: format the directory anew, or restore the file")
    return tuple(values)
