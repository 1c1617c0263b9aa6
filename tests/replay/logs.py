"""Controllers' directories made for a test, byte by byte as Kafka and kraftd write them."""

import json
from collections.abc import Sequence
from pathlib import Path

import crc32c

from kraftd.records import epoch_checkpoint, meta_properties, names, quorum_state
from kraftd.records.batch import encode_batch, encode_control_batch
from kraftd.records.control import encode_control
from kraftd.records.frame import encode_record
from kraftd.records.messages import (
    ConfigRecord,
    FeatureLevelRecord,
    LeaderChangeMessage,
    LeaderChangeMessageVoter,
    NoOpRecord,
)
from kraftd.types import Election, EpochEntry, ReplicaKey

CLUSTER_ID = "AAECAwQFBgcICQoLDA0ODw"
START_MS = 1_700_000_000_000
VOTERS = (1, 2, 3)
NO_OP = encode_record(NoOpRecord())


def leader_change(offset: int, epoch: int, leader: int, voters: Sequence[int] = VOTERS) -> bytes:
    """The first batch of an epoch."""
    members = tuple(LeaderChangeMessageVoter(voter_id=voter) for voter in voters)
    record = LeaderChangeMessage(leader_id=leader, voters=members, granting_voters=members[:2])
    return encode_control_batch(offset, epoch, START_MS + offset, [encode_control(record)])


def noops(offset: int, epoch: int, count: int) -> bytes:
    """`count` batches of one NoOp each."""
    return b"".join(encode_batch(o, epoch, START_MS + o, [NO_OP]) for o in range(offset, offset + count))


def config(name: str, value: str | None, resource: str = "") -> bytes:
    """A framed ConfigRecord of a broker, by default of all."""
    return encode_record(ConfigRecord(resource_type=4, resource_name=resource, name=name, value=value))


def metadata_version(level: int) -> bytes:
    """A framed FeatureLevelRecord."""
    return encode_record(FeatureLevelRecord(name="metadata.version", feature_level=level))


def write_node(
    home: Path,
    log: bytes,
    *,
    node_id: int = 1,
    epoch: int = 1,
    epochs: Sequence[tuple[int, int]] = ((1, 0),),
    voters: Sequence[int] = VOTERS,
    base_offset: int = 0,
    cluster_id: str = CLUSTER_ID,
) -> Path:
    """A node's directory with one segment. Returns the segment."""
    partition = home / names.LOG_DIRECTORY
    partition.mkdir(parents=True, exist_ok=True)
    properties = meta_properties.MetaProperties(cluster_id, node_id, node_id.to_bytes(16, "big"))
    (home / names.META_PROPERTIES).write_bytes(meta_properties.encode(properties))
    election = Election(epoch, 1, ReplicaKey(1))
    (partition / names.QUORUM_STATE).write_bytes(
        quorum_state.encode(election, version=0, voter_ids=tuple(voters))
    )
    entries = [EpochEntry(*entry) for entry in epochs]
    (partition / names.EPOCH_CHECKPOINT).write_bytes(epoch_checkpoint.encode(entries))
    segment = partition / names.segment_name(base_offset)
    segment.write_bytes(log)
    return segment


def write_manifest(home: Path, *, high_watermark: int, end_offset: int, node_id: int = 1) -> None:
    """`manifest.json` over what is in the directory now."""
    files = [
        {
            "name": str(path.relative_to(home)),
            "size_bytes": path.stat().st_size,
            "crc32c": f"{crc32c.crc32c(path.read_bytes()):08x}",
        }
        for path in sorted(home.rglob("*"))
        if path.is_file() and path.name != "manifest.json"
    ]
    manifest = {
        "format": 1,
        "cluster_id": CLUSTER_ID,
        "node_id": node_id,
        "directory_id": "AAAAAAAAAAAAAAAAAAAAAQ",
        "epoch": 1,
        "leader_id": 1,
        "high_watermark": high_watermark,
        "log_start_offset": 0,
        "log_end_offset": end_offset,
        "exported_at_ms": START_MS,
        "files": files,
    }
    (home / "manifest.json").write_text(json.dumps(manifest))
