"""The hash of one entity, of which the image's hash is the sum (D-18).

It is BLAKE2b of a canonical text, as a 128-bit number: the same in every process, release and language.
Hashes of different entities must come from different texts, so every text names its kind first, and lengths
keep apart strings that the concatenation would not.
"""

from collections.abc import Iterable
from hashlib import blake2b
from struct import unpack
from typing import Final, TypeAlias

from kraftd.records.messages import UnknownTags

EntityHash: TypeAlias = int

HASH_MASK: Final = (1 << 128) - 1
"""Sums of hashes are taken modulo 2^128."""


def hash_of_text(text: str) -> EntityHash:
    """The hash of an entity with this canonical text."""
    return int.from_bytes(blake2b(text.encode(), digest_size=16).digest(), "big")


def text_with_tags(text: str, tags: UnknownTags) -> str:
    """The canonical text of an entity whose record carried tags that nothing here knows."""
    if not tags:
        return text
    return f"tagged {','.join(f'{tag}:{value.hex()}' for tag, value in tags)} {text}"


def hash_of_bytes(value: bytes) -> EntityHash:
    """The hash of an entity that the record with this canonical value makes."""
    hash_ = _begin()  # a copy costs half of what a new one does
    hash_.update(value)
    return int.from_bytes(hash_.digest())


def sum_of_hashes(values: Iterable[bytes]) -> EntityHash:
    """The sum of the hashes of entities that the records with these canonical values make."""
    digests = []
    for value in values:
        hash_ = _begin()
        hash_.update(value)
        digests.append(hash_.digest())
    halves: tuple[int, ...] = unpack(f">{2 * len(digests)}Q", b"".join(digests))
    return (sum(halves[::2]) << 64) + sum(halves[1::2])


_begin: Final = blake2b(b"record ", digest_size=16).copy
