"""`kraftctl shell DIR|FILE`: walk through the cluster's state as through folders and files.

With a terminal it asks for commands, completes commands and paths with Tab, and remembers them; with `-c` or
from a pipe it carries out those given. A running node's directory is followed: before each command the state
goes on to where the log ends now. Nothing is locked, nobody is asked.

Output of `-c` and of a pipe with `-o json` or `-o yaml`: for each command `ls` a list of names, `cat` and
`tree` the data, `find` a list of paths, `pwd` a text; the others nothing. Ends with 1 if a command could not
be carried out.

Follows: Kafka's `kafka-metadata-shell`.
Differs: reads a snapshot and the log after it, a log without snapshot, at any offset or time, and beside a
running node; leaves out secrets unless asked.
"""

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from kraftd.cli.failures import ExitCode
from kraftd.cli.log_state import SecretsOption, remarks
from kraftd.cli.options import OutputOption, output_of
from kraftd.cli.output import Data, Format, note, to_json_line, to_yaml, write
from kraftd.cli.shell_commands import LeaveError, Session, ShellResult
from kraftd.cli.times import parse_point, time_text
from kraftd.errors import KraftdError
from kraftd.logtools.finding import find_log
from kraftd.logtools.state import State, refreshed, state_at
from kraftd.logtools.tree import root_of

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import History

app = typer.Typer()


@app.command("shell")
def shell(
    context: typer.Context,
    path: Annotated[
        Path,
        typer.Argument(
            metavar="DIR|FILE", readable=False, help="A node's directory, a segment or a snapshot."
        ),
    ],
    commands: Annotated[
        list[str],
        typer.Option(
            "--command",
            "-c",
            metavar="COMMAND",
            help="Carry out this and leave: -c 'ls /topics'; may be repeated.",
            show_default=False,
        ),
    ] = [],  # noqa: B006 - the parser makes a new list for each call
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="OFFSET|TIME",
            help="The state before this offset, or at this time. (default: the end)",
            show_default=False,
        ),
    ] = None,
    show_secrets: SecretsOption = False,
    output: OutputOption = None,
) -> None:
    """Walk through the cluster's state on a disk: ls, cd, cat, tree, find."""
    state = state_at(find_log(path), None if at is None else parse_point(at))
    walker = _Walker(state, follows=at is None and path.is_dir(), show_secrets=show_secrets)
    wanted = output_of(context, output)
    for remark in remarks(state):
        note(remark)
    if commands or not sys.stdin.isatty():
        well = walker.carry_out(commands or sys.stdin, wanted)
    else:
        well = _converse(walker)
    if not well or state.damage is not None:
        raise typer.Exit(ExitCode.ERROR)


class _Walker:
    """A session over a state that may go on."""

    def __init__(self, state: State, *, follows: bool, show_secrets: bool) -> None:
        self.state = state
        self._follows = follows
        self._show_secrets = show_secrets
        self.session = Session(root_of(state, show_secrets=show_secrets))

    def refresh(self) -> None:
        """Go on to where the log ends now."""
        if not self._follows:
            return
        newer = refreshed(self.state)
        if newer is not self.state:
            self.state = newer
            self.session.reload(root_of(newer, show_secrets=self._show_secrets))

    def carry_out(self, lines: Iterable[str], output: Format) -> bool:
        """Commands of a script, one after the other; false if one of them could not be carried out."""
        well = True
        for line in lines:
            try:
                self.refresh()
                _emit(self.session.run(line), output)
            except LeaveError:
                break
            except KraftdError as error:
                note(str(error))
                well = False
        return well


def _emit(result: ShellResult, output: Format) -> None:
    if output is Format.TABLE:
        write(result.text)
    elif result.data is not None or result.text:
        data = cast("Data", result.data)  # the tree is made of what JSON has
        write(to_json_line(data) if output is Format.JSON else to_yaml([data]))


def _converse(walker: _Walker) -> bool:
    """Ask for commands until the user leaves."""
    prompts = _prompts(walker)
    state = walker.state
    where = f"offset {state.end_offset}, epoch {state.epoch}, {time_text(state.timestamp_ms)}"
    write(f"{state.log.named}: {where}\nType help for the commands, Tab to complete.")
    while True:
        try:
            line = prompts.prompt(f"{walker.state.end_offset} {walker.session.directory}> ")
            walker.refresh()
            result = walker.session.run(line)
            write(_laid_out(result.text.splitlines()) if result.names else result.text)
            sys.stdout.flush()
        except KeyboardInterrupt:
            continue
        except (EOFError, LeaveError):
            return True
        except KraftdError as error:
            note(str(error))


def _prompts(walker: _Walker) -> "PromptSession[str]":
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import CompleteEvent, Completer, Completion
    from prompt_toolkit.document import Document

    class Paths(Completer):
        """Commands and paths."""

        def get_completions(self, document: Document, _event: CompleteEvent) -> Iterator[Completion]:
            for text, start in walker.session.completions(document.text_before_cursor):
                yield Completion(text, start)

    return PromptSession(history=_history(), completer=Paths(), complete_while_typing=False)


def _history() -> "History":
    """What was typed before, kept for the next time where that is possible."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    base = os.environ.get("XDG_STATE_HOME")
    folder = (Path(base) if base else Path.home() / ".local" / "state") / "kraftctl"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "shell_history").touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(folder / "shell_history"))


def _laid_out(names: list[str]) -> str:
    """Names in as many columns as the terminal has room for, read downwards."""
    width = shutil.get_terminal_size().columns
    column = max(map(len, names), default=0) + 2
    count = max(1, min(width // column, len(names)))
    height = -(-len(names) // count)
    rows = (names[row::height] for row in range(height))
    return "\n".join("".join(name.ljust(column) for name in row).rstrip() for row in rows)
