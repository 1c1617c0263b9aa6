"""The process of one node: runs a `ControllerServer` until a signal stops it.

Entered through `serve`, inside a running loop, with a checked configuration and an open directory. The order
of a start: identity and log are already durable; the server listens; then the raft node starts, and with it
the connections to the peers. The order of a stop: the raft node hands over, the last responses are written,
connections close, the running flush ends, the directory is closed.

Signals are the matter of a thread of their own: while a disk hangs, the loop may be waiting for it, and would
not hear that it shall stop at once.

Nothing here decides anything about the quorum. What goes wrong here ends the process (D-17); see `main`.
"""

import asyncio
import contextlib
import contextvars
import gc
import ipaddress
import os
import random
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator
from typing import Any, NoReturn, TypeAlias, TypeVar

from kraftd.controller.rights import FORGEABLE
from kraftd.errors import ConfigError
from kraftd.net.server import Server
from kraftd.protocol.kafka_codec import KAFKA
from kraftd.protocol.msgpack_codec import MSGPACK
from kraftd.raft import RandomSource
from kraftd.raft.effects import ShutdownReady
from kraftd.raft.events import ShutdownRequested
from kraftd.records.control import CONTROL_CODECS
from kraftd.records.frame import RECORD_CODECS
from kraftd.runtime.config import Config, keys_in_place_of
from kraftd.runtime.controller_server import ControllerServer, Environment
from kraftd.runtime.driver import read_clocks
from kraftd.runtime.file_limits import connections_allowed, refuse_few_files
from kraftd.runtime.health_checks import livez, readyz
from kraftd.runtime.log_writer import LogWriter
from kraftd.runtime.node_status import SOFTWARE
from kraftd.runtime.observability import Logger
from kraftd.runtime.sample import Sample
from kraftd.runtime.worker import Worker
from kraftd.storage.node_directory import NodeDirectory
from kraftd.types import Endpoint, uuid_text

FILES_COUNTED_EVERY_S = 1.0
"""How often the connections that are allowed follow the files that the log holds open."""

_STOP_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
"""What tells a node to stop in order, as Kafka's JVM does."""

_AT_ONCE_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT})
"""What tells one that stops to end at once. Of a terminal that is closed SIGHUP comes twice: from its shell,
and from the kernel."""

Failed: TypeAlias = Callable[[str, Exception], NoReturn]
"""Ends the process, by the exception of the task of this name."""

_Result = TypeVar("_Result")

_GC_THRESHOLDS = (20_000, 20, 20)
"""Requests in flight are thousands of young objects that are not garbage: collect less often."""


async def serve(
    config: Config, directory: NodeDirectory, logger: Logger, log_writer: LogWriter, failed: Failed
) -> None:
    """Run one node until a signal stops it, and close its directory. What raises while it runs is given to
    `failed`.

    Raises:
        ConfigError: An address cannot be bound.
    """
    # Threads inherit this: only the one that waits for these signals gets them.
    signal.pthread_sigmask(signal.SIG_BLOCK, _stop_signals())
    async with Tasks(failed) as tasks:
        daemon = Daemon(config, directory, logger, log_writer, tasks)
        import_codecs(daemon.kafka_api_keys)
        await daemon.start()
        gc.collect()
        gc.freeze()
        gc.set_threshold(*_GC_THRESHOLDS)
        await tasks.end_process_if_failed(_run_and_stop(daemon), "main")


async def _run_and_stop(daemon: "Daemon") -> None:
    await daemon.run()
    await daemon.stop()


