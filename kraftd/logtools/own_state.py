"""What a node of kraftd noted of its own log, in `kraftd.state` beside it: for `log verify` and `export`.

The file says up to where the log was flushed, and which election was written last. So a log that ends before
that has lost records, though each of its batches is whole; and an election file that is older, or gone, has
lost a vote. The start of the node judges the same, by the same code of `kraftd.storage`.

A running node writes the file after the log, and lowers what it says before it cuts the log. So what was read
here before the log holds for the log, unless that was cut meanwhile: whoever finds an end too early looks
again. In a copy that was made file by file while the node ran, nothing tells a log that was copied too early
from one that lost its end: the sentences say so.

A directory of Apache Kafka's has no such file, nor has an export: of them nothing is known here. Not here:
the other questions of a start (`inspection`).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from kraftd.errors import StorageError
from kraftd.logtools.errors import UnanswerableError
from kraftd.logtools.finding import listed_again
from kraftd.logtools.integrity import examine
from kraftd.logtools.node_files import NodeFiles, describe_again
from kraftd.logtools.problem import Problem, ProblemKind, in_file
from kraftd.logtools.verify import LogVerdict, Verdict
from kraftd.records import names
from kraftd.storage.disk import Disk
from kraftd.storage.election_store import judge_election
from kraftd.storage.filesystem import OsFileSystem
from kraftd.storage.sidecar import SidecarReading, SidecarState, read_sidecar
from kraftd.types import Offset

_READINGS_MAX: Final = 5
"""How often the two files of an election are read that a running node writes meanwhile."""

_COPIED: Final = "or files were copied one by one while the node ran: copy it with `kraftctl export`"


class OwnState(msgspec.Struct, frozen=True):
    """What a directory's own file says of it; nothing if it has none."""

    flushed_offset: Offset = -1
    """The log was flushed up to here. -1: unknown."""
    problems: tuple[Problem, ...] = ()
    """What is wrong with the file itself, and what it says of the election file."""
    notes: tuple[Problem, ...] = ()


def own_state(home: Path) -> OwnState:
    """Read what a node noted in its directory. Never raises for what is in it."""
    disk, path = Disk(OsFileSystem()), home / names.SIDECAR
    reading = read_sidecar(disk, path)
    if reading.state is None:
        text = sidecar_problem(reading).removeprefix(f"{path}: ")
        return OwnState(problems=(in_file(path, text).within(home),) if text else ())
    return _judged(disk, home, reading.state)


def sidecar_problem(reading: SidecarReading) -> str:
    """What is wrong with a `kraftd.state`, with its path; empty if nothing is, or there is none."""
    return reading.problem and f"{reading.problem}: promises of this node may be forgotten"


def _judged(disk: Disk, home: Path, state: SidecarState) -> OwnState:
    """Compare with the election file; both are of one moment once the first did not change meanwhile."""
    election = home / names.LOG_DIRECTORY / names.QUORUM_STATE
    try:
        for _ in range(_READINGS_MAX):
            data = disk.read_file(election)
            again = read_sidecar(disk, home / names.SIDECAR).state
            if again is None or again.local_state == state.local_state:
                break
            state = again
    except StorageError:
        return OwnState()  # the election file is no file, which is told as such
    finding = judge_election(election, data, state.local_state)
    point = None if finding.written_elsewhere else state.recovery_point
    problems = []
    if finding.amnesia:
        text = finding.amnesia.removeprefix(f"{election}: ")
        problems.append(msgspec.structs.replace(in_file(election, text).within(home), action=_COPIED))
    waits = [f"the node does not count yet: {reason}" for reason in state.local_state.reasons]
    return OwnState(
        -1 if point is None else point.offset,
        tuple(problems),
        tuple(in_file(home / names.SIDECAR, text, kind=ProblemKind.NOTE).within(home) for text in waits),
    )


def lost_end(
    own: OwnState, log: NodeFiles, end_offset: Offset, torn_at: int, told: Sequence[Problem]
) -> Problem | None:
    """What is missing at the end of a log that had been flushed further.

    Args:
        own: What its directory says, read before the log.
        log: The directory.
        end_offset: Where the last whole batch ends.
        torn_at: The byte where the beginning of a batch stands at the end; -1 if the log ends with a batch.
        told: What else is wrong; None is returned for what is told there.
    """
    if not log.segments or own.flushed_offset <= end_offset:
        return None
    if any(snapshot.offset >= own.flushed_offset for snapshot in log.snapshots):
        return None  # it holds what the log lacks, which is told of the two
    if any(one.kind is ProblemKind.INCOMPLETE and one.offset == end_offset for one in told):
        return None
    path = log.segments[-1].path
    what = "ends inside a batch" if torn_at >= 0 else "the log ends here"
    text = f"{what}, but {names.SIDECAR} knows that it was flushed up to offset {own.flushed_offset}"
    at = torn_at if torn_at >= 0 else log.segments[-1].size_bytes
    found = in_file(path, text, kind=ProblemKind.INCOMPLETE, position_bytes=at, offset=end_offset)
    action = f"the node lost what lies between, and does not count; {_COPIED}"
    return msgspec.structs.replace(found.within(log.home), action=action)


def with_own(own: OwnState, lost: Problem | None, told: Sequence[Problem]) -> tuple[Problem, ...]:
    """All that is wrong, what the node noted first; of a file of which something is told already, no more."""
    faulty = {problem.file for problem in told}
    noted = [problem for problem in own.problems if problem.file not in faulty]
    return (*noted, *([] if lost is None else [lost]), *told)


def with_own_states(verdict: Verdict, states: Sequence[OwnState]) -> Verdict:
    """The same with what each node noted of its own log, in the order of the logs.

    Apart from `verify`, which the Spark job uses: that knows no file of the daemon's own.
    """
    logs = tuple(_with_own(log, own) for log, own in zip(verdict.logs, states, strict=True))
    return msgspec.structs.replace(verdict, logs=logs)


def _with_own(verdict: LogVerdict, own: OwnState) -> LogVerdict:
    notes = [note for note in verdict.notes if all(note.file != problem.file for problem in own.problems)]
    lost = _lost_end_of(verdict, own)
    if lost is not None:
        notes = [note for note in notes if note.kind is not ProblemKind.TORN]
    problems = with_own(own, lost, verdict.problems)
    return msgspec.structs.replace(verdict, problems=problems, notes=(*notes, *own.notes))


def _lost_end_of(verdict: LogVerdict, own: OwnState) -> Problem | None:
    """The lost end of a log; looked at once more, since a running node may have cut it meanwhile."""
    if verdict.unread and verdict.unread[-1][1] < 0:
        return None  # it ends with damage, which is told
    torn = next((note.position_bytes for note in verdict.notes if note.kind is ProblemKind.TORN), -1)
    if lost_end(own, verdict.log, verdict.end_offset, torn, verdict.problems) is None:
        return None
    own = own_state(verdict.log.home)
    try:
        return listed_again(describe_again(verdict.log), lambda log: _lost_end_now(own, log), describe_again)
    except UnanswerableError as error:
        return Problem(ProblemKind.INCOMPLETE, str(verdict.log.home), str(error))


def _lost_end_now(own: OwnState, log: NodeFiles) -> Problem | None:
    again = examine(log)
    torn = -1 if again.torn is None else again.torn.position
    return lost_end(own, log, again.end_offset, torn, again.problems)
