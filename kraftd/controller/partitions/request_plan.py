"""A request about many partitions: each is decided by itself, and told its own outcome.

A partition that no decision can be made about, or of which a change cannot be applied, costs that one: it is
told UNKNOWN_SERVER_ERROR, and the others are decided and written (D-14). Whoever asked will ask again, so
that nothing is repeated here. A long request is decided in slices.

Entered by `in_sync` (AlterPartition), `directory_assignment` (AssignReplicasToDirs) and `electing`
(ElectLeaders).
"""

from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from kraftd.controller.context import Context
from kraftd.controller.plans import LeftOut, Plan
from kraftd.errors import ErrorCode
from kraftd.records.frame import AnyRecord
from kraftd.records.messages import PartitionChangeRecord
from kraftd.types import Uuid

AskedT = TypeVar("AskedT")
ToldT = TypeVar("ToldT")


class Asked(NamedTuple, Generic[AskedT]):
    """What is asked of one partition."""

    topic_id: Uuid
    partition_id: int
    what: AskedT


class Outcome(NamedTuple, Generic[ToldT]):
    """What is told of one partition, and what changes in it."""

    told: ToldT
    change: PartitionChangeRecord | None = None
    then: PartitionChangeRecord | None = None
    """Another change, which comes after the first ones of the whole slice."""


Decide: TypeAlias = Callable[[Asked[AskedT]], Outcome[ToldT]]


class RequestPlan(Plan, Generic[AskedT, ToldT]):
    """A request that is decided partition by partition, at most `slice_partitions` of them in a slice."""

    def __init__(self, asked: Sequence[Asked[AskedT]], slice_partitions: int) -> None:
        self.error = ErrorCode.NONE
        """Why no partition is looked at any more."""
        self.told: list[ToldT] = []
        """What is told of each partition so far, in the order of the request."""
        self._asked = asked
        self._slice_partitions = slice_partitions
        self._slice_start = 0
        self._failed: dict[tuple[Uuid, int], Exception] = {}

    @abstractmethod
    def complaint(self, context: Context) -> ErrorCode:
        """What is wrong with the whole request on this image; NONE if nothing is."""

    @abstractmethod
    def decision(self, context: Context) -> "Decide[AskedT, ToldT]":
        """How the partitions of a slice are decided."""

    @abstractmethod
    def failed(self, asked: Asked[AskedT]) -> ToldT:
        """What is told of a partition that no decision could be made about."""

    def advance(self, context: Context) -> tuple[Sequence[AnyRecord], bool]:
        """The changes of the next partitions of the request."""
        self.error = self.complaint(context)
        if self.error is not ErrorCode.NONE:
            return [], True
        start = self._slice_start = len(self.told)
        end = start + self._slice_partitions
        decide = self.decision(context)
        changes: list[PartitionChangeRecord] = []
        later: dict[tuple[Uuid, int], PartitionChangeRecord] = {}
        for asked in self._asked[start:end]:
            told, change, then = self._outcome(decide, asked)
            self.told.append(told)
            if change is not None:
                changes.append(change)
            if then is not None:
                later[asked.topic_id, asked.partition_id] = then
        changes += [later[key] for key in sorted(later)]
        return changes, end >= len(self._asked)

    def leave_out(self, record: AnyRecord, error: Exception) -> bool:
        """Go back to before the newest slice, and on without a partition whose change cannot be made."""
        if not isinstance(record, PartitionChangeRecord):
            return False
        key = record.topic_id, record.partition_id
        if key in self._failed:
            return False
        self._failed[key] = error
        del self.told[self._slice_start :]
        return True

    @property
    def failed_partitions(self) -> Collection[tuple[Uuid, int]]:
        """Those that were left out so far."""
        return self._failed.keys()

    def failures(self) -> Sequence[LeftOut]:
        """The partitions that were left out."""
        return [LeftOut.partition(*key, error) for key, error in self._failed.items()]

    def _outcome(
        self, decide: Callable[[Asked[Any]], Outcome[ToldT]], asked: Asked[AskedT]
    ) -> Outcome[ToldT]:
        key = asked.topic_id, asked.partition_id
        if key not in self._failed:
            try:
                return decide(asked)
            except Exception as error:  # noqa: BLE001 - it costs one partition (D-14)
                self._failed[key] = error
        return Outcome(self.failed(asked))