class Tasks(asyncio.TaskGroup):
    """Tasks each of which ends the process by its exception, in the midst of its own step (D-17).

    A group as it is would cancel all others and wait for them, and its loop for the jobs of its threads: the
    node would go on meanwhile, for as long as a job takes.
    """

    def __init__(self, failed: Failed) -> None:
        super().__init__()
        self._failed = failed

    def create_task(
        self,
        coro: Generator[Any, None, _Result] | Coroutine[Any, Any, _Result],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[_Result]:
        """Start a task of this group."""
        return super().create_task(self.end_process_if_failed(coro, name or "?"), name=name, context=context)

    async def end_process_if_failed(self, awaitable: Any, name: str) -> Any:
        """Await something; what it raises ends the process before anything else runs."""
        try:
            return await awaitable
        except Exception as error:  # noqa: BLE001 - whatever it is
            self._failed(name, error)


def import_codecs(kafka_api_keys: Iterable[int]) -> None:
    """Import every generated codec that may be needed now: a running node must not read code from disk.

    Of Kafka's wire those are the codecs of the APIs that are served; the others are refused undecoded.

    An upgrade may replace the files while the node runs, or all file descriptors may be in use when the first
    record of some kind comes.
    """
    MSGPACK.load()
    KAFKA.load(kafka_api_keys)
    RECORD_CODECS.load()
    CONTROL_CODECS.load()


@contextlib.contextmanager
def _listening(address: Endpoint, key: str) -> Iterator[None]:
    """Turn the failure to bind an address into one line that names the address and its configuration key."""
    try:
        yield
    except OSError as error:
        number = error.errno or 0  # those of name resolution are negative
        reason = os.strerror(number) if number > 0 else error.strerror or str(error)
        raise ConfigError(f"cannot listen on {address}: {reason}; see {key}") from error


class SystemRandomSource(RandomSource):
    """Random numbers of the operating system."""

    def __init__(self) -> None:
        self._random = random.SystemRandom()

    def next_int(self, below: int) -> int:
        """A number from 0 to `below` - 1."""
        return self._random.randrange(below)


class Daemon:
    """A `ControllerServer` with the signals, the HTTP port and the log lines of its process."""

    def __init__(
        self,
        config: Config,
        directory: NodeDirectory,
        logger: Logger,
        log_writer: LogWriter,
        tasks: asyncio.TaskGroup,
    ) -> None:
        loop = asyncio.get_running_loop()
        self._config, self._directory, self._logger, self._tasks = config, directory, logger, tasks
        self._log_writer = log_writer
        self._stop_asked = asyncio.Event()
        self._may_stop = asyncio.Event()
        self._http: tuple[Any, int] | None = None
        self._metrics_task: asyncio.Task[None] | None = None
        self._registration_task: asyncio.Task[None] | None = None
        self._counting: asyncio.TimerHandle | None = None
        self._port = 0
        environment = Environment(
            loop=loop,
            tasks=tasks,
            clock=read_clocks,
            clock_ns=time.monotonic_ns,
            random_source=SystemRandomSource(),
            jitter=random.uniform,
            nonce=lambda: os.urandom(16),
            worker=lambda name: Worker(loop, name),
            collector=gc,
        )
        self._server = ControllerServer(
            config,
            directory,
            logger,
            environment,
            listen=self._listen,
            on_shutdown_ready=self._shutdown_ready,
        )

    def _listen(self, server: Server) -> Endpoint:
        """Bind the configured address; returns the one to advertise."""
        refuse_few_files(_files_max(), len(self._directory.log.segment_files), http=self._has_http)
        server.connections_max = self._connections_allowed()
        with _listening(self._config.bind, "listeners"):
            self._port = server.bind(self._config.bind)
        return _with_port(self._config.advertised, self._port)

    @property
    def kafka_api_keys(self) -> frozenset[int]:
        """The APIs that are served on Kafka's wire."""
        return self._server.server.kafka_api_keys

    @property
    def _has_http(self) -> bool:
        return self._config.http is not None

    def _connections_allowed(self) -> int:
        segments = len(self._directory.log.segment_files)
        return connections_allowed(_files_max(), segments, http=self._has_http)

    def _count_files(self) -> None:
        """Allow fewer connections when the log holds more files open."""
        self._server.server.connections_max = self._connections_allowed()
        self._counting = asyncio.get_running_loop().call_later(FILES_COUNTED_EVERY_S, self._count_files)

    async def start(self) -> None:
        """Start the raft node and its turn tasks, then accept connections."""
        await self._start_http()
        self._listen_to_signals()
        self._log_started()
        self._server.start()
        await self._server.server.start()
        self._count_files()
        registrations = self._server.registration_manager(random.uniform)
        self._registration_task = self._tasks.create_task(registrations.run(), name="registration")
        if self._config.metrics_interval_ms > 0:
            self._metrics_task = self._tasks.create_task(self._log_metrics(), name="metrics")

    async def run(self) -> None:
        """Wait for a signal, then for the raft node to hand over, or for the deadline."""
        await self._stop_asked.wait()
        driver = self._server.driver
        deadline_ms = driver.now().mono_ms + self._config.shutdown_timeout_ms
        driver.deliver(ShutdownRequested(deadline_ms))
        await self._may_stop.wait()

    async def stop(self) -> None:
        """Close everything, in the order of the module's docstring."""
        self._server.driver.stop()
        for task in (self._metrics_task, self._registration_task):
            if task is not None:
                task.cancel()
        if self._counting is not None:
            self._counting.cancel()
        self._server.peer_connections.stop()
        await self._server.server.stop()
        if self._http is not None:
            await self._http[0].stop()
        self._server.stop_workers()
        self._directory.close()
        self._logger.info("stopped")

    def _shutdown_ready(self, ready: ShutdownReady) -> None:
        self._logger.info("may_stop", handed_over=ready.handed_over)
        self._may_stop.set()

    # Signals, HTTP and log lines.

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._await_signals, args=(loop,), name="signals", daemon=True).start()

    def _await_signals(self, loop: asyncio.AbstractEventLoop) -> None:
        """In its thread: the first signal stops in order, the second at once, whatever the loop waits for."""
        number = signal.Signals(signal.sigwait(_stop_signals()))
        self._logger.info("stopping", signal=number.name)
        with contextlib.suppress(RuntimeError):  # the loop is closed: the process ends anyway
            loop.call_soon_threadsafe(self._stop_asked.set)
        number = signal.Signals(signal.sigwait(_AT_ONCE_SIGNALS))
        # What was acknowledged is durable; nothing else was promised.
        self._logger.warning("stopped_at_once", signal=number.name)
        self._log_writer.flush()
        os._exit(128 + number)

    async def _start_http(self) -> None:
        if self._config.http is None:
            return
        from kraftd.runtime.http_server import HttpServer  # imported late: it costs memory

        http = HttpServer(
            livez=lambda: livez(self._server.status.health_input(self._server.driver.now())),
            readyz=lambda: readyz(self._server.status.health_input(self._server.driver.now())),
            samples=self._samples,
            logger=self._logger,
        )
        with _listening(self._config.http, "kraftd.http.listener"):
            self._http = http, await http.start(self._config.http, self._tasks)

    def _samples(self) -> Iterator[Sample]:
        """The Prometheus page: what the node tells, and what its process does."""
        yield from self._server.status.samples(self._server.driver.now())
        yield Sample(
            "kraftd_log_lines_lost",
            "Lines of the log that stderr did not take.",
            self._log_writer.lines_lost,
            is_counter=True,
        )

    def _log_started(self) -> None:
        config, directory = self._config, self._directory
        for warning in directory.warnings:
            self._logger.warning("directory", text=warning)
        if config.unknown_keys:
            instead = keys_in_place_of(config.unknown_keys)
            told = {"instead": instead} if instead else {}
            self._logger.warning("unknown_keys", keys=list(config.unknown_keys), **told)
        if config.voters and config.bootstrap_servers:
            self._logger.info(
                "bootstrap_servers_unused",
                text="controller.quorum.voters names the voters; controller.quorum.bootstrap.servers is for "
                "nodes without that key",
            )
        if config.settings.authorizer is not None:
            self._logger.warning("not_authenticated", text=FORGEABLE)
        if not _is_loopback(config.bind.host):
            self._logger.warning(
                "open_listener",
                listening=str(config.bind),
                text="whoever reaches this address may change the cluster: there is no TLS, no "
                "authentication, and so nothing that an authorizer could go by; keep it in a private network",
            )
        http = config.http
        self._logger.info(
            "started",
            cluster_id=directory.cluster_id,
            listening=f"{config.bind.host or '*'}:{self._port}",
            advertised=str(self._server.advertised),
            http=f"{http.host or '*'}:{self._http[1]}" if http is not None and self._http else None,
            directory=str(directory.path),
            directory_id=uuid_text(directory.directory_id),
            log_end_offset=directory.log.end_offset,
            epoch=directory.election.epoch,
            software=SOFTWARE,
            pid=os.getpid(),
        )

    async def _log_metrics(self) -> None:
        while True:
            await asyncio.sleep(self._config.metrics_interval_ms / 1_000)
            self._logger.info("metrics", **self._server.status.readings(self._server.driver.now()))


def _stop_signals() -> frozenset[signal.Signals]:
    """The signals that stop this process: no SIGHUP that `nohup` ignores, though one could wait for it."""
    ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return _STOP_SIGNALS - {signal.SIGHUP} if ignored else _STOP_SIGNALS


def _is_loopback(host: str) -> bool:
    """Whether a listener is for this machine alone, as far as that can be told without a name server."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _files_max() -> int | None:
    """The soft limit of open files; None for no limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def _with_port(advertised: Endpoint, port: int) -> Endpoint:
    """The advertised address, with the name of this machine and the port that the kernel chose if need be."""
    return Endpoint(advertised.host or socket.gethostname(), advertised.port or port, advertised.listener)
