"""The file protocols of a node as scripts: what it does to its disk, and what it is promised meanwhile.

A script is a list of steps; a step is the name of a method of `ScriptedNode` with an argument. `PROTOCOLS` is
the table of them: for each protocol its variants, as (script, size of segments, size of records). A node
keeps `promised` true before, during and after each call, so that a crash at any call has something to be
judged by.

Not here: where the crashes are (`crashpoints`).
"""

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from kraftd.records import names
from kraftd.storage import LogConfig, NodeDirectory
from kraftd.storage.disk import StorageFailure
from kraftd.storage.snapshots import SnapshotError
from kraftd.types import Election, HealthKind, OffsetAndEpoch, PeerIdentity, ReplicaKey
from tests.crash.checking import check_unread
from tests.crash.promises import HOME, Ids, Promised, continues, format_home, open_home, snapshot_of
from tests.sim.filesystem import SimFileSystem
from tests.unit.storage.batches import batch

Step = tuple[str, int]


class Variant(NamedTuple):
    """One way to go through a protocol."""

    script: tuple[Step, ...]
    segment_bytes: int = 1 << 20
    record_bytes: int = 40
    prepared: tuple[Step, ...] = (("format", 0), ("open", 0), ("elect", 1), ("whole", 0), ("close", 0))
    """What happened before; everything of it is durable, and no crash is tried in it."""

    @property
    def config(self) -> LogConfig:
        """How the log rolls."""
        return LogConfig(segment_bytes=self.segment_bytes, index_bytes=96)


