"""Which records are committed? Judged from copies of the logs alone, with three outcomes.

*Committed*, by any of these:

* a manifest: its node knew a high watermark above them when it was copied;
* a snapshot ends above them: snapshots are taken of committed records only;
* all voters are here and a majority holds them up to a record of epoch E, the highest epoch in any voter's
  log, checkpoint and election file;
* all voters are here and every one holds them: whoever leads next holds them too, so nothing can overwrite
  them.

*Uncommitted*: even if every voter that is missing, damaged or copied while running held them, that would be
no majority; or they sit where a committed record differs.

*Unknown*: everything else. A record on a majority that is older than E is unknown: a leader of E that does
not hold it may still overwrite it (Raft's figure 8).

The whole of a log's judgement is two bounds, so it costs nothing per record. Pure; the headers come from
`kraftd.replay.cluster_scan`, the comparisons from `comparison`. What one directory proves by itself is in
`proofs_of`, for whoever has no other.

Differs from the plain majority rule: the snapshot and the every-voter rule are added, both sound without
knowing who led when. Without them one unanswered election would make a whole finished log unknown.
"""

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from kraftd.logtools.comparison import Comparisons
from kraftd.logtools.node_files import NodeFiles
from kraftd.records.epoch_checkpoint import epoch_of
from kraftd.types import Epoch, EpochEntry, NodeId, Offset, majority_of

NEVER_ENDS: Offset = 2**63 - 1


class CommitStatus(StrEnum):
    """What is known of a record's commitment."""

    COMMITTED = "committed"
    UNCOMMITTED = "uncommitted"
    UNKNOWN = "unknown"


class CommitRule(StrEnum):
    """What proves records committed."""

    MANIFEST = "manifest"
    MAJORITY = "majority"
    EVERY_VOTER = "every voter"
    SNAPSHOT = "snapshot"


class Proof(msgspec.Struct, frozen=True):
    """Everything below `end_offset` is committed, because of `text`."""

    end_offset: Offset
    rule: CommitRule
    text: str


def proofs_of(node: NodeFiles, end_offset: Offset) -> list[Proof]:
    """What a node's own files prove of its log, which can be read up to an offset: its manifest, and its
    newest snapshot.
    """
    proofs = []
    if node.manifest is not None and node.manifest.high_watermark > 0:
        end = min(node.manifest.high_watermark, end_offset)
        text = f"node {node.node_id} was copied with high watermark {node.manifest.high_watermark:,}"
        proofs.append(Proof(end, CommitRule.MANIFEST, text))
    for snapshot in node.snapshots[-1:]:
        end = min(snapshot.offset, end_offset)
        if end > 0:
            text = f"node {node.node_id} took a snapshot at {snapshot.offset:,}"
            proofs.append(Proof(end, CommitRule.SNAPSHOT, text))
    return proofs


class JudgedLog(msgspec.Struct, frozen=True):
    """One node's log, as far as the rules look at it.

    `end_offset` ends the sound part. `may_hold_more`: the copy is damaged, incomplete or of a running node.
    `highest_epoch` is over log, checkpoint and election file; None without an election file to know it by.
    `epoch_starts` are those of the log, ascending.
    """

    node_id: NodeId
    end_offset: Offset
    may_hold_more: bool
    highest_epoch: Epoch | None
    epoch_starts: tuple[EpochEntry, ...]
    proofs: tuple[Proof, ...] = ()

    def epoch_at(self, offset: Offset) -> Epoch:
        """The epoch of the record at `offset`; -1 before the first."""
        return epoch_of(self.epoch_starts, offset, unknown=-1)

    @property
    def log_order(self) -> tuple[Epoch, Offset]:
        """By which one log is more complete than another."""
        return (self.epoch_at(self.end_offset - 1), self.end_offset)


class Bounds(msgspec.Struct, frozen=True):
    """One log's judgement: committed below the first bound, uncommitted from the second on, else unknown."""

    committed_end: Offset
    uncommitted_from: Offset
    why_unknown: str = ""
    why_uncommitted: str = ""

    def status_of(self, offset: Offset) -> CommitStatus:
        """What is known of the record at `offset`."""
        if offset < self.committed_end:
            return CommitStatus.COMMITTED
        return CommitStatus.UNCOMMITTED if offset >= self.uncommitted_from else CommitStatus.UNKNOWN

    def or_weaker(self, other: "Bounds") -> "Bounds":
        """What both judgements agree on."""
        weaker = self if self.committed_end <= other.committed_end else other
        later = self if self.uncommitted_from >= other.uncommitted_from else other
        return Bounds(weaker.committed_end, later.uncommitted_from, weaker.why_unknown, later.why_uncommitted)


class CommitVerdict(msgspec.Struct, frozen=True):
    """The judgement over a cluster.

    `reference` is the index of the most complete log; it holds every committed record that is here.
    `known`: the proof speaks of the quorum as it was copied, so that what lies above may be left out.
    """

    reference: int
    committed_end: Offset
    proof: Proof | None
    known: bool
    bounds: tuple[Bounds, ...]
    contradictions: tuple[str, ...] = ()

    def or_weaker(self, other: "CommitVerdict") -> "CommitVerdict":
        """What is proved by both, for a cluster in which two voter sets may count."""
        weaker = self if self.committed_end <= other.committed_end else other
        both = zip(self.bounds, other.bounds, strict=True)
        return msgspec.structs.replace(
            weaker, known=self.known and other.known, bounds=tuple(one.or_weaker(two) for one, two in both)
        )


