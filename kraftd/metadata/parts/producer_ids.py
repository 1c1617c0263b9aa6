"""Producer ids: which is the first that no broker has been given.

Canonical producer ids name the next id only, not the broker that asked for the block before it.

Follows: Kafka's ProducerIdsDelta.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from kraftd.metadata.part import (
    THE_ONLY,
    Builder,
    Changes,
    EntityPart,
    Image,
    ImageComparison,
    ImageView,
    RecordKind,
)
from kraftd.metadata.views import Change, Folder, files
from kraftd.records.messages import ProducerIdsRecord
from kraftd.types import Offset

_NO_BROKER: Final = -1


def _apply(builder: Builder, record: ProducerIdsRecord, _offset: Offset) -> None:
    kept = msgspec.structs.replace(record, broker_id=_NO_BROKER, broker_epoch=_NO_BROKER)
    builder.put(PRODUCER_IDS, builder.state(PRODUCER_IDS).put(THE_ONLY, kept))


class ProducerIds(EntityPart[int, ProducerIdsRecord]):
    """The one record of the next producer id."""

    section = "producerIds"
    overview_order = 2
    kinds = (RecordKind(ProducerIdsRecord, _apply, levels=(1,)),)

    def next_id(self, image: Image) -> int | None:
        """The first producer id that no broker has been given, None if none ever was."""
        record = image[self].get(THE_ONLY)
        return None if record is None else record.next_producer_id

    def describe(self, differences: Changes[ProducerIdsRecord], _: ImageComparison) -> Iterator[Change]:
        for change in differences:
            old, new = (
                None if one is None else one.next_producer_id for one in (change.before, change.after)
            )
            text = f"next is {new}" + ("" if old is None else f" (was {old})")
            yield Change("producer ids", "", "next", text, old, new)

    def folder(self, view: ImageView) -> Folder:
        next_id = self.next_id(view.image)
        return files({} if next_id is None else {"nextProducerId": next_id})


PRODUCER_IDS: Final = ProducerIds()
