"""What holds for the parameters of every command, told by the option parser where it is not so.

An empty text is mostly a variable of the shell that is not set. It names nothing, and least of all the
current directory, which it means to Python.
"""

from typing import Any

import typer

_NAMING = frozenset({"FILE", "NAME"})
"""What options that name something have in the help."""


def make_strict(command: Any) -> None:
    """Refuse empty names and paths of a command and of all below it, and say what numbers there may be."""
    for parameter in command.params:
        if _names_something(parameter):
            parameter.callback = _refuse_empty
        low, high = (getattr(parameter.type, bound, None) for bound in ("min", "max"))
        if low is not None:
            numbers = f"from {low} {'on' if high is None else f'to {high}'}"
            parameter.type.name = f"number {numbers}"
            parameter.type._describe_range = lambda numbers=numbers: numbers  # what a refusal calls it
    for below in getattr(command, "commands", {}).values():
        make_strict(below)


def _names_something(parameter: Any) -> bool:
    is_text = parameter.type.name in ("str", "path")
    return is_text and (parameter.param_type_name == "argument" or parameter.metavar in _NAMING)


def _refuse_empty(context: Any, parameter: Any, value: Any) -> Any:
    texts = value if isinstance(value, list | tuple) else (value,)
    if "" in texts:
        raise typer.BadParameter("it is empty, and names nothing", context, parameter)
    return value
