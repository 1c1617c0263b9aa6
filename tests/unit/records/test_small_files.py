"""The files beside the log: what real Kafkas wrote, and what is refused."""

import json

import pytest
from fixtures import klog_files
from hypothesis import given
from hypothesis import strategies as st

from kraftd.errors import MalformedError
from kraftd.records import epoch_checkpoint, index, meta_properties, names, partition_metadata, quorum_state
from kraftd.records.meta_properties import MetaProperties
from kraftd.types import (
    METADATA_TOPIC_ID,
    ZERO_UUID,
    Election,
    EpochEntry,
    OffsetAndEpoch,
    ReplicaKey,
    parse_uuid,
)

DIRECTORY = parse_uuid("J8aAPcfLQt2bqs1JT_rMgQ")

V0 = (
    b'{"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,'
    b'"currentVoters":[{"voterId":1},{"voterId":2},{"voterId":3}],"data_version":0}'
)
V1 = (
    b'{"leaderId":-1,"leaderEpoch":2,"votedId":1,'
    b'"votedDirectoryId":"J8aAPcfLQt2bqs1JT_rMgQ","data_version":1}'
)


class TestQuorumState:
    def test_version_0(self) -> None:
        assert quorum_state.decode(V0) == (Election(2, 1), 0)
        assert quorum_state.encode(Election(2, 1), version=0, voter_ids=(1, 2, 3)) == V0

    def test_version_1(self) -> None:
        election = Election(2, voted=ReplicaKey(1, DIRECTORY))
        assert quorum_state.decode(V1) == (election, 1)
        assert quorum_state.encode(election, version=1) == V1

    def test_no_vote_in_version_1_has_the_zero_directory(self) -> None:
        raw = quorum_state.encode(Election(7, 3), version=1)
        assert b'"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA"' in raw
        assert quorum_state.decode(raw) == (Election(7, 3), 1)

    @pytest.mark.covers("D-07")
    def test_leader_and_vote_are_both_kept(self) -> None:
        """Dropping the vote of an epoch would let a second one be given in it."""
        for version, directory in ((0, ZERO_UUID), (1, DIRECTORY)):
            election = Election(5, 3, ReplicaKey(3, directory))
            assert quorum_state.decode(quorum_state.encode(election, version=version)) == (election, version)

    @given(st.integers(0, 2**31 - 1), st.integers(-1, 2**31 - 1), st.none() | st.integers(0, 2**31 - 1))
    def test_both_versions_are_their_own_inverse(self, epoch: int, leader: int, voted: int | None) -> None:
        election = Election(epoch, leader, None if voted is None else ReplicaKey(voted))
        for version in (0, 1):
            assert quorum_state.decode(quorum_state.encode(election, version=version)) == (election, version)

    @pytest.mark.parametrize("path", klog_files("quorum-state"), ids=str)
    def test_what_kafka_wrote_encodes_to_the_same_bytes(self, path) -> None:
        raw = path.read_bytes()
        election, version = quorum_state.decode(raw)
        voter_ids = [voter["voterId"] for voter in json.loads(raw).get("currentVoters") or ()]
        assert quorum_state.encode(election, version=version, voter_ids=voter_ids) == raw

    def test_null_voters_and_later_lines_are_fine(self) -> None:
        raw = V0.replace(b'[{"voterId":1},{"voterId":2},{"voterId":3}]', b"null") + b"\nnot read"
        assert quorum_state.decode(raw) == (Election(2, 1), 0)

    @pytest.mark.parametrize(
        "raw",
        [
            b"",
            b"\n" + V0,
            b"{}",
            b"[]",
            b"\xff\xfe",
            b"[" * 100_000,
            V0[:-1],
            V0.replace(b'"data_version":0', b'"data_version":2'),
            V0.replace(b'"data_version":0', b'"data_version":-1'),
            V0.replace(b',"data_version":0', b""),
            V0.replace(b'"leaderId":1,', b""),
            V0.replace(b'"clusterId":"",', b""),
            V0.replace(b'"appliedOffset":0,', b""),
            V0.replace(b'"leaderEpoch":2', b'"leaderEpoch":-1'),
            V0.replace(b'"leaderEpoch":2', b'"leaderEpoch":"2"'),
            V0.replace(b'"votedId":-1', b'"votedId":-2'),
            V1.replace(b"J8aA", b"J8a"),
            V1.replace(b'"votedDirectoryId":"J8aAPcfLQt2bqs1JT_rMgQ",', b""),
        ],
    )
    def test_anything_else_is_refused(self, raw: bytes) -> None:
        with pytest.raises(MalformedError, match="quorum-state"):
            quorum_state.decode(raw)


