"""One node: the daemon's own parts on a simulated machine.

`SimNode` owns a machine (its disk, its clocks, whether it is on) and the process on it, which is a
`kraftd.runtime.controller_server.ControllerServer` over a `SimLoop`, `SimWorker`s and the simulated network.
What happens to it from outside: `start`, `stop` (SIGTERM), `crash` (SIGKILL), `cut_power`, `pause`, `resume`.

Whatever goes into the raft node and comes out of it is shown to the auditor, to the trace and to the table of
what was covered (`_watch_raft_node`, `WatchedExecutor`). That only looks: the effects are carried out by the
daemon's executor.

Not here: what the others see of it (`network`), and when it is harmed (`faults`).
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from kraftd.audit.invariant import MESSAGE_OF
from kraftd.audit.invariants import EffectCheck, Mark, NodeView, Violation
from kraftd.audit.trace import IN, OUT, trace
from kraftd.controller.context import ControllerSettings
from kraftd.errors import KraftdError
from kraftd.protocol.codec import Buffer, Codec, Request
from kraftd.protocol.framing import CODECS
from kraftd.protocol.kafka_codec import KAFKA
from kraftd.protocol.msgpack_codec import MSGPACK
from kraftd.protocol.opening import KAFKA_API_KEYS
from kraftd.raft.effects import (
    Append,
    Commit,
    CutLog,
    Effect,
    InstallSnapshot,
    PersistElection,
    ShutdownReady,
    Truncate,
)
from kraftd.raft.epoch_states import Candidate, Leader
from kraftd.raft.events import Event, ShutdownRequested
from kraftd.raft.node import RaftNode
from kraftd.raft.retention import LeasedSnapshots
from kraftd.raft.timing import Timing
from kraftd.records.batch import BatchView, scan
from kraftd.records.committed import CommittedBatch
from kraftd.runtime.applier import StateMachine
from kraftd.runtime.config import Config, LogLimits
from kraftd.runtime.controller_server import ControllerServer, Environment
from kraftd.runtime.driver import TimedTurnTask
from kraftd.runtime.effect_executor import EffectExecutor
from kraftd.runtime.log_cleaner import LogCleaner
from kraftd.runtime.snapshot_loader import SnapshotRestore
from kraftd.storage import DamagedReadError, LogConfig, NodeDirectory, StorageFailure, format_directory
from kraftd.storage.snapshots import SnapshotInfo
from kraftd.types import Election, Epoch, NodeId, Now, Offset, OffsetAndEpoch, Uuid
from tests.sim.acl_keeper import AUTHORIZER
from tests.sim.durable import DurableLog
from tests.sim.filesystem import Faults, SimFileSystem
from tests.sim.ledger import digest_of
from tests.sim.loop import PPM, Clock, SimLoop, SimWorker
from tests.sim.network import Machine, endpoint_of
from tests.sim.token_clients import TokenJudge, token_settings

if TYPE_CHECKING:
    from tests.sim.world import World

DATA_PATH = Path("/data")
CLUSTER_ID = "c2ltdWxhdGVkY2x1c3Rlcg"
FORMATTED_AT_MS = 1_700_000_000_000
SHUTDOWN_MS = 5_000

TURN_US = 100
"""What an iteration takes at least on a machine that is slow."""
REQUEST_US = 35
"""What a request costs its receiver, whoever sent it: a flood of them is work."""

MANY = 10
"""Records of a batch that are many."""
MANY_RECORDS = f"a batch of {MANY} records by a leader"
WHILE_FLUSHING = "an append while a flush runs"
WITH_UNFLUSHED_END = "an election won with an unflushed end"
INSIDE_A_PLAN = "a leader gone in the middle of a plan"
WRITTEN = "snapshots written"
INSTALLED = "snapshots installed"
CLEANED = "logs cut at a snapshot"

SLOWEST_FLUSH_US = 4_000_000
"""What a flush takes at most, if its disk does not hang: a slow one on a slow disk is no slower than this."""

LATE_US = 2_000
"""How much later a timer may be due than a node asked for: clocks count whole milliseconds."""

_NOTHING = (None, None, -2, None, None)
_NO_CHECKS: tuple[tuple[()], tuple[()]] = ((), ())

DEFECTS = frozenset({"decision_failed", "timer_failed", "replica_move_refused"})
"""What is logged of code that raised, or of what no table allows, where the process goes on: here it ends the
run.
"""

COVERED = "damage_below_snapshot"
"""What is logged of damage that costs nothing."""

SYNCS = frozenset({"fsync", "fdatasync", "sync_directory"})
"""Calls to the disk that take time."""


class CrashedHere(BaseException):
    """Raised in the middle of a node's code: from here on nothing of it happens."""

    def __init__(self, *, power: bool) -> None:
        super().__init__("the power is cut" if power else "the process is killed")
        self.power = power


class NodeRandom:
    """The chance of one node."""

    def __init__(self, random: Random) -> None:
        self._random = random.random

    def next_int(self, below: int) -> int:
        return int(self._random() * below)


