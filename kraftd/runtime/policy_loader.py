"""Finds the operator's policies by the names that stand in the configuration file.

A name is `package.module:name`, of a function or of an object that can be called like one, with the metadata
of `kraftd.controller.policies`. The module is imported as any other, so it must be where Python looks for
modules (PYTHONPATH, or installed beside kraftd). What cannot be a policy is told at the start, since later it
would accept everything or nothing.

Differs: Kafka's keys name a class of Java, which is made and configured; a module of Python is its own.
"""

import inspect
from collections.abc import Callable
from importlib import import_module
from operator import attrgetter
from typing import Any

from kraftd.protocol.brief import brief

_ERROR_BYTES_MAX = 200


def load_policy(name: str) -> Callable[[Any], object]:
    """The policy of this name.

    Raises:
        ValueError: There is none, with what is wrong in one line.
    """
    module_name, separator, path = name.partition(":")
    if not separator or not module_name or not path:
        raise ValueError(f"{name!r} is not package.module:name, of a function in Python")
    try:
        module = import_module(module_name)
    except BaseException as error:  # noqa: BLE001 - whatever somebody else's module raises, `sys.exit` too
        why = brief(f"{type(error).__name__}: {error}", _ERROR_BYTES_MAX)
        raise ValueError(f"{module_name} cannot be imported: {why}") from None
    try:
        policy = attrgetter(path)(module)
    except AttributeError:
        raise ValueError(f"{module_name} has no {path}") from None
    except Exception as error:  # noqa: BLE001 - a property of somebody else's
        why = brief(f"{type(error).__name__}: {error}", _ERROR_BYTES_MAX)
        raise ValueError(f"{module_name} does not give {path}: {why}") from None
    why_not = _complaint(policy)
    if why_not is not None:
        raise ValueError(f"{name} {why_not}")
    found: Callable[[Any], object] = policy
    return found


def _complaint(policy: Any) -> str | None:
    if inspect.isclass(policy):
        return "is a class: name a function, or an object that can be called"
    if not callable(policy):
        return "cannot be called"
    called = policy if inspect.isroutine(policy) else policy.__call__
    if inspect.iscoroutinefunction(called) or inspect.iscoroutinefunction(policy):
        return "is asynchronous: nobody waits for it, so it would accept everything"
    if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        return "is a generator: nobody takes from it, so it would accept everything"
    try:
        inspect.signature(policy).bind(None)
    except TypeError:
        return "does not take one argument, the metadata of the request"
    except ValueError:
        return None  # it does not tell what it takes
    return None
