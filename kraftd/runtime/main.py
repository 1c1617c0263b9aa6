"""The console script `kraftd`: reads the configuration, opens the directory, runs the node.

`kraftd start CONFIG.properties`. Exit codes: 0 stopped as asked, 1 cannot start or had to end, 64 wrong
usage, 128 + n stopped at once by signal n: the second one, or Ctrl-C before it listens.

*Fatal errors* (D-17). An exception in a callback of the loop, in a timer, in a task or in a thread reaches
`FatalErrorHandler.abort`: it logs one line with the traceback and ends the process before any other callback
runs, because effects that were half carried out must not be followed by more. What was acknowledged is
durable. For a stream that does not take that line it waits a second.
"""

import argparse
import asyncio
import os
import resource
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from kraftd.errors import ConfigError, KraftdError
from kraftd.interrupts import EXIT_INTERRUPTED
from kraftd.runtime.admission import refuse_dynamic_voters, refuse_old_log
from kraftd.runtime.config import Config, load_config
from kraftd.runtime.daemon import serve
from kraftd.runtime.event_loop import NodeLoop
from kraftd.runtime.log_cleaner import rolling_of
from kraftd.runtime.log_writer import LogWriter
from kraftd.runtime.long_blocks import give_back_long_blocks
from kraftd.runtime.node_status import SOFTWARE
from kraftd.runtime.observability import Logger, make_log
from kraftd.storage.filesystem import OsFileSystem
from kraftd.storage.node_directory import NodeDirectory

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 64


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Entry point of the console script."""
    options = _parser().parse_args(arguments)
    _fill_standard_streams()
    try:
        config = load_config(options.config, os.environ)
    except ConfigError as error:
        sys.stderr.write(f"kraftd: {error}\n")
        sys.exit(EXIT_FAILED)
    logger, log_writer = make_log(config.node_id)
    code = start(config, logger, log_writer)
    log_writer.flush()
    sys.exit(code)


def start(config: Config, logger: Logger, log_writer: LogWriter) -> int:
    """Run one node; returns the exit code."""
    fatal = FatalErrorHandler(logger, log_writer)
    threading.excepthook = fatal.on_thread
    try:
        _allow_files()
        give_back_long_blocks()
        directory = _open_directory(config)
        with asyncio.Runner(loop_factory=NodeLoop) as runner:
            runner.get_loop().set_exception_handler(fatal.on_loop)
            runner.run(serve(config, directory, logger, log_writer, fatal.on_task))
    except (KraftdError, OSError) as error:
        logger.critical("fatal", reason=str(error))
        return EXIT_FAILED
    except KeyboardInterrupt:  # before the daemon listens to signals: it had not answered anybody
        logger.warning("stopped_at_once", signal=signal.SIGINT.name)
        return EXIT_INTERRUPTED
    except BaseExceptionGroup as group:
        fatal.abort("a task failed", _first(group))
    except BaseException as error:  # noqa: BLE001 - the process must not end without a line in the log
        fatal.abort("the node failed", error)
    return EXIT_OK


class FatalErrorHandler:
    """Ends the process at once, with one line in the log and a non-zero exit code."""

    def __init__(self, logger: Logger, log_writer: LogWriter) -> None:
        self._logger = logger
        self._log_writer = log_writer

    def on_loop(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle an exception of the loop: in callbacks, timers, completions of threads, protocols."""
        error = context.get("exception")
        if error is None:
            self._logger.warning("loop", text=str(context.get("message")))
            return
        self.abort(str(context.get("message")), error)

    def on_thread(self, failure: threading.ExceptHookArgs) -> None:
        """Handle an exception that nothing in a thread has caught."""
        name = failure.thread.name if failure.thread is not None else "?"
        self.abort(f"thread {name} failed", failure.exc_value)

    def on_task(self, name: str, error: Exception) -> NoReturn:
        """Handle an exception that nothing in a task has caught."""
        self.abort(f"task {name} failed", error)

    def abort(self, what: str, error: BaseException | None) -> NoReturn:
        """Log the error and end the process; does not return."""
        try:
            expected = isinstance(error, KraftdError | OSError)
            trace = [] if error is None or expected else traceback.format_exception(error)
            self._logger.critical(
                "fatal",
                reason=what if error is None else f"{error}" if expected else f"{what}: {error!r}",
                **({"exception": "".join(trace)} if trace else {}),
            )
            self._log_writer.flush()
        finally:
            os._exit(EXIT_FAILED)


def _fill_standard_streams() -> None:
    """Open nothing in the place of standard streams that were closed (`2>&-`): else a file of the node gets
    the number of stderr, and the lines of the log with it.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)


def _allow_files() -> None:
    """Raise the soft limit of open files to the hard one; the usual default is too low."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _open_directory(config: Config) -> NodeDirectory:
    directory = NodeDirectory.open(
        OsFileSystem(),
        config.metadata_dir,
        node_id=config.node_id,
        random_uuid=lambda: os.urandom(16),
        voter_ids=tuple(sorted(config.voters)),
        config=rolling_of(config.log),
        other_log_dirs=tuple(config.log_dirs),
    )
    refuse_dynamic_voters(directory)
    refuse_old_log(directory)
    return directory


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first cause in a group, however deep."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


class _Parser(argparse.ArgumentParser):
    """Exits with 64 for wrong usage."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(EXIT_USAGE, f"{self.prog}: {message}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="kraftd", description="One controller of a KRaft quorum.")
    parser.add_argument("--version", action="version", version=SOFTWARE)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    run = commands.add_parser("start", help="run a node until it is told to stop")
    run.add_argument("config", type=Path, metavar="CONFIG.properties", help="its configuration")
    return parser
