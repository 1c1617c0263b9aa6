"""`quorum-state`: the epoch, leader and vote that must survive a crash, and the check that they did.

A write is (D-41): the election and the checksums of the old and the new line into the sidecar, synced; then
the file is overwritten in place and synced. Two syncs of files that do not change their size, and no rename:
a rename and the sync of its directory make the file system write its journal, which takes several times as
long. Nothing of an election is told before both are durable. What a crash can leave:

    sidecar     quorum-state   kraftd and its tools               Kafka
    old         old            the old election                   the old one: nothing of the new was told
    torn        old            the same: the other slot has it    the same
    new         old            the new election; the next start   the same
                               writes it
    new         torn           the same                           refuses to start, or reads the new one whole
    new         new            the new election                   the new election

So no start of Kafka on a directory of ours misses a vote that was told. Torn is one sector of which a part
was written; that it reads as no election is the work of the layout (`kraftd.records.quorum_state`). A start
of kraftd then writes the file anew. A clean stop leaves Kafka's bytes, without spaces.

The first write of a process, one that finds a file of another size, and lines that are too long (those of
quorums of more than nine voters) go another way: tmp, fsync, rename, fsync of the directory.

A line with another checksum was changed from outside: by Kafka, which raises the epoch or adds the leader or
the vote of the same one, or by a disk that lost the newest write. A forgotten vote could be given twice, so
then the node must not be counted (D-05, D-06).

Follows: QS-15 to QS-19.

A file with an unknown checksum is accepted if its epoch is higher. A quorum that was stopped during an
election left an epoch without a leader, and Kafka may go on in that epoch: so the sidecar holds the whole
election, and a file of the same epoch that keeps all of it and adds to it is accepted, too.

Differs: Kafka has no such check, and takes the file as it is; it writes it by renaming another.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from crc32c import crc32c

from kraftd.errors import MalformedError
from kraftd.records import names, quorum_state
from kraftd.storage.disk import Disk
from kraftd.storage.filesystem import Access
from kraftd.storage.sidecar import ABSENT, LocalState, Sidecar
from kraftd.types import NO_NODE, Election, Epoch, NodeId


class ElectionFinding(msgspec.Struct, frozen=True):
    """The content of the election file, and whether it can be relied on."""

    election: Election
    """The election to start from. With amnesia: the highest epoch known, no leader and no vote."""
    checksum: int
    """The checksum of the file as it is; ABSENT if there is no file."""
    unfinished: bool = False
    """Whether the write of this election was cut short: the file is the one before, or torn."""
    written_elsewhere: bool = False
    """Whether another program wrote it since; then the log's flushed offset is unknown, too."""
    amnesia: str = ""
    """Why promises may have been forgotten; empty if they were not."""


def checksum_of(data: bytes | None) -> int:
    """Return the checksum by which the sidecar recognises a file, wherever in it the line is."""
    return ABSENT if data is None else crc32c(quorum_state.line_of(data))


def judge_election(path: Path, data: bytes | None, local_state: LocalState | None) -> ElectionFinding:
    """Compare an election file with what the sidecar, if there is one, knows of it (D-05). Returns the
    finding.
    """
    if local_state is not None and (begun := _begun(data, local_state)) is not None:
        return ElectionFinding(begun, checksum_of(data), unfinished=True)
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
    known = local_state.election if local_state is not None else None
    if is_expected:
        # What was noted with this file counts, not what it says. A start that finds an older file takes
        # neither vote nor leader from it, and notes its checksum: the next start must not believe it either.
        return ElectionFinding(
            known or election, checksum, written_elsewhere=local_state is None and data is not None
        )
    # Node 2 voted for node 1 in epoch 5. Its disk comes back with an older file, of epoch 4 and without the
    # vote: the sidecar knows another checksum and epoch 5. If the file were accepted, node 2 could vote for
    # node 3 in epoch 5.
    continued = _continued(known, election) if known is not None else None
    if election.epoch > known_epoch:
        return ElectionFinding(election, checksum, written_elsewhere=True)
    if continued is not None and data is not None and quorum_state.is_as_written(quorum_state.line_of(data)):
        return ElectionFinding(continued, checksum, written_elsewhere=True)
    lost = "is gone" if data is None else f"says epoch {election.epoch} in bytes that were not written here"
    return ElectionFinding(
        Election(epoch=known_epoch),
        checksum,
        amnesia=f"{path}: {lost}; epoch {known_epoch} was written last: a vote may be forgotten",
    )


