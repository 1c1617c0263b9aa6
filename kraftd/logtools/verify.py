"""Is this log whole, do its snapshots say what it says, and do the nodes of a cluster agree?

`verify` examines the bytes of each log (`integrity`), reads every record, folds them by the daemon's own
rules, compares each snapshot with the state that the log makes there, and each two logs of one cluster batch
by batch (`comparison`). It goes on behind damage: where the fold cannot, from the next snapshot on.

What a directory says of itself, and what other nodes' logs say, is compared. Not here: what a flush had
covered (`own_state` adds it), and what is committed (`commit`).
"""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import msgspec

from kraftd.errors import MalformedError
from kraftd.logtools.batch_reader import Batch, reason_of
from kraftd.logtools.comparison import BatchKeys, LogComparison, clusters_among, compare
from kraftd.logtools.errors import FileGoneError, UnanswerableError
from kraftd.logtools.finding import listed_again
from kraftd.logtools.integrity import Examined, examine
from kraftd.logtools.node_files import LogFile, NodeFiles, describe_again
from kraftd.logtools.node_log import read_log
from kraftd.logtools.problem import Problem, ProblemKind, in_file
from kraftd.logtools.quorum_facts import QuorumFacts, controls_of
from kraftd.logtools.snapshot_reader import unknown_record
from kraftd.logtools.state import State, load_snapshot
from kraftd.metadata.image import EMPTY, MetadataImage
from kraftd.metadata.image_builder import ImageBuilder
from kraftd.metadata.image_diff import changes
from kraftd.metadata.impossible import ImpossibleRecordError
from kraftd.metadata.registry import decode
from kraftd.records import names
from kraftd.types import Epoch, Offset

_FACTS_TOLD = 5
"""Of a snapshot that differs, so many differences are told, and how many more there are."""

_EXAMINATIONS_MAX = 3
"""How often the bytes of a log are examined that a running node writes to meanwhile."""


class LogVerdict(msgspec.Struct, frozen=True):
    """What was found in one log."""

    log: NodeFiles
    start_offset: Offset
    """Where the log begins; what lies before it in the first segment was read, too."""
    end_offset: Offset
    end_epoch: Epoch
    batch_count: int
    record_count: int
    snapshot_count: int
    """How many snapshots were compared with the log."""
    whole_snapshot_count: int
    """How many there are with every byte, compared or not."""
    image_hash: str | None
    """Of the state at the end; None where it could not be folded."""
    unknown_kinds: tuple[tuple[int, int], ...]
    unread: tuple[tuple[Offset, Offset], ...]
    """From where to where (exclusive; -1: to its end) no sound batch is: it is compared with no other log."""
    problems: tuple[Problem, ...]
    notes: tuple[Problem, ...]


class PairVerdict(msgspec.Struct, frozen=True):
    """What was found between two logs under one cluster id."""

    left: NodeFiles
    right: NodeFiles
    comparison: LogComparison
    common_start: Offset
    """From here on both were compared."""
    common_end: Offset
    """Up to here both hold the same, without a hole in either."""
    problem: str = ""
    note: str = ""


