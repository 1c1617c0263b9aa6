"""A daemon with a bomb in it: the real `kraftd`, in which something raises at a chosen place.

`python bomb.py PLACE start CONFIG`. PLACE is where the unexpected happens once the node has started.

In one request, once each: `describe-cluster`, `envelope` and the others of `OF_A_REQUEST`.

Within the boundary of a connection, once each, so that the next connection finds a node in order:
`framing`, `codec`, `handshake`, `encoding`. Beyond it: `handler` (whoever a request is handed to), `oserror`
(the same, with an error that event loops like to swallow), `raft`, `executor` (of effects), `storage`,
`apply`. Elsewhere: `timer`, `soon`, `thread` (in a job of the flush thread), `plain-thread` (in a thread
nobody waits for), `task`, `busy-task` (the same, while a thread of the loop's own is busy without end),
`main-task` (in the one that runs the node), `fsync` (the disk refuses).
"""

import asyncio
import errno
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from kraftd.controller.sessions import BrokerSessions
from kraftd.net import server
from kraftd.protocol.framing import FrameReader
from kraftd.protocol.msgpack_codec import MsgpackCodec
from kraftd.raft.node import RaftNode
from kraftd.runtime.applier import Applier
from kraftd.runtime.committed_fetches import CommittedFetches
from kraftd.runtime.daemon import Daemon
from kraftd.runtime.effect_executor import EffectExecutor
from kraftd.runtime.envelopes import ForwardedClient
from kraftd.runtime.event_status import EventStatus
from kraftd.runtime.kafka_apis import KafkaApis
from kraftd.runtime.log_export import LogExports
from kraftd.runtime.main import main
from kraftd.runtime.node_status import NodeStatus
from kraftd.runtime.request_router import RequestRouter
from kraftd.storage.log import Log


class BombError(RuntimeError):
    """Nobody expects this."""


def explode(*_: object) -> None:
    raise BombError("boom")


def once(then: Callable[..., Any]) -> Callable[..., Any]:
    """The first call explodes; the others do what they always did."""
    calls = []

    def call(*args: Any, **named: Any) -> Any:
        if not calls:
            calls.append(1)
            explode()
        return then(*args, **named)

    return call


BEYOND = {
    "handler": (RequestRouter, "request_received"),
    "raft": (RaftNode, "handle"),
    "executor": (EffectExecutor, "run"),
    "storage": (Log, "append"),
    "apply": (Applier, "commit"),
}
WITHIN = {
    "framing": (FrameReader, "whole"),
    "codec": (MsgpackCodec, "decode_request"),
    "handshake": (server, "refusal_of"),
    "encoding": (MsgpackCodec, "encode_response"),
}
OF_A_REQUEST = {
    "describe-cluster": (KafkaApis, "_describe_cluster"),
    "envelope": (ForwardedClient, "__init__"),
    "describe-node": (NodeStatus, "describe"),
    "describe-events": (EventStatus, "describe"),
    "export": (LogExports, "_small_files"),
    "chunk": (LogExports, "_reply"),
    "fetch-committed": (CommittedFetches, "_answer"),
    "registration": (BrokerSessions, "registered"),
}


def arm(process: Daemon, place: str) -> None:
    loop = asyncio.get_running_loop()
    internals: Any = process
    if place in BEYOND:
        owner, name = BEYOND[place]
        setattr(owner, name, explode)
    elif place in WITHIN or place in OF_A_REQUEST:
        owner, name = WITHIN.get(place) or OF_A_REQUEST[place]
        setattr(owner, name, once(getattr(owner, name)))
    match place:
        case "oserror":

            def refuse(*_: object) -> None:
                raise BrokenPipeError(errno.EPIPE, "boom")

            RequestRouter.request_received = refuse
        case "timer":
            loop.call_later(0.1, explode)
        case "soon":
            loop.call_soon(explode)
        case "thread":
            internals._server.workers[0].submit(explode, lambda _: None)
        case "plain-thread":
            threading.Thread(target=explode).start()
        case "task" | "busy-task":

            async def fail() -> None:
                explode()

            if place == "busy-task":
                loop.run_in_executor(None, time.sleep, 1_000)
            internals._tasks.create_task(fail())
        case "main-task":
            loop.run_in_executor(None, time.sleep, 1_000)
            Daemon.run = explode
        case "fsync":

            def refuse_sync(_handle: int) -> None:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

            os.fsync = os.fdatasync = refuse_sync
            import kraftd.storage.filesystem as filesystem

            filesystem.os = os


def install(place: str) -> None:
    start = Daemon.start

    async def start_and_arm(process: Daemon) -> None:
        await start(process)
        arm(process, place)

    Daemon.start = start_and_arm


if __name__ == "__main__":
    install(sys.argv[1])
    main(sys.argv[2:])
