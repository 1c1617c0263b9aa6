"""Finds the generated codec of a record's body, by kind and version.

The modules of `kraftd.records.bodies` are imported when a record of their kind is met first; from then on a
codec is one lookup in a flat table.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from kraftd.serde.binary import Chunks
from kraftd.serde.generated import CodecModule

Reader: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
Writer: TypeAlias = Callable[[Chunks, Any], None]
View: TypeAlias = Callable[[Any], dict[str, object]]


class BodyCodecs:
    """The codecs of metadata records (`sort` "RECORD"), or of control records (`sort` "CONTROL")."""

    def __init__(self, modules: Mapping[int, CodecModule], sort: str) -> None:
        self.known = frozenset(
            (key, version)
            for key, module in modules.items()
            for version in range(module.min_version, module.max_version + 1)
        )
        """Every kind and version that can be read and written."""
        self._modules = modules
        self._sort = sort
        self._readers: dict[tuple[int, int], Reader] = {}
        self._writers: dict[tuple[int, int], Writer] = {}
        self._views: dict[tuple[int, int], View] = {}

    def reader(self, kind: tuple[int, int]) -> Reader | None:
        """The reader of a kind and version; None if they are unknown."""
        reader = self._readers.get(kind)
        return reader if reader is not None or kind not in self.known else self._loaded(kind, self._readers)

    def writer(self, kind: tuple[int, int]) -> Writer | None:
        """The writer of a kind and version; None if they are unknown."""
        writer = self._writers.get(kind)
        return writer if writer is not None or kind not in self.known else self._loaded(kind, self._writers)

    def view(self, kind: tuple[int, int]) -> View:
        """What shows a record of a known kind and version as JSON."""
        view = self._views.get(kind)
        return self._loaded(kind, self._views) if view is None else view

    def load(self) -> None:
        """Import the codec of every kind."""
        for key in self._modules:
            self._load(key)

    def _loaded(self, kind: tuple[int, int], table: dict[tuple[int, int], Any]) -> Any:
        self._load(kind[0])
        return table[kind]

    def _load(self, key: int) -> None:
        codec = self._modules[key].load()
        for table, suffix in (
            (self._readers, "READERS"),
            (self._writers, "WRITERS"),
            (self._views, "VIEWS"),
        ):
            functions = getattr(codec, f"{self._sort}_{suffix}")
            table |= {(key, version): function for version, function in functions.items()}
