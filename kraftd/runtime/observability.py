"""What does a node tell its operators? One JSON object a line on stderr, and silence when idle.

Entered through `open_journal`, once at start. Events have names in snake_case (`transition`, `election`,
`vote`, `metrics`, …) under the key `event`; every line carries `timestamp`, `level` and `node`. On a
terminal the same events are rendered for eyes.

Not here: what the numbers of the `metrics` line mean (`metrics`) and the HTTP pages (`http`). Nothing is
logged per request: a line costs more than a whole commit.
"""

import sys
from collections.abc import MutableMapping
from typing import Any, TextIO, TypeAlias

import msgspec
import structlog

from kraftd.raft.effects import AlarmCleared, Alarmed, ElectionEnded, Moved, VoteCast, Warned
from kraftd.runtime.interpreter import News
from kraftd.types import NodeId

Log: TypeAlias = Any
"""A bound structlog logger: `info(event, **fields)`, `warning`, `error`. Its own types are `Any`, too."""

_encoder = msgspec.json.Encoder(enc_hook=str)


def open_log(node_id: NodeId, *, stream: TextIO | None = None) -> Log:
    """Make the logger of this node, on stderr unless told otherwise."""
    target = sys.stderr if stream is None else stream
    renderer: Any = structlog.dev.ConsoleRenderer() if target.isatty() else _render_json
    return structlog.wrap_logger(
        structlog.WriteLogger(target),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _milliseconds,
            renderer,
        ],
        cache_logger_on_first_use=True,
    ).bind(node=node_id)


def log_news(log: Log, news: News) -> None:
    """Write one line for one of the core's notes."""
    match news:
        case Moved():
            log.info("transition", source=news.source, target=news.target, epoch=news.epoch, why=news.why)
        case ElectionEnded():
            log.info(
                "election",
                epoch=news.epoch,
                pre_vote=news.pre_vote,
                won=news.won,
                granted=list(news.granted),
                refused=[{"node_id": node_id, "why": why} for node_id, why in news.refused],
                silent=list(news.silent),
                took_ms=news.took_ms,
            )
        case VoteCast():
            log.info(
                "vote",
                candidate=news.candidate,
                epoch=news.epoch,
                pre_vote=news.pre_vote,
                granted=news.granted,
                why=news.why,
            )
        case Warned():
            log.warning(news.event, text=news.text)
        case Alarmed():
            log.error("alarm", alarm=news.event, text=news.text)
        case AlarmCleared():
            log.info("alarm_cleared", alarm=news.event)


def _milliseconds(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Cut the microseconds off structlog's ISO timestamp: nobody can rely on them across machines."""
    stamp = event["timestamp"]
    event["timestamp"] = f"{stamp[:23]}Z" if "." in stamp else f"{stamp[:19]}.000Z"
    return event


def _render_json(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> str:
    """The line as JSON, with the keys that every line has in front."""
    head = {key: event.pop(key) for key in ("timestamp", "level", "event", "node") if key in event}
    return _encoder.encode(head | dict(event)).decode("utf-8")
