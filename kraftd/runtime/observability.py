"""The log lines of a node: one JSON object each on stderr, and none while nothing happens.

Entered through `make_log`, once at start. Events have names in snake_case (`transition`, `election`,
`vote`, `metrics`, …) under the key `event`; every line carries `timestamp`, `level` and `node`. On a terminal
the same events are rendered for people.

Not here: what the numbers of the `metrics` line mean (`node_status`), the HTTP pages (`http_server`), and
what becomes of a line that stderr does not take (`log_writer`).
Nothing is logged for each request: a line costs more than a whole commit.
"""

import os
import sys
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, TypeAlias

import msgspec

from kraftd.controller.plans import LogLine
from kraftd.net.rate_limited_logger import RateLimitedLogger
from kraftd.raft.effects import AlarmCleared, Alarmed, ElectionEnded, StateChanged, VoteAnswered, Warned
from kraftd.runtime.effect_executor import Notice, NoticeLogger
from kraftd.runtime.log_writer import LogWriter
from kraftd.types import NodeId


@contextmanager
def _hidden(package: str) -> Iterator[None]:
    """Make the import of a package fail meanwhile, unless it is imported already."""
    if package in sys.modules:
        yield
        return
    modules: dict[str, Any] = sys.modules
    modules[package] = None
    try:
        yield
    finally:
        del modules[package]


# structlog imports rich where it finds it, for traces in colours that are never asked for here. That is a
# seventh of the time that a node takes to start, and every election waits for nodes that start.
with _hidden("rich"):
    import structlog

Logger: TypeAlias = Any
"""A bound structlog logger: `info(event, **fields)`, `warning`, `error`. Its own types are `Any`, too."""

_EVENT_WIDTH = 16
"""Room for the names of all common events, on a terminal."""

_encoder = msgspec.json.Encoder(enc_hook=str)


_STDERR = 2


def make_log(node_id: NodeId) -> tuple[Logger, LogWriter]:
    """Make the logger of this node, and what writes its lines to stderr."""
    for_people = os.isatty(_STDERR)
    as_text = open_logger(node_id, lambda line: line, for_people=for_people)
    writer = LogWriter(_STDERR, lambda count: as_text.warning("log_lines_lost", lines=count))
    return open_logger(node_id, writer.write, for_people=for_people), writer


def open_logger(node_id: NodeId, write: Callable[[str], object], *, for_people: bool = False) -> Logger:
    """Make a logger that hands on each line, rendered, and returns what that returned."""
    renderer: Any = _for_people() if for_people else _render_json
    return structlog.wrap_logger(
        _Lines(write),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _milliseconds,
            renderer,
        ],
        cache_logger_on_first_use=True,
    ).bind(node=node_id)


class _Lines:
    """What structlog hands a line to: one function, whatever its level."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self.debug = self.info = self.warning = self.error = self.critical = write


class RaftNoticeLogger(NoticeLogger):
    """Writes one line for each notice of the raft node.

    A node without a quorum asks for votes again and again, with the same outcome: the same state change, vote
    or election in the same epoch is one line in ten seconds, with the number of those that were left out.
    """

    def __init__(self, logger: Logger, clock_s: Callable[[], float]) -> None:
        self._logger = logger
        self._limited_logger = RateLimitedLogger(logger, clock_s, interval_s=10.0, lines_max=1_000)

    def log_notice(self, notice: Notice) -> None:
        """Write one notice, unless the same one was written in the last ten seconds."""
        info = self._limited_logger.info
        match notice:
            case StateChanged(source, target, epoch, why):
                key = (source, target, epoch, why)
                moved = {"from": source, "to": target}  # `from` cannot be a keyword argument
                info("transition", key=key, **moved, epoch=epoch, reason=why)
            case ElectionEnded():
                granted, outstanding = tuple(notice.granted), tuple(notice.outstanding)
                info(
                    "election",
                    key=(
                        notice.epoch,
                        notice.pre_vote,
                        notice.won,
                        granted,
                        tuple(notice.refused),
                        outstanding,
                    ),
                    epoch=notice.epoch,
                    pre_vote=notice.pre_vote,
                    won=notice.won,
                    granted=granted,
                    refused=[{"node_id": node_id, "reason": why} for node_id, why in notice.refused],
                    outstanding=outstanding,
                    took_ms=notice.took_ms,
                )
            case VoteAnswered():
                fields = msgspec.structs.asdict(notice)
                fields["reason"] = fields.pop("why")
                info("vote", key=notice, **fields)
            case Warned():
                self._limited_logger.warning(notice.name, key=notice.text, text=notice.text)
            case Alarmed():
                self._logger.error("alarm", alarm=notice.name, text=notice.text)
            case AlarmCleared():
                self._logger.info("alarm_cleared", alarm=notice.name)


class ControllerLog:
    """Writes the lines of the controller: what became of brokers, and decisions that failed."""

    def __init__(self, logger: Logger, limited_logger: RateLimitedLogger) -> None:
        """Make one; lines that others can cause at will go to the limited logger."""
        self._logger = logger
        self._limited_logger = limited_logger

    def __call__(self, line: LogLine) -> None:
        """Write one line."""
        if line.key is not None:
            self._limited_logger.warning(line.name, key=line.key, **line.fields)
        elif line.is_warning:
            self._logger.warning(line.name, **line.fields)
        else:
            self._logger.info(line.name, **line.fields)


def _for_people() -> Any:
    """The renderer for a terminal: fields in the order in which they were given, tracebacks as text."""
    return structlog.dev.ConsoleRenderer(
        colors=not os.environ.get("NO_COLOR"),
        sort_keys=False,
        pad_event_to=_EVENT_WIDTH,
        exception_formatter=structlog.dev.plain_traceback,
    )


def _milliseconds(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Cut the microseconds off structlog's ISO timestamp: clocks of machines differ by more."""
    stamp = event["timestamp"]
    event["timestamp"] = f"{stamp[:23]}Z" if "." in stamp else f"{stamp[:19]}.000Z"
    return event


def _render_json(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> str:
    """The line as JSON, with the keys that every line has in front."""
    head = {key: event.pop(key) for key in ("timestamp", "level", "event", "node") if key in event}
    return _encoder.encode(head | dict(event)).decode("utf-8")