class Verdict(msgspec.Struct, frozen=True):
    """What was found in all of them. `clusters` are the logs that are of one cluster by what they hold."""

    logs: tuple[LogVerdict, ...]
    pairs: tuple[PairVerdict, ...]
    clusters: tuple[tuple[NodeFiles, ...], ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether nothing is wrong."""
        return not any(log.problems for log in self.logs) and not any(pair.problem for pair in self.pairs)


def verify(logs: Sequence[NodeFiles]) -> Verdict:
    """Look at each log, and at each two of one cluster.

    A file that a running node removed since it was listed is no problem: its files are listed again.

    Raises:
        UnanswerableError: A file cannot be read.
    """
    examinations = [_checked(log) for log in logs]
    under_id: dict[str, list[_LogCheck]] = {}
    for each in examinations:
        under_id.setdefault(each.log.cluster_id, []).append(each)
    pairs: list[PairVerdict] = []
    clusters: list[tuple[NodeFiles, ...]] = []
    for group in under_id.values():
        found = [[compare(one.keys, two.keys) for two in group] for one in group]
        among = [[group[number] for number in numbers] for numbers in clusters_among(found)]
        pairs += [_pair(group[i], group[j], found[i][j]) for i, j in combinations(range(len(group)), 2)]
        clusters += [tuple(each.log for each in cluster) for cluster in among]
        _tell_two_clusters(pairs, among)
    return Verdict(tuple(each.verdict() for each in examinations), tuple(pairs), tuple(clusters))


def _checked(log: NodeFiles) -> "_LogCheck":
    """Look at a log; if its files go faster than they can be read, only that is told of it: the others of a
    fleet are still judged.
    """
    try:
        return listed_again(log, _run, describe_again)
    except UnanswerableError as error:
        if not isinstance(error.__cause__, FileGoneError):
            raise
        return _LogCheck.given_up(log, str(error))


def _run(log: NodeFiles) -> "_LogCheck":
    check = _LogCheck(log)
    check.run()
    return check


def _tell_two_clusters(pairs: list[PairVerdict], clusters: Sequence[Sequence["_LogCheck"]]) -> None:
    """Say once of each two clusters under one id that they are two, named by their folders."""
    for one, two in combinations(clusters, 2):
        left, right = [each.log for each in one], [each.log for each in two]
        found = (
            (number, pair)
            for number, pair in enumerate(pairs)
            if pair.comparison.is_parted
            and ((pair.left in left and pair.right in right) or (pair.left in right and pair.right in left))
        )
        number, pair = next(found, (-1, None))
        if pair is None:
            continue  # they share no offset, which is told of each two
        text = (
            f"{_named(left)} and {_named(right)} are of two clusters that share the id "
            f"{pair.left.cluster_id or '(none)'}: they differ from the first batch that both hold, at offset "
            f"{pair.comparison.parted_at}; each is judged by itself"
        )
        pairs[number] = msgspec.structs.replace(pair, problem=text)


def _named(logs: Sequence[NodeFiles]) -> str:
    return ", ".join(log.named for log in logs)


def _pair(one: "_LogCheck", two: "_LogCheck", found: LogComparison) -> PairVerdict:
    start = max(one.log.start_offset, two.log.start_offset)
    end = min([found.common_end, *(start for start, _ in (*one.unread, *two.unread))])
    pair = PairVerdict(one.log, two.log, found, start, 0 if found.is_undecided else end)
    names = f"{one.log.named} and {two.log.named}"
    if found.is_of_two_clusters:
        return pair  # which is told once of the clusters
    if found.violation:
        return msgspec.structs.replace(pair, problem=f"{names}: {found.violation}")
    if found.is_undecided:
        note = f"{names} share no offset: nothing says whether they are of one cluster"
        return msgspec.structs.replace(pair, note=note)
    if not found.is_parted:
        return pair
    text = (
        f"{names} part at offset {found.parted_at} (epochs {found.left_epoch} and {found.right_epoch}): "
        "one of the two ends was never committed"
    )
    return msgspec.structs.replace(pair, note=text)


class _LogCheck:
    """One pass over a log."""

    def __init__(self, log: NodeFiles) -> None:
        self.log = log
        self.keys = BatchKeys()
        self.unread: list[tuple[Offset, Offset]] = []
        self._problems: list[Problem] = []
        self._notes: list[Problem] = []
        self._snapshots = [snapshot for snapshot in log.snapshots if snapshot.id.offset > 0]
        self._compared = 0
        self._damaged: frozenset[str] = frozenset()
        """The names of the files with damage."""
        self._records = 0
        self._end = log.start_offset
        self._epoch: Epoch = 0
        self._builder: ImageBuilder | None = ImageBuilder(EMPTY) if log.start_offset == 0 else None
        self._is_folded = self._builder is not None
        """Whether there has been a state, also if damage has ended it."""
        self._image: MetadataImage = EMPTY
        self._quorum = QuorumFacts()

    @classmethod
    def given_up(cls, log: NodeFiles, why: str) -> "_LogCheck":
        """One that could not look, which is its only problem."""
        check = cls(log)
        text = why.removeprefix(f"{log.log_directory}/")
        check._problems.append(Problem(ProblemKind.INCOMPLETE, str(log.home), text))
        return check

    def run(self) -> None:
        """Look at everything."""
        self.log, examined = _examined(self.log)
        self._problems += examined.problems
        self._damaged = frozenset(Path(problem.file).name for problem in examined.problems)
        self._notes += (problem for problem in self.log.problems if problem.kind is ProblemKind.NOTE)
        if examined.torn is not None:
            torn = examined.torn
            text = f"ends inside a batch, of which {torn.size_bytes} bytes are there: it was being written"
            self._add_note(in_file(torn.path, text, kind=ProblemKind.TORN, position_bytes=torn.position))
        self._begin()
        hole = -1
        for item in read_log(self.log):
            if isinstance(item, Batch):
                if hole >= 0:
                    self._resume(hole, item.view.base_offset)
                hole = -1
                self._at_snapshots(item.view.base_offset)
                self._apply_batch(item)
            elif item.kind is not ProblemKind.TORN and hole < 0:
                # The examination has told what is wrong with the bytes. A snapshot that ends here is compared
                # with what came before, and no state is begun with it: what follows is not what it is of.
                self._at_snapshots(self._end)
                self._builder, hole = None, self._end
        if hole >= 0:
            self.unread.append((hole, -1))
        self._at_snapshots(self._end)
        self._at_newer_snapshots()
        if self._builder is not None:
            self._image = self._builder.image()

    def verdict(self) -> LogVerdict:
        """What was found."""
        return LogVerdict(
            log=self.log,
            start_offset=self.log.begin(self._end),
            end_offset=self._end,
            end_epoch=self._epoch,
            batch_count=len(self.keys),
            record_count=self._records,
            snapshot_count=self._compared,
            whole_snapshot_count=sum(one.name not in self._damaged for one in self.log.snapshots),
            image_hash=None if self._builder is None else self._image.hash(),
            unknown_kinds=tuple(self._image.unknown_kinds()),
            unread=tuple(self.unread),
            problems=tuple(self._problems),
            notes=tuple(self._notes),
        )

    def _begin(self) -> None:
        """Take the voters that a new log begins with."""
        first = next((one for one in self.log.snapshots if one.id.offset == 0), None)
        if first is not None and (state := self._load(first)) is not None:
            self._quorum = state.quorum
            if self._builder is not None:
                self._builder = ImageBuilder(state.image)

    # -- records -------------------------------------------------------------------------------

    def _apply_batch(self, item: Batch) -> None:
        view = item.view
        self.keys.add(view)
        self._end, self._epoch = view.end_offset, view.epoch
        self._records += view.record_count
        offset = view.base_offset
        try:
            self._quorum = self._quorum.after(controls_of(view), view.epoch)
            for offset, value in enumerate(view.values(), view.base_offset):
                record = decode(value)
                if self._builder is not None:
                    self._builder.apply(record, offset)
        except ImpossibleRecordError as error:
            self._end_image(item, error.offset, f"cannot follow what came before it: {error.reason}")
        except MalformedError as error:
            self._end_image(item, offset, reason_of(error))

    def _end_image(self, item: Batch, offset: Offset, reason: str) -> None:
        """A record is wrong although its bytes are good; no state can be had before the next snapshot."""
        self._builder = None
        problem = item.as_problem(reason, offset).within(self.log.home)
        places = {(told.file, told.position_bytes) for told in self._problems}
        if (problem.file, problem.position_bytes) not in places:  # the examination may have told of its bytes
            self._problems.append(problem)

    # -- snapshots -----------------------------------------------------------------------------

    def _at_snapshots(self, offset: Offset) -> None:
        while self._snapshots and self._snapshots[0].id.offset <= offset:
            snapshot = self._snapshots.pop(0)
            if snapshot.id.offset < self.log.start_offset:
                self._add_note(in_file(snapshot.path, "older than the log, not compared"))
            elif snapshot.id.offset != self._end:
                text = f"offset {snapshot.id.offset} is not between two batches"
                self._add_problem(in_file(snapshot.path, text))
            else:
                self._compare(snapshot)

    def _resume(self, start: Offset, end: Offset) -> None:
        """The log can be read again: what lies between was lost to damage, and a state begins at a snapshot
        behind it.
        """
        if end > start:
            self.unread.append((start, end))
        inside = [snapshot for snapshot in self._snapshots if snapshot.id.offset < end]
        del self._snapshots[: len(inside)]
        self._not_compared(inside, f"the log cannot be read from offset {start} to {end - 1}")
        self._end = max(self._end, end)

    def _at_newer_snapshots(self) -> None:
        """Snapshots behind the end of what can be read; that the log ends too early is told already."""
        told = {Path(problem.file).name for problem in self._problems}
        left = [snapshot for snapshot in self._snapshots if snapshot.name not in told]
        self._not_compared(left, f"the log can be read to offset {self._end} only")

    def _not_compared(self, snapshots: Sequence[LogFile], why: str) -> None:
        for snapshot in snapshots:
            self._add_note(in_file(snapshot.path, f"not compared, {why}"))

    def _compare(self, snapshot: LogFile) -> None:
        state = self._load(snapshot)
        if state is None:
            return
        if self._builder is None:
            self._builder = ImageBuilder(state.image)
            self._quorum = msgspec.structs.replace(state.quorum, leader_epoch=self._quorum.leader_epoch)
            if self._end == self.log.start_offset:
                self._epoch = snapshot.id.epoch
            else:
                what = (
                    "from here on the state is folded again"
                    if self._is_folded
                    else "the state begins with it"
                )
                self._add_note(in_file(snapshot.path, f"not compared, {what}"))
            self._is_folded = True
            if state.image.is_partial:
                self._not_comparable(snapshot, is_fault=False)
            return
        image = self._builder.image()
        wrong = _differences(image, state)
        known = {kind for kind, _ in image.unknown_kinds()}
        unknown = [kind for kind, _ in state.image.unknown_kinds()]
        if unknown and (wrong or not known.issuperset(unknown)):
            self._not_comparable(snapshot, is_fault=not known.issuperset(unknown))
            return
        self._compared += 1
        if image.transaction is not None:
            wrong.append(
                f"the transaction that began at {image.transaction.begin_offset} has not ended there"
            )
        if self._end > self.log.start_offset and snapshot.id.epoch != self._epoch:
            wrong.append(f"the record before it is of epoch {self._epoch}")
        if state.quorum.kraft_version != self._quorum.kraft_version:
            wrong.append(f"kraft.version is {state.quorum.kraft_version}, not {self._quorum.kraft_version}")
        if state.quorum.voters and state.quorum.voters != self._quorum.voters:
            wrong.append("it has other voters")
        if wrong:
            more = f", and {len(wrong) - _FACTS_TOLD} more" if len(wrong) > _FACTS_TOLD else ""
            told = "; ".join(wrong[:_FACTS_TOLD])
            text = f"is not what the log makes at offset {snapshot.id.offset}"
            self._add_problem(in_file(snapshot.path, f"{text}; the snapshot against the log: {told}{more}"))

    def _not_comparable(self, snapshot: LogFile, *, is_fault: bool) -> None:
        """Name the first record that is unknown here: what differs may be its work. Nothing is wrong if the
        log has such records, too.
        """
        problem = unknown_record(snapshot)
        if problem is not None:
            text = f"{problem.text}; not compared with the log"
            (self._add_problem if is_fault else self._add_note)(msgspec.structs.replace(problem, text=text))

    def _load(self, snapshot: LogFile) -> State | None:
        try:
            return load_snapshot(self.log, snapshot)
        except FileGoneError:
            raise
        except UnanswerableError as error:
            if not any(problem.file.endswith(snapshot.path.name) for problem in self._problems):
                self._add_problem(error.problem or in_file(snapshot.path, str(error)))
            return None

    def _add_problem(self, problem: Problem) -> None:
        self._problems.append(problem.within(self.log.home))

    def _add_note(self, problem: Problem) -> None:
        kind = ProblemKind.TORN if problem.kind is ProblemKind.TORN else ProblemKind.NOTE
        self._notes.append(msgspec.structs.replace(problem, kind=kind).within(self.log.home))


def _examined(log: NodeFiles) -> tuple[NodeFiles, Examined]:
    """What is wrong with the bytes. Once more if a running node wrote a small file meanwhile, or added or
    removed a large one: the files are compared with each other, and one of them was older than the others.
    """
    for _ in range(_EXAMINATIONS_MAX):
        before = _stamps(log)
        log = describe_again(log)
        examined = examine(log)
        if not examined.problems or _stamps(log) == before:
            break
    return log, examined


def _stamps(log: NodeFiles) -> tuple[list[str], list[tuple[int, int]]]:
    """What tells that a running node has written a small file since, or that its large ones are others."""
    paths = [log.log_directory / name for name in (names.QUORUM_STATE, names.EPOCH_CHECKPOINT)]
    large = sorted(
        path.name for path in log.log_directory.iterdir() if path.name.endswith((names.LOG, names.CHECKPOINT))
    )
    return large, [
        (stat.st_mtime_ns, stat.st_ino) for path in paths if path.exists() for stat in (path.stat(),)
    ]


def _differences(image: MetadataImage, state: State) -> list[str]:
    """What a snapshot says otherwise than the log."""
    if image.hash() == state.image.hash():
        return []
    facts = [str(fact) for fact in changes(image, state.image, with_consequences=True)]
    return facts or ["tags that are not known here differ"]
