"""A mutant: a bug that was made once, put back into kraftd by a few lines.

A mutant is data: which function, what stands there, what to put in its place. `plant` makes the change in the
running process, in the function's own code object, so that whoever holds the function already (an alias, a
bound method, a table) runs the changed one too. There is no way back: it is for a process of its own.

A mutant rots when kraftd moves on. So the old text must stand exactly once in the function, and the
function must be where it was; anything else is `MisfitError`, never a mutant that changes nothing. A new
signature does no harm: what is run is today's function with the change in it. And each change notes when it
is run: a bug that never ran was not survived by anybody.

Not here: what notices it (`detectors`), which mutants there are (`corpus`).
"""

import __future__

import ast
import builtins
import importlib
import inspect
import textwrap
from collections.abc import MutableSequence, Sequence
from types import CodeType, FunctionType
from typing import Any, NamedTuple

RAN = "__sabotage_ran__"
"""Name under which a changed line notes that it runs."""


class MisfitError(Exception):
    """The code is not what the mutant was written for: look at both, and write the mutant anew."""


class Edit(NamedTuple):
    """One change of one function."""

    target: str
    """`module:function` or `module:Class.method`."""
    old: str
    """What stands there, as in the file without the function's own indentation; exactly once."""
    new: str


class Mutant(NamedTuple):
    """One bug."""

    name: str
    source: str
    """Where it happened, or which rule it breaks."""
    text: str
    """What goes wrong, in one sentence."""
    detector: str
    """Key of `detectors.DETECTORS`: whose business it is to notice."""
    edits: tuple[Edit, ...]
    where: tuple[str, ...] = ()
    """For detectors that run tests: which ones."""


def mutant(
    name: str,
    source: str,
    text: str,
    detector: str,
    *edits: tuple[str, str, str],
    where: tuple[str, ...] = (),
) -> Mutant:
    """A mutant, its edits written as plain tuples."""
    return Mutant(name, source, text, detector, tuple(Edit(*edit) for edit in edits), where)


def plant(edits: Sequence[Edit], ran: MutableSequence[int]) -> None:
    """Make the changes in this process. `ran` has a place for each, which becomes 1 when it is run.

    Raises:
        MisfitError: A target is gone, or does not hold the old text exactly once.
    """

    def note(number: int) -> None:
        ran[number] = 1

    setattr(builtins, RAN, note)
    for function, code in changed(edits):
        function.__code__ = code


def changed(edits: Sequence[Edit]) -> list[tuple[FunctionType, CodeType]]:
    """The functions that the edits name, each with the code it would have.

    Raises:
        MisfitError: As `plant`.
    """
    numbered: dict[str, list[tuple[int, Edit]]] = {}
    for number, edit in enumerate(edits):
        numbered.setdefault(edit.target, []).append((number, edit))
    return [
        (function, _compile(function, target, group))
        for target, group in numbered.items()
        for function in [find(target)]
    ]


def find(target: str) -> FunctionType:
    """The function that a target names, free of whatever wraps it."""
    module_name, _, path = target.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for name in path.split("."):
            found = inspect.getattr_static(found, name)
    except (ImportError, AttributeError) as error:
        raise MisfitError(f"{target} is gone: {error}") from error
    if isinstance(found, property):
        found = found.fget
    elif isinstance(found, classmethod | staticmethod):
        found = found.__func__
    found = inspect.unwrap(found)
    if not isinstance(found, FunctionType) or found.__closure__:
        raise MisfitError(f"{target} is no plain function, but {found!r}")
    return found


def _compile(function: FunctionType, target: str, edits: list[tuple[int, Edit]]) -> CodeType:
    """The code of a function with all its edits made, which notes that they run."""
    before = textwrap.dedent(inspect.getsource(function))
    places = []
    for number, edit in edits:
        if edit.old == edit.new or before.count(edit.old) != 1:
            raise MisfitError(f"{target} holds {before.count(edit.old)} times, not once: {edit.old!r}")
        places.append((before.index(edit.old), number, edit))
    after, end = "", 0
    lines = []
    for start, number, edit in sorted(places):
        if start < end:
            raise MisfitError(f"{target}: two edits of one place")
        after += before[end:start]
        lines.append((number, after.count("\n") + _first_change(edit) + 1))
        after, end = after + edit.new, start + len(edit.old)
    after += before[end:]
    try:
        tree = ast.parse(after)
    except SyntaxError as error:
        raise MisfitError(f"{target} is no Python any more: {error}") from error
    definition = tree.body[0]
    if not isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef):
        raise MisfitError(f"{target} is no function definition")
    definition.decorator_list = []
    for number, line in lines:
        _mark(definition, line, number)
    flags = __future__.annotations.compiler_flag
    namespace = dict(function.__globals__)
    exec(compile(tree, f"<sabotaged {target}>", "exec", flags=flags, dont_inherit=True), namespace)
    code: CodeType = namespace[definition.name].__code__
    if code.co_freevars != function.__code__.co_freevars:
        raise MisfitError(f"{target} closes over other variables than before")
    return code


def _first_change(edit: Edit) -> int:
    """In which line of the new text, counted from 0, it begins to differ from the old."""
    pairs = zip(edit.old, edit.new, strict=False)
    same = next((n for n, (old, new) in enumerate(pairs) if old != new), min(len(edit.old), len(edit.new)))
    blanks = len(edit.new[same:]) - len(edit.new[same:].lstrip())
    return edit.new.count("\n", 0, same + blanks)


def _mark(definition: ast.FunctionDef | ast.AsyncFunctionDef, line: int, number: int) -> None:
    """Put a note in front of the innermost statement that stands on a line."""
    holder, index = definition.body, len(definition.body) - 1
    bodies = [definition.body]
    while bodies:
        body = bodies.pop()
        for place, statement in enumerate(body):
            if statement.lineno <= line <= (statement.end_lineno or statement.lineno):
                holder, index = body, place
                bodies = _bodies(statement)
                break
    note = ast.parse(f"{RAN}({number})").body[0]
    for node in ast.walk(note):
        ast.copy_location(node, holder[index])
    holder.insert(index, note)


def _bodies(statement: ast.stmt) -> list[list[ast.stmt]]:
    """The blocks of a compound statement, those of its cases and handlers included."""
    parts = (statement, *getattr(statement, "cases", ()), *getattr(statement, "handlers", ()))
    blocks = (block for part in parts for block in vars(part).values())
    return [block for block in blocks if isinstance(block, list) and block and isinstance(block[0], ast.stmt)]
