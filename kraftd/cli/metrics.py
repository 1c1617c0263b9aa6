"""`kraftctl metrics FILE…`: what nodes last said of themselves in their JSON logs, once or live.

A node writes a line `"event": "metrics"` every ten seconds, with the names of Kafka's `raft-metrics`. The
files are only read: from their ends backwards at first, then whatever is appended, across rotation and
truncation.

Schema: a list, one entry a file: file, node (null before its first line), timestamp (of the metrics line;
    text or null), event and event_timestamp (the last line that was none of the periodic ones), metrics (an
    object, empty if there is no such line).
"""

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import msgspec
import typer

from kraftd.cli.failures import CommandError
from kraftd.cli.options import OutputOption, output_of
from kraftd.cli.output import Format, columns, emit, shortened, terminal_columns
from kraftd.regular_file import NotAFileError, kind_of, open_to_read

app = typer.Typer()

Line: TypeAlias = dict[str, Any]

REFRESH_S = 0.5
_PIECE_BYTES = 1 << 20
"""So much of a log is in memory at a time, and twice that of a line."""
_MARK = b'"metrics"'
_CELL_MIN: Final = 8
"""So much of a value is shown live, however narrow the terminal."""
_OWN_KEYS = frozenset({"timestamp", "level", "event", "node"})


@app.command("metrics")
def metrics(
    context: typer.Context,
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", readable=False, help="JSON logs of nodes.")],
    once: Annotated[bool, typer.Option("--once", help="Show the latest metrics and end.")] = False,
    output: OutputOption = None,
) -> None:
    """Show the metrics of nodes from their JSON logs, live on a terminal."""
    wanted = output_of(context, output)
    tails = [Tail(file) for file in files]
    for tail in tails:
        tail.catch_up()
    if once or wanted is not Format.TABLE or not sys.stdout.isatty():
        emit([tail.data() for tail in tails], wanted, metrics_table)
        if not any(tail.metrics for tail in tails):
            raise CommandError(
                f"no metrics in {', '.join(str(file) for file in files)}; "
                "a node writes the first one ten seconds after its start, as JSON if stderr is no terminal"
            )
        return
    _watch(tails)


