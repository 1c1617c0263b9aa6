"""A kind of entity that Kafka does not know: its record, its codec as `make proto` would write it, its part.

Nothing imports this but `with_toys`, which is a program of its own.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Final

from msgspec import Struct

from kraftd.metadata.impossible import ImpossibleRecordError
from kraftd.metadata.part import (
    Builder,
    Changes,
    EntityPart,
    Image,
    ImageComparison,
    ImageTable,
    ImageView,
    RecordKind,
    came_or_went,
)
from kraftd.metadata.views import Change, ColumnType, Row, TextTable
from kraftd.records.frame import AnyRecord
from kraftd.types import Offset

GONE: Final = 0


class ToyRecord(Struct, frozen=True, gc=False):
    """A toy has this size from here on; 0 removes it."""

    API_KEY: ClassVar[int] = 100
    NAME: ClassVar[str] = "ToyRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    name: str = ""
    size: int = 0
    unknown_tags: tuple[tuple[int, bytes], ...] = ()


def _read(data: bytes, at: int) -> tuple[ToyRecord, int]:
    size, end = data[at], len(data)
    return ToyRecord(data[at + 1 : end].decode(), size), end


def _write(out: list[bytes], record: ToyRecord) -> None:
    out.append(bytes([record.size]) + record.name.encode())


def _view(record: ToyRecord) -> dict[str, object]:
    return {"name": record.name, "size": record.size}


RECORD_READERS, RECORD_WRITERS, RECORD_VIEWS = {0: _read}, {0: _write}, {0: _view}


def _apply(builder: Builder, record: ToyRecord, offset: Offset) -> None:
    toys = builder.state(TOYS)
    if record.size != GONE:
        builder.put(TOYS, toys.put(record.name, record))
    elif toys.get(record.name) is None:
        raise ImpossibleRecordError(offset, f"there is no toy {record.name}")
    else:
        builder.put(TOYS, toys.remove(record.name))


def _rows(view: ImageView) -> Iterator[Row]:
    return ({"name": toy.name, "size": toy.size} for toy in view.image[TOYS].values())


class _ToyFilter:
    def __init__(self, name: str) -> None:
        self._name = name

    def matches_record(self, record: AnyRecord) -> bool:
        return isinstance(record, ToyRecord) and record.name == self._name

    def matches_change(self, change: Change) -> bool:
        return (change.entity, change.name) == ("toy", self._name)


class _ToySubject:
    word, list_order, with_consequences = "toy", 1, False

    def names(self, image: Image) -> Iterable[str]:
        return (toy.name for toy in image[TOYS].values())

    def filter_for(self, name: str, _image: Image) -> _ToyFilter:
        return _ToyFilter(name)


class Toys(EntityPart[str, Any]):
    section = "toys"
    kinds = (RecordKind(ToyRecord, _apply, levels=(3,)),)
    tables = (ImageTable("toys", "a toy", (("name", ColumnType.TEXT), ("size", ColumnType.INT32)), _rows),)
    history_subjects = (_ToySubject(),)

    def file_name(self, record: ToyRecord) -> str:
        return record.name

    def describe(self, differences: Changes[Any], _: ImageComparison) -> Iterator[Change]:
        for change in differences:
            yield came_or_went("toy", change.record.name, change, "bought", "lost", "grew")

    def text_table(self, view: ImageView, path: Sequence[str]) -> TextTable | None:
        rows = [(toy.name, toy.size) for toy in view.image[self].values()]
        return TextTable(("Toy", "Size"), rows) if len(path) == 1 else None


TOYS: Final = Toys()
