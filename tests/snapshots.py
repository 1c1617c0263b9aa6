"""What a snapshot of ours and one of Kafka's are compared by: sets of data records with their versions.

The order inside a section of Kafka's is not stable. What is a set in Kafka's image but a list in the record
(listeners, features, directories, the parts of a quota's entity) is put in order first.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from kraftd.metadata.image import EMPTY, MetadataImage
from kraftd.metadata.image_builder import ImageBuilder
from kraftd.metadata.snapshot import to_values
from kraftd.records import names
from kraftd.records.batch import scan
from kraftd.records.control import decode_control
from kraftd.records.frame import AnyRecord, decode_record, read_frame
from kraftd.records.messages import (
    ClientQuotaRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    SnapshotHeaderRecord,
)
from kraftd.records.snapshot import encode_snapshot


class Comparable(NamedTuple):
    """A data record and its version, without the order of what has none."""

    version: int
    record: AnyRecord


def comparable(values: Iterable[bytes]) -> Counter[Comparable]:
    """Encoded data records, as what can be compared."""
    return Counter(Comparable(read_frame(value)[1], _in_order(decode_record(value))) for value in values)


def written(image: MetadataImage) -> Iterator[bytes]:
    """What an image writes into a snapshot."""
    return to_values(image)


def _in_order(record: AnyRecord) -> AnyRecord:
    if isinstance(record, ClientQuotaRecord):
        entity = tuple(sorted(record.entity, key=lambda part: part.entity_type))
        return msgspec.structs.replace(record, entity=entity)
    if isinstance(record, RegisterBrokerRecord | RegisterControllerRecord):
        lists = {
            name: tuple(sorted(getattr(record, name), key=msgspec.structs.astuple))
            for name in ("end_points", "features")
        }
        if isinstance(record, RegisterBrokerRecord):
            lists["log_dirs"] = tuple(sorted(record.log_dirs))
            if record.cordoned_log_dirs is not None:
                lists["cordoned_log_dirs"] = tuple(sorted(record.cordoned_log_dirs))
        return msgspec.structs.replace(record, **lists)
    return record


def folded(values: Iterable[bytes]) -> MetadataImage:
    """The image that framed records make."""
    builder = ImageBuilder(EMPTY)
    builder.apply_values(list(values), 0)
    return builder.image()


def rewritten_snapshot(path: Path) -> bytes:
    """A snapshot of the same id as one of Kafka's, of the image that Kafka's makes."""
    snapshot_id = names.parse_snapshot_name(path.name)
    assert snapshot_id is not None
    header, *batches = scan(path.read_bytes(), path=str(path))
    head, *quorum = (decode_control(record.key, record.value) for record in header.records())
    assert isinstance(head, SnapshotHeaderRecord)
    timestamp_ms = head.last_contained_log_timestamp
    image = folded(value for batch in batches for value in batch.values())
    return b"".join(
        encode_snapshot(
            to_values(image),
            snapshot_id.epoch,
            timestamp_ms,
            last_contained_timestamp_ms=timestamp_ms,
            quorum=quorum,
        )
    )
