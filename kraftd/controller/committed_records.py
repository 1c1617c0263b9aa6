"""How committed records that this controller did not write itself become part of its image.

A record that this version of kraftd does not know ends the process before it: whoever goes past it decides on
a state that nobody else has.
"""

from collections.abc import Sequence

from kraftd.errors import ErrorCode, KraftdError
from kraftd.metadata.feature_levels import is_supported
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.image_builder import ImageBuilder, is_applied
from kraftd.records.frame import AnyRecord, RawRecord, record_name
from kraftd.records.messages import FeatureLevelRecord
from kraftd.types import Offset


class UnknownRecordError(KraftdError):
    """The log holds a record that this version of kraftd cannot apply; it must not go past it."""

    code = ErrorCode.UNSUPPORTED_VERSION


def apply_values(image: MetadataImage, values: Sequence[bytes], base_offset: Offset) -> MetadataImage:
    """The image after these records, which follow it in the log.

    Raises:
        UnknownRecordError: One has a kind, version or feature level that is unknown here.
        ImpossibleRecordError: One cannot follow what came before.
    """
    builder = ImageBuilder(image)
    builder.apply_values(
        values,
        base_offset,
        lambda record, offset: check_known(record, f"the record at offset {offset}"),
    )
    return builder.image()


def check_known(record: AnyRecord, which: str) -> None:
    """Refuse a record that is unknown here; `which` names it.

    Raises:
        UnknownRecordError: This version of kraftd does not know its kind, version or feature level.
    """
    if isinstance(record, RawRecord):
        what = f"of kind {record_name(record.api_key)}, version {record.version}"
    elif not is_applied(record):
        what = f"of kind {record.NAME}" + (" with tags of a newer version" if record.unknown_tags else "")
    elif isinstance(record, FeatureLevelRecord) and not is_supported(record.name, record.feature_level):
        what = f"level {record.feature_level} of feature {record.name}"
    else:
        return
    raise UnknownRecordError(
        f"{which} is {what}, which this version of kraftd cannot apply; it stops before it. "
        "Run a newer kraftd."
    )
