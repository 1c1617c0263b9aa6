"""What every generated module shares, and how one is found.

The generator (`proto/generate.py`) writes one module a message or record kind and encoding. An index names
them, as `CodecModule`s by key, and each is imported when it is needed first: `kraftctl` imports only what a
command needs. A daemon imports all of them at its start, since the files may be replaced by those of another
version, or file descriptors may run out, while it runs.
"""

from importlib import import_module
from typing import Any, Final, NamedTuple, TypeAlias

from msgspec import Struct

from kraftd.errors import UnencodableError

Records: TypeAlias = bytes | bytearray | memoryview | tuple[bytes | bytearray | memoryview, ...]
"""Whole batches, still encoded, in one buffer or in several that follow each other."""

UnknownTags: TypeAlias = tuple[tuple[int, bytes], ...]
"""Tagged fields that this program does not know, still encoded, by ascending tag."""


HIDDEN: Final = "[redacted]"
"""What stands in the place of a secret where a message shows itself."""


class CodecModule(NamedTuple):
    """The generated codec of one API or record kind in one encoding."""

    name: str
    """Kafka's name of the API or record kind."""
    module: str
    """Where its functions are."""
    min_version: int
    max_version: int
    """The lowest and the highest version that they can encode and decode."""

    def load(self) -> Any:
        """Import the module, and return it."""
        return import_module(self.module)


def shown_without(message: Struct, *secrets: str) -> str:
    """A message as it shows itself in a log or a failing test, without what must not be seen."""
    parts = (
        f"{name}={HIDDEN if name in secrets else repr(getattr(message, name))}"
        for name in message.__struct_fields__
    )
    return f"{type(message).__name__}({', '.join(parts)})"


def lacking(message: str, field: str, version: int) -> UnencodableError:
    """Return the error for a value that has no place in a version."""
    return UnencodableError(f"{message} version {version} has no {field}")