class Tail:
    """The latest that one log file says, brought up to date by `catch_up`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metrics: Line = {}
        self._last_event: Line = {}
        self._node: int | None = None
        self._position = -1
        self._inode = -1
        self._remainder = b""

    def catch_up(self) -> None:
        """Read what was appended since the last call; at the first what is behind the file's last metrics, or
        its last piece if it has none.

        Raises:
            CommandError: The file cannot be read.
        """
        try:
            with open_to_read(self.path) as file:
                stat = self.path.stat()
                size = file.seek(0, 2)
                if self._position < 0:
                    self._position = self._find_start(file, size)
                elif stat.st_ino != self._inode or size < self._position:
                    self._position, self._remainder = 0, b""
                self._inode = stat.st_ino
                file.seek(self._position)
                while self._position < size and (data := file.read(min(_PIECE_BYTES, size - self._position))):
                    self._position += len(data)
                    self._take(data)
        except FileNotFoundError as error:
            if self._position >= 0:
                return  # between the two steps of a rotation
            raise CommandError(
                f"{self.path} does not exist; name a file that holds a node's stderr"
            ) from error
        except NotAFileError as error:
            what = f"{self.path} is {kind_of(self.path)}"
            raise CommandError(f"{what}; name a file that holds a node's stderr") from error
        except OSError as error:
            raise CommandError(f"{self.path} cannot be read: {error.strerror}") from error

    def data(self) -> Line:
        """The schema of one file."""
        return {
            "file": str(self.path),
            "node": self._node,
            "timestamp": self.metrics.get("timestamp"),
            "event": self._last_event.get("event"),
            "event_timestamp": self._last_event.get("timestamp"),
            "metrics": {key: value for key, value in self.metrics.items() if key not in _OWN_KEYS},
        }

    def _find_start(self, file: Any, size: int) -> int:
        """A place before the last metrics line, by two pieces at most; before the last piece without one.

        It may be within a line: what is left of one is none of a node's, and is passed over.
        """
        end = size
        while end > 0:
            begin = max(0, end - _PIECE_BYTES)
            file.seek(begin)
            if _MARK in file.read(end - begin + len(_MARK) - 1):
                return max(0, begin - _PIECE_BYTES)
            end = begin
        return max(0, size - _PIECE_BYTES)

    def _take(self, data: bytes) -> None:
        *lines, rest = (self._remainder + data).split(b"\n")
        self._remainder = rest[-_PIECE_BYTES:]
        for line in lines:
            self._take_line(line)

    def _take_line(self, text: bytes) -> None:
        try:
            line = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return  # whatever else went to stderr
        if not isinstance(line, dict) or not isinstance(line.get("event"), str):
            return
        node = line.get("node")
        self._node = node if isinstance(node, int) else self._node
        if line["event"] == "metrics":
            self.metrics = line
        else:
            self._last_event = line


def metrics_table(entries: Sequence[Line]) -> str:
    """One column a node, one row a metric; a block for each node where a terminal has no room for that."""
    headers, rows = _grid(entries)
    table = columns(headers, rows, room=0)
    if not 0 < terminal_columns(sys.stdout) < max(map(len, table.splitlines())):
        return table
    return "\n\n".join(columns(*_grid([entry])) for entry in entries)


def _grid(entries: Sequence[Line]) -> tuple[list[str], list[list[str]]]:
    metrics = [dict(_flat(entry["metrics"])) for entry in entries]
    names = list(dict.fromkeys(name for each in metrics for name in each))
    headers = ["metric", *(_name(entry) for entry in entries)]
    rows = [
        ["timestamp", *(_cell(entry["timestamp"]) for entry in entries)],
        ["last event", *(_event(entry) for entry in entries)],  # so far up, a terminal of 24 lines shows it
        *([name, *(_cell(each.get(name)) for each in metrics)] for name in names),
    ]
    return headers, rows


def _flat(metrics: Line) -> Iterator[tuple[str, object]]:
    """Each number by its name; of what there is of each broker one by one, so that columns stay narrow."""
    for name, value in metrics.items():
        if isinstance(value, dict):
            yield from ((f"{name} {key}", one) for key, one in value.items())
        else:
            yield name, value


def _name(entry: Line) -> str:
    return f"node {entry['node']}" if entry["node"] is not None else Path(entry["file"]).name


def _event(entry: Line) -> str:
    return f"{entry['event']} {entry['event_timestamp']}" if entry["event"] else "-"


def _cell(value: object) -> str:
    match value:
        case None:
            return "-"
        case float():
            return f"{value:.3f}".rstrip("0").rstrip(".")
        case dict() | list():
            return msgspec.json.encode(value).decode()
        case _:
            return str(value)


def _watch(tails: Sequence[Tail]) -> None:
    """Redraw until interrupted."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console()
    with Live(console=console, auto_refresh=False, screen=False) as live:
        for _ in _ticks():
            for tail in tails:
                tail.catch_up()
            text = picture([tail.data() for tail in tails], console.width, console.height)
            live.update(Text(text, no_wrap=True, overflow="crop"), refresh=True)


def _ticks() -> Iterator[None]:
    while True:
        yield
        time.sleep(REFRESH_S)


def picture(entries: Sequence[Line], width: int, height: int) -> str:
    """As much of the table as a screen holds; the last line says what it leaves out, and what shows it.

    Names of metrics are whole, since two may differ in their last letters only; values give way.
    """
    headers, rows = _grid(entries)
    names_width = max(len(row[0]) for row in [headers, *rows])
    room = max((width - names_width) // max(len(entries), 1) - 2, _CELL_MIN)
    is_cut = any(len(cell) > room for row in rows for cell in row[1:])
    if is_cut:
        rows[:2] = [
            ["timestamp", *(_time(entry["timestamp"]) for entry in entries)],
            ["last event", *(str(entry["event"] or "-") for entry in entries)],
        ]
    fitting = [[row[0], *(shortened(cell, room) for cell in row[1:])] for row in [headers, *rows]]
    lines = columns(fitting[0], fitting[1:], room=0).split("\n")
    shown = lines if len(lines) < height else lines[: max(height - 2, 1)]
    left_out = [f"{len(lines) - len(shown)} more"] if len(shown) < len(lines) else []
    left_out += ["cells cut at …"] if any("…" in line for line in shown) else []
    more = [f"{', '.join(left_out)}: kraftctl metrics --once FILE… shows all"] if left_out else []
    return "\n".join([*shown, *more])


def _time(timestamp: str | None) -> str:
    """The time of day alone."""
    return "-" if timestamp is None else timestamp.rpartition("T")[2]
