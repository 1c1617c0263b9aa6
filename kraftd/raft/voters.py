"""The voter set: static today, from `controller.quorum.voters`; all parts read it through `Quorum`.

Voter or observer is a lookup here, never a state or a setting: a node that is not in the set observes
(OBS-*). Whether a voter *counts* is another question, answered by `kraftd.raft.rejoin` (D-06).

It is a module of its own, short as it is, because who votes has one owner: once voters change, they change
here.
"""

from collections.abc import Iterable, Iterator

import msgspec

from kraftd.types import ZERO_UUID, Endpoint, NodeId, Offset, ReplicaKey, Uuid, majority_of


class Voter(msgspec.Struct, frozen=True):
    """One voter. A static voter has no directory id: any directory under its id may be it (DV-10)."""

    id: NodeId
    endpoint: Endpoint
    directory_id: Uuid = ZERO_UUID

    @property
    def key(self) -> ReplicaKey:
        """The voter's id, with its directory id if the set knows it."""
        return ReplicaKey(self.id, self.directory_id)


class VoterSet:
    """An immutable set of voters with distinct ids."""

    __slots__ = ("_voters", "ids", "majority")

    def __init__(self, voters: Iterable[Voter]) -> None:
        self._voters = {voter.id: voter for voter in sorted(voters, key=lambda voter: voter.id)}
        self.ids: frozenset[NodeId] = frozenset(self._voters)
        self.majority = majority_of(len(self.ids))

    def __contains__(self, node_id: NodeId) -> bool:
        return node_id in self._voters

    def __iter__(self) -> Iterator[Voter]:
        return iter(self._voters.values())

    def __len__(self) -> int:
        return len(self._voters)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoterSet) and self._voters == other._voters

    def __hash__(self) -> int:
        return hash(tuple(self._voters.values()))

    def __repr__(self) -> str:
        return f"VoterSet({','.join(f'{voter.id}@{voter.endpoint}' for voter in self)})"

    def get(self, node_id: NodeId) -> Voter | None:
        """Return the voter of that id; None if there is none."""
        return self._voters.get(node_id)

    def others(self, node_id: NodeId) -> tuple[NodeId, ...]:
        """Return every voter id but `node_id`, in order."""
        return tuple(voter for voter in self._voters if voter != node_id)

    def majority_reached(self, offsets: Iterable[Offset]) -> Offset:
        """Return the largest offset that a majority of the voters has reached, from one offset a voter
        (HWM-01).
        """
        return sorted(offsets, reverse=True)[self.majority - 1]


class Quorum:
    """The voter set as one node sees it, and the only owner of that set.

    The parts hold this object and read it at use; none copies the set or what follows from it. What is kept
    for one voter (its progress, its connections) is kept under its id, beside the set. Only a ballot holds
    the ids of the set that it began with: votes of two sets do not add up.
    """

    __slots__ = ("followers_needed", "is_voter", "others", "voters")

    def __init__(self, my_id: NodeId, voters: VoterSet) -> None:
        self.voters = voters
        self.others = voters.others(my_id)
        """Every other voter, by id."""
        self.is_voter = my_id in voters
        """Whether this node is in the voter set."""
        self.followers_needed = voters.majority - 1
        """How many other voters make a majority together with this one."""