class SimLog:
    """The log of one node: lines of the trace if somebody reads it, else nothing."""

    def __init__(self, node: "SimNode") -> None:
        self._node = node

    def info(self, event: str, **fields: object) -> None:
        world = self._node.world
        if world.sink is not None:
            world.tell(self._node.id, f"log {event}", **fields)
        if (tokens := world.brokers.token_judge) is not None:
            self._check(tokens, f"{event} {fields}")

    def _check(self, tokens: TokenJudge, line: str) -> None:
        try:
            tokens.check_line(line)
        except Violation as violation:
            self._node.world.fail(self._node.id, violation)

    def warning(self, event: str, **fields: object) -> None:
        self.info(event, **fields)
        if event == COVERED:
            self._node.world.statistics[f"told: {COVERED}"] += 1
        if event in DEFECTS:
            text = f"NoDecisionRaises: node {self._node.id}: {fields}"
            self._node.world.fail(self._node.id, Violation(text))

    error = critical = info


class SimNode:
    """A machine and the process on it."""

    def __init__(self, node_id: NodeId, world: "World", fs: SimFileSystem) -> None:
        self.id = node_id
        self.world = world
        self.use(fs)
        self.disk_fault: Faults | None = None
        """Asked before each call to the disk: raises an error, or says how much a write takes."""
        self._in_thread = False
        self.random = world.derive(f"node {node_id}")
        self.clock = Clock(
            world,
            mono_us=int(self.random.random() * 1_000_000_000),
            wall_ms=FORMATTED_AT_MS + int(self.random.random() * 2_000) - 1_000,
        )
        self.is_up = False
        """Whether a process runs, or is about to."""
        self.is_paused = False
        self._paused_at_us = self._resumed_at_us = 0
        self.is_on = True
        self.is_voter = node_id in world.voters
        self.incarnation = 0
        self.cluster_id = CLUSTER_ID
        self.timing = world.shape.timing
        self.parts: WatchedServer | None = None
        self.directory: NodeDirectory | None = None
        self.loop: SimLoop | None = None
        self.died_of = ""
        """Why the process ended by itself the last time."""
        self.slow_disk = 1.0
        self.slow_flush = 1.0
        """How much slower than its other syncs the flush of its log is."""
        self.cuts_in_flush = False
        """Whether its power is cut in the middle of its next flush."""
        self._is_flushing = False
        self._slow_turns = 1.0
        self.marks: list[Mark] = []
        self.start_offset: Offset = 0
        """Where the log begins, that of a process that ended too."""
        self._view = NodeView(node_id, self.is_voter, True, Election(), self.marks, 0)
        self._view.voters = world.voters
        self._view.check_quorum_ms = Timing(fetch_timeout_ms=self.timing.fetch_timeout_ms).check_quorum_ms
        self._view.request_timeout_ms = world.shape.controller_timeout_ms
        self._applied_offset = 0
        self._disk_us = 0
        self._last_seen: tuple[object, ...] = _NOTHING

    # -- what others may look at

    @property
    def raft_node(self) -> RaftNode | None:
        """The core, while a process runs."""
        return self.parts.raft_node if self.parts is not None else None

    @property
    def is_leader(self) -> bool:
        """Whether it leads, as far as it knows."""
        return self.parts is not None and self.parts.raft_node.is_leader

    @property
    def has_lost_records(self) -> bool:
        """Whether it knows that records of its log are lost."""
        return self.parts is not None and bool(self.parts.raft_node._raft.rejoin.health.damage)

    def works_off(self) -> bool:
        """Whether its controller is in the middle of a plan: decided in part, or in part not committed."""
        active = self.parts.controller._active if self.parts is not None else None
        if active is None:
            return False
        slices = (write.slice_of for write, _ in active.uncommitted._pending)
        return len(active.plans) > 0 or any(run is not None and run.slices > 1 for run in slices)

    def note_plan(self) -> None:
        """Count if this node stops leading in the middle of a plan."""
        if self.world.options.brokers and self.works_off():
            self.world.statistics[INSIDE_A_PLAN] += 1

    @property
    def slow_turns(self) -> float:
        """How much slower than usual the process is."""
        return self._slow_turns

    @slow_turns.setter
    def slow_turns(self, factor: float) -> None:
        self._slow_turns = factor
        turn_us = self.world.shape.turn_us
        if self.loop is not None:
            self.loop.turn_us = turn_us if factor == 1 else int(max(turn_us, TURN_US) * factor)

    def view(self) -> NodeView:
        """As the auditor sees it."""
        return self._view

    # -- from outside

    def use(self, fs: SimFileSystem) -> None:
        """Put in a disk."""
        self.fs = fs
        fs.faults = self.disk_call

    def format(self, directory_id: Uuid | None = None) -> None:
        """Make the disk fit for a first start, as the operator does."""
        format_directory(
            self.fs,
            DATA_PATH,
            cluster_id=self.cluster_id,
            node_id=self.id,
            directory_id=directory_id or self.random.randbytes(16),
            now_ms=FORMATTED_AT_MS,
        )

    def start(self) -> None:
        """Power on if need be, and start the process."""
        if self.is_up:
            return
        if not self.world.fault_budget.may_start_again(self):
            self.world.tell(self.id, "stays_down")
            return
        self.incarnation += 1
        if not self.is_on:
            self.is_on = True
            self.world.network.power_on(self.id)
        self.is_up = True
        self.is_paused = False
        self.died_of = ""
        self.loop = loop = SimLoop(
            self.world,
            self.clock,
            on_error=self._ended_by,
            connect=lambda loop, *args: self.world.network.connect(loop, self.id, *args),
            random=self.random,
            on_sleep=self._on_sleep,
        )
        self.slow_turns = self._slow_turns
        loop.arrive(self._boot, None)
        self.world.tell(self.id, "started", incarnation=self.incarnation)

    def crash(self, *, down_us: int | None = None) -> None:
        """SIGKILL. What it wrote stays in the page cache; the kernel closes its connections."""
        if not self.is_up:
            return
        self.world.tell(self.id, "crashed")
        self._end_process()
        self.fs.crash_process()
        self.world.network.process_died(self.id)
        self._restart_after(down_us)

    def cut_power(self, *, down_us: int | None = None) -> None:
        """The machine is off, process or not; the disk keeps what it had made durable, and perhaps more."""
        if not self.is_on:
            return
        self.world.tell(self.id, "power_cut")
        if self.is_up:
            self._end_process()
        self.is_on = False
        self.fs.cut_power(self.world.random)
        self.world.network.power_off(self.id)
        self._restart_after(down_us)

    def stop(self, *, down_us: int | None = None) -> None:
        """SIGTERM: hand over, close everything, end."""
        parts, loop = self.parts, self.loop
        if not self.is_up or parts is None or loop is None:
            return
        self.world.tell(self.id, "stopping")
        self._down_us = down_us
        deadline_ms = parts.driver.now().mono_ms + SHUTDOWN_MS
        loop.arrive(parts.driver.deliver, ShutdownRequested(deadline_ms))

    def pause(self) -> None:
        """SIGSTOP."""
        if self.is_up and not self.is_paused and self.loop is not None:
            self.is_paused = True
            self._paused_at_us = self.world.now_us
            self.world.tell(self.id, "paused")
            self.loop.pause()

    def resume(self) -> None:
        """SIGCONT."""
        if self.is_up and self.is_paused and self.loop is not None:
            self.is_paused = False
            self._resumed_at_us = self.world.now_us
            self.world.tell(self.id, "resumed")
            self.loop.resume()

    def paused_us(self, within_us: int) -> int:
        """For how long this process was stopped, if it goes on again since so little time; else 0."""
        is_lately = self.world.now_us - self._resumed_at_us <= within_us
        return self._resumed_at_us - self._paused_at_us if is_lately else 0

    def calm(self) -> None:
        """Whatever was wrong with this machine ends, and its process runs."""
        self.disk_fault = None
        self.slow_disk = self.slow_turns = self.slow_flush = 1.0
        self.cuts_in_flush = False
        self.clock.set_rate(PPM)
        self.clock.freeze_wall(frozen=False)
        self.resume()
        if self.loop is not None and not self.loop.is_closed:
            self.loop.reschedule()
        self.start()

    def wipe(self) -> None:
        """An operator replaces the disk of a machine whose process is down, and formats it."""
        assert not self.is_up
        self.world.auditor.forget(self._view)
        self.use(self.world.new_disk())
        self.format()
        self.look_at_disk([])
        self._view.durable_election = Election()

    # -- the process

    def _boot(self, _: object) -> None:
        """What the daemon's `main` and `serve` do."""
        world, shape, random, loop = self.world, self.world.shape, self.random, self.loop
        assert loop is not None
        world.fault_budget.before_boot(self)
        try:
            self.directory = directory = NodeDirectory.open(
                self.fs,
                DATA_PATH,
                node_id=self.id,
                random_uuid=lambda: random.randbytes(16),
                voter_ids=tuple(sorted(world.voters)),
                config=LogConfig(segment_bytes=shape.segment_bytes, index_bytes=4_096),
            )
        finally:
            self._charge_disk()
        self._has_holes = bool(directory.damage)
        world.snapshots.on_opened(self)
        world.disks.on_opened(self)
        world.snapshots.on_start(self)
        self._durable = DurableLog(self.fs, DATA_PATH, directory.log.start_offset)
        self.look_at_disk(self._marks_of(directory))
        workers = iter((self._begin_flush, self._begin_read, self._begin_snapshot_write))
        environment = Environment(
            loop=loop,  # type: ignore[arg-type]
            tasks=loop,  # type: ignore[arg-type]
            clock=self.clock.now,
            clock_ns=lambda: loop.worked_us() * 1_000,
            tail_bytes=shape.tail_bytes,
            fetch_bytes=shape.fetch_bytes,
            random_source=NodeRandom(random),
            jitter=random.uniform,
            nonce=lambda: random.randbytes(16),
            worker=lambda name: SimWorker(world, loop, next(workers), self._job_done),  # type: ignore[arg-type, return-value]
        )

        def listen(server: Any) -> Any:
            world.network.listen(self.id, loop, server.accept)
            return endpoint_of(self.id)

        self.parts = parts = WatchedServer(
            self,
            self._config(),
            directory,
            SimLog(self),
            environment,
            listen=listen,
            on_shutdown_ready=self._shutdown_ready,
        )
        self._applied_offset = 0
        self._watch_raft_node(parts.raft_node)
        parts.server.codecs = dict.fromkeys(CODECS, WorkingCodec(MSGPACK, loop))  # type: ignore[arg-type]
        if world.options.brokers:
            parts.server.codecs = {**parts.server.codecs, KAFKA_API_KEYS: KAFKA}
        parts.start()

    def _config(self) -> Config:
        world = self.world
        observers_ask = not self.is_voter and world.shape.bootstrap
        voters = {n: endpoint_of(n) for n in sorted(world.voters)}
        return Config(
            node_id=self.id,
            voters=voters,
            bootstrap_servers=tuple(voters.values()) if observers_ask else (),
            bind=endpoint_of(self.id),
            advertised=endpoint_of(self.id),
            log_dirs=(DATA_PATH,),
            metadata_dir=DATA_PATH,
            timing=self.timing,
            log=LogLimits(
                world.shape.segment_bytes,
                604_800_000,
                world.shape.snapshot_bytes,
                world.shape.snapshot_interval_ms,
                world.shape.retention_bytes,
                world.shape.retention_ms,
            ),
            idle_interval_ms=world.shape.idle_interval_ms,
            request_timeout_ms=world.shape.controller_timeout_ms,
            max_idle_ms=600_000,
            http=None,
            shutdown_timeout_ms=SHUTDOWN_MS,
            metrics_interval_ms=0,
            snapshot_chunk_bytes=world.shape.snapshot_chunk_bytes,
            accumulator_bytes=world.shape.accumulator_bytes,
            unknown_keys=(),
            settings=ControllerSettings(
                broker_session_timeout_ms=world.brokers.shape.session_ms,
                broker_heartbeat_interval_ms=world.brokers.shape.heartbeat_ms,
                auto_leader_rebalance=world.brokers.shape.rebalance_s > 0,
                leader_imbalance_check_interval_seconds=world.brokers.shape.rebalance_s,
                unclean_leader_election_interval_ms=world.brokers.shape.unclean_ms,
                authorizer=AUTHORIZER if world.options.brokers and world.brokers.shape.authorized else None,
                tokens=token_settings() if world.brokers.token_judge is not None else None,
            ),
        )

    def _shutdown_ready(self, ready: ShutdownReady) -> None:
        assert self.loop is not None
        self.loop.create_task(self._stop_parts(), name="stop")

    async def _stop_parts(self) -> None:
        """What `Daemon.stop` does."""
        parts, directory = self.parts, self.directory
        assert parts is not None
        assert directory is not None
        parts.is_running = False
        parts.driver.stop()
        parts.peer_connections.stop()
        await parts.server.stop()
        parts.stop_workers()
        directory.close()
        self._charge_disk()
        self.world.at(0, self._stopped)

    def _stopped(self) -> None:
        if self.is_up:
            self.world.tell(self.id, "stopped")
            self._end_process()
            self.fs.crash_process()
            self.world.network.process_died(self.id)
            self._restart_after(self._down_us)

    _down_us: int | None = None
    _has_holes = False

    def _end_process(self) -> None:
        self.note_plan()
        self.is_up = self.is_paused = False
        self._view.state = None
        self._last_seen = _NOTHING
        if self.directory is not None and self.parts is not None:  # else its log was not read yet
            self._view.durable_end_offset = self._durable_end(self.directory)
        self.parts = self.directory = None
        self._is_flushing = False
        assert self.loop is not None
        self.loop.close()
        self.world.auditor.on_state(self.world.views, self._view)

    def _restart_after(self, down_us: int | None) -> None:
        if down_us is not None:
            incarnation = self.incarnation
            self.world.at(down_us, lambda: self.incarnation == incarnation and self.start())

    def _ended_by(self, error: BaseException) -> None:
        """An exception left the process: it is gone."""
        world = self.world
        if isinstance(error, CrashedHere):
            (self.cut_power if error.power else self.crash)(down_us=world.draw_us(100_000, 5_000_000))
            return
        expected = isinstance(error, KraftdError)
        if isinstance(error, Violation) or not expected:
            world.fail(self.id, error, taken=world.network.last_taken)
            return
        self.died_of = str(error)
        world.statistics["died: storage" if isinstance(error, StorageFailure) else "died: start refused"] += 1
        world.tell(self.id, "died", reason=self.died_of)
        self.crash(down_us=world.draw_us(100_000, 5_000_000))

    # -- the disk and the threads

    def _charge_disk(self) -> int:
        """Whoever called the disk waited for it."""
        spent_us, self._disk_us = self._disk_us, 0
        if spent_us and self.loop is not None:
            self.loop.block_us(spent_us)
        return spent_us

    def disk_call(self, operation: str, path: Path, size_bytes: int) -> int | None:
        """Every call to the disk passes here: whoever waits for a sync waits, and faults may happen."""
        if operation in SYNCS and not self._in_thread:
            self._disk_us += self._fsync_us()
        return self.disk_fault(operation, path, size_bytes) if self.disk_fault is not None else None

    def _begin_flush(self, job: Callable[[], Any]) -> tuple[Callable[[], Any], int]:
        """A flush covers what was written before it began, and ends later (D-03)."""
        fs, mark = self.fs, self.fs.mark
        sync_us = self._fsync_us()
        took_us = max(sync_us, min(int(sync_us * self.slow_flush), SLOWEST_FLUSH_US))
        self._is_flushing = True
        if self.cuts_in_flush:
            self.cuts_in_flush = False
            self._cut_power_after(took_us // 2)

        def end() -> Any:
            self._in_thread = True
            self._is_flushing = False
            try:
                with fs.as_of(mark):
                    return job()
            finally:
                self._in_thread = False

        return end, took_us

    def _cut_power_after(self, delay_us: int) -> None:
        incarnation, down_us = self.incarnation, int(self.random.random() * 4_000_000)

        def cut() -> None:
            if self.is_up and self.incarnation == incarnation:
                self.cut_power(down_us=down_us)

        self.world.at(delay_us, cut)

    def _begin_read(self, job: Callable[[], Any]) -> tuple[Callable[[], Any], int]:
        return job, self._fsync_us() // 4

    def _begin_snapshot_write(self, job: Callable[[], Any]) -> tuple[Callable[[], Any], int]:
        """A piece is written and synced; nobody waits for it but the next one."""

        def end() -> Any:
            self._in_thread = True
            try:
                ended = job()
            finally:
                self._in_thread = False
            if isinstance(ended, SnapshotInfo) and self.directory is not None:
                self.world.snapshots.on_named(self, ended)
                if self._writes(ended.id):
                    self.world.statistics[WRITTEN] += 1
                    self.world.disks.on_written(self, ended)
            return ended

        return end, self._fsync_us()

    def _writes(self, snapshot_id: OffsetAndEpoch) -> bool:
        """Whether that is the snapshot which it writes itself, and none that it downloads."""
        write = self.parts.snapshotter._write if self.parts is not None else None
        return write is not None and write.point.id == snapshot_id

    def _fsync_us(self) -> int:
        part = self.random.random()
        # Not ten times a sync that hangs already: it would outlast the time that a healed cluster is given.
        # Two slow ones within a cut of the log outlast a short fetch timeout, and then something did happen.
        is_tail = part > 0.99 and not self.world.is_undisturbed
        slow = max(10.0, self.slow_disk) if is_tail else self.slow_disk
        return int(self.world.shape.fsync_us * (0.5 + part) * slow)

    def _job_done(self) -> None:
        self.world.count("completion", self.id)

    # -- watching

    def look_at_disk(self, marks: list[Mark]) -> None:
        """The log was opened, or replaced: it holds this."""
        self.marks[:] = marks
        view = self._view
        view.durable_end_offset = marks[-1].end_offset if marks else 0
        if self.directory is not None:
            view.durable_end_offset = self._durable_end(self.directory)
            view.durable_election = self.directory.election
            view.is_whole = not (self.directory.damage or self.directory.amnesia)
            self.start_offset = self.directory.log.start_offset

    def _watch_raft_node(self, raft_node: RaftNode) -> None:
        """See every event before the raft node does."""
        world, node_id, view, loop = self.world, self.id, self._view, self.loop
        assert loop is not None
        handle, poll, raft = raft_node.handle, raft_node.poll, raft_node._raft
        covered, on_polled = world.covered, world.auditor.on_polled
        event_checks, handled_checks = world.auditor.event_checks, world.auditor.handled_checks
        checks_of = {
            kind: (event_checks.get(kind, ()), handled_checks.get(kind, ()))
            for kind in event_checks.keys() | handled_checks.keys()
        }

        def watched_handle(event: Event, now: Now) -> list[Effect]:
            view.state = state = raft.state
            kind = type(event)
            covered[type(state), kind] += 1
            before, after = checks_of.get(kind, _NO_CHECKS)
            for check in before:
                check(view, event, now.mono_ms)
            if world.sink is not None:
                world.sink(str(trace(world.now_ms, node_id, IN, event)))
            effects = handle(event, now)
            view.state = raft.state
            for check_handled in after:
                check_handled(view, event, effects)
            return effects

        def watched_poll(now: Now) -> list[Effect]:
            effects = poll(now)
            if effects or loop.woken_by_timer:
                on_polled(view, now.mono_ms, raft_node.wake_at_ms)
                if effects and loop.woken_by_timer:
                    loop.woken_by_timer = False
                    world.count("timer", node_id)
            return effects

        raft_node.handle, raft_node.poll = watched_handle, watched_poll  # type: ignore[method-assign]
        view.state = raft_node.state
        view.high_watermark = raft_node.high_watermark
        view.opener_of, view.origin_of = self._opener_of, self._origin_of

    def _on_sleep(self) -> None:
        """The loop has nothing to do now: it must wake when somebody wants to be called (D-01)."""
        parts, loop = self.parts, self.loop
        if parts is None or loop is None or not parts.is_running:
            return
        wake_at_ms = min(parts.raft_node.wake_at_ms, *[due() for due in parts.deadlines])
        wakes_us = loop.sleeps_until_us()
        if wakes_us > max(wake_at_ms * 1_000, loop.clock.mono_us()) + LATE_US:
            text = f"{self.id} wants a turn at {wake_at_ms} ms, and sleeps until {wakes_us // 1_000} ms"
            self.world.fail(self.id, Violation(f"NobodyOversleeps: {text}"))

    def _opener_of(self, number: int) -> Machine | None:
        """Which machine opened a connection to this process, by the network's own knowledge."""
        protocol = self.parts.server.connections.get(number) if self.parts is not None else None
        return self.world.network.opener_of(self.id, protocol) if protocol is not None else None

    def _origin_of(self, handle: int) -> tuple[int, Machine] | None:
        """Where a request came from that waits for its response."""
        parts = self.parts
        held = parts.network._pending.get(handle) if parts is not None else None
        if parts is None or held is None:
            return None
        number = held[0].number
        protocol = parts.server.connections.get(number)
        opener = self.world.network.opener_of(self.id, protocol) if protocol is not None else None
        return (number, opener) if opener is not None else None

    def before_effects(self, effects: Sequence[Effect]) -> None:
        """The raft node hands over the effects of one event."""
        raft, directory, view = self.parts.raft_node._raft, self.directory, self._view  # type: ignore[union-attr]
        assert directory is not None
        view.state = raft.state
        view.high_watermark = raft.high_watermark
        view.is_whole = raft.rejoin.health.is_whole
        view.durable_end_offset = self._durable_end(directory)
        for check in self.world.auditor.effects_checks:
            check(view, effects)
        sink = self.world.sink
        if sink is not None:
            for effect in effects:
                sink(str(trace(self.world.now_ms, self.id, OUT, effect)))

    def after_effects(self) -> None:
        """They were carried out."""
        view, world = self._view, self.world
        if self._disk_us:
            self._charge_disk()
        state, marks, seen = view.state, self.marks, self._last_seen
        newest = marks[-1] if marks else None
        if (
            state is not seen[0]
            or newest is not seen[1]
            or view.high_watermark != seen[2]
            or view.durable_election is not seen[3]
            or view.is_whole is not seen[4]
        ):
            if isinstance(state, Leader) and state is not seen[0]:
                world.leads(self.id, state.epoch)
                world.statistics[WITH_UNFLUSHED_END] += state.epoch_start_offset > view.durable_end_offset
            if isinstance(state, Candidate) and state is not seen[0]:
                world.campaigns(self)
            self._last_seen = (state, newest, view.high_watermark, view.durable_election, view.is_whole)
            if not self._has_holes:
                world.ledger.commit(marks, view.high_watermark)
            world.auditor.on_state(world.views, view)
            world.fault_budget.look(self)
        self._tell_applied()

    def _tell_applied(self) -> None:
        """Tell the judges what was applied since they were told last."""
        view, world, parts = self._view, self.world, self.parts
        if parts is not None and parts.applier.applied_offset != self._applied_offset:
            offset = parts.applier.applied_offset
            if not self._applied_offset:
                world.snapshots.on_applied_first(self, offset)
            self._applied_offset = offset
            world.auditor.on_applied(view, offset, parts.controller.image.hash())

    def checked(self, kind: type[Effect], handler: Callable[[Any], None]) -> Callable[[Any], None]:
        """A handler of effects of one kind, whose effects are checked before they are carried out."""
        if kind in MESSAGE_OF:
            return self._checked_message(kind, handler)
        view, views = self._view, self.world.views
        checks = self.world.auditor.checks_of(kind)

        def checked(effect: Any) -> None:
            for check in checks:
                check(view, effect, views)
            handler(effect)

        def checked_when_applied_is_told(effect: Any) -> None:
            # What was applied may have had no effect since, after which it is told.
            self._tell_applied()
            checked(effect)

        if kind is CutLog:
            return checked_when_applied_is_told

        def checked_unless_holed(effect: Any) -> None:
            # What a log with holes holds cannot be compared; what its state machine holds still is.
            if self._has_holes:
                self.world.auditor.forget(view)
                handler(effect)
                return
            # From here on what lies above may be gone, also if this fails.
            if kind is Truncate:
                self._durable.truncate(effect.end_offset)
            elif kind is InstallSnapshot:
                self._durable.truncate(effect.id.offset)
            checked(effect)

        return checked_unless_holed if kind in (Commit, Truncate, InstallSnapshot) else checked

    def _checked_message(self, kind: type[Effect], handler: Callable[[Any], None]) -> Callable[[Any], None]:
        view, views = self._view, self.world.views
        message_of, checks_of = MESSAGE_OF[kind], self.world.auditor.checks_of
        known: dict[type[object], Sequence[EffectCheck]] = {}

        def checked(effect: Any) -> None:
            message = type(message_of(effect))
            checks = known.get(message)
            if checks is None:
                checks = known[message] = checks_of(kind, message)
            for check in checks:
                check(view, effect, views)
            handler(effect)

        return checked

    def appended(self, append: Append) -> None:
        """Batches are in the log now."""
        marks = self.marks
        if self._has_holes:
            return
        digest = marks[-1].digest if marks else 0
        written = []
        base_offset = append.base_offset
        self.world.statistics[WHILE_FLUSHING] += self._is_flushing
        if self.is_leader and append.end_offset - base_offset >= MANY:
            self.world.statistics[MANY_RECORDS] += any(
                BatchView(batch).record_count >= MANY for batch in append.batches
            )
        note = self.world.ledger.note
        for batch in append.batches:
            view = BatchView(batch)
            digest = digest_of(view, digest)
            mark = Mark(view.end_offset, view.epoch, digest)
            marks.append(mark)
            note(digest, view)
            written.append((base_offset, mark.end_offset, len(batch)))
            base_offset = mark.end_offset
        self._durable.append(written)

    def truncated(self, truncate: Truncate) -> None:
        """The log was cut."""
        marks = self.marks
        assert self.directory is not None
        end_offset = self.directory.log.end_offset
        while marks and marks[-1].end_offset > end_offset:
            marks.pop()
        if not self._has_holes:
            self._durable.truncate(end_offset)
        self._view.durable_end_offset = min(self._view.durable_end_offset, end_offset)

    def installed(self, install: InstallSnapshot) -> None:
        """A snapshot has taken the place of the log, and of any hole in it."""
        world, offset = self.world, install.id.offset
        digest = world.ledger.digest_at(offset)
        assert digest is not None, "what a snapshot stands for is committed"
        self.marks[:] = [Mark(offset, install.id.epoch, digest)]
        self.start_offset = offset
        self._has_holes = False
        self._durable.replace(offset)
        self._view.durable_end_offset = offset
        world.statistics[INSTALLED] += 1
        world.snapshots.on_start(self)

    def cut(self, cut: CutLog) -> None:
        """The log begins at the end of a snapshot."""
        marks, self.start_offset = self.marks, cut.start.offset
        del marks[: bisect_left(marks, cut.start.offset, key=lambda mark: mark.end_offset)]
        self._durable.look_at_files()
        self.world.statistics[CLEANED] += 1
        self.world.snapshots.on_cut(self)
        self.world.disks.on_cut(self, self.clock.now())

    def _durable_end(self, directory: NodeDirectory) -> Offset:
        """How much of the log would survive; of one with holes, what the node says."""
        return directory.log.flushed_offset if self._has_holes else self._durable.end_offset

    def _marks_of(self, directory: NodeDirectory) -> list[Mark]:
        """What the opened log holds, read from the disk."""
        marks: list[Mark] = []
        log = directory.log
        if directory.damage:
            return marks
        offset = log.start_offset
        digest = self.world.ledger.digest_at(offset)
        if digest is None:
            raise Violation(f"StartIsCovered: node {self.id} begins at {offset}, where nothing was committed")
        if offset:
            marks.append(Mark(offset, log.start_epoch, digest))
        note = self.world.ledger.note
        while offset < log.end_offset:
            written = []
            for view in self._batches_at(directory, offset):
                digest = digest_of(view, digest)
                note(digest, view)  # a process may have ended before it knew that it had appended this
                marks.append(Mark(view.end_offset, view.epoch, digest))
                written.append((offset, view.end_offset, view.size_bytes))
                offset = view.end_offset
            self._durable.append(written)
        self._durable.look_at_files()
        return marks

    def _batches_at(self, directory: NodeDirectory, offset: Offset) -> list[BatchView]:
        """Batches of the opened log; what was committed, where the disk has lost what a snapshot holds."""
        try:
            return list(scan(directory.log.read(offset, 1 << 20)))
        except DamagedReadError:
            newest = directory.snapshots.newest
            if newest is None or offset >= newest.id.offset:
                raise
            return [next(self.world.ledger.batches(offset, newest.id.offset))]

    def persisted(self, effect: PersistElection) -> None:
        """The election file was written."""
        self._view.durable_election = effect.election


class WorkingCodec:
    """The daemon's codec; each request that it decodes takes a moment of the loop."""

    def __init__(self, codec: Codec, loop: SimLoop) -> None:
        self._codec, self._loop = codec, loop
        self.encode_response = codec.encode_response  # as often as `decode_request`, not by `__getattr__`

    def decode_request(self, frame: Buffer) -> Request:
        self._loop.block_us(REQUEST_US)
        return self._codec.decode_request(frame)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codec, name)