class ScriptedNode:
    """Does the steps, and keeps account."""

    def __init__(self, fs: SimFileSystem, variant: Variant) -> None:
        self.fs = fs
        self.promised = Promised()
        self._variant = variant
        self._ids = Ids(1)
        self._node: NodeDirectory | None = None
        self._generation = 0

    def do(self, script: tuple[Step, ...]) -> None:
        """Run a script to its end, or to the failure of the disk that ends the process."""
        try:
            for name, argument in script:
                getattr(self, name)(argument)
        except StorageFailure:
            self.fs.crash_process()

    @property
    def node(self) -> NodeDirectory:
        """The open directory."""
        assert self._node is not None
        return self._node

    def note(self, **changes: object) -> None:
        """Change what is promised."""
        self.promised = self.promised._replace(**changes)

    @property
    def epoch(self) -> int:
        """The epoch of the newest election."""
        return self.promised.elections[-1].epoch

    # -- lifetimes -----------------------------------------------------------------------------

    def format(self, _: int) -> None:
        format_home(self.fs, self._ids)
        self.note(formatted=True)

    def open(self, _: int) -> None:
        node = self._node = open_home(self.fs, self._variant.config, self._ids)
        assert node.damage == node.amnesia == ()
        self._generation = 0
        start, end = OffsetAndEpoch(node.log.start_offset, node.log.start_epoch), node.log.end_offset
        is_kept = not start.offset or continues(self.promised.log, start)
        self.note(
            start_counter=node.start_counter,
            log=self.promised.log[:end] if is_kept else (b"",) * end,
            durable=end,
            snapshots=tuple(names.snapshot_name(info.id) for info in node.snapshots.infos),
            going=(),
            aside=tuple(
                name for name in self.fs.names(HOME / names.LOG_DIRECTORY) if name.endswith(names.ASIDE)
            ),
            elections=(node.election,),
            peers=(node.peers,),
            health=("blank" if node.uninitialized else "whole",),
        )

    def close(self, _: int) -> None:
        self.node.close()
        self.note(durable=len(self.promised.log))

    def kill(self, _: int) -> None:
        """The process ends, the page cache lives on, and another one opens the directory."""
        self.fs.crash_process()
        self.open(0)

    def lose(self, _: int) -> None:
        """The power fails, and nothing survives but what was synced."""
        self.fs.forget_unsynced()
        self.open(0)

    # -- the log -------------------------------------------------------------------------------

    def append(self, count: int) -> None:
        """Append batches in one group."""
        base = len(self.promised.log)
        size = self._variant.record_bytes
        new = tuple(batch(base + n, self.epoch, size_bytes=size) for n in range(count))
        self.note(log=self.promised.log + new)
        self.node.log.append(new, base, base + count)

    def flush(self, sync_point: int) -> None:
        """Make the log durable."""
        job = self.node.log.begin_flush(sync_recovery_point=bool(sync_point))
        job.run()
        self.note(durable=self.node.log.flush_done(job)[1])

    def flush_during(self, appended: int) -> None:
        """Begin a flush, append and roll meanwhile, and end it: it covers what was written before."""
        job = self.node.log.begin_flush(sync_recovery_point=True)
        mark = self.fs.mark
        for _ in range(appended):
            self.append(1)
        with self.fs.as_of(mark):
            job.run()
        self.note(durable=max(self.promised.durable, self.node.log.flush_done(job)[1]))

    def truncate(self, percent: int) -> None:
        """Cut the log at a part of its length."""
        to = max(len(self.promised.log) * percent // 100, self.node.log.start_offset)
        self._generation += 1
        self.note(durable=min(self.promised.durable, to))
        assert self.node.log.truncate(to, self._generation) == to
        self.note(log=self.promised.log[:to])

    def assign(self, _: int) -> None:
        """Note that the epoch begins at the end of the log."""
        self.node.log.assign_epoch(self.epoch, len(self.promised.log))

    # -- snapshots -----------------------------------------------------------------------------

    def snapshot(self, piece_bytes: int) -> None:
        """Write one of all that is in the log, in pieces; a disk that refuses costs only the snapshot."""
        self._freeze(OffsetAndEpoch(len(self.promised.log), self.node.log.last_record_epoch), piece_bytes)

    def _freeze(self, snapshot_id: OffsetAndEpoch, piece_bytes: int) -> None:
        if snapshot_id.offset <= self.node.log.start_offset:
            return  # nobody writes or loads one of less than the log begins with
        name = names.snapshot_name(snapshot_id)
        writer, data = self.node.snapshots.writer(snapshot_id), snapshot_of(snapshot_id)
        try:
            for at in range(0, len(data), piece_bytes):
                writer.append(data[at : at + piece_bytes])
            self.note(freezing=name)
            self.node.snapshots.add(writer.freeze())
        except SnapshotError:
            writer.drop()
        else:
            self.note(snapshots=(*self.promised.snapshots, name))
        if not self.node.disk.failure:
            self.note(freezing="")

    def receive(self, ahead: int) -> None:
        """Write one as it comes from a leader: so far behind the log's end, or before it."""
        self._freeze(OffsetAndEpoch(len(self.promised.log) + ahead, self.epoch), 1 << 20)

    def install(self, _: int) -> None:
        """Put the newest one in the place of the log, if there is one: a disk may have refused it."""
        newest = self.node.snapshots.newest
        if newest is None:
            return
        self._generation += 1
        self.note(durable=min(self.promised.durable, newest.id.offset))
        self._let_go(newest.id)
        self.node.install_snapshot(newest.id, self._generation)
        end = newest.id.offset
        self.note(log=(b"",) * end, durable=end, going=())

    def cut(self, number: int) -> None:
        """Let the log begin at one of the snapshots, counted from the oldest, if there are so many."""
        log, infos = self.node.log, self.node.snapshots.infos[number:]
        start = infos[0].id if infos else OffsetAndEpoch(0, 0)
        if not log.start_offset < start.offset <= log.flushed_offset:
            return
        if not continues(self.promised.log, start):
            return  # it was received, and is of another log
        self._let_go(start)
        self.node.cut_front(start)

    def hurt(self, segment: int) -> None:
        """Lose a byte of a record, in the middle of one of the segments, counted from the oldest."""
        directory = HOME / names.LOG_DIRECTORY
        path = [directory / name for name in self.fs.names(directory) if name.endswith(names.LOG)][segment]
        at = len(self.fs.content(path)) // 2
        self.fs.overwrite(path, at, bytes([self.fs.content(path)[at] ^ 1]))

    def check(self, _: int) -> None:
        """Read what the start took unread, and cut the log in front of what is damaged there."""
        newest = self.node.snapshots.newest
        if newest is not None:
            self._let_go(newest.id)
        check_unread(self.node)

    def remove(self, _: int) -> None:
        """Unlink what nobody reads any more, as the worker does."""
        self.node.take_removal().run()

    def roll(self, _: int) -> None:
        """Begin a new segment, as after a snapshot."""
        self.node.log.roll_at(1, self.node.log.end_offset)

    def _let_go(self, start: OffsetAndEpoch) -> None:
        """Promise the snapshots before one no more."""
        kept = [info.id for info in self.node.snapshots.infos if info.id.log_order >= start.log_order]
        staying = tuple(names.snapshot_name(one) for one in kept)
        going = tuple(name for name in self.promised.snapshots if name not in staying)
        self.note(snapshots=staying, going=(*self.promised.going, *going))

    def part(self, size_bytes: int) -> None:
        """Begin to write one, and get no further."""
        snapshot_id = OffsetAndEpoch(len(self.promised.log), self.epoch)
        try:
            self.node.snapshots.writer(snapshot_id).append(snapshot_of(snapshot_id)[:size_bytes])
        except SnapshotError:
            return

    # -- promises ------------------------------------------------------------------------------

    def elect(self, by: int) -> None:
        """Vote in a later epoch, or learn the leader of this one."""
        if by:
            self._write_election(Election(self.epoch + by, -1, ReplicaKey(2)))
        else:
            self._write_election(Election(self.epoch, 2, ReplicaKey(2)))

    def peer(self, number: int) -> None:
        """Remember who a voter is."""
        new = PeerIdentity(2 + number % 2, bytes([number]) * 16, number, bytes([number + 1]) * 16)
        others = [peer for peer in self.promised.peers[-1] if peer.node_id != new.node_id]
        peers = tuple(sorted([*others, new], key=lambda peer: peer.node_id))
        self.note(peers=(self.promised.peers[-1], peers))
        self.node.remember_peer(new)
        self.note(peers=(peers,))

    def whole(self, _: int) -> None:
        """Become a node that counts."""
        self.note(health=(*self.promised.health, "whole"))
        self.node.remember_state_health(HealthKind.WHOLE)
        self.note(health=("whole",))

    def sync_point(self, _: int) -> None:
        """Go idle: a flush of nothing new makes the recovery point of the last one durable."""
        self.flush(1)

    def _write_election(self, election: Election) -> None:
        self.note(elections=(self.promised.elections[-1], election))
        self.node.write_election(election)
        self.note(elections=(election,))


def steps(text: str) -> tuple[Step, ...]:
    """Read a script: words, each a step, with its argument after a colon (0 without)."""
    words = [word.partition(":") for word in text.split()]
    return tuple((name, int(argument or 0)) for name, _, argument in words)


NEW = steps("format open elect:1 whole close")
FILLED = NEW + steps("open assign append:3 append:2 flush:1 append:4 append:3 close")
TWO_EPOCHS = NEW + steps("open append:4 flush:1 elect:1 assign append:4 elect:2 append:3 close")
SMALL, PAGES = 500, 9_000
"""Sizes of segments: a few small batches, or a few that are larger than a page."""


def _formats() -> Iterator[Variant]:
    yield Variant(steps("format"), prepared=())
    yield Variant(steps("format open close open close"), prepared=())
    yield Variant(steps("open elect:1 append:1 flush:1 close"), prepared=steps("format"))
    yield Variant(steps("open kill kill"), prepared=steps("format"))


def _appends() -> Iterator[Variant]:
    for record_bytes in (40, 600, 5_000):
        yield Variant(
            steps("open append:1 flush append:2 flush:1 append:1 append:1 append:3"), 1 << 20, record_bytes
        )
        yield Variant(
            steps("open append:2 flush_during:2 append:1 flush_during:1 flush:1 close"), 1 << 20, record_bytes
        )
        yield Variant(
            steps("open append:3 flush append:2 kill append:2 flush kill append:1"), 1 << 20, record_bytes
        )


def _rolls() -> Iterator[Variant]:
    for segment_bytes, record_bytes in ((SMALL, 40), (SMALL, 120), (PAGES, 3_000), (PAGES, 700)):
        for script in (
            "open append:3 append:3 append:3 flush append:3 append:2 flush:1 append:5",
            "open append:2 flush_during:6 append:1 flush_during:5 append:4 flush",
            "open append:9 flush:1 append:9 kill append:4 flush append:3",
        ):
            yield Variant(steps(script), segment_bytes, record_bytes)


def _truncations() -> Iterator[Variant]:
    for segment_bytes, record_bytes in ((SMALL, 40), (PAGES, 3_000), (1 << 20, 400)):
        for percent in (0, 30, 60, 90, 100):
            script = (
                f"open append:4 flush append:3 elect:1 truncate:{percent} append:2 append:3 flush append:1"
            )
            yield Variant(steps(script), segment_bytes, record_bytes, FILLED)
        script = (
            "open elect:1 truncate:70 truncate:50 append:1 kill truncate:20 append:2 flush_during:3 close"
        )
        yield Variant(steps(script), segment_bytes, record_bytes, FILLED)


def _elections() -> Iterator[Variant]:
    yield Variant(steps("open elect:1 elect elect:1 elect elect:3 elect close open elect:1"))
    yield Variant(steps("open elect:1 peer:1 elect append:1 elect:1 peer:2 flush:1 elect peer:3 sync_point"))
    yield Variant(steps("open elect:1 kill elect elect:1 kill elect:1 lose elect elect:1"))
    yield Variant(steps("open elect:2 append:2 flush elect append:1 flush elect:1 append:1 flush elect"))
    yield Variant(
        steps("open elect:1 elect:1 append:2 flush_during:1 elect peer:1"), prepared=steps("format")
    )


def _epochs() -> Iterator[Variant]:
    for segment_bytes in (SMALL, 1 << 20):
        yield Variant(
            steps("open assign append:1 elect:1 assign append:2 elect:1 append:1 flush:1"), segment_bytes
        )
        yield Variant(
            steps("open elect:1 assign truncate:60 elect:1 assign append:1 flush"),
            segment_bytes,
            40,
            TWO_EPOCHS,
        )
        yield Variant(
            steps("open elect:1 assign kill elect:1 truncate:30 append:3 kill close"),
            segment_bytes,
            40,
            TWO_EPOCHS,
        )
        yield Variant(
            steps("open truncate:0 elect:1 assign append:2 lose append:1 flush"),
            segment_bytes,
            40,
            TWO_EPOCHS,
        )


def _sidecars() -> Iterator[Variant]:
    yield Variant(steps("open peer:1 peer:2 peer:3 whole peer:4 kill peer:5"))
    yield Variant(
        steps("open elect:1 whole peer:1 append:1 flush peer:2 append:1 flush sync_point peer:3"),
        prepared=steps("format"),
    )
    yield Variant(
        steps(
            "open append:1 flush append:1 flush sync_point append:1 flush sync_point append:1 flush:1 flush:1"
        )
    )
    yield Variant(
        steps("open append:2 flush peer:1 append:2 flush elect:1 append:1 flush_during:1 sync_point lose")
    )


def _restarts() -> Iterator[Variant]:
    for segment_bytes in (SMALL, 1 << 20):
        yield Variant(
            steps("open append:2 kill append:2 kill kill append:3 flush kill close"),
            segment_bytes,
            40,
            FILLED,
        )
        yield Variant(
            steps("open append:4 close open append:2 close open lose append:1 flush close"), segment_bytes
        )


def _snapshots() -> Iterator[Variant]:
    for script in (
        "open append:3 flush:1 snapshot:5000 append:2 snapshot:100000 close",
        "open append:4 snapshot:3000 flush kill append:1 snapshot:9000 lose append:1 flush:1",
        "open append:2 part:4000 kill append:3 part:9000 append:1 snapshot:9000 kill close open",
        "open append:5 snapshot:20000 elect:1 assign append:1 flush snapshot:2000 append:3 flush:1",
    ):
        yield Variant(steps(script), PAGES, 700)


def _installations() -> Iterator[Variant]:
    """Over an empty log, one that is shorter, one that ends otherwise, and one that holds it all."""
    for segment_bytes, record_bytes in ((SMALL, 40), (PAGES, 3_000)):
        for script, prepared in (
            ("open receive:7 install append:3 flush:1 append:2 close", NEW),
            ("open receive:5 install remove append:3 flush append:2 kill append:1", FILLED),
            ("open append:2 receive:1 install append:4 flush:1 receive:9 install append:1 flush", FILLED),
            ("open elect:1 receive:-3 install assign append:3 flush remove append:1", FILLED),
            ("open elect:1 receive:-8 kill append:1 flush receive:4 install lose append:2", FILLED),
            ("open receive:-2 install append:2 flush append:1 close open", FILLED),
            (
                "open snapshot:9000 elect:1 receive:-3 install append:2 snapshot:9000 receive:6 install",
                FILLED,
            ),
        ):
            yield Variant(steps(script), segment_bytes, record_bytes, prepared)


CUTS = (
    steps("open append:9 flush snapshot:9000 append:5 flush:1 snapshot:9000 cut:1 remove append:3 flush"),
    steps("open append:5 flush snapshot:9000 append:4 flush snapshot:9000 append:3 flush snapshot:9000 cut:1")
    + steps("append:2 kill cut:1 remove append:1 flush:1 close open"),
    steps("open append:7 flush snapshot:9000 roll append:4 flush snapshot:9000 roll cut:1 append:1")
    + steps("truncate:99 append:2 flush lose append:1"),
    steps("open snapshot:9000 append:4 flush:1 elect:1 append:3 flush snapshot:9000 cut cut:1 remove")
    + steps("receive:5 install append:2 flush snapshot:9000 cut:1 append:1"),
)


def _cuts() -> Iterator[Variant]:
    """One segment or several, at the end or in the middle of one, again and again."""
    for segment_bytes, record_bytes in ((SMALL, 40), (PAGES, 3_000), (1 << 20, 400)):
        for script in CUTS:
            yield Variant(script, segment_bytes, record_bytes, FILLED)


SNAPSHOTS = FILLED + steps("open append:5 flush snapshot:9000 roll append:4 flush snapshot:9000 roll")
CHECKS = (
    (steps("open check remove append:2 flush:1 close open check"), steps("append:1 flush:1 close hurt:0")),
    (steps("open check append:2 kill check remove append:1 flush"), steps("append:3 flush:1 close hurt:1")),
    (steps("open append:2 flush elect:1 append:1 flush:1 lose check cut remove"), steps("close hurt")),
    (steps("open append:1 kill check append:2 flush truncate:99 append:2 flush:1"), steps("close")),
)


def _checks() -> Iterator[Variant]:
    """What is checked after the start: damaged in the oldest segment or in a later one, or not at all."""
    for segment_bytes, record_bytes in ((SMALL, 40), (PAGES, 3_000), (1 << 20, 400)):
        for script, ending in CHECKS:
            yield Variant(script, segment_bytes, record_bytes, SNAPSHOTS + ending)


DRAWN = steps(
    "append:1 append:2 append:5 append:1 append:3 flush flush flush:1 flush_during:1 flush_during:3 "
    "truncate:50 truncate:80 truncate:20 assign elect:1 elect peer:1 peer:2 sync_point kill lose"
)
DRAWN_SNAPSHOTS = steps(
    "snapshot:9000 snapshot:9000 snapshot:100000 part:4000 receive:4 receive:-3 install install cut cut:1 "
    "cut:1 remove roll"
)


def _mixed(beginning: str, table: tuple[Step, ...], length: int, count: int) -> Iterator[Variant]:
    """Drawn scripts: what nobody thought of."""
    for seed in range(count):
        random = Random(seed)
        drawn = tuple(random.choice(table) for _ in range(length))
        yield Variant(
            (*steps(beginning), *drawn),
            random.choice([SMALL, PAGES, 1 << 20]),
            random.choice([40, 40, 700, 3_000]),
            random.choice([NEW, FILLED, TWO_EPOCHS]),
        )


PROTOCOLS: dict[str, tuple[Variant, ...]] = {
    "format and first start": tuple(_formats()),
    "append": tuple(_appends()),
    "roll": tuple(_rolls()),
    "truncate": tuple(_truncations()),
    "election file and sidecar": tuple(_elections()),
    "leader-epoch-checkpoint": tuple(_epochs()),
    "peers, state health and recovery point": tuple(_sidecars()),
    "restart": tuple(_restarts()),
    "snapshot": tuple(_snapshots()),
    "snapshot in the log's place": tuple(_installations()),
    "cut": tuple(_cuts()),
    "check after the start": tuple(_checks()),
    "mixed": tuple(_mixed("open", DRAWN, 12, 60)),
    "mixed, with snapshots": tuple(
        _mixed("open append:3 flush snapshot:9000", DRAWN + DRAWN_SNAPSHOTS, 10, 24)
    ),
}
