"""`quorum-state`: the epoch, leader and vote that must survive a crash, and the check that they did.

A write is: the checksums of the old and the new file into the sidecar, synced; then tmp, fsync, rename, fsync
of the directory. A crash anywhere leaves the old file or the new one, and the sidecar knows the checksums of
both, until it has noted that the new one is in place. A file with another checksum was changed from outside:
by Kafka, which raises the epoch or adds the leader or the vote of the same one, or by a disk that lost the
newest write. A forgotten vote could be given twice, so then the node must not be counted (D-05, D-06).

Follows: QS-15 to QS-19.

A file with an unknown checksum is accepted if its epoch is higher. A quorum that was stopped during an
election left an epoch without a leader, and Kafka may go on in that epoch: so the sidecar holds the whole
election, and a file of the same epoch that keeps all of it and adds to it is accepted, too.

Differs: Kafka has no such check, and takes the file as it is.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from crc32c import crc32c

from kraftd.errors import MalformedError
from kraftd.records import names, quorum_state
from kraftd.storage.disk import Disk
from kraftd.storage.sidecar import ABSENT, LocalState, Sidecar
from kraftd.types import NO_NODE, Election, Epoch, NodeId


class ElectionFinding(msgspec.Struct, frozen=True):
    """The content of the election file, and whether it can be relied on."""

    election: Election
    """The election to start from. With amnesia: the highest epoch known, no leader and no vote."""
    checksum: int
    """The checksum of the file as it is; ABSENT if there is no file."""
    written_elsewhere: bool = False
    """Whether another program wrote it since; then the log's flushed offset is unknown, too."""
    amnesia: str = ""
    """Why promises may have been forgotten; empty if they were not."""


def checksum_of(data: bytes | None) -> int:
    """Return the checksum by which the sidecar recognises a file."""
    return ABSENT if data is None else crc32c(data)


def judge_election(path: Path, data: bytes | None, local_state: LocalState | None) -> ElectionFinding:
    """Compare an election file with what the sidecar, if there is one, knows of it (D-05). Returns the
    finding.
    """
    checksum = checksum_of(data)
    known_epoch = local_state.election_epoch if local_state is not None else 0
    is_expected = local_state is None or checksum in {local_state.old_election, local_state.new_election}
    try:
        election = quorum_state.decode(data)[0] if data is not None else Election()
    except MalformedError as error:
        return ElectionFinding(
            Election(epoch=known_epoch),
            checksum,
            amnesia=f"{path}: cannot be read ({error}): a vote may be forgotten",
        )
    # Node 2 voted for node 1 in epoch 5. Its disk comes back with an older file, of epoch 4 and without the
    # vote: the sidecar knows another checksum and epoch 5. If the file were accepted, node 2 could vote for
    # node 3 in epoch 5.
    known = local_state.election if local_state is not None else None
    continued = _continued(known, election) if known is not None else None
    if is_expected:
        return ElectionFinding(
            continued or election, checksum, written_elsewhere=local_state is None and data is not None
        )
    if election.epoch > known_epoch:
        return ElectionFinding(election, checksum, written_elsewhere=True)
    if continued is not None and data is not None and quorum_state.is_as_written(data):
        return ElectionFinding(continued, checksum, written_elsewhere=True)
    lost = "is gone" if data is None else f"says epoch {election.epoch} in bytes that were not written here"
    return ElectionFinding(
        Election(epoch=known_epoch),
        checksum,
        amnesia=f"{path}: {lost}; epoch {known_epoch} was written last: a vote may be forgotten",
    )


def _continued(known: Election, found: Election) -> Election | None:
    """Return both elections together, if `found` adds to `known` in the same epoch and drops nothing; else
    None.

    Before 4.0, Kafka drops the vote of an epoch when it learns the leader; the vote counts all the same
    (D-07).
    """
    leader_id = found.leader_id
    if found.epoch != known.epoch or known.leader_id not in (NO_NODE, leader_id):
        return None
    if known.voted is not None and found.voted is None and leader_id == NO_NODE:
        return None
    if known.voted is not None and found.voted is not None and not known.voted.matches(found.voted):
        return None
    if leader_id == known.leader_id and (known.voted is None) == (found.voted is None):
        return None
    return Election(found.epoch, leader_id, known.voted or found.voted)


class ElectionStore:
    """Writes the election file; each write is durable on return."""

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        sidecar: Sidecar,
        checksum: int,
        *,
        version: int = 0,
        voter_ids: Sequence[NodeId] = (),
    ) -> None:
        """Write to `directory` from now on.

        Args:
            disk: Where it is.
            directory: `__cluster_metadata-0`.
            sidecar: Keeps the checksums of the file.
            checksum: Of the file as it is.
            version: 0 for static voters, 1 for dynamic ones (QS-17).
            voter_ids: The static voters, which version 0 lists.
        """
        self._disk = disk
        self._path = directory / names.QUORUM_STATE
        self._sidecar = sidecar
        self._checksum = checksum
        self._version = version
        self._voter_ids = tuple(voter_ids)

    def write(self, election: Election) -> None:
        """Make an election durable (QS-15)."""
        data = quorum_state.encode(election, version=self._version, voter_ids=self._voter_ids)
        checksum = checksum_of(data)
        epoch: Epoch = max(election.epoch, self._sidecar.local_state.election_epoch)
        self._sidecar.save(
            msgspec.structs.replace(
                self._sidecar.local_state,
                old_election=self._checksum,
                new_election=checksum,
                election_epoch=epoch,
                election=election,
            )
        )
        self._disk.replace(self._path, data)
        self._checksum = checksum
        # The old file cannot come back by a crash any more. Not synced: it only narrows what is accepted.
        self._sidecar.write_unsynced(
            msgspec.structs.replace(self._sidecar.local_state, old_election=checksum)
        )
