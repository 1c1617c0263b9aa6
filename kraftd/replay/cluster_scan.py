"""A cluster at a glance: its nodes' logs compared, its leaders, its voters, and what is committed.

Made from batch headers and control records only, so it costs about a microsecond a batch and is known before
Spark reads a single metadata record. The data source takes its commit status from here, the job the choice
of the log to fold and most of the report.

The *sound* part of a log is gapless, in order and passes every checksum; nothing after its end is used to
judge anything. Data records are not read here: see `kraftd.replay.source.decode`.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations

import msgspec
import numpy as np

from kraftd.errors import MalformedError
from kraftd.logtools.commit import Bounds, CommitVerdict, JudgedLog, judge, proofs_of
from kraftd.logtools.comparison import BatchKeys, Comparisons, LogComparison, clusters_among, compare
from kraftd.logtools.manifest import MANIFEST
from kraftd.logtools.node_files import FileKind, LogFile, NodeFiles
from kraftd.logtools.problem import Problem, ProblemKind
from kraftd.records.batch import scan
from kraftd.records.batch_header import CONTROL
from kraftd.records.control import decode_control
from kraftd.records.messages import LeaderChangeMessage, VotersRecord
from kraftd.replay.node_problems import problems_of, sound_count
from kraftd.replay.source.headers import Headers, empty, mapped, packed_keys, scan_segment
from kraftd.types import Epoch, EpochEntry, NodeId, Offset


class LeaderRecord(msgspec.Struct, frozen=True):
    """A LeaderChange control record: the first record of an epoch."""

    epoch: Epoch
    offset: Offset
    leader_id: NodeId
    voters: tuple[NodeId, ...]
    granted_by: tuple[NodeId, ...]
    timestamp_ms: int


class VotersAt(msgspec.Struct, frozen=True):
    """A voter set, and the offset of the record that set it (-1: from before the log)."""

    offset: Offset
    voters: frozenset[NodeId]


class EpochSpan(msgspec.Struct, frozen=True):
    """An epoch in a log: its offsets and its times."""

    epoch: Epoch
    start_offset: Offset
    end_offset: Offset
    started_at_ms: int
    last_record_at_ms: int


class NodeSurvey(msgspec.Struct, frozen=True):
    """One node's log. `headers` are all batches of all segments, `sound_count` of them sound.

    Counts and times are kept apart from the headers, which are only there while a cluster is compared.
    `end_offset` ends the sound part, `readable_end` the last batch found, sound or not.
    """

    node: NodeFiles
    headers: Headers
    sound_count: int
    start_offset: Offset
    end_offset: Offset
    readable_end: Offset
    batch_count: int
    record_count: int
    first_record_at_ms: int
    last_record_at_ms: int
    epochs: tuple[EpochSpan, ...]
    leader_records: tuple[LeaderRecord, ...]
    voter_sets: tuple[VotersAt, ...]
    problems: tuple[Problem, ...]

    @property
    def sound(self) -> Headers:
        """The part of the log that can be relied on."""
        return self.headers[: self.sound_count]

    @property
    def without_headers(self) -> "NodeSurvey":
        """What a report needs: small, whatever the size of the log."""
        return msgspec.structs.replace(self, headers=empty(), sound_count=0)


class ClusterSurvey(msgspec.Struct, frozen=True):
    """All nodes of a cluster that were given, compared."""

    cluster_id: str
    nodes: tuple[NodeSurvey, ...]
    voters: frozenset[NodeId]
    comparisons: tuple[tuple[LogComparison, ...], ...]
    verdict: CommitVerdict
    problems: tuple[Problem, ...]
    compared_batches: int
    """How many batches of other nodes were found equal to the most complete log's."""

    @property
    def without_headers(self) -> "ClusterSurvey":
        """What a report needs."""
        return msgspec.structs.replace(self, nodes=tuple(node.without_headers for node in self.nodes))

    @property
    def reference(self) -> NodeSurvey:
        """The most complete log: it holds every committed record that is here."""
        return self.nodes[self.verdict.reference]

    @property
    def judged(self) -> list[tuple[NodeSurvey, Bounds]]:
        """Every node with what is committed in its log."""
        return list(zip(self.nodes, self.verdict.bounds, strict=True))


