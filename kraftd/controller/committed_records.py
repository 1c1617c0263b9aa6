"""How committed records that this controller did not write itself become part of its image: one batch of the
log after the other, or a snapshot, which takes the place of everything before it.

A record that this version of kraftd does not know ends the process before it: whoever goes past it decides on
a state that nobody else has.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from kraftd.errors import ErrorCode, KraftdError, MalformedError
from kraftd.metadata.feature_levels import is_supported
from kraftd.metadata.image import EMPTY, MetadataImage
from kraftd.metadata.image_builder import ImageBuilder, is_applied
from kraftd.metadata.impossible import ImpossibleRecordError
from kraftd.records.frame import AnyRecord, RawRecord, record_name
from kraftd.records.messages import FeatureLevelRecord
from kraftd.types import Offset, OffsetAndEpoch


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


_SETTLED: Final = object()


class ImageRestore:
    """The image that a snapshot makes, from its records, a few at a time."""

    def __init__(self, at: OffsetAndEpoch, done: Callable[[MetadataImage, OffsetAndEpoch], None]) -> None:
        """Begin with nothing; `done` is told of the image and of `at` when all of it is there."""
        self._at, self._done = at, done
        self._builder = ImageBuilder(EMPTY)
        self._settling: Iterator[None] | None = None

    def add(self, values: Sequence[bytes], where: str) -> None:
        """Take the next records; `where` names file and byte, for errors.

        Raises:
            MalformedError: One is none.
            UnknownRecordError: One has a kind, version or feature level that is unknown here.
            ImpossibleRecordError: One cannot follow what came before.
        """
        which = f"{where}: a record of the snapshot at offset {self._at.offset}"
        try:
            self._builder.apply_values(
                values, self._at.offset, lambda record, _offset: check_known(record, which)
            )
        except MalformedError as error:
            raise MalformedError(f"{where}: {error}") from error
        except ImpossibleRecordError as error:
            raise ImpossibleRecordError(error.offset, error.reason, which) from error

    def settle(self) -> bool:
        """Do some of what is left once all records were added. Returns whether there is more."""
        if self._settling is None:
            self._settling = self._builder.settling()
        return next(self._settling, _SETTLED) is None

    def finish(self) -> None:
        """Hand over the image."""
        self._done(self._builder.image(), self._at)


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
