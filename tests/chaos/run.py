"""Minutes of chaos: `python -m tests.chaos.run --minutes 10`, or `make chaos MINUTES=10`.

Three daemons, clients that never stop, a nemesis that does not either; one line for each fault, and a report.
With `--brokers 3`, or `BROKERS=3`, real Kafka brokers stand on them, with clients and faults of their own.
Exit code 0 if every promise was kept, 1 with what is wrong and where everything was kept, 130 if it was
interrupted. However it ends, no process and no mount is left behind.

The seed decides what the nemesis and the clients do, not how long the machine takes for it: the same seed
makes a run alike, not equal.
"""

import asyncio
import contextlib
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from kraftd.protocol.messages import DescribeNodeResponse
from kraftd.types import NodeId, Offset
from tests import commands
from tests.chaos import bounds
from tests.chaos.bounds import Sizes
from tests.chaos.brokers import BROKER_FAULTS, CONTROLLER_SETTINGS, CONTROLLERS_GAP_S, specs_of
from tests.chaos.clients import Crowd, History, fill
from tests.chaos.disks import Disk, small_disks
from tests.chaos.ledger import Ledger
from tests.chaos.nemesis import FAULTS, GAP_S, Nemesis, faults_of
from tests.chaos.quorum import NODES, Quorum
from tests.chaos.snapshot_faults import SNAPSHOT_FAULTS
from tests.chaos.verdict import complaints, readable
from tests.chaos.with_brokers import BrokerReport, WithBrokers
from tests.interop.peer import RELEASE, Kafka, NoKafkaError, find_kafka

RATE = 900.0
"""Operations a second that the clients would do if nothing were in their way."""

RATE_MIN = 300.0
"""Operations a second, however they ended, that a run must have: fewer prove little."""

ANSWERED_MIN = 100.0
"""Operations a second that must have been answered: a quorum that stands still breaks no promise."""

BESIDE_BROKERS = 0.2
"""The share of all these rates where there are brokers too, which need the machine."""

SILENCE_MAX_S = 30.0
"""Longest time without a committed write: every fault is undone after a few seconds."""

DISK_MEBIBYTES = 32
"""However long it takes: a log grows by some MiB a minute, and is cut."""

SNAPSHOT_EVENTS = {"written": "snapshot_written", "loaded": "snapshot_received", "logs cut": "log_cleaned"}
"""What nodes log of their snapshots, by how the report calls it; in a run of a minute each must have been."""

MINUTE_S = 60.0
ROUNDS, ROUNDS_WITH_BROKERS = 3, 1
"""A run of a minute or more has each kind of fault so often, even if a slow machine takes longer for it."""

BEGIN_S = 30.0
MEND_S = 30.0
"""Longest time until the quorum commits: at the beginning, and when every fault is undone."""

INTERRUPTED = 130

KINDS = (*FAULTS, *BROKER_FAULTS)


class Report(msgspec.Struct):
    """What a run did and found."""

    seed: int
    seconds: float
    operations: int
    answered: int
    unknown: int
    refused: int
    faults: Mapping[str, int]
    leader_changes: int
    longest_silence_s: float
    snapshots: Mapping[str, int]
    largest_bytes: int
    """Of log and snapshots, at any time, of any node."""
    committed: Offset | None
    """How far all logs agree; None if they did not come to."""
    problems: Sequence[str]
    brokers: BrokerReport | None = None

    @property
    def rate(self) -> float:
        """Answered operations a second."""
        return self.answered / self.seconds

    def __str__(self) -> str:
        """For a person."""
        faults = ", ".join(f"{kind} {count}" for kind, count in sorted(self.faults.items()))
        lines = [
            f"seed                {self.seed}",
            f"time                {self.seconds:.0f} s",
            f"operations          {self.operations:,}, {self.operations / self.seconds:.0f} a second",
            f"  answered          {self.answered:,}, {self.rate:.0f} a second",
            f"  refused           {self.refused:,}",
            f"  outcome unknown   {self.unknown:,}",
            f"faults              {sum(self.faults.values())}: {faults}",
            f"leader changes      {self.leader_changes}",
            f"longest without a committed write  {self.longest_silence_s:.1f} s",
            f"snapshots           {', '.join(f'{what} {n}' for what, n in self.snapshots.items())}",
            f"log and snapshots   {self.largest_bytes:,} bytes at most",
            f"committed           {'?' if self.committed is None else f'{self.committed:,}'} records",
        ]
        if self.brokers is not None:
            lines += self.brokers.lines()
        if self.problems:
            return "\n".join([*lines, "verdict             WRONG:", *(f"  - {p}" for p in self.problems)])
        good = (
            "linearizable; nothing acknowledged is lost, nothing refused is there; all logs and snapshots "
            "agree, and stay small"
        )
        back = "" if self.brokers is None else "; every broker is back"
        return "\n".join([*lines, f"verdict             {good}{back}"])


