"""What a snapshot of ours and one of Kafka's are compared by: sets of data records with their versions.

The order inside a section of Kafka's is not stable. What is a set in Kafka's image but a list in the record
(listeners, features, directories, the parts of a quota's entity) is put in order first.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from kraftd.metadata.feature_levels import METADATA_VERSION
from kraftd.metadata.image import MetadataImage, to_records
from kraftd.metadata.parts.features import FEATURES
from kraftd.metadata.record_versions import encode_allowed
from kraftd.records.frame import AnyRecord, decode_record, read_frame
from kraftd.records.messages import ClientQuotaRecord, RegisterBrokerRecord, RegisterControllerRecord


class Comparable(NamedTuple):
    """A data record and its version, without the order of what has none."""

    version: int
    record: AnyRecord


def comparable(values: Iterable[bytes]) -> Counter[Comparable]:
    """Encoded data records, as what can be compared."""
    return Counter(Comparable(read_frame(value)[1], _in_order(decode_record(value))) for value in values)


def written(image: MetadataImage) -> Iterator[bytes]:
    """What an image writes into a snapshot."""
    level = image[FEATURES].level(METADATA_VERSION)
    return (encode_allowed(record, level) for record in to_records(image))


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
