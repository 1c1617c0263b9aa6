"""The state of the cluster at one offset of the metadata log, as an immutable value.

An image is made of the states of its parts, one for each kind of entity: `image[TOPICS].partition(...)`.
`to_records` writes the state out, as a snapshot holds it; `image_builder` makes one image of another. Two
images share all that they have in common.

Between BeginTransaction and EndTransaction the image shows what it showed before Begin; the pending side is
part of the state, not of the hash. A record of a kind or version that has no part here makes the image
partial: it is counted, and everything else stays true. Tags that nothing here knows stay with what their
record made, are in its hash, and are written again.

The hash is the sum, modulo 2^128, of a hash of each entity (D-18): it does not depend on the order in which
entities came to be, and every change keeps it up to date. Equal hashes on two nodes, or on a node and the
Spark job, mean equal images.

Not here: what a part holds (`parts`), what a request may change (`kraftd.controller`), and what differs
between two images (`image_diff`).
Follows: what Kafka's image makes of each record, and the order of sections in its snapshots.
Differs: the content of an unfinished transaction is kept aside as an image, not as a list of deltas. What old
logs say of the migration from ZooKeeper is kept and written again, as Kafka did before 4.0.
"""

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import msgspec
from immutables import Map

from kraftd.metadata.entity_hash import HASH_MASK
from kraftd.metadata.feature_levels import METADATA_VERSION
from kraftd.metadata.part import Part, S
from kraftd.metadata.parts.features import FEATURES
from kraftd.metadata.registry import IN_SNAPSHOT, PARTS
from kraftd.records.frame import AnyRecord
from kraftd.types import Offset

_States: TypeAlias = "Map[Part[Any, Any], Any]"
_Unknown: TypeAlias = Map[int, int]


class OpenTransaction(msgspec.Struct, frozen=True):
    """A BeginTransaction without its end. `pending` is what the image becomes if it ends well."""

    begin_offset: Offset
    name: str | None
    pending: "MetadataImage"


class MetadataImage(msgspec.Struct, frozen=True):
    """The state of a cluster at one point of the log. Make one with `EMPTY` and `apply`."""

    _states: _States
    _unknown: _Unknown = Map()
    _transaction: OpenTransaction | None = None

    def __getitem__(self, part: Part[S, Any]) -> S:
        """The state of one part."""
        state: S = self._states[part]
        return state

    @property
    def metadata_version(self) -> int:
        """The finalized level of `metadata.version`; 0 before the log sets one."""
        return self[FEATURES].level(METADATA_VERSION)

    def hash(self) -> str:
        """The canonical hash (D-18), 32 hexadecimal digits. What is unknown or pending is not in it."""
        total = sum(state.sum for state in self._states.values())
        return f"{total & HASH_MASK:032x}"

    @property
    def is_partial(self) -> bool:
        """Whether there were records that have no part in the image."""
        return bool(self._unknown)

    def unknown_kinds(self) -> Iterator[tuple[int, int]]:
        """The kinds (record type numbers) without a part, each with how many records, by number."""
        return iter(sorted(self._unknown.items()))

    @property
    def transaction(self) -> OpenTransaction | None:
        """The transaction that has begun and not ended here."""
        return self._transaction


EMPTY: Final = MetadataImage(Map({part: part.empty for part in PARTS}))
"""The image before the first record."""


def to_records(image: MetadataImage) -> Iterator[AnyRecord]:
    """The records that rebuild the image from nothing, in the order of a snapshot of Kafka's.

    An open transaction is not among them: a snapshot stands for what is visible.
    """
    for part in IN_SNAPSHOT:
        yield from part.to_records(image)