class TestEpochCheckpoint:
    def test_bytes_by_hand(self) -> None:
        entries = (EpochEntry(1, 0), EpochEntry(3, 17))
        assert epoch_checkpoint.encode(entries) == b"0\n2\n1 0\n3 17\n"
        assert epoch_checkpoint.decode(b"0\n2\n1 0\n3 17\n") == entries
        assert epoch_checkpoint.encode(()) == b"0\n0\n"
        assert epoch_checkpoint.decode(b"") == epoch_checkpoint.decode(b"0\n0\n") == ()

    @pytest.mark.parametrize("path", klog_files("leader-epoch-checkpoint"), ids=str)
    def test_what_kafka_wrote_encodes_to_the_same_bytes(self, path) -> None:
        raw = path.read_bytes()
        assert epoch_checkpoint.encode(epoch_checkpoint.decode(raw)) == raw

    @pytest.mark.parametrize(
        ("raw", "line"),
        [
            (b"1\n0\n", "line 1"),
            (b"\n", "line 1"),
            (b"0\n", "line 2"),
            (b"0\nmany\n", "line 2"),
            (b"0\n2\n1 0\n", "promises 2 entries and has 1"),
            (b"0\n1\n1 0\n2 5\n", "promises 1 entries and has 2"),
            (b"0\n1\n1\n", "line 3"),
            (b"0\n1\n1 0 0\n", "line 3"),
            (b"0\n1\n-1 0\n", "line 3"),
            (b"0\n2\n3 0\n3 4\n", "line 4"),
            (b"0\n2\n3 4\n4 3\n", "line 4"),
            (b"0\n1\n\xd9\xa1 0\n", "line 3"),
        ],
    )
    def test_anything_else_is_refused_by_line(self, raw: bytes, line: str) -> None:
        with pytest.raises(MalformedError, match=line):
            epoch_checkpoint.decode(raw)


class TestIndex:
    def test_offset_entries(self) -> None:
        assert index.encode_offset_entry(9, 4200).hex() == "0000000900001068"

    def test_time_entries(self) -> None:
        assert index.encode_time_entry(1_700_000_000_000, 5).hex() == "0000018bcfe56800" + "00000005"


class TestMetaProperties:
    def test_its_own_inverse(self) -> None:
        for directory_id in (None, DIRECTORY):
            properties = MetaProperties("some=odd:cluster é", 3, directory_id)
            assert meta_properties.decode(meta_properties.encode(properties)) == properties

    @pytest.mark.parametrize("path", klog_files("meta.properties"), ids=str)
    def test_what_kafka_wrote(self, path) -> None:
        properties = meta_properties.decode(path.read_bytes())
        assert properties.version == 1
        assert str(properties.node_id) in str(path.parent)
        assert meta_properties.decode(meta_properties.encode(properties)) == properties

    def test_version_0_says_broker_id(self) -> None:
        assert meta_properties.decode(b"broker.id=4\n") == MetaProperties(None, 4, None, version=0)

    def test_comments_and_spaces(self) -> None:
        raw = b"#\n#Sat Nov 21 07:00:00 UTC 2026\nnode.id = 3\nversion=1\ncluster.id=abc\n"
        assert meta_properties.decode(raw) == MetaProperties("abc", 3)

    @pytest.mark.covers("QS-13")
    @pytest.mark.parametrize(
        ("raw", "reason"),
        [
            (b"version=2\ncluster.id=a\nnode.id=1\n", "version 2"),
            (b"version=one\n", "version='one' is not a number"),
            (b"version=1\nnode.id=1\n", "needs cluster.id"),
            (b"version=1\ncluster.id=a\n", "needs node.id"),
            (b"version=1\ncluster.id=a\nnode.id=-1\n", "node.id='-1'"),
            (b"version=1\ncluster.id=a\nnode.id=1\ndirectory.id=x\n", "directory.id"),
            (b"version=1\ncluster.id=a\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAA\n", "zero UUID"),
            (b"version=\\u12\n", r"Invalid .u escape sequence"),
        ],
    )
    def test_anything_else_is_refused(self, raw: bytes, reason: str) -> None:
        with pytest.raises(MalformedError, match=reason):
            meta_properties.decode(raw)

    def test_what_version_1_needs_is_not_left_out(self) -> None:
        with pytest.raises(ValueError, match="needs a cluster id"):
            meta_properties.encode(MetaProperties(None, 1))


