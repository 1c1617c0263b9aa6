"""How records change the state of the cluster: one image and a record give another image.

`apply` applies one record, `apply_all` several, all of them or none; an `ImageBuilder` takes many and makes
one image in the end. A record that cannot follow what came before it is an `ImpossibleRecordError`, and
leaves nothing half applied. `is_applied` tells whether a record has its part in the image; any other makes
it partial. So does a tag that nothing here knows on a record that only changes an entity, since the image
cannot keep it: what the record says is applied all the same.

Not here: what an image shows (`image`), and what its parts do with a record (`parts`).
Follows: what Kafka's image makes of each record; Kafka's word for it is "replay".
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec
from immutables import Map

from kraftd.metadata.feature_levels import METADATA_VERSION
from kraftd.metadata.image import MetadataImage, OpenTransaction
from kraftd.metadata.impossible import ImpossibleRecordError
from kraftd.metadata.part import BuilderT, Part, PartWithBuilder, S
from kraftd.metadata.parts.features import FEATURES
from kraftd.metadata.registry import BULK, KIND_PREFIX_BYTES, KINDS, decode
from kraftd.records.frame import AnyRecord, RawRecord
from kraftd.records.messages import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    NoOpRecord,
    Record,
)
from kraftd.types import Offset


def apply(image: MetadataImage, record: AnyRecord, offset: Offset) -> MetadataImage:
    """Apply one record.

    Raises:
        ImpossibleRecordError: It cannot follow what is in the image.
    """
    builder = ImageBuilder(image)
    builder.apply(record, offset)
    return builder.image()


def apply_all(image: MetadataImage, records: Iterable[AnyRecord], base_offset: Offset) -> MetadataImage:
    """Apply records of consecutive offsets; all of them or, when one is impossible, none."""
    builder = ImageBuilder(image)
    for offset, record in enumerate(records, base_offset):
        builder.apply(record, offset)
    return builder.image()


def is_applied(record: AnyRecord) -> bool:
    """Whether a record has its part in an image; any other makes the image partial."""
    if isinstance(record, RawRecord):
        return False
    kind = KINDS.get(type(record))
    return kind is None or not (kind.loses_tags and record.unknown_tags)


class _PartBuilders(dict[Part[Any, Any], Any]):
    """The builders that were asked for, each made of the state of its part."""

    __slots__ = ("_states",)

    def __init__(self, states: "Map[Part[Any, Any], Any]") -> None:
        super().__init__()
        self._states = states

    def __missing__(self, part: PartWithBuilder[Any, Any, BuilderT]) -> BuilderT:
        builder = self[part] = part.builder(self._states[part])
        return builder


class ImageBuilder:
    """A scratch copy of an image that records are written into, cheaper than one image a record.

    It belongs to whoever made it. When a method raises, it must be dropped; the image it came from is
    untouched.
    """

    __slots__ = ("_begin", "_committed_image", "_part_builders", "_states", "_unknown", "builder_of")

    builder_of: Callable[[PartWithBuilder[Any, Any, BuilderT]], BuilderT]
    """Gives the builder that changes of a part are written into; one lookup, since each change needs it."""

    _states: "Map[Part[Any, Any], Any]"
    _unknown: Map[int, int]
    _part_builders: _PartBuilders

    def __init__(self, image: MetadataImage) -> None:
        self._committed_image: MetadataImage | None = None
        """What readers see while a transaction is open: the image before it began. None without one."""
        self._begin: tuple[Offset, str | None] = (0, None)
        transaction = image._transaction
        if transaction is None:
            self._load(image)
        else:
            self._committed_image = image
            self._begin = (transaction.begin_offset, transaction.name)
            self._load(transaction.pending)

    def apply(self, record: AnyRecord, offset: Offset) -> None:
        """Apply one record.

        Raises:
            ImpossibleRecordError: It cannot follow what is here. Drop this builder then.
        """
        _APPLY[type(record)](self, record, offset)

    def apply_values(
        self,
        values: Sequence[bytes],
        base_offset: Offset,
        check: Callable[[AnyRecord, Offset], None] | None = None,
    ) -> None:
        """Apply records of consecutive offsets, given by their framed values; partitions and configs in bulk.

        Every record is as valid as if it had been decoded. `check`, if given, sees each before it is
        applied, but for those that an image always takes: configs, topics and partitions.

        Raises:
            MalformedError: A value is no record.
            ImpossibleRecordError: A record cannot follow what is here. Drop this builder then, in both cases.
        """
        at, end = 0, len(values)
        while at < end:
            bulk = BULK.get(values[at][:KIND_PREFIX_BYTES])
            if bulk is not None:
                at = bulk(self, values, at)
                if at == end:
                    return
            record = decode(values[at])
            if check is not None and type(record) not in _ALWAYS_ACCEPTED:
                check(record, base_offset + at)
            _APPLY[type(record)](self, record, base_offset + at)
            at += 1

    @property
    def metadata_version(self) -> int:
        """The level of `metadata.version` in the image that would be made now."""
        if self._committed_image is not None:
            return self._committed_image.metadata_version
        return self.state(FEATURES).level(METADATA_VERSION)

    def image(self) -> MetadataImage:
        """What has been applied so far, as an image."""
        folded = self._image_of_all()
        if self._committed_image is None:
            return folded
        return msgspec.structs.replace(
            self._committed_image, _transaction=OpenTransaction(*self._begin, folded)
        )

    def settling(self) -> Iterator[None]:
        """Do ahead, in steps of some ms at most, what `image` would have to do at once. No record is applied
        after the first step.
        """
        for builder in self._part_builders.values():
            yield from builder.settling()

    # -- what the parts are given: kraftd.metadata.part.Builder

    def state(self, part: Part[S, Any]) -> S:
        """The state of a part without a builder."""
        state: S = self._states[part]
        return state

    def put(self, part: Part[S, Any], state: S) -> None:
        """Replace the state of a part without a builder."""
        self._states = self._states.set(part, state)

    def record_lost_tags(self, record: Record) -> None:
        """Count a change whose unknown tags the image cannot keep."""
        self._count(record.API_KEY)

    def _load(self, image: MetadataImage) -> None:
        self._states = image._states
        self._unknown = image._unknown
        self._reset_part_builders()

    def _image_of_all(self) -> MetadataImage:
        """An image of everything applied, also of what an open transaction has pending."""
        if self._part_builders:
            for part, builder in self._part_builders.items():
                self._states = self._states.set(part, builder.image())
            self._reset_part_builders()
        return MetadataImage(self._states, self._unknown)

    def _reset_part_builders(self) -> None:
        self._part_builders = _PartBuilders(self._states)
        self.builder_of = self._part_builders.__getitem__

    def _count(self, kind: int) -> None:
        self._unknown = self._unknown.set(kind, self._unknown.get(kind, 0) + 1)

    # -- records that belong to no part

    def _no_op(self, _record: NoOpRecord, _offset: Offset) -> None:
        pass

    def _begin_transaction(self, record: BeginTransactionRecord, offset: Offset) -> None:
        if self._committed_image is not None:
            raise ImpossibleRecordError(
                offset, f"a transaction begins inside the one that began at {self._begin[0]}"
            )
        self._committed_image = self._image_of_all()
        self._begin = (offset, record.name)

    def _end_transaction(self, _record: EndTransactionRecord, offset: Offset) -> None:
        if self._committed_image is None:
            raise ImpossibleRecordError(offset, "a transaction ends that never began")
        self._committed_image = None

    def _abort_transaction(self, _record: AbortTransactionRecord, offset: Offset) -> None:
        if self._committed_image is None:
            raise ImpossibleRecordError(offset, "a transaction is aborted that never began")
        before = self._committed_image
        self._committed_image = None
        self._load(before)

    def _pass_over(self, record: RawRecord, _offset: Offset) -> None:
        self._count(record.api_key)


_ALWAYS_ACCEPTED: Final = frozenset(kind.record for kind in KINDS.values() if kind.is_always_accepted)

_APPLY: Final[dict[type, Callable[..., None]]] = {
    NoOpRecord: ImageBuilder._no_op,
    BeginTransactionRecord: ImageBuilder._begin_transaction,
    EndTransactionRecord: ImageBuilder._end_transaction,
    AbortTransactionRecord: ImageBuilder._abort_transaction,
    RawRecord: ImageBuilder._pass_over,
    **{record: kind.apply for record, kind in KINDS.items()},
}
"""What applies a record of each class."""
