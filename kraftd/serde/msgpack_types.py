"""The wire types of kraftd's msgpack, each with its bounds, and the handling of tagged fields.

The types bound a message: a typed decoder checks counts, lengths and ranges before it allocates, and
stops at the first byte that does not fit. A peer's bytes never meet a generic decoder, which
allocates before it knows what fits.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple, TypeAlias, TypeVar

from msgspec import Meta, Raw

ARRAY_LENGTH_MAX: Final = 16_384
"""Elements of one array."""

TAGS_MAX: Final = 64
"""Tagged fields of one struct."""

T = TypeVar("T")
W = TypeVar("W")

Int8: TypeAlias = Annotated[int, Meta(ge=-(2**7), le=2**7 - 1)]
Int16: TypeAlias = Annotated[int, Meta(ge=-(2**15), le=2**15 - 1)]
Int32: TypeAlias = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
UInt16: TypeAlias = Annotated[int, Meta(ge=0, le=2**16 - 1)]
UInt32: TypeAlias = Annotated[int, Meta(ge=0, le=2**32 - 1)]
Uuid16: TypeAlias = Annotated[bytes, Meta(min_length=16, max_length=16)]
Array: TypeAlias = Annotated[tuple[T, ...], Meta(max_length=ARRAY_LENGTH_MAX)]
Tag: TypeAlias = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Tags: TypeAlias = Annotated[dict[Tag, Raw], Meta(max_length=TAGS_MAX)]
"""The tagged fields at the end of every struct, undecoded."""

NO_TAGS: Mapping[int, object] = {}
"""The end of a struct without tagged fields."""


class VersionCodec(NamedTuple):
    """The msgpack codec of one message in one version."""

    wire: Any
    """The type that a decoder must enforce."""
    build: Callable[[Any], Any]
    """From the wire to the message."""
    pack: Callable[[Any], tuple[object, ...]]
    """From the message to the wire."""


def kept(tags: Mapping[int, Raw]) -> tuple[tuple[int, bytes], ...]:
    """Tagged fields unknown here, still encoded."""
    return tuple([(tag, bytes(tags[tag])) for tag in sorted(tags)])


def raw_tags(unknown: Sequence[tuple[int, bytes]]) -> dict[int, object]:
    """Unknown tagged fields as they are put into a message."""
    return {tag: Raw(value) for tag, value in unknown}


def build_struct(build: Callable[[W], T], wire: W | None) -> T | None:
    """A struct that may be null."""
    return None if wire is None else build(wire)


def build_array(build: Callable[[W], T], wire: Sequence[W] | None) -> tuple[T, ...] | None:
    """An array that may be null."""
    return None if wire is None else tuple([build(element) for element in wire])
