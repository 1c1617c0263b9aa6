"""How does a broker load a snapshot? Piece by piece, from the leader that told it to.

A broker whose copy of the metadata log is empty, or ends before the leader's log begins, is told a snapshot's
id instead of records. It asks for that one's pieces, one after the other, and then has the snapshot in the
place of its copy. What is wrong with a piece is a violation: Kafka's broker would end its process, or have
another state than the controllers.

Follows: Kafka's KafkaRaftClient, handleFetchSnapshotResponse.
Differs: pieces are small, so that downloads of small states take several.
Not here: the channel, and what follows a refusal (`broker_process`).
"""

import msgspec

from kraftd.audit.invariant import Violation
from kraftd.protocol import messages as m
from kraftd.types import METADATA_TOPIC, Epoch, NodeId, OffsetAndEpoch, Uuid

PIECE_BYTES = 4_096


class Download(msgspec.Struct):
    """A snapshot, as far as it came."""

    id: OffsetAndEpoch
    data: bytes = b""

    def request(
        self, cluster_id: str, broker_id: NodeId, directory_id: Uuid, leader_epoch: Epoch
    ) -> m.FetchSnapshotRequest:
        """Ask for the next piece."""
        partition = m.FetchSnapshotRequestPartitionSnapshot(
            current_leader_epoch=leader_epoch,
            snapshot_id=m.FetchSnapshotRequestSnapshotId(self.id.offset, self.id.epoch),
            position=len(self.data),
            replica_directory_id=directory_id,
        )
        topic = m.FetchSnapshotRequestTopicSnapshot(name=METADATA_TOPIC, partitions=(partition,))
        return m.FetchSnapshotRequest(
            cluster_id=cluster_id, replica_id=broker_id, max_bytes=PIECE_BYTES, topics=(topic,)
        )

    def take(self, piece: m.FetchSnapshotResponsePartitionSnapshot) -> bool:
        """Take a piece that came without an error; whether it was the last.

        Raises:
            Violation: It is not the one that was asked for.
        """
        told = OffsetAndEpoch(piece.snapshot_id.end_offset, piece.snapshot_id.epoch)
        data = bytes(piece.unaligned_records)
        if (told, piece.position) != (self.id, len(self.data)) or len(data) > PIECE_BYTES:
            text = f"{len(data)} bytes at {piece.position} of {told} for {len(self.data)} of {self.id}"
            raise Violation(f"PiecesAreWhatWasAskedFor: a broker is sent {text}")
        self.data += data
        if len(self.data) > piece.size:
            text = f"{len(self.data)} bytes of {self.id}, which has {piece.size}"
            raise Violation(f"PiecesAreWhatWasAskedFor: a broker is sent {text}")
        return len(self.data) == piece.size
