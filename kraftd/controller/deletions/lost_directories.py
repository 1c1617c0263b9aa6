"""Which log directories each broker has lost since it was started: those that it was registered with in its
present epoch, and is not any more.

Of these it is certain that the broker had them, and that no start has replaced them. It follows from the
committed records alone. A snapshot does not tell it: behind one nothing is known of what was lost before.
"""

from typing import Final

from kraftd.metadata.image import MetadataImage
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.types import Epoch, NodeId, Uuid

_NONE: Final[frozenset[Uuid]] = frozenset()


class LostDirectories:
    """What brokers have lost in their present epochs. Mutable."""

    def __init__(self) -> None:
        """Nobody has lost anything that is known."""
        self._lost: dict[NodeId, tuple[Epoch, frozenset[Uuid]]] = {}

    def of(self, broker_id: NodeId, broker_epoch: Epoch) -> frozenset[Uuid]:
        """The directories that a broker has lost in this epoch."""
        epoch, directories = self._lost.get(broker_id, (-1, _NONE))
        return directories if epoch == broker_epoch else _NONE

    def applied(self, before: MetadataImage, after: MetadataImage) -> None:
        """Take in a change of what is registered."""
        known, brokers = before[BROKERS], after[BROKERS]
        for broker in brokers.values():
            broker_id, epoch = broker.broker_id, broker.broker_epoch
            was = known.get(broker_id)
            if was is None or was is broker or was.broker_epoch != epoch:
                continue
            # What a process has lost it does not have again, though it may name it again.
            lost = self.of(broker_id, epoch) | frozenset(was.log_dirs).difference(broker.log_dirs)
            if lost:
                self._lost[broker_id] = epoch, lost
        for broker_id in [one for one in self._lost if brokers.get(one) is None]:
            del self._lost[broker_id]

    def clear(self) -> None:
        """A snapshot took the place of everything before."""
        self._lost.clear()