def _begun(data: bytes | None, local_state: LocalState) -> Election | None:
    """Return the election whose write was cut short: it is in the sidecar, and the file is the one before it,
    or torn. None if the write has ended, or something else is the matter.

    Only a file of our own size is torn: one of Kafka's that went bad may have held more than the sidecar.
    """
    election, old, new = local_state.election, local_state.old_election, local_state.new_election
    if election is None or old == new or checksum_of(data) == new:
        return None
    if checksum_of(data) == old:
        return election
    is_ours = data is not None and len(data) == 2 * quorum_state.PLACE_BYTES
    return election if data is not None and is_ours and not _is_whole(data) else None


def _is_whole(data: bytes) -> bool:
    try:
        quorum_state.decode(data)
    except MalformedError:
        return False
    return True


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
        self._line: bytes | None = None
        """The line in a file that can be overwritten; None if it is another's, or there is none."""
        self._place = 0
        """Which place of the file holds it."""

    def write(self, election: Election) -> None:
        """Make an election durable (QS-15, D-41)."""
        line = self._encode(election)
        checksum = checksum_of(line)
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
        self._put(line)
        self._checksum = checksum
        # The old file cannot come back by a crash any more. Not synced: it only narrows what is accepted.
        self._sidecar.write_unsynced(
            msgspec.structs.replace(self._sidecar.local_state, old_election=checksum)
        )

    def prepare(self, finding: ElectionFinding) -> None:
        """Finish a write that was cut short, and make the file one that can be overwritten: at a start, so
        that the first election need not. What another program writes in another way, or nobody knows, stays
        as it is until then.
        """
        if finding.unfinished:
            self.write(finding.election)
        data = None if finding.amnesia else self._disk.read_file(self._path)
        if data is None or checksum_of(data) != checksum_of(line := self._encode(finding.election)):
            return
        if len(data) == 2 * quorum_state.PLACE_BYTES:
            self._line, self._place = line, int(data.startswith(b" "))
        else:
            self._replace(line)

    def close(self) -> None:
        """Leave the file as Kafka writes it, if it was written here."""
        if self._line is not None:
            self._disk.replace(self._path, self._line)

    @property
    def checksum(self) -> int:
        """Of the file as it is."""
        return self._checksum

    def _encode(self, election: Election) -> bytes:
        return quorum_state.encode(election, version=self._version, voter_ids=self._voter_ids)

    def _put(self, line: bytes) -> None:
        """Overwrite the file in place, durably; replace it if it is not there as it was left."""
        if self._line is None or len(line) > quorum_state.PLACE_BYTES or not self._disk.fs.exists(self._path):
            self._replace(line)
            return
        handle = self._disk.open(self._path, Access.WRITE)
        try:
            is_ours = self._disk.size(handle, self._path) == 2 * quorum_state.PLACE_BYTES
            if is_ours:
                # The other place: torn, the file must not read as something between the two. Of the same line
                # the checksums would not tell that it is torn, so that goes over itself.
                self._place ^= line != self._line
                self._disk.write(handle, quorum_state.in_place(line, self._place), 0, self._path)
                self._disk.sync_data(handle, self._path)
                self._line = line
        finally:
            self._disk.close(handle)
        if not is_ours:
            self._replace(line)

    def _replace(self, line: bytes) -> None:
        fits = len(line) <= quorum_state.PLACE_BYTES
        self._disk.replace(self._path, quorum_state.in_place(line, 0) if fits else line)
        self._line, self._place = line if fits else None, 0
