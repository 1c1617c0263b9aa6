"""What a decision of the controller looks at, for tests that make one without a controller."""

from typing import Any, NamedTuple

from msgspec.structs import replace

from kraftd.controller.activation import registration_of
from kraftd.controller.context import NO_CLIENT, Context, ControllerSettings
from kraftd.controller.sessions import BrokerSessions
from kraftd.metadata.image import EMPTY, MetadataImage
from kraftd.types import NodeId, Now


def controller_settings(node_id: NodeId, **other: Any) -> ControllerSettings:
    """The settings of the controller with this id."""
    return ControllerSettings(me=registration_of(node_id, bytes(16), []), **other)


class NewestImage(NamedTuple):
    """The newest image, where nothing is on its way."""

    image: MetadataImage


_PLAIN = Context(
    newest=NewestImage(EMPTY),
    now=Now(0, 0),
    version=0,
    next_offset=0,
    sessions=BrokerSessions(timeout_ms=9_000),
    settings=ControllerSettings(),
    client=NO_CLIENT,
    seed=0,
)


def context_of(image: MetadataImage = EMPTY, **other: Any) -> Context:
    """A context with this image; whatever else is not named is plain."""
    return replace(_PLAIN, newest=NewestImage(image), **other)
