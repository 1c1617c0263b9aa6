"""The console script `kraftctl`: finds the command, runs it, and makes every ending a line and an exit code.

Commands are loaded when they are called, so that `kraftctl status` does not pay for what only `export`
needs. What each ending means to a script stands in `kraftd.cli.failures`; the option parser's own code for
usage errors (2) would read as "cannot connect" and is mapped to 64.
"""

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from kraftd.cli import waiting
from kraftd.cli.arguments import make_strict
from kraftd.cli.failures import CommandError, ExitCode
from kraftd.cli.help_text import make_plain, write_sections
from kraftd.cli.options import BOOTSTRAP_VARIABLE, GlobalOptions, OutputOption
from kraftd.cli.output import Format, note, write
from kraftd.cli.streams import LostOutputError, ending, take_over
from kraftd.errors import KraftdError
from kraftd.protocol.brief import brief, on_one_line

COMMANDS = MappingProxyType(
    {
        "status": "kraftd.cli.quorum",
        "replication": "kraftd.cli.quorum",
        "health": "kraftd.cli.health",
        "resign": "kraftd.cli.resign",
        "topics": "kraftd.cli.topics",
        "partitions": "kraftd.cli.partitions",
        "elect": "kraftd.cli.elect",
        "brokers": "kraftd.cli.brokers",
        "reassign": "kraftd.cli.reassign",
        "configs": "kraftd.cli.configs",
        "events": "kraftd.cli.events",
        "watch": "kraftd.cli.watch",
        "metrics": "kraftd.cli.metrics",
        "random-uuid": "kraftd.cli.directory",
        "format": "kraftd.cli.directory",
        "info": "kraftd.cli.directory",
        "forget-peers": "kraftd.cli.forgetting",
        "log": "kraftd.cli.log",
        "shell": "kraftd.cli.shell",
        "export": "kraftd.cli.export",
        "replay": "kraftd.cli.replay",
    }
)
"""Each command and the module whose `app` holds it, in the order of the help."""


_OFFLINE = frozenset({"random-uuid", "format", "info", "forget-peers", "log", "shell", "export", "replay"})
"""What is about files on a disk; the others are about a running quorum."""


_FORMAT_FLAGS = ("--json", "--yaml")
"""What other programs have in place of `-o json`."""


_LINE_BYTES_MAX = 4_096
"""Of what is said on standard error: an argument may be as long as the shell takes."""


class LazyGroup(TyperGroup):
    """A group that imports a command's module when the command is called."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the parser's signature
        """Every command, imported or not."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - the parser's signature
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        group = typer.main.get_group(importlib.import_module(COMMANDS[cmd_name]).app)
        command: Any = group.commands.get(cmd_name, group)
        command.name = cmd_name
        make_plain(command)
        make_strict(command)
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """What is about a running quorum, then what is about files on a disk."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        running = [one for one in commands if one[0] not in _OFFLINE]
        offline = [one for one in commands if one[0] in _OFFLINE]
        write_sections((("A running quorum", running), ("Directories and logs", offline)), formatter)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """As the parser does, with a suggestion drawn from all commands."""
        self.commands = dict.fromkeys(COMMANDS, TyperCommand("unused"))
        return super().resolve_command(ctx, args)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        write(f"kraftctl {version('kraftd')}")
        raise typer.Exit


app = typer.Typer(
    cls=LazyGroup,
    rich_markup_mode=None,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 ok, 1 error, 2 cannot connect, 4 the node said no, 5 cluster not healthy (health: "
    "also if nobody answers), 64 wrong usage, 130 interrupted, 141 the reader of the output left (| head).",
)


@app.callback()
def kraftctl(
    context: typer.Context,
    output: OutputOption = None,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-controller",
            metavar="HOST:PORT,…",
            envvar=BOOTSTRAP_VARIABLE,
            help="Nodes to ask first; any one is enough.",
            show_default=False,
        ),
    ] = None,
    version: Annotated[  # noqa: ARG001 - its callback answers
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Look after a kraftd quorum: its nodes, its log, and the files it leaves on disk."""
    context.obj = GlobalOptions(output or Format.TABLE, bootstrap or "")
    if context.invoked_subcommand is None:
        write(context.get_help())
        raise typer.Exit(ExitCode.USAGE)


def main() -> None:
    """Run `kraftctl` with this process's arguments and end the process."""
    output = take_over()
    sys.exit(ending(output, run(sys.argv[1:])))


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; what went wrong is said on standard error."""
    waiting.begin()
    try:
        result = typer.main.get_command(app).main(
            list(arguments), prog_name="kraftctl", standalone_mode=False
        )
    except LostOutputError:
        return ExitCode.ERROR
    except typer.TyperException as error:
        return _usage(error, arguments)
    except typer.Abort:
        return ExitCode.INTERRUPTED
    except CommandError as error:
        return _fail(str(error), error.exit_code)
    except KraftdError as error:
        return _fail(str(error), ExitCode.ERROR)
    except OSError as error:
        return _fail(_describe(error), ExitCode.ERROR)
    except Exception as error:  # noqa: BLE001 - the last line of defence: an operator never sees a traceback
        return _fail(_bug(error), ExitCode.ERROR)
    return result if isinstance(result, int) else ExitCode.OK


def _usage(error: typer.TyperException, arguments: Sequence[str]) -> int:
    text = error.format_message().rstrip(".")
    option = getattr(error, "option_name", "")
    if option.removeprefix("-").isdigit():  # the parser takes -12 for an option -1
        word = next((word for word in arguments if word.startswith(option)), option)
        text = f"{word} is negative; ids and numbers here are not"
    if option in _FORMAT_FLAGS:
        text += f"; write -o {option.removeprefix('--')}"
    context = getattr(error, "ctx", None)
    hint = f"; see {context.command_path} --help" if context is not None else ""
    return _fail(text + hint, ExitCode.USAGE)


def _fail(text: str, code: ExitCode) -> int:
    line = text.replace(":\n  - ", ": ").replace("\n  - ", "; ")  # a list of mistakes
    note(brief(on_one_line(" ".join(line.split())), _LINE_BYTES_MAX))
    return code


def _describe(error: OSError) -> str:
    reason = error.strerror or str(error) or type(error).__name__
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{reason}"


def _bug(error: Exception) -> str:
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    where = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "unknown place"
    what = f"{type(error).__name__} at {where}: {error}"
    return f"this is a bug in kraftctl: {what}; please report it with the command line"


if __name__ == "__main__":
    main()
