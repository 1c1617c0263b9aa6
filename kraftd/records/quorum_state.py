"""The `quorum-state` file: one line of compact JSON with the epoch, its leader and the vote (QS-17).

Version 0 belongs to static voters and lists them; it has no place for the directory of the node voted for.
Version 1 belongs to dynamic voters. Leader and vote may both be set (D-07). The names and the order of the
fields are Kafka's, so that either program reads the other's file.

While kraftd runs, the line lies in one of two places of a file of constant size, and the rest is spaces
(`in_place`), so that the file can be overwritten where it is. Kafka reads the first JSON value of the first
line. A write that a power cut tears leaves the front of the new bytes and the rest of the old ones: with old
and new in different places those never are a third election. Either the new line is whole, or there is no
JSON object with all fields, and Kafka refuses to start (tests/interop/test_torn_elections.py).
"""

import json
from collections.abc import Sequence

import msgspec

from kraftd.errors import MalformedError
from kraftd.types import NO_NODE, ZERO_UUID, Election, NodeId, ReplicaKey, parse_uuid, uuid_text

PLACE_BYTES = 256
"""The room of a line. Both places are one sector of a disk together, which few disks tear at all."""


class _Voter(msgspec.Struct, frozen=True, rename="camel"):
    voter_id: int


class _StateV0(msgspec.Struct, frozen=True, rename="camel"):
    cluster_id: str
    leader_id: int
    leader_epoch: int
    voted_id: int
    applied_offset: int
    current_voters: tuple[_Voter, ...] | None


class _StateV1(msgspec.Struct, frozen=True, rename="camel"):
    leader_id: int
    leader_epoch: int
    voted_id: int
    voted_directory_id: str


class _Version(msgspec.Struct, frozen=True):
    data_version: int


def encode(election: Election, *, version: int, voter_ids: Sequence[NodeId] = ()) -> bytes:
    """The file's bytes. Version 0 drops the directory of the node voted for; version 1 the voter ids."""
    voted = election.voted or ReplicaKey(NO_NODE)
    common: dict[str, object] = {
        "leaderId": election.leader_id,
        "leaderEpoch": election.epoch,
        "votedId": voted.id,
    }
    if version == 0:
        voters = [{"voterId": voter_id} for voter_id in voter_ids]
        state = {"clusterId": "", **common, "appliedOffset": 0, "currentVoters": voters}
    elif version == 1:
        state = {**common, "votedDirectoryId": uuid_text(voted.directory_id)}
    else:
        raise ValueError(f"quorum-state has no version {version}")
    return json.dumps({**state, "data_version": version}, separators=(",", ":")).encode()


def decode(data: bytes) -> tuple[Election, int]:
    """The election and the version that the file was written in. Only its first line counts.

    Raises:
        MalformedError: The file is empty, not JSON, of another version, or lacks a field.
    """
    line = data.split(b"\n", 1)[0]
    if not line.strip():
        raise MalformedError("quorum-state is empty")
    try:
        version = msgspec.json.decode(line, type=_Version).data_version
        if version == 0:
            state: _StateV0 | _StateV1 = msgspec.json.decode(line, type=_StateV0)
        elif version == 1:
            state = msgspec.json.decode(line, type=_StateV1)
        else:
            raise MalformedError(f"quorum-state has data_version {version}; only 0 and 1 are known")
        directory = parse_uuid(state.voted_directory_id) if isinstance(state, _StateV1) else ZERO_UUID
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise MalformedError(f"quorum-state: {error}") from None
    if state.leader_epoch < 0 or min(state.leader_id, state.voted_id) < NO_NODE:
        raise MalformedError(
            f"quorum-state: epoch {state.leader_epoch}, leader {state.leader_id} and vote {state.voted_id} "
            "are not all possible"
        )
    voted = None if state.voted_id == NO_NODE else ReplicaKey(state.voted_id, directory)
    return Election(state.leader_epoch, state.leader_id, voted), version


def in_place(line: bytes, place: int) -> bytes:
    """The content of a file of two places, 0 and 1, of which one holds this line.

    Raises:
        ValueError: The line has more than `PLACE_BYTES`.
    """
    if len(line) > PLACE_BYTES:
        raise ValueError(f"a line of {len(line)} bytes does not fit into {PLACE_BYTES}")
    return (b" " * (place * PLACE_BYTES) + line).ljust(2 * PLACE_BYTES)


def line_of(data: bytes) -> bytes:
    """The line of a file, without the spaces around it."""
    return data.strip(b" ")


def is_as_written(data: bytes) -> bool:
    """Whether these are the very bytes that Kafka and kraftd write for what they say.

    Raises:
        MalformedError: As `decode`.
    """
    election, version = decode(data)
    voters = () if version else msgspec.json.decode(data.split(b"\n", 1)[0], type=_StateV0).current_voters
    return data == encode(election, version=version, voter_ids=[voter.voter_id for voter in voters or ()])
