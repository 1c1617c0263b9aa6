"""What is decided in slices, because it grows with partitions: as what a broker's death entails.

A `Plan` is asked for its next slice until there is none left. Each slice is decided on the newest image and
appended by itself, all or none; between two slices other requests are decided, and the image changes. So a
plan keeps nothing that it has read from an image; it keeps only how far it has come.

The controller runs one plan about one broker at a time. Losing leadership drops all of them. Nothing is lost
by that: the record that says that something is done, like the fencing of a broker, is the last one of its
plan, so the next leader finds the broker as it was and begins anew. What refuses a slice ends its plan, too,
and so does a slice that raises; whoever asked may ask again, and a timer sees to what is half done.

Not here: which plan runs when (`plan_runner`).
Follows: Kafka's split into atomic and non-atomic operations (ControllerResult.of); its slices are one list.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

import msgspec

from kraftd.controller.context import Context
from kraftd.controller.sessions import BrokerSessions
from kraftd.metadata.image import MetadataImage
from kraftd.records.frame import AnyRecord
from kraftd.types import NodeId, Offset, Uuid, uuid_text

SLICE_RECORDS: Final = 256
"""Records of one slice at most: some 5 ms of deciding, encoding and applying (D-35), on a quiet core. Of 512
the others' heartbeats waited five times as long."""


class LogLine(msgspec.Struct, frozen=True):
    """A line for the log of this node: the controller itself writes none."""

    name: str
    fields: Mapping[str, object] = {}
    is_warning: bool = False
    key: object = None
    """Lines that the other end can cause at will have a key: of a name and key, only one a minute is
    written."""


class Task(NamedTuple):
    """Something that the controller does by itself."""

    kind: str
    about: NodeId | None = None
    number: int = 0
    """Tells apart what has one kind and is about one broker."""


class LeftOut(NamedTuple):
    """Something that a plan could not do, though it went on."""

    what: str
    """As an operator looks for it."""
    error: Exception

    @classmethod
    def partition(cls, topic_id: Uuid, partition_id: int, error: Exception) -> "LeftOut":
        """A partition that was left as it was."""
        return cls(f"partition {partition_id} of topic {uuid_text(topic_id)}", error)

    def __str__(self) -> str:
        return f"{self.what}: {type(self.error).__name__}: {self.error}"


class Plan(ABC):
    """Something that the controller does in slices."""

    kind: ClassVar[str]
    """Its name among the events and metrics."""

    about: NodeId | None = None
    """The broker that it is about: others about the same broker wait."""

    is_leaving: bool = False
    """Whether that broker is to lead nothing at the end of it: nobody else elects it meanwhile."""

    lost_directories: frozenset[Uuid] = frozenset()
    """The log directories that it has no more at the end of it: nobody else elects it there meanwhile."""

    is_confirmed: bool = False
    """Whether its response without a write waits until a majority has confirmed that this node leads."""

    is_given_up: bool = False
    """Whether it has ended without what its slices were for."""

    @abstractmethod
    def advance(self, context: Context) -> tuple[Sequence[AnyRecord], bool]:
        """The next slice: at most `SLICE_RECORDS` records, and whether it is the last one."""

    def is_repeated_by_broker(self, image: MetadataImage) -> bool:  # noqa: ARG002 - for those that are
        """Whether the broker begins it anew by itself, if it ends where this image stands."""
        return False

    @abstractmethod
    def response(self) -> Any:
        """The response, for when the last slice is committed; None if nobody asked."""

    def appended(self, sessions: BrokerSessions, end_offset: Offset, now_ms: int) -> None:  # noqa: B027
        """Note in the sessions what is true from the last slice on, which ends at this offset."""

    def lines(self) -> Sequence[LogLine]:
        """What to log once the last slice is committed."""
        return ()

    def leave_out(self, record: AnyRecord, error: Exception) -> bool:  # noqa: ARG002 - for those that can
        """Go on without what a record is about, since it cannot be applied. Returns whether it can."""
        return False

    def failures(self) -> Sequence[LeftOut]:
        """What was left out."""
        return ()

    def again(self) -> "Callable[[], Plan] | None":
        """What makes a plan that does what was left out; None if whoever asked is told and asks again."""
        return None


class Refused(Plan):
    """A request that is refused with a line in the log: its sender cannot be told why, or may not look.

    Kafka refuses at once, by what a leader knows that may have been replaced. A broker that is told of
    another start of itself never registers again, and the line tells an operator to restart it.
    """

    kind = "Refused"
    is_confirmed = True

    def __init__(self, response: Any, line: LogLine) -> None:
        self._response, self._line = response, line

    def advance(self, context: Context) -> tuple[Sequence[AnyRecord], bool]:  # noqa: ARG002
        """Nothing is written."""
        return (), True

    def response(self) -> Any:
        """The refusal."""
        return self._response

    def lines(self) -> Sequence[LogLine]:
        """Why it was refused."""
        return (self._line,)