class WorkingMachine:
    """The daemon's state machine; each record that it applies takes a moment of the loop."""

    def __init__(self, machine: StateMachine, loop: SimLoop, record_us: int) -> None:
        self._state_machine, self._loop, self._record_us = machine, loop, record_us
        self.leader_changed = machine.leader_changed

    def apply(self, batch: CommittedBatch) -> None:
        self._loop.block_us(self._record_us * len(batch.records))
        self._state_machine.apply(batch)

    def restore(self, at: OffsetAndEpoch) -> "WorkingRestore":
        return WorkingRestore(self._state_machine.restore(at), self._loop, self._record_us)


class WorkingRestore:
    """What the daemon's state machine restores from a snapshot; each record takes a moment of the loop."""

    def __init__(self, restore: SnapshotRestore, loop: SimLoop, record_us: int) -> None:
        self._restore, self._loop, self._record_us = restore, loop, record_us
        self.settle, self.finish = restore.settle, restore.finish

    def add(self, values: Sequence[bytes], where: str) -> None:
        self._loop.block_us(self._record_us * len(values))
        self._restore.add(values, where)


class WatchedMachine:
    """The daemon's state machine; each batch that it applies is shown to the brokers' judge."""

    def __init__(self, machine: StateMachine, node: SimNode) -> None:
        self._state_machine, self._node = machine, node
        self.restore = machine.restore

    def leader_changed(self, epoch: Epoch, leader_id: NodeId, *, is_self: bool) -> None:
        self._node.note_plan()
        self._state_machine.leader_changed(epoch, leader_id, is_self=is_self)

    def apply(self, batch: CommittedBatch) -> None:
        self._state_machine.apply(batch)
        node = self._node
        assert node.parts is not None
        node.world.brokers.on_batch(node, batch, node.parts.controller.image)


