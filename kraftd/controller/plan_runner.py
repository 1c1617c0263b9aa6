"""Which plan has its next slice when: one slice of one plan at a time, and one plan about a broker.

Plans take turns, so that a long one does not hold up a short one. A plan of which `SLICES_IN_FLIGHT` slices
are not committed waits, so that a leader without a majority does not fill its log. What is about a broker
that another plan is about waits for the end of that one, in the order of arrival.

Not here: what a slice is, and what becomes of its records (`plans`, `active_controller`).
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from kraftd.controller.context import Leaving
from kraftd.controller.decisions import RunningPlan
from kraftd.controller.plans import Plan
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.image_builder import ImageBuilder
from kraftd.metadata.record_versions import encode_allowed
from kraftd.records.frame import AnyRecord
from kraftd.types import NodeId

SLICES_IN_FLIGHT: Final = 2
"""One that is being committed and one that is appended meanwhile: what others append waits for no more."""


class PlanRunner:
    """The plans that have begun, and what waits for them. Mutable; the controller owns it."""

    __slots__ = ("_busy", "_held", "_ready", "leaving")

    def __init__(self) -> None:
        self._ready: deque[RunningPlan] = deque()
        self._busy: dict[NodeId, RunningPlan] = {}
        """By broker, the plan about it that has begun."""
        self._held: dict[NodeId, deque[RunningPlan]] = {}
        self.leaving = Leaving()
        """What those that have begun take away."""

    def __len__(self) -> int:
        return len(self._ready) + sum(map(len, self._held.values()))

    def __iter__(self) -> Iterator[RunningPlan]:
        """Every plan that has begun or waits."""
        yield from self._ready
        for waiting in self._held.values():
            yield from waiting

    @property
    def has_next(self) -> bool:
        """Whether `next` has one."""
        ready = self._ready
        return any(run.in_flight < SLICES_IN_FLIGHT for run in ready) if ready else False

    def is_busy(self, broker_id: NodeId) -> bool:
        """Whether a plan about this broker has begun."""
        return broker_id in self._busy

    def begin(self, run: RunningPlan) -> None:
        """Give a plan its turns from now on."""
        self._ready.append(run)
        if run.about is not None:
            self._busy[run.about] = run
            self.decided(run)

    def decided(self, run: RunningPlan) -> None:
        """Note what a running plan is: a request that waited has none before its turn comes."""
        plan, about = run.plan, run.about
        if plan is not None and about is not None:
            self.leaving = self.leaving.begun(about, plan.lost_directories, is_whole=plan.is_leaving)

    def hold(self, run: RunningPlan, broker_id: NodeId) -> None:
        """Let a request wait until no plan is about this broker."""
        run.about = broker_id
        self._held.setdefault(broker_id, deque()).append(run)

    def next(self) -> RunningPlan | None:
        """The plan whose turn it is; None if none may go on."""
        for _ in range(len(self._ready)):
            run = self._ready[0]
            self._ready.rotate(-1)
            if run.in_flight < SLICES_IN_FLIGHT:
                return run
        return None

    def end(self, run: RunningPlan) -> bool:
        """Take a plan out, and let the first go on that waited for it. Returns whether it had not ended."""
        if run not in self._ready:
            return False
        self._ready.remove(run)
        if run.about is None:
            return True
        del self._busy[run.about]
        self.leaving = self.leaving.ended(run.about)
        waiting = self._held.get(run.about)
        if waiting:
            self.begin(waiting.popleft())
        if not waiting:
            self._held.pop(run.about, None)
        return True

    def drop(self) -> list[RunningPlan]:
        """Forget everything, because the leadership has ended."""
        left = list(self)
        self._ready.clear()
        self._busy.clear()
        self.leaving = Leaving()
        self._held.clear()
        return left


def apply_slice(
    records: Sequence[AnyRecord], image: MetadataImage, plan: Plan
) -> tuple[tuple[bytes, ...], MetadataImage] | None:
    """Apply the records of a slice to the image.

    Returns:
        The records as they are written, and the image after them.
        None if one of them cannot be written or applied, and the plan goes on without what it is about.
    """
    builder, level = ImageBuilder(image), image.metadata_version
    values: list[bytes] = []
    for record in records:
        try:
            values.append(encode_allowed(record, level))
            builder.apply(record, -1)
        except Exception as error:
            if not plan.leave_out(record, error):
                raise
            return None
    return tuple(values), builder.image()