def survey_clusters(cluster_id: str, directories: Sequence[NodeFiles]) -> list[ClusterSurvey]:
    """Scan, compare and judge the nodes under one cluster id: one cluster, or as many as their logs are of.

    Ids are copied from tutorials. Of two clusters under one id, each gets its folder's name to the id.
    """
    nodes = [survey_node(directory) for directory in directories]
    keys = [BatchKeys(packed_keys(node.sound)) for node in nodes]
    comparisons = [[compare(left, right) for right in keys] for left in keys]
    groups = clusters_among(comparisons)
    if len(groups) == 1:
        return [_judged(cluster_id, nodes, comparisons)]
    surveys = []
    for group in groups:
        name = f"{cluster_id} in {nodes[group[0]].node.directory}"
        text = (
            f"{len(groups)} clusters share the id {cluster_id}: their logs differ from the first batch that "
            "both hold; each is replayed by itself"
        )
        shared = Problem(ProblemKind.DIVERGED, nodes[group[0]].node.directory, text)
        renamed = [_renamed(nodes[number], name) for number in group]
        found = [[comparisons[one][two] for two in group] for one in group]
        survey = _judged(name, renamed, found)
        surveys.append(msgspec.structs.replace(survey, problems=(shared, *survey.problems)))
    return surveys


def _renamed(survey: NodeSurvey, cluster_id: str) -> NodeSurvey:
    node = msgspec.structs.replace(survey.node, cluster_id=cluster_id)
    return msgspec.structs.replace(survey, node=node)


def _judged(cluster_id: str, nodes: Sequence[NodeSurvey], comparisons: Comparisons) -> ClusterSurvey:
    """Judge what is committed in the logs of one cluster."""
    logs = [_judged_log(node) for node in nodes]
    voters, before = _voters(nodes)
    verdict = judge(logs, comparisons, voters)
    if before is not None and before.offset >= verdict.committed_end:
        verdict = verdict.or_weaker(judge(logs, comparisons, before.voters))
    return ClusterSurvey(
        cluster_id=cluster_id,
        nodes=tuple(nodes),
        voters=voters,
        comparisons=tuple(tuple(row) for row in comparisons),
        verdict=verdict,
        problems=(
            *(problem for node in nodes for problem in node.problems),
            *_divergences(nodes, comparisons, verdict),
            *(
                Problem(ProblemKind.DIVERGED, nodes[verdict.reference].node.directory, text)
                for text in verdict.contradictions
            ),
            *_undecided(nodes),
            *_repeated(nodes),
        ),
        compared_batches=_compared(comparisons, verdict),
    )


def _compared(comparisons: Comparisons, verdict: CommitVerdict) -> int:
    """How many batches of the other logs are also in the most complete one."""
    found = comparisons[verdict.reference]
    return sum(one.equal_batches for index, one in enumerate(found) if index != verdict.reference)


def survey_node(node: NodeFiles) -> NodeSurvey:
    """Scan all segments of a node and read their control records."""
    scans = [scan_segment(file, index) for index, file in _numbered_segments(node)]
    log = np.concatenate([scan.headers for scan in scans]) if scans else empty()
    starts = [
        EpochEntry(span.epoch, span.start_offset) for span in _epochs(log[: sound_count(node, log, ())])
    ]
    problems = problems_of(node, scans, starts)
    sound = log[: sound_count(node, log, problems)]
    leader_records, voter_sets = _control_records(node, sound)
    start_offset = int(log["base_offset"][0]) if len(log) else node.start_offset
    survey = NodeSurvey(
        node=node,
        headers=log,
        sound_count=len(sound),
        start_offset=start_offset,
        end_offset=int(sound["end_offset"][-1]) if len(sound) else start_offset,
        readable_end=int(log["end_offset"].max(initial=start_offset)),
        batch_count=len(log),
        record_count=int(log["record_count"].clip(min=0).sum()),
        first_record_at_ms=int(sound["base_timestamp_ms"][0]) if len(sound) else -1,
        last_record_at_ms=int(sound["max_timestamp_ms"][-1]) if len(sound) else -1,
        epochs=tuple(_epochs(sound)),
        leader_records=leader_records,
        voter_sets=voter_sets,
        problems=tuple(problems),
    )
    return msgspec.structs.replace(survey, problems=(*problems, *_end_by_manifest(survey)))