class Run:
    """One run in one folder."""

    def __init__(
        self,
        folder: Path,
        seconds: float,
        seed: int,
        command: Sequence[str],
        kinds: Sequence[str],
        kafka: Kafka | None,
        brokers: int,
    ) -> None:
        self.seconds = seconds
        self.seed = seed
        self.history: History
        self.is_kept = True
        """Until a good verdict says otherwise."""
        self._folder = folder
        self._command = command
        self._kinds = kinds
        self._kafka, self._brokers = kafka, brokers
        self._began_s = time.monotonic()
        self._random = random.Random(seed)

    def say(self, text: str) -> None:
        """One line, with the time."""
        print(f"{time.monotonic() - self._began_s:7.1f} s  {text}", flush=True)

    async def go(self) -> Report:
        """All of it: returns a report even of a run that went wrong."""
        self.say(f"in {self._folder}")
        with small_disks(self._folder, NODES, DISK_MEBIBYTES, lambda: self.is_kept) as (disks, why):
            if why:
                self.say(f"no disk will be full, since none can be mounted: {why}")
            try:
                report = await self._go(disks)
            except asyncio.CancelledError:
                self.is_kept = False
                raise
            self.is_kept = bool(report.problems)
            if self.is_kept:
                self._write_history()
            return report

    async def _go(self, disks: Mapping[NodeId, Disk]) -> Report:
        self.history = history = History()
        quorum = Quorum(
            self._folder,
            disks,
            random.Random(self._random.random()),
            command=self._command,
            brokers=[spec.node_id for spec in specs_of(self._brokers)],
            settings=CONTROLLER_SETTINGS if self._brokers else {},
        )
        rng = random.Random(self._random.random())
        faults = faults_of(quorum, rng, self.say, [kind for kind in self._kinds if kind in FAULTS])
        gap_s = CONTROLLERS_GAP_S if self._brokers else GAP_S
        nemesis = Nemesis(faults, rng, quorum.problems, gap_s=gap_s)
        share = BESIDE_BROKERS if self._brokers else 1.0
        crowd = Crowd(quorum.ports, history, share * RATE, random.Random(self._random.random()))
        beside = self._with_brokers(quorum) if self._brokers else None
        directories = {node.node_id: node.directory for node in quorum.cluster}
        ledger, sizes = Ledger(), Sizes(directories)
        async with (
            quorum.run(),
            beside.run() if beside else contextlib.nullcontext(),
            asyncio.TaskGroup() as tasks,
        ):
            await self._agreed(quorum, "at the beginning")
            watching = [tasks.create_task(ledger.follow(quorum.ports)), tasks.create_task(sizes.watch())]
            await self._fill(quorum)
            clients = tasks.create_task(crowd.run())
            await self._commits(quorum, 1, BEGIN_S, "at the beginning")
            self.say("all nodes agree, and the first write is committed")
            if beside:
                await beside.begin()
            began_s, before = time.monotonic(), len(history.operations)
            history.longest_silence_s = 0.0
            is_long = self.seconds >= MINUTE_S
            async with asyncio.TaskGroup() as hurting:
                rounds = (ROUNDS_WITH_BROKERS if beside else ROUNDS) if is_long else 0
                hurting.create_task(nemesis.run(self.seconds, rounds))
                if beside:
                    hurting.create_task(beside.nemesis.run(self.seconds, rounds))
            seconds = time.monotonic() - began_s
            during = history.operations[before:]
            self.say("every fault is undone")
            await self._commits(quorum, 100, MEND_S, "after every fault was undone")
            if beside:
                await beside.end()
            crowd.stop()
            await clients
            committed = await self._agreed(quorum, "at the end")
            for task in watching:
                task.cancel()
            await self._end_all(quorum)
        self.say("all nodes are ended; judging")
        leaders = quorum.leaders
        problems = [*quorum.problems, *(f"{text}, {n} times" for text, n in history.surprises.items())]
        problems += sizes.complaints()
        logs, unreadable = readable(directories)
        problems += unreadable or complaints(history.operations, logs, committed, ledger)
        if not problems and committed is not None:
            problems += bounds.complaints(directories, logs, ledger.up_to(committed)[0])
        snapshots = {
            what: sum(node.count(event) for node in quorum.cluster) for what, event in SNAPSHOT_EVENTS.items()
        }
        if is_long and set(SNAPSHOT_FAULTS) <= {*self._kinds}:
            problems += [f"no snapshots were {what}" for what, count in snapshots.items() if not count]
        answered = sum(operation.outcome == "ok" for operation in during)
        for what, rate, least in (("done", len(during), RATE_MIN), ("answered", answered, ANSWERED_MIN)):
            if rate / seconds < share * least:
                problems.append(
                    f"{rate / seconds:.0f} operations a second were {what}, fewer than {share * least:.0f}"
                )
        if history.longest_silence_s > SILENCE_MAX_S:
            problems.append(f"nothing was committed for {history.longest_silence_s:.1f} s")
        return Report(
            seed=self.seed,
            seconds=seconds,
            operations=len(during),
            answered=answered,
            unknown=sum(operation.outcome == "unknown" for operation in during),
            refused=sum(operation.outcome == "failed" for operation in during),
            faults=dict(nemesis.counts + (beside.nemesis.counts if beside else Counter())),
            leader_changes=len(leaders),
            longest_silence_s=history.longest_silence_s,
            snapshots=snapshots,
            largest_bytes=max(sizes.largest.values()),
            committed=committed,
            problems=problems,
            brokers=beside.report if beside else None,
        )

    def _with_brokers(self, quorum: Quorum) -> WithBrokers:
        assert self._kafka is not None
        rng = random.Random(self._random.random())
        kinds = [kind for kind in self._kinds if kind in BROKER_FAULTS]
        folder = self._folder / "brokers"
        return WithBrokers(self._kafka, folder, quorum, self._brokers, rng, self.say, kinds)

    async def _fill(self, quorum: Quorum) -> None:
        """Make snapshots long enough to be met while they are written."""
        deadline_s = time.monotonic() + BEGIN_S
        while time.monotonic() < deadline_s:
            with contextlib.suppress(OSError, EOFError, TimeoutError):
                await fill(quorum.ports[quorum.leader or NODES[0]])
                return
            await asyncio.sleep(0.1)
        quorum.problems.append(f"the image was not filled within {BEGIN_S:.0f} s")

    async def _commits(self, quorum: Quorum, count: int, limit_s: float, when: str) -> None:
        """Wait until so many more writes are committed, which must not take forever."""
        history = self.history
        wanted = history.commits + count
        try:
            async with asyncio.timeout(limit_s):
                while history.commits < wanted:
                    history.committed.clear()
                    await history.committed.wait()
        except TimeoutError:
            quorum.problems.append(
                f"{history.commits - wanted + count} writes were committed within {limit_s:.0f} s {when}"
            )

    async def _agreed(self, quorum: Quorum, when: str) -> Offset | None:
        """Wait until all nodes are whole and have applied the same log; how far it goes, None if not."""
        deadline_s = time.monotonic() + MEND_S
        seen: list[DescribeNodeResponse] = []
        while time.monotonic() < deadline_s:
            with contextlib.suppress(OSError, EOFError, TimeoutError):
                seen = await asyncio.gather(*(quorum.describe(node_id) for node_id in NODES))
                states = {(v.applied_offset, v.high_watermark, v.log_end_offset, v.image_hash) for v in seen}
                if len(states) == 1 and all(view.whole and not view.alarms for view in seen):
                    return seen[0].high_watermark
            await asyncio.sleep(0.05)
        views = "; ".join(
            f"node {v.node_id}: {v.role} in {v.epoch}, log end {v.log_end_offset}, "
            f"high watermark {v.high_watermark}, applied {v.applied_offset}, hash {v.image_hash}, "
            f"{'whole' if v.whole else 'not whole'}, alarms {list(v.alarms)}"
            for v in seen
        )
        quorum.problems.append(f"the nodes did not come to agree within {MEND_S:.0f} s {when}: {views}")
        return None

    async def _end_all(self, quorum: Quorum) -> None:
        """SIGTERM to all: a good end is a promise too."""
        async with asyncio.TaskGroup() as tasks:
            for node_id in NODES:
                tasks.create_task(quorum.end(node_id, signal.SIGTERM))

    def _write_history(self) -> None:
        with (self._folder / "history.jsonl").open("wb") as file:
            for operation in self.history.operations:
                file.write(msgspec.json.encode(operation) + b"\n")