class WatchedServer(ControllerServer):
    """The daemon's server with an executor that is watched."""

    def __init__(self, node: SimNode, *args: Any, **ports: Any) -> None:
        self._node = node
        self.is_running = False
        super().__init__(*args, **ports)
        record_us, loop = node.world.shape.apply_us, node.loop
        if record_us and loop is not None:
            self.applier._state_machine = WorkingMachine(self.controller, loop, record_us)
        if node.world.options.brokers:
            self.applier._state_machine = WatchedMachine(self.applier._state_machine, node)
            node.world.brokers.deletion_judge.watch(node, self.controller.deletions)

    def start(self) -> None:
        super().start()
        tasks = (self.server, self.apis, self.applier, self.store, self.guard, self.snapshotter)
        self.deadlines = [task.wake_at_ms for task in tasks if isinstance(task, TimedTurnTask)]
        self.is_running = True

    def _make_log_cleaner(self) -> LogCleaner:
        cleaner, node = super()._make_log_cleaner(), self._node
        choose = cleaner._choose

        def watched_choose(now: Now, leased: LeasedSnapshots) -> OffsetAndEpoch | None:
            node.world.disks.on_look(node, now)
            return choose(now, leased)

        cleaner._choose = watched_choose  # type: ignore[method-assign]
        return cleaner

    def make_executor(self) -> EffectExecutor:
        return WatchedExecutor(
            self._node,
            store=self.store,
            snapshots=self.snapshot_transfer,
            network=self.network,
            listener=self,
            outcomes=self.apis,
            notice_logger=self,
        )


class WatchedExecutor(EffectExecutor):
    """The daemon's executor of effects, watched."""

    def __init__(self, node: SimNode, **ports: Any) -> None:
        super().__init__(**ports)
        self._node = node
        handlers = self._handlers
        for kind in {kind for promise in node.world.auditor.invariants for kind in promise.watches}:
            handlers[kind] = node.checked(kind, handlers[kind])
        handlers[Append] = _then(handlers[Append], node.appended)
        handlers[Truncate] = _then(handlers[Truncate], node.truncated)
        handlers[InstallSnapshot] = _then(handlers[InstallSnapshot], node.installed)
        handlers[CutLog] = _then(handlers[CutLog], node.cut)
        handlers[PersistElection] = _then(handlers[PersistElection], node.persisted)

    def run(self, effects: Sequence[Effect]) -> None:
        if effects:
            self._node.before_effects(effects)
            super().run(effects)
            self._node.after_effects()


def _then(handler: Callable[[Any], None], note: Callable[[Any], None]) -> Callable[[Any], None]:
    def both(effect: Any) -> None:
        handler(effect)
        note(effect)

    return both