def _numbered_segments(node: NodeFiles) -> Iterator[tuple[int, LogFile]]:
    """The segments, each with its number among all files of the node."""
    return ((index, file) for index, file in enumerate(node.files) if file.kind is FileKind.LOG)


def _epochs(log: Headers) -> Iterator[EpochSpan]:
    if not len(log):
        return
    firsts = np.concatenate(([0], np.flatnonzero(np.diff(log["epoch"])) + 1))
    lasts = np.concatenate((firsts[1:] - 1, [len(log) - 1]))
    for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
        yield EpochSpan(
            epoch=int(log["epoch"][first]),
            start_offset=int(log["base_offset"][first]),
            end_offset=int(log["end_offset"][last]),
            started_at_ms=int(log["base_timestamp_ms"][first]),
            last_record_at_ms=int(log["max_timestamp_ms"][last]),
        )


def _control_records(node: NodeFiles, log: Headers) -> tuple[tuple[LeaderRecord, ...], tuple[VotersAt, ...]]:
    """Read leaders and voter sets out of a node's control batches, and the voters of its snapshots."""
    leader_records: list[LeaderRecord] = []
    voter_sets: list[VotersAt] = []
    control = log[log["attributes"] & CONTROL != 0]
    for snapshot in (file for file in node.snapshots if not len(log) or file.offset <= log["base_offset"][0]):
        with mapped(snapshot.path) as data:
            voter_sets += _voters_in(bytes(data), snapshot.offset - 1)
    for index in np.unique(control["file"]).tolist():
        with mapped(node.files[index].path) as data:
            for header in control[control["file"] == index]:
                position = int(header["position"])
                raw = bytes(data[position : position + int(header["size_bytes"])])
                leader_records += _leader_records_in(raw)
                voter_sets += _voters_in(raw, None)
    return tuple(leader_records), tuple(voter_sets)


def _leader_records_in(raw: bytes) -> Iterator[LeaderRecord]:
    for batch in scan(raw):
        for record in batch.records():
            match decode_control(record.key, record.value):
                case LeaderChangeMessage() as change:
                    yield LeaderRecord(
                        epoch=batch.epoch,
                        offset=batch.base_offset + record.offset_delta,
                        leader_id=change.leader_id,
                        voters=tuple(sorted(voter.voter_id for voter in change.voters)),
                        granted_by=tuple(sorted(voter.voter_id for voter in change.granting_voters)),
                        timestamp_ms=batch.base_timestamp + record.timestamp_delta,
                    )


def _voters_in(raw: bytes, offset: Offset | None) -> list[VotersAt]:
    """The voter sets in control batches, at their own offset or, in a snapshot, at the one given."""
    found = []
    try:
        for batch in scan(raw):
            if not batch.is_control:
                break
            for record in batch.records():
                match decode_control(record.key, record.value):
                    case VotersRecord() as voters:
                        at = batch.base_offset + record.offset_delta if offset is None else offset
                        found.append(VotersAt(at, frozenset(voter.voter_id for voter in voters.voters)))
    except MalformedError:
        return []  # the scan of the file has reported it
    return found


