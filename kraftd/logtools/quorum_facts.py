"""Who led and who voted at a point of the log: what its control records say."""

from collections.abc import Iterable, Iterator

import msgspec

from kraftd.metadata.views import Change
from kraftd.records.batch import BatchView
from kraftd.records.control import AnyControl, decode_control
from kraftd.records.messages import KRaftVersionRecord, LeaderChangeMessage, VotersRecord
from kraftd.types import NO_NODE, Epoch, NodeId, Uuid, uuid_text


class VoterFacts(msgspec.Struct, frozen=True):
    """A voter; directory and endpoints are known only where the log names them."""

    id: NodeId
    directory_id: Uuid = bytes(16)
    endpoints: tuple[str, ...] = ()


class QuorumFacts(msgspec.Struct, frozen=True):
    """The last that control records said. -1 and nothing where they said nothing."""

    leader_epoch: Epoch = -1
    leader_id: NodeId = NO_NODE
    kraft_version: int = 0
    voters: tuple[VoterFacts, ...] = ()

    def after(self, controls: Iterable[AnyControl], epoch: Epoch) -> "QuorumFacts":
        """The facts after the control records of one batch of this epoch."""
        facts = self
        for control in controls:
            match control:
                case LeaderChangeMessage():
                    facts = msgspec.structs.replace(
                        facts,
                        leader_epoch=epoch,
                        leader_id=control.leader_id,
                        voters=_voters_of(facts, control),
                    )
                case KRaftVersionRecord():
                    facts = msgspec.structs.replace(facts, kraft_version=control.kraft_version)
                case VotersRecord():
                    facts = msgspec.structs.replace(facts, voters=_voters(control))
                case _:
                    pass
        return facts


def controls_of(view: BatchView) -> list[AnyControl]:
    """The control records of a batch.

    Raises:
        MalformedError: One of them does not follow its schema.
    """
    if not view.is_control:
        return []
    return [decode_control(record.key, record.value) for record in view.records()]


def _voters(record: VotersRecord) -> tuple[VoterFacts, ...]:
    return tuple(
        VoterFacts(
            voter.voter_id,
            voter.voter_directory_id,
            tuple(f"{end.name}://{end.host}:{end.port}" for end in voter.endpoints),
        )
        for voter in sorted(record.voters, key=lambda voter: voter.voter_id)
    )


def _voters_of(facts: QuorumFacts, change: LeaderChangeMessage) -> tuple[VoterFacts, ...]:
    """What a leader said of the voters counts only while they are static, which no other record names."""
    if facts.kraft_version > 0 and facts.voters:
        return facts.voters
    return tuple(VoterFacts(voter_id) for voter_id in sorted(voter.voter_id for voter in change.voters))


def quorum_changes(before: QuorumFacts, after: QuorumFacts) -> Iterator[Change]:
    """Who leads, who votes and how, where that differs."""
    if before.leader_epoch != after.leader_epoch or before.leader_id != after.leader_id:
        old, new = _leader_text(before), _leader_text(after)
        text = f"leader moved {old} -> {new}" if before.leader_epoch >= 0 else f"leader elected: {new}"
        yield Change("quorum", "", "leader", text, before.leader_id, after.leader_id)
    if before.kraft_version != after.kraft_version:
        text = f"kraft.version {before.kraft_version} -> {after.kraft_version}"
        yield Change("quorum", "", "kraft_version", text, before.kraft_version, after.kraft_version)
    old_ids, new_ids = ({voter.id for voter in facts.voters} for facts in (before, after))
    for node_id in sorted(new_ids - old_ids):
        yield Change("voter", str(node_id), "added", "added", None, node_id)
    for node_id in sorted(old_ids - new_ids):
        yield Change("voter", str(node_id), "removed", "removed", node_id, None)
    known = {voter.id: voter for voter in before.voters}
    for voter in after.voters:
        old_voter = known.get(voter.id)
        if old_voter is not None and old_voter.directory_id not in (voter.directory_id, bytes(16)):
            old, new = uuid_text(old_voter.directory_id), uuid_text(voter.directory_id)
            text = f"has another directory {old} -> {new}"
            yield Change("voter", str(voter.id), "directory", text, old, new)


def _leader(node_id: NodeId) -> str:
    return "none" if node_id < 0 else str(node_id)


def _leader_text(facts: QuorumFacts) -> str:
    if facts.leader_epoch < 0:
        return "unknown"
    return f"{_leader(facts.leader_id)} (epoch {facts.leader_epoch})"
