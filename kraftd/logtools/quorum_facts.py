"""Who led and who voted at a point of the log: what its control records say."""

from collections.abc import Iterable

import msgspec

from kraftd.records.batch import BatchView
from kraftd.records.control import AnyControl, decode_control
from kraftd.records.messages import KRaftVersionRecord, LeaderChangeMessage, VotersRecord
from kraftd.types import NO_NODE, Epoch, NodeId, Uuid


class Voter(msgspec.Struct, frozen=True):
    """A voter; directory and endpoints are known only where the log names them."""

    id: NodeId
    directory_id: Uuid = bytes(16)
    endpoints: tuple[str, ...] = ()


class QuorumFacts(msgspec.Struct, frozen=True):
    """The last that control records said. -1 and nothing where they said nothing."""

    leader_epoch: Epoch = -1
    leader_id: NodeId = NO_NODE
    kraft_version: int = 0
    voters: tuple[Voter, ...] = ()

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


def _voters(record: VotersRecord) -> tuple[Voter, ...]:
    return tuple(
        Voter(
            voter.voter_id,
            voter.voter_directory_id,
            tuple(f"{end.name}://{end.host}:{end.port}" for end in voter.endpoints),
        )
        for voter in sorted(record.voters, key=lambda voter: voter.voter_id)
    )


def _voters_of(facts: QuorumFacts, change: LeaderChangeMessage) -> tuple[Voter, ...]:
    """What a leader said of the voters counts only while they are static, which no other record names."""
    if facts.kraft_version > 0 and facts.voters:
        return facts.voters
    return tuple(Voter(voter_id) for voter_id in sorted(voter.voter_id for voter in change.voters))
