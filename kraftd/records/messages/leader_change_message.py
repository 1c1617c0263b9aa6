"""Opens each epoch: who leads it and who elected the leader. The first record a leader writes. Generated
from `proto/control/LeaderChangeMessage.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags
from kraftd.types import ZERO_UUID, Uuid


class LeaderChangeMessageVoter(Struct, frozen=True, gc=False):
    """One voter."""

    voter_id: int = 0
    """Its id. (int32)"""
    voter_directory_id: Uuid = ZERO_UUID
    """Its metadata directory. (uuid, since version 1)"""
    unknown_tags: UnknownTags = ()


class LeaderChangeMessage(Struct, frozen=True, gc=False):
    """Opens each epoch: who leads it and who elected the leader. The first record a leader writes."""

    CONTROL_TYPE: ClassVar[int] = 2
    NAME: ClassVar[str] = "LeaderChangeMessage"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    version: int = 0
    """The version of this body, once more; readers go by the record's own. (int16)"""
    leader_id: int = 0
    """The leader of this epoch. (int32)"""
    voters: tuple[LeaderChangeMessageVoter, ...] = ()
    """The voters at the time of the election. ([]LeaderChangeMessageVoter)"""
    granting_voters: tuple[LeaderChangeMessageVoter, ...] = ()
    """Those who voted for the leader, itself included. ([]LeaderChangeMessageVoter)"""
    unknown_tags: UnknownTags = ()
