"""What the commands of `kraftctl shell` do: words in, a result out; nothing is read or printed here.

`Session` knows where one is; `run` carries out one line. A result is plain data and a text; a command that
cannot be carried out raises, and changes nothing.

Follows: the commands of Kafka's metadata shell.
"""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, cast

import msgspec

from kraftd.cli.output import Data, to_json
from kraftd.logtools.errors import UnanswerableError
from kraftd.logtools.tree import Place, data_of, find, match, normal, walk
from kraftd.metadata.views import File, Folder, TreeNode


class ShellResult(NamedTuple):
    """What a command says. `names` is set where the text may be laid out in columns."""

    data: object
    text: str
    names: bool = False


class LeaveError(Exception):
    """The user wants to leave."""


class Session:
    """Where one is in a tree."""

    def __init__(self, root: Folder) -> None:
        self.root = root
        self.directory = "/"

    def run(self, line: str) -> ShellResult:
        """Carry out one line; an empty one and a comment say nothing.

        Raises:
            UnanswerableError: The command cannot be carried out.
            LeaveError: It was the last one.
        """
        words = split(line)
        if not words:
            return ShellResult(None, "")
        name, *arguments = words
        if name in ("exit", "quit"):
            raise LeaveError
        command = _COMMANDS.get(name)
        if command is None:
            raise UnanswerableError(f"there is no command {name}; help lists them")
        if any(word.startswith("-") for word in arguments):
            raise UnanswerableError(f"{name} takes paths and no options")
        return command.run(self, arguments)

    def reload(self, root: Folder) -> None:
        """Go on in a newer tree; where the directory is gone, in the nearest one that is left."""
        self.root = root
        while True:
            try:
                find(root, self.directory)
            except UnanswerableError:
                self.directory = normal(f"{self.directory}/..")
            else:
                return

    def absolute(self, path: str) -> str:
        """A path as typed, from the root."""
        return normal(path if path.startswith("/") else f"{self.directory}/{path}")

    def completions(self, line: str) -> Iterator[tuple[str, int]]:
        """What may stand for the last word of a line, and how many of its characters that replaces."""
        *before, last = _typed(line)
        if not before:
            yield from ((name, -len(last)) for name in (*_COMMANDS, "exit") if name.startswith(last))
            return
        above, slash, prefix = last.rpartition("/")
        try:
            node = find(self.root, self.absolute(above + slash))
        except UnanswerableError:
            return
        for name in node.names() if isinstance(node, Folder) else ():
            if name.startswith(prefix):
                is_folder = isinstance(node, Folder) and isinstance(node.open(name), Folder)
                yield shlex.quote(above + slash + name) + ("/" if is_folder else ""), -len(last)

    # -- commands ------------------------------------------------------------------------------

    def list_names(self, arguments: Sequence[str]) -> ShellResult:
        """`ls`: what is in folders."""
        places = self._places(arguments)
        if len(places) == 1:
            names = _names(places[0])
            return ShellResult(names, "\n".join(names), names=True)
        files = [place.path for place in places if isinstance(place.node, File)]
        blocks = ["\n".join(files)] if files else []
        found: dict[str, list[str]] = {path: [path] for path in files}
        for place in places:
            if isinstance(place.node, Folder):
                found[place.path] = _names(place)
                blocks.append("\n".join([f"{place.path}:", *found[place.path]]))
        return ShellResult(found, "\n\n".join(blocks))

    def show(self, arguments: Sequence[str]) -> ShellResult:
        """`cat`: what is in files."""
        if not arguments:
            raise UnanswerableError("cat needs the path of a file")
        places = self._places(arguments)
        for place in places:
            if isinstance(place.node, Folder):
                raise UnanswerableError(f"{place.path} is a folder; ls or tree shows it")
        found = {place.path: data_of(place.node) for place in places}
        if len(places) == 1:
            (data,) = found.values()
            return ShellResult(data, _content(data))
        return ShellResult(found, "\n\n".join(f"{path}:\n{_content(data)}" for path, data in found.items()))

    def change_directory(self, arguments: Sequence[str]) -> ShellResult:
        """`cd`: go to a folder."""
        if len(arguments) > 1:
            raise UnanswerableError("cd takes one path")
        (place,) = self._places(arguments or ["/"])[:1]
        if isinstance(place.node, File):
            raise UnanswerableError(f"{place.path} is a file; cat shows it")
        self.directory = place.path
        return ShellResult(None, "")

    def draw(self, arguments: Sequence[str]) -> ShellResult:
        """`tree`: what is below folders, drawn."""
        places = self._places(arguments)
        texts = ["\n".join([place.path, *_branches(place.node, "")]) for place in places]
        data = {place.path: data_of(place.node) for place in places}
        return ShellResult(data[places[0].path] if len(places) == 1 else data, "\n".join(texts))

    def find_paths(self, arguments: Sequence[str]) -> ShellResult:
        """`find`: every path below folders."""
        paths = [each.path for place in self._places(arguments) for each in walk(place)]
        return ShellResult(paths, "\n".join(paths))

    def where(self, _arguments: Sequence[str]) -> ShellResult:
        """`pwd`: where one is."""
        return ShellResult(self.directory, self.directory)

    def help(self, _arguments: Sequence[str]) -> ShellResult:
        """`help`: the commands."""
        rows = [(command.usage, command.meaning) for command in _COMMANDS.values()]
        rows.append(("exit", "Leave; so does the end of the input."))
        text = "\n".join(f"{usage:<16}{meaning}" for usage, meaning in rows)
        return ShellResult(dict(rows), f"{text}\nPaths may have *, ? and [ab] in them.")

    def _places(self, paths: Sequence[str]) -> list[Place]:
        wanted = paths or [self.directory]
        return [place for path in wanted for place in match(self.root, self.absolute(path))]