def _end_by_manifest(survey: NodeSurvey) -> Iterator[Problem]:
    """Compare the manifest of an export with where the log really ends."""
    node, end = survey.node, survey.readable_end
    if node.manifest is not None and node.manifest.log_end_offset > end:
        text = f"says that {node.manifest.log_end_offset} ends the log, but the log can be read to {end} only"
        yield Problem(ProblemKind.INCOMPLETE, node.directory, text, file=MANIFEST, offset=end)


def _judged_log(survey: NodeSurvey) -> JudgedLog:
    """What the commit rules want to know of a node."""
    node = survey.node
    epochs = [span.epoch for span in survey.epochs] + [entry.epoch for entry in node.epochs or ()]
    return JudgedLog(
        node_id=node.node_id,
        end_offset=survey.end_offset,
        may_hold_more=_may_hold_more(survey),
        highest_epoch=None if node.election is None else max([node.election.epoch, *epochs]),
        epoch_starts=tuple(EpochEntry(span.epoch, span.start_offset) for span in survey.epochs),
        proofs=tuple(proofs_of(node, survey.end_offset)),
    )


def _may_hold_more(survey: NodeSurvey) -> bool:
    """Whether the node itself may have had records that this copy lacks."""
    running = survey.node.manifest is not None and survey.node.manifest.high_watermark >= 0
    kinds = {ProblemKind.DAMAGED, ProblemKind.TORN, ProblemKind.INCOMPLETE}
    log_problem = any(problem.kind in kinds and problem.offset >= 0 for problem in survey.problems)
    return running or log_problem or not survey.batch_count or survey.node.epochs is None


def _voters(nodes: Sequence[NodeSurvey]) -> tuple[frozenset[NodeId], VotersAt | None]:
    """The newest voter set known, and the one before it if the newest came in a record.

    KRaftVoters records go first, then the leaders' own lists, then the election files of static quorums.
    """
    latest = max(nodes, key=lambda node: (node.epochs[-1].epoch if node.epochs else -1, node.end_offset))
    if latest.voter_sets:
        sets = sorted(latest.voter_sets, key=lambda entry: entry.offset)
        newest = sets[-1]
        return newest.voters, VotersAt(newest.offset, sets[-2].voters) if len(sets) > 1 else None
    if latest.leader_records:
        return frozenset(latest.leader_records[-1].voters), None
    return frozenset(voter for node in nodes for voter in node.node.election_voters), None


def _divergences(
    nodes: Sequence[NodeSurvey], comparisons: Comparisons, verdict: CommitVerdict
) -> Iterator[Problem]:
    """Name each node that differs from the most complete log, and from where on."""
    reference = nodes[verdict.reference]
    for node, found in zip(nodes, comparisons[verdict.reference], strict=True):
        if found.is_parted:
            text = (
                f"node {node.node.node_id} differs from node {reference.node.node_id} from offset "
                f"{found.common_end:,} on: epoch {found.right_epoch} here, {found.left_epoch} there"
            )
            yield Problem(ProblemKind.DIVERGED, node.node.directory, text, offset=found.common_end)


def _undecided(nodes: Sequence[NodeSurvey]) -> Iterator[Problem]:
    """Name each two logs of which one ends before the other begins: nothing of them can be compared."""
    held = [node for node in nodes if node.batch_count]
    for one, two in combinations(sorted(held, key=lambda node: node.start_offset), 2):
        if one.readable_end <= two.start_offset:
            text = (
                f"shares no offset with the log of node {two.node.node_id}: nothing says whether they are of "
                "one cluster"
            )
            yield Problem(ProblemKind.NOTE, one.node.directory, text)


def _repeated(nodes: Sequence[NodeSurvey]) -> Iterator[Problem]:
    ids = [node.node.node_id for node in nodes]
    for repeated in sorted({node_id for node_id in ids if node_id >= 0 and ids.count(node_id) > 1}):
        text = f"node {repeated} was given {ids.count(repeated)} times; its vote counts for nothing here"
        yield Problem(ProblemKind.NOTE, "", text)