async def until_interrupted(work: Callable[[], Any]) -> Any:
    """Do some work; SIGINT and SIGTERM cancel it, once, and leave it the time to clean up."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None
    asked = False

    def interrupt() -> None:
        nonlocal asked
        if not asked:
            asked = True
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt)
    return await work()


def chaos(
    seconds: float,
    seed: int,
    *,
    command: Sequence[str] = (sys.executable, "-m", "kraftd"),
    kinds: Sequence[str] = KINDS,
    kafka: Kafka | None = None,
    brokers: int = 0,
) -> tuple[Report, Path | None]:
    """Run it with faults of these kinds, and so many brokers; the report, and the folder if it was kept.

    Raises:
        KeyboardInterrupt: SIGINT or SIGTERM came; everything was ended, nothing is kept.
    """
    folder = Path(tempfile.mkdtemp(prefix="kraftd-chaos-"))
    run = Run(folder, seconds, seed, command, kinds, kafka, brokers)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            report: Report = runner.run(until_interrupted(run.go))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        if not run.is_kept:
            shutil.rmtree(folder)
    return report, folder if folder.exists() else None


def main() -> int:
    """The command line; the exit code."""
    parser = commands.Parser(prog="make chaos", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--minutes", type=commands.duration, default=1.0, help="how long the nemesis is at work"
    )
    parser.add_argument("--seed", type=int, help="for a run that is alike")
    parser.add_argument("--brokers", type=commands.count, default=0, help="so many real Kafka brokers, too")
    parser.add_argument("--only", action="append", choices=KINDS, help="only faults of this kind")
    options = parser.parse_args()
    kinds, count = options.only or KINDS, options.brokers
    if not count and not set(kinds) & set(FAULTS):
        parser.error("these faults are of brokers: say how many there are with --brokers")
    try:
        kafka = find_kafka(RELEASE) if count else None
    except NoKafkaError as error:
        parser.error(str(error))
    seed = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    beside = f" and {count} broker{'s' * (count > 1)}" if count else ""
    print(f"chaos: {options.minutes:g} minutes on {len(NODES)} nodes{beside}, SEED={seed}", flush=True)
    try:
        report, folder = chaos(MINUTE_S * options.minutes, seed, kinds=kinds, kafka=kafka, brokers=count)
    except KeyboardInterrupt:
        print("interrupted: every process is ended", flush=True)
        return INTERRUPTED
    print(report)
    if folder is not None:
        print(f"directories, logs and history are kept in {folder}")
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