class _Command(msgspec.Struct, frozen=True):
    usage: str
    meaning: str
    run: Callable[[Session, Sequence[str]], ShellResult]


_COMMANDS: Mapping[str, _Command] = {
    "ls": _Command("ls [PATH…]", "List what is in a folder.", Session.list_names),
    "cd": _Command("cd [PATH]", "Go to a folder; to the top without a path.", Session.change_directory),
    "cat": _Command("cat PATH…", "Show what is in a file.", Session.show),
    "tree": _Command("tree [PATH…]", "Draw everything below a folder.", Session.draw),
    "find": _Command("find [PATH…]", "List every path below a folder.", Session.find_paths),
    "pwd": _Command("pwd", "Tell where you are.", Session.where),
    "help": _Command("help", "Show this list.", Session.help),
}


def split(line: str) -> list[str]:
    """The words of a line, with quotes as in a shell.

    Raises:
        UnanswerableError: A quote is not closed.
    """
    try:
        return shlex.split(line, comments=True)
    except ValueError as error:
        raise UnanswerableError(f"{line.strip()}: {str(error).lower()}") from error


def _typed(line: str) -> list[str]:
    """The words typed so far, the last one as far as it goes; it may be empty."""
    words = line.split()
    return [*words, ""] if not words or line[-1].isspace() else words


def _names(place: Place) -> list[str]:
    return list(place.node.names()) if isinstance(place.node, Folder) else [place.path]


def _content(data: object) -> str:
    return data if isinstance(data, str) else to_json(cast("Data", data))  # a tree is made of what JSON has


def _branches(node: TreeNode, indent: str) -> Iterator[str]:
    if isinstance(node, File):
        return
    names = list(node.names())
    for name in names:
        last = name == names[-1]
        child = node.open(name)
        plain = isinstance(child, File) and not isinstance(child.data, dict | list)
        value = f" = {_content(child.data)}" if plain and isinstance(child, File) else ""
        yield f"{indent}{'└── ' if last else '├── '}{name}{value}"
        if child is not None:
            yield from _branches(child, indent + ("    " if last else "│   "))