def judge(logs: Sequence[JudgedLog], comparisons: Comparisons, voters: frozenset[NodeId]) -> CommitVerdict:
    """Judge every log of a cluster. `voters` is empty when nobody says who they are."""
    candidates = [i for i, log in enumerate(logs) if not voters or log.node_id in voters]
    reference = max(candidates or range(len(logs)), key=lambda i: logs[i].log_order)
    proofs, contradictions = _proofs(logs, comparisons, reference, voters)
    proof = max(proofs, key=lambda p: (p.end_offset, p.rule is not CommitRule.SNAPSHOT), default=None)
    committed_end = proof.end_offset if proof is not None else 0
    return CommitVerdict(
        reference=reference,
        committed_end=committed_end,
        proof=proof,
        known=proof is not None and proof.rule is not CommitRule.SNAPSHOT,
        bounds=tuple(
            _bounds(logs, comparisons, voters, index, reference, committed_end) for index in range(len(logs))
        ),
        contradictions=tuple(contradictions),
    )


def _proofs(
    logs: Sequence[JudgedLog],
    comparisons: Comparisons,
    reference: int,
    voters: frozenset[NodeId],
) -> tuple[list[Proof], list[str]]:
    """Everything that proves a part of the reference log committed, and what cannot be true."""
    proofs, contradictions = [], []
    for index, log in enumerate(logs):
        matched = comparisons[reference][index]
        for proof in log.proofs:
            if matched.is_parted and matched.common_end < proof.end_offset:
                contradictions.append(
                    f"{proof.text}, but node {logs[reference].node_id}, whose log is the most complete, "
                    f"differs from offset {matched.common_end}: committed records were lost or changed"
                )
            else:
                proofs.append(proof)
    here = _voter_indexes(logs, voters)
    if here is not None:
        proofs += _voter_proofs(logs, comparisons, reference, here)
    return proofs, contradictions


def _voter_proofs(
    logs: Sequence[JudgedLog],
    comparisons: Comparisons,
    reference: int,
    here: Sequence[int],
) -> list[Proof]:
    """What a full set of voters proves: the every-voter rule, and the majority rule for the highest epoch."""
    held = sorted((comparisons[reference][index].common_end for index in here), reverse=True)
    majority = majority_of(len(here))
    proofs = []
    if held[-1] > 0:
        text = "every voter holds them, so no leader can be elected without them"
        proofs.append(Proof(held[-1], CommitRule.EVERY_VOTER, text))
    epochs = [logs[index].highest_epoch for index in here]
    known = [epoch for epoch in epochs if epoch is not None]
    end = held[majority - 1]
    if len(known) == len(epochs) and end > 0 and logs[reference].epoch_at(end - 1) == max(known):
        text = f"{majority} of {len(here)} voters hold a record of epoch {max(known)}, the highest anywhere"
        proofs.append(Proof(end, CommitRule.MAJORITY, text))
    return proofs


def _voter_indexes(logs: Sequence[JudgedLog], voters: frozenset[NodeId]) -> list[int] | None:
    """The logs of the voters, if each voter is here exactly once."""
    here = [index for index, log in enumerate(logs) if log.node_id in voters]
    if not voters or sorted(logs[index].node_id for index in here) != sorted(voters):
        return None
    return here


def _bounds(
    logs: Sequence[JudgedLog],
    comparisons: Comparisons,
    voters: frozenset[NodeId],
    index: int,
    reference: int,
    committed_end: Offset,
) -> Bounds:
    """Cut one log into what is committed, unknown and uncommitted, in this order."""
    agrees_to = comparisons[reference][index].common_end
    own = max((proof.end_offset for proof in logs[index].proofs), default=0)
    committed = max(min(committed_end, agrees_to), own)
    doomed, why_doomed = _uncommitted_from(logs, comparisons, voters, index)
    if comparisons[reference][index].is_parted and agrees_to < committed_end and agrees_to < doomed:
        doomed, why_doomed = agrees_to, "another record is committed at this offset"
    return Bounds(committed, max(doomed, committed), _why_unknown(logs, voters), why_doomed)


def _uncommitted_from(
    logs: Sequence[JudgedLog],
    comparisons: Comparisons,
    voters: frozenset[NodeId],
    index: int,
) -> tuple[Offset, str]:
    """From where on no majority can hold this log's records."""
    if not voters:
        return NEVER_ENDS, ""
    ends = sorted((_may_hold_to(logs, comparisons, voter, index) for voter in voters), reverse=True)
    end = ends[majority_of(len(voters)) - 1]
    if end == NEVER_ENDS:
        return NEVER_ENDS, ""
    others = sum(1 for candidate in ends if candidate > end)
    held = "no voter holds them" if not others else f"{others} of {len(voters)} voters hold them"
    return end, f"{held}, and no majority can"


def _may_hold_to(logs: Sequence[JudgedLog], comparisons: Comparisons, voter: NodeId, index: int) -> Offset:
    """How far a voter may hold log `index`, giving it the benefit of every doubt."""
    ends = []
    for other, log in enumerate(logs):
        if log.node_id != voter:
            continue
        matched = comparisons[index][other]
        if other == index:
            ends.append(NEVER_ENDS)
        elif matched.is_parted:
            ends.append(matched.common_end)
        elif log.may_hold_more or log.end_offset >= logs[index].end_offset:
            ends.append(NEVER_ENDS)
        else:
            ends.append(log.end_offset)
    return max(ends, default=NEVER_ENDS)


def _why_unknown(logs: Sequence[JudgedLog], voters: frozenset[NodeId]) -> str:
    if not voters:
        return "nothing here says who the voters are"
    missing = sorted(voters - {log.node_id for log in logs})
    if missing:
        return f"the logs of the voters {', '.join(map(str, missing))} are not here"
    return "on too few voters, or of too old an epoch, to be sure; a later leader may overwrite them"
