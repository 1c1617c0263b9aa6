"""What a part of the image is: one kind of entity, with everything that this program knows of it.

`kraftd.metadata.parts` lists the parts; each is one object, of a class that is derived from `Part`, or from
`EntityPart` where an entity is simply kept as the record that makes it. A part says which records change it
and how (`kinds`), what a snapshot holds of it (`to_records`), what differs between two states of it (`diff`)
and how that reads (`describe`), what lies in its folders (`sections`), which tables it has for people
(`overview`, `text_table`) and for Spark (`tables`), and whose history can be asked for (`history_subjects`).
Nothing else in the program names a part to do one of these things: it loops over the list.

What several parts list together is sorted by an `_order`, and among equals stands in the order of `PARTS`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, Generic, Protocol, TypeAlias, TypeVar

import msgspec

from kraftd.errors import InvariantError
from kraftd.metadata.entities import Entities
from kraftd.metadata.entity_hash import EntityHash
from kraftd.metadata.redaction import redacted
from kraftd.metadata.sorted_keys import Ordered
from kraftd.metadata.views import Change, ColumnType, File, Folder, Row, TextTable, TreeNode, file_name
from kraftd.records.frame import AnyRecord, to_json
from kraftd.records.messages import Record
from kraftd.types import Offset


class PartState(Protocol):
    """The state of one part: an immutable value."""

    @property
    def sum(self) -> EntityHash:
        """The sum of the hashes of its entities."""


S = TypeVar("S", bound=PartState)
D = TypeVar("D")
R = TypeVar("R", bound=Record)
K = TypeVar("K", bound=Ordered)
BuilderT = TypeVar("BuilderT", bound="PartBuilder[Any]")
S_co = TypeVar("S_co", covariant=True)


class Image(Protocol):
    """The states of all parts at one offset, looked up by part."""

    def __getitem__(self, part: "Part[S, Any]") -> S: ...

    @property
    def metadata_version(self) -> int:
        """The finalized level of `metadata.version`, which decides how records are written."""


class PartBuilder(Protocol[S_co]):
    """A scratch copy of a state that many changes are written into. One owner, mutable."""

    def image(self) -> S_co:
        """The state after all changes. The builder is not used any more."""

    def settling(self) -> Iterator[None]:
        """Do ahead, in steps of some ms at most, what `image` would have to do that grows with the changes.
        Nothing is changed after the first step.
        """


class Builder(Protocol):
    """What a record is applied to: the states of all parts, each to be replaced."""

    def state(self, part: "Part[S, Any]") -> S:
        """The state of a part without a builder."""

    def put(self, part: "Part[S, Any]", state: S) -> None:
        """Replace the state of a part without a builder."""

    @property
    def builder_of(self) -> "Callable[[PartWithBuilder[Any, Any, BuilderT]], BuilderT]":
        """Gives the builder that changes of a part are written into."""

    def record_lost_tags(self, record: Record) -> None:
        """Count a change whose unknown tags the image cannot keep."""


class ImageComparison(msgspec.Struct, frozen=True):
    """Two images, and what of their difference is told."""

    before: Image
    after: Image
    show_secrets: bool = False
    with_consequences: bool = False
    """Tell what only follows from another change, too."""
    removed_resources: frozenset[tuple[int, str]] = frozenset()
    """Types and names of what was removed and took its configs along."""


class ImageView(msgspec.Struct, frozen=True):
    """An image, and what of it is shown."""

    image: Image
    show_secrets: bool = False


class RecordKind(msgspec.Struct, Generic[R], frozen=True):
    """A kind of record that changes a part, and all that is special about it."""

    record: type[R]
    apply: Callable[[Builder, R, Offset], None]
    """Raises `ImpossibleRecordError` if the record cannot follow what is there."""
    levels: tuple[int, ...]
    """The `metadata.version` since which each version may be written; empty if only old logs hold it."""
    loses_tags: bool = False
    """It changes an entity and is not kept: `apply` counts one whose tags nothing here knows."""
    secrets: Callable[[R], tuple[str, ...]] | None = None
    """Which fields of it must not be shown, by their names in JSON."""
    is_always_accepted: bool = False
    """No check before can refuse it: it is known in every version."""
    apply_values: Callable[[Builder, Sequence[bytes], int], int] | None = None
    """Applies many, given by their values from a position on; returns the position of the first it cannot."""
    read: Callable[[bytes], AnyRecord | None] | None = None
    """Decodes usual values faster than the codec of all records; None for others."""
    describe: Callable[[R, ImageComparison], Iterator[Change]] | None = None
    """Tells what one record changed, where comparing two whole images would cost too much."""


class ImageTable(msgspec.Struct, frozen=True):
    """Rows for Spark. Its name, its columns and what a row is are a promise (docs/replay.md)."""

    name: str
    row: str
    columns: tuple[tuple[str, ColumnType], ...]
    rows: Callable[[ImageView], Iterator[Row]]
    list_order: int = 1
    is_of_partitions: bool = False
    """Where partitions are folded apart from the rest, the table is written there."""


class HistoryFilter(Protocol):
    """What of a log and of its changes is about one entity, whose past was asked for."""

    def matches_record(self, record: AnyRecord) -> bool:
        """Whether a record may change the entity. Asked of each record in the order of the log."""

    def matches_change(self, change: Change) -> bool:
        """Whether a change is one of the entity."""


class HistorySubject(Protocol):
    """A kind of entity whose past can be asked for."""

    @property
    def word(self) -> str:
        """What it is called in `kraftctl log history`."""

    @property
    def list_order(self) -> int:
        """Where it is listed."""

    @property
    def with_consequences(self) -> bool:
        """Whether changes are told that only follow from another change."""

    def names(self, image: Image) -> Iterable[str]:
        """The names of all such entities."""

    def filter_for(self, name: str, image: Image) -> HistoryFilter:
        """What is about the entity of a name, from an image on."""


class Part(Generic[S, D]):
    """A kind of entity. `S` is its state in an image, `D` what differs between two of them."""

    empty: S
    """The state before the first record."""
    kinds: tuple[RecordKind[Any], ...]
    snapshot_order: ClassVar[int] = 1
    """Where in a snapshot its records stand."""
    overview_order: ClassVar[int] = 1
    """Where in an overview it is counted."""
    tables: tuple[ImageTable, ...] = ()
    history_subjects: tuple[HistorySubject, ...] = ()
    lookups: frozenset[str] = frozenset()
    """The sections that only list again what other sections hold."""

    def to_records(self, image: Image) -> Iterator[Record]:
        """The records that make its state, in the order of a snapshot."""
        raise NotImplementedError

    def to_values(self, image: Image, encode: Callable[[Record], bytes]) -> Iterator[bytes]:
        """The same records as the bytes of a snapshot, `encode` being what writes one."""
        return map(encode, self.to_records(image))

    def diff(self, before: S, after: S) -> D:
        """What differs; false if nothing does. Its cost follows what two states do not share."""
        raise NotImplementedError

    def describe(self, differences: D, comparison: ImageComparison) -> Iterator[Change]:
        """Tell what differs in the words of an operator."""
        raise NotImplementedError

    def removed_resources(self, _differences: D) -> Iterable[tuple[int, str]]:
        """Types and names of what was removed and took its configs along."""
        return ()

    def records_with_unknown_tags(self, _state: S, _other: S) -> Mapping[Any, Record]:
        """By key, the records with tags that nothing here knows, where `diff` does not show them."""
        return {}

    def entity_and_name(self, record: Record) -> tuple[str, str]:
        """What a record of `records_with_unknown_tags` is called in a `Change`."""
        raise NotImplementedError

    def sections(self, view: ImageView) -> Mapping[str, Callable[[], TreeNode]]:
        """Its folders in the root of the tree."""
        raise NotImplementedError

    def record_files(self, records: Mapping[str, Record], view: ImageView) -> Folder:
        """A folder of records of this part, each as plain data."""
        named = {file_name(name): record for name, record in records.items()}
        return Folder(lambda: named, lambda name: self.record_file(named.get(name), view))

    def record_file(self, record: Record | None, view: ImageView) -> File | None:
        """The body of a record of this part, with Kafka's names."""
        if record is None:
            return None
        body = to_json(record)["data"]
        (secrets,) = (kind.secrets for kind in self.kinds if kind.record is type(record))
        if secrets is not None and not view.show_secrets and isinstance(body, dict):
            return File(redacted(body, secrets(record)))
        return File(body)

    def overview(self, _image: Image) -> TextTable | None:
        """The table that an overview shows; None if it only counts the entities."""
        return None

    def overview_count(self, _image: Image) -> tuple[str, int] | None:
        """The path and the number of the entities of which an overview shows no table."""
        return None

    def text_table(self, _view: ImageView, _path: Sequence[str]) -> TextTable | None:
        """The table for a path in its sections; None if files are listed as they are."""
        return None


