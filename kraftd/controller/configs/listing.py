"""ListConfigs: all dynamic configs of one type of resource, in pages, from a committed image.

An API of kraftd; Kafka has none that lists names across resources. Values of passwords are never told, nor
those of names that Kafka does not define for the type of their resource.
"""

from kraftd.controller.operations import ReadOperation
from kraftd.controller.response_room import PageRoom, entry_bytes
from kraftd.errors import ErrorCode
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.parts.configs import CONFIGS
from kraftd.metadata.redaction import is_secret_config
from kraftd.protocol.messages import (
    ListConfigsRequest,
    ListConfigsResponse,
    ListConfigsResponseEntry,
    ListConfigsResponseNextCursor,
)
from kraftd.types import Offset


def list_configs(
    image: MetadataImage, request: ListConfigsRequest, applied_offset: Offset
) -> ListConfigsResponse:
    """A page of the dynamic configs of one type of resource, or of all for type 0."""
    begin = request.cursor
    after = None if begin is None else (begin.resource_type, begin.resource_name, begin.name)
    room = PageRoom()
    page: list[ListConfigsResponseEntry] = []
    next_cursor = None
    for config in image[CONFIGS].entries(request.resource_type or None, after):
        entry = ListConfigsResponseEntry(
            resource_type=config.resource_type,
            resource_name=config.resource_name,
            name=config.name,
            value=None if is_secret_config(config.resource_type, config.name) else config.value,
        )
        if not room.add(entry_bytes(entry.resource_name, entry.name, entry.value)):
            last = page[-1]
            next_cursor = ListConfigsResponseNextCursor(last.resource_type, last.resource_name, last.name)
            break
        page.append(entry)
    return ListConfigsResponse(
        error_message=None, applied_offset=applied_offset, entries=tuple(page), next_cursor=next_cursor
    )


def refuse(_request: ListConfigsRequest, error: ErrorCode, text: str) -> ListConfigsResponse:
    """The response to a list that could not be read."""
    return ListConfigsResponse(error_code=error, error_message=text, applied_offset=-1)


LIST_CONFIGS = ReadOperation(
    ListConfigsRequest,
    lambda image, applied_offset, request: list_configs(image, request, applied_offset),
    refuse,
)