class TestPartitionMetadata:
    RAW = b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"

    def test_bytes_by_hand(self) -> None:
        assert partition_metadata.encode(METADATA_TOPIC_ID) == self.RAW
        assert partition_metadata.decode(self.RAW + b"\n") == METADATA_TOPIC_ID

    @pytest.mark.parametrize("path", klog_files("partition.metadata"), ids=str)
    @pytest.mark.covers("LOG-20")
    def test_what_kafka_wrote(self, path) -> None:
        assert path.read_bytes() == self.RAW
        assert partition_metadata.decode(self.RAW) == METADATA_TOPIC_ID

    @pytest.mark.parametrize(
        "raw",
        [b"", RAW[:12], b"version: -1" + RAW[10:], RAW[:-1], RAW.replace(b"AQ", b"AA"), RAW + b"\nmore: 1"],
    )
    def test_anything_else_is_refused(self, raw: bytes) -> None:
        with pytest.raises(MalformedError, match=r"not a version line|is not a UUID|is the zero UUID"):
            partition_metadata.decode(raw)


class TestNames:
    def test_segments(self) -> None:
        assert names.segment_name(1234) == "00000000000000001234.log"
        assert names.segment_name(7, "timeindex") == "00000000000000000007.timeindex"
        assert names.parse_segment_name("00000000000000001234.index") == names.SegmentFile(1234, "index")

    @pytest.mark.covers("SNAP-18")
    def test_snapshots(self) -> None:
        assert names.snapshot_name(OffsetAndEpoch(4321, 7)) == "00000000000000004321-0000000007.checkpoint"
        for tail in ("", ".deleted"):
            name = "00000000000000004321-0000000007.checkpoint" + tail
            assert names.parse_snapshot_name(name) == OffsetAndEpoch(4321, 7)

    @pytest.mark.covers("SNAP-18")
    @pytest.mark.parametrize(
        "name",
        [
            "quorum-state",
            "0.log",
            "00000000000000001234.log.deleted",
            "0000000000000000123x.log",
            "",
            ".log",
            "00000000000000001234.txt",
            "\u06600000000000000001234.log",
        ],
    )
    def test_other_names(self, name: str) -> None:
        assert names.parse_segment_name(name) is None
        assert names.parse_snapshot_name(name) is None

    def test_numbers_out_of_range(self) -> None:
        with pytest.raises(MalformedError, match="offset"):
            names.parse_segment_name("99999999999999999999.log")
        with pytest.raises(MalformedError, match="epoch"):
            names.parse_snapshot_name("00000000000000000001-9999999999.checkpoint")

    @pytest.mark.parametrize(
        ("offset", "epoch", "what"),
        [(2**63 - 1, 1, "offset"), (2**62 + 1, 1, "offset"), (1, 2**31 - 1, "epoch")],
    )
    def test_no_snapshot_ends_where_no_log_could_go_on(self, offset: int, epoch: int, what: str) -> None:
        """Kafka's `Snapshots.parse` takes all that a long and an int hold."""
        with pytest.raises(MalformedError, match=f"{what} .* is out of range"):
            names.parse_snapshot_name(f"{offset:020}-{epoch:010}.checkpoint")
        with pytest.raises(MalformedError, match=what):
            names.parse_snapshot_name(f"{offset:020}-{epoch:010}.checkpoint.deleted")
        kept = names.snapshot_name(OffsetAndEpoch(2**62, 2**31 - 2))
        assert names.parse_snapshot_name(kept) == OffsetAndEpoch(2**62, 2**31 - 2)

    @pytest.mark.parametrize("path", klog_files("*.log") + klog_files("*-*.checkpoint"), ids=str)
    def test_what_kafka_named(self, path) -> None:
        if path.suffix == ".log":
            found = names.parse_segment_name(path.name)
            assert found is not None
            assert names.segment_name(found.base_offset) == path.name
        else:
            snapshot_id = names.parse_snapshot_name(path.name)
            assert snapshot_id is not None
            assert names.snapshot_name(snapshot_id) == path.name
