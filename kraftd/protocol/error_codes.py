"""The error codes of a response, wherever they are in it.

Kafka's clients act on some codes however deep they find them: one NOT_CONTROLLER of one partition sends a
broker to look for another controller. Follows `AbstractResponse.errorCounts`; the places are read off the
generated classes, in which every error code is a field of that name. A module of its own, short as it is,
since it knows no API, and whoever asks has the response of any.
"""

from collections.abc import Collection
from functools import cache
from typing import Any, get_args

import msgspec

_FIELD = "error_code"


def has_error(response: msgspec.Struct, code: int) -> bool:
    """Whether an error code is anywhere in a response."""
    own, inner = _places(type(response))
    if own and getattr(response, _FIELD) == code:
        return True
    return any(has_error(each, code) for name in inner for each in getattr(response, name) or ())


@cache
def _places(struct: type[msgspec.Struct]) -> tuple[bool, Collection[str]]:
    """Whether a struct has an error code of its own, and its arrays of structs that have one."""
    fields = msgspec.structs.fields(struct)
    arrays = {field.name: _element(field.type) for field in fields}
    return _FIELD in arrays, [
        name for name, element in arrays.items() if element is not None and any(_places(element))
    ]


def _element(annotation: Any) -> type[msgspec.Struct] | None:
    """The struct that a field is an array of; None if it is anything else."""
    for each in (annotation, *get_args(annotation)):
        arguments = get_args(each)
        if len(arguments) == 2 and arguments[1] is Ellipsis and isinstance(arguments[0], type):
            return arguments[0] if issubclass(arguments[0], msgspec.Struct) else None
    return None
