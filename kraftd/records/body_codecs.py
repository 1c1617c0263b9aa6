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
JsonView: TypeAlias = Callable[[Any], dict[str, object]]

KindAndVersion: TypeAlias = tuple[int, int]
"""The number of a record's kind (Kafka's API key or control type), and the version of its body."""


class BodyCodecs:
    """The codecs of metadata records, or of control records.

    Args:
        modules: The codec of each kind, by number.
        tables: How the names of their tables begin: "RECORD" or "CONTROL".
    """

    def __init__(self, modules: Mapping[int, CodecModule], tables: str) -> None:
        self.known = frozenset(
            (key, version)
            for key, module in modules.items()
            for version in range(module.min_version, module.max_version + 1)
        )
        """Every kind and version that can be read and written."""
        self._modules = modules
        self._tables = tables
        self._readers: dict[KindAndVersion, Reader] = {}
        self._writers: dict[KindAndVersion, Writer] = {}
        self._json_views: dict[KindAndVersion, JsonView] = {}

    def reader(self, kind_version: KindAndVersion) -> Reader | None:
        """The reader of a kind in a version; None if they are unknown."""
        reader = self._readers.get(kind_version)
        if reader is None and kind_version in self.known:
            reader = self._loaded(kind_version, self._readers)
        return reader

    def writer(self, kind_version: KindAndVersion) -> Writer | None:
        """The writer of a kind in a version; None if they are unknown."""
        writer = self._writers.get(kind_version)
        if writer is None and kind_version in self.known:
            writer = self._loaded(kind_version, self._writers)
        return writer

    def json_view(self, kind_version: KindAndVersion) -> JsonView:
        """What shows a record of a known kind and version as JSON."""
        view = self._json_views.get(kind_version)
        return self._loaded(kind_version, self._json_views) if view is None else view

    def load(self) -> None:
        """Import the codec of every kind."""
        for key in self._modules:
            self._load(key)

    def _loaded(self, kind_version: KindAndVersion, table: dict[KindAndVersion, Any]) -> Any:
        self._load(kind_version[0])
        return table[kind_version]

    def _load(self, key: int) -> None:
        codec = self._modules[key].load()
        for table, suffix in (
            (self._readers, "READERS"),
            (self._writers, "WRITERS"),
            (self._json_views, "VIEWS"),
        ):
            functions = getattr(codec, f"{self._tables}_{suffix}")
            table |= {(key, version): function for version, function in functions.items()}