class PartWithBuilder(Part[S, D], Generic[S, D, BuilderT]):
    """A part that changes so often that they are written into a builder of its own."""

    def builder(self, state: S) -> BuilderT:
        """A builder that begins as a state."""
        raise NotImplementedError


class EntityChange(msgspec.Struct, Generic[R], frozen=True):
    """An entity, as the record that makes it, changed; None is "not there". Both say which entity it is."""

    before: R | None
    after: R | None

    @property
    def record(self) -> R:
        """The record that is there, the newer one if both are."""
        record = self.before if self.after is None else self.after
        if record is None:
            raise InvariantError("a change of an entity that is neither before nor after")
        return record


Changes: TypeAlias = tuple[EntityChange[R], ...]


class EntityPart(Part[Entities[K, R], Changes[R]], Generic[K, R]):
    """A part whose entities are few and change seldom: each is kept as the record that makes it."""

    section: ClassVar[str]
    empty: Entities[K, R] = Entities()

    def file_name(self, record: R) -> str:
        """The name of an entity in its folder."""
        raise NotImplementedError

    def to_records(self, image: Image) -> Iterator[R]:
        return image[self].values()

    def diff(self, before: Entities[K, R], after: Entities[K, R]) -> Changes[R]:
        return tuple(EntityChange(old, new) for old, new in before.changes(after))

    def sections(self, view: ImageView) -> Mapping[str, Callable[[], TreeNode]]:
        return {self.section: lambda: self.folder(view)}

    def folder(self, view: ImageView) -> TreeNode:
        """All entities, each in a file."""
        records = {self.file_name(record): record for record in view.image[self].values()}
        return self.record_files(records, view)

    def overview_count(self, image: Image) -> tuple[str, int] | None:
        return f"/{self.section}", len(image[self])


THE_ONLY: Final = 0
"""The key of what there is one of."""


def came_or_went(
    entity: str, name: str, change: EntityChange[R], came: str, went: str, changed: str = "changed"
) -> Change:
    """Tell that an entity was made, removed or changed, without its values."""
    what = went if change.after is None else came if change.before is None else changed
    return Change(entity, name, what, what)
