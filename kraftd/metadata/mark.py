"""The hash of one entity, of which the image's hash is the sum (D-18).

A mark is BLAKE2b of a canonical text, as a 128-bit number: the same in every process, release and language.
Marks of different entities must come from different texts, so every text names its kind first, and lengths
keep apart strings that the concatenation would not.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final, TypeAlias

from kraftd.records.messages import UnknownTags

Mark: TypeAlias = int

MARK_MASK: Final = (1 << 128) - 1
"""Sums of marks are taken modulo 2^128."""


def mark_of(text: str) -> Mark:
    """The mark of an entity with this canonical text."""
    return int.from_bytes(blake2b(text.encode(), digest_size=16).digest(), "big")


def tagged(text: str, tags: UnknownTags) -> str:
    """The canonical text of an entity whose record carried tags that nothing here knows."""
    if not tags:
        return text
    return f"tagged {','.join(f'{tag}:{value.hex()}' for tag, value in tags)} {text}"


def mark_of_bytes(value: bytes) -> Mark:
    """The mark of an entity that the record with this canonical value makes."""
    mark = _begin()  # a copy costs half of what a new one does
    mark.update(value)
    return int.from_bytes(mark.digest())


def sum_of_marks(values: Iterable[bytes]) -> Mark:
    """The sum of the marks of entities that the records with these canonical values make."""
    return sum(map(mark_of_bytes, values))


_begin: Final = blake2b(b"record ", digest_size=16).copy
