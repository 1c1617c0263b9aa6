"""`export`: complete or not at all, consistent although the source runs on, and checkable afterwards."""

import errno
import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest
from crc32c import crc32c

from kraftd.cli import export
from kraftd.cli.export import DirectorySource, ExportFile, run
from kraftd.cli.failures import ExitCode
from kraftd.errors import ErrorCode
from kraftd.protocol.messages import (
    ExportChunkRequest,
    ExportChunkResponse,
    ExportManifestRequest,
    ExportManifestResponse,
    ExportManifestResponseFile,
)
from kraftd.records.batch import encode_batch
from kraftd.records.frame import encode_record
from kraftd.records.messages import NoOpRecord
from kraftd.storage.election_store import checksum_of
from kraftd.storage.sidecar import SLOT_BYTES, LocalState, encode_slot
from kraftd.types import OffsetAndEpoch
from tests.fixtures import klog
from tests.unit.cli.kraftctl import Kraftctl
from tests.unit.cli.scripted import ScriptedQuorum

LOG = "__cluster_metadata-0"
SIDECAR = encode_slot(1, None, 0, msgspec.msgpack.encode(LocalState())).ljust(2 * SLOT_BYTES, b"\0")
NO_OP = encode_record(NoOpRecord())


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A node's directory that may be changed: two segments, offsets 0-1 and 2-4."""
    path = tmp_path / "node"
    (path / LOG).mkdir(parents=True)
    kafkas = klog("generated-kafka-4.3-dynamic-voters") / "node-1"
    for name in ("meta.properties", "bootstrap.checkpoint", f"{LOG}/partition.metadata"):
        shutil.copyfile(kafkas / name, path / name)
    (path / LOG / "quorum-state").write_text(
        '{"clusterId":"","leaderId":1,"leaderEpoch":5,"votedId":1,"appliedOffset":0,'
        '"currentVoters":[{"voterId":1}],"data_version":0}'
    )
    (path / LOG / "leader-epoch-checkpoint").write_text("0\n1\n5 0\n")
    segment(path, 0).write_bytes(encode_batch(0, 5, 1, [NO_OP, NO_OP]))
    segment(path, 2).write_bytes(encode_batch(2, 5, 1, [NO_OP]) + encode_batch(3, 5, 1, [NO_OP, NO_OP]))
    (path / LOG / "00000000000000000000.index").write_bytes(b"\0" * 100)
    (path / "kraftd.state").write_bytes(SIDECAR)
    return path


def segment(node: Path, base_offset: int) -> Path:
    return node / LOG / f"{base_offset:020}.log"


def contents(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()
    }


def manifest(out: Path) -> dict[str, object]:
    return json.loads((out / "manifest.json").read_text())


def test_a_directory_is_copied_with_a_manifest_that_checks(
    kraftctl: Kraftctl, node: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    outcome = kraftctl("export", node, out, "-o", "json")
    assert outcome.code == 0
    copied = contents(out)
    del copied["manifest.json"]
    assert copied == {
        name: data for name, data in contents(node).items() if not name.endswith((".index", "kraftd.state"))
    }
    found = manifest(out)
    assert {file["name"]: (file["size_bytes"], file["crc32c"]) for file in found.pop("files")} == {
        name: (len(data), f"{crc32c(data):08x}") for name, data in copied.items()
    }
    assert found.pop("exported_at_ms") > 0
    assert found == {
        "format": 1,
        "cluster_id": "stOFWCzIS8aMMyZ69vRxHA",
        "node_id": 1,
        "directory_id": "bdiOSsLnSP2KHQXC7qr7gQ",
        "epoch": 5,
        "leader_id": 1,
        "high_watermark": -1,
        "log_start_offset": 0,
        "log_end_offset": 5,
        "problems": [],
    }


def test_every_directory_that_kafka_wrote_can_be_exported(kraftctl: Kraftctl, tmp_path: Path) -> None:
    source = klog("generated-kafka-4.3-eligible-leader-replicas") / "node-2"
    assert kraftctl("export", source, tmp_path / "out").code == 0
    assert kraftctl("info", tmp_path / "out").code == 0
    before, after = (
        {name: data for name, data in contents(path).items() if name.endswith((".log", ".checkpoint"))}
        for path in (source, tmp_path / "out")
    )
    assert after == before


def test_an_existing_copy_is_never_touched(kraftctl: Kraftctl, node: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine").touch()
    outcome = kraftctl("export", node, out)
    assert outcome.code == 1
    assert "is not empty" in outcome.err
    assert [path.name for path in out.iterdir()] == ["mine"]


def test_directories_above_the_copy_are_not_made(kraftctl: Kraftctl, node: Path, tmp_path: Path) -> None:
    outcome = kraftctl("export", node, tmp_path / "mistyped" / "out")
    assert outcome.code == 1
    assert outcome.err == f"kraftctl: {tmp_path / 'mistyped'} does not exist; make it, or name another OUT\n"
    assert not (tmp_path / "mistyped").exists()


def test_a_batch_being_written_is_left_out(kraftctl: Kraftctl, node: Path, tmp_path: Path) -> None:
    last = segment(node, 2)
    whole = last.read_bytes()
    last.write_bytes(whole + encode_batch(5, 5, 1, [NO_OP])[:-7])
    assert kraftctl("export", node, tmp_path / "out").code == 0
    assert segment(tmp_path / "out", 2).read_bytes() == whole
    assert manifest(tmp_path / "out")["log_end_offset"] == 5


def test_damage_is_copied_and_told(kraftctl: Kraftctl, node: Path, tmp_path: Path) -> None:
    data = bytearray(segment(node, 0).read_bytes())
    data[-3] ^= 1
    segment(node, 0).write_bytes(data)
    outcome = kraftctl("export", node, tmp_path / "out")
    assert outcome.code == 1
    problem = f"{LOG}/{segment(node, 0).name} at byte 0, offset 0: the checksum is "
    assert f"Problem: {problem}" in outcome.out
    assert [text.startswith(problem) for text in manifest(tmp_path / "out")["problems"]] == [True]
    assert segment(tmp_path / "out", 0).read_bytes() == bytes(data)


def test_what_no_checksum_covers_is_looked_at_too(kraftctl: Kraftctl, node: Path, tmp_path: Path) -> None:
    data = bytearray(segment(node, 2).read_bytes())
    data[15] ^= 2  # the epoch of the first batch
    segment(node, 2).write_bytes(data)
    outcome = kraftctl("export", node, tmp_path / "out")
    assert outcome.code == 1
    assert f"{segment(node, 2).name} at byte 0, offset 2: the batch says epoch 7 before" in outcome.out


def test_a_file_that_cannot_be_read_ends_the_export(
    kraftctl: Kraftctl, node: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bad_sector(*_: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("kraftd.cli.export.open_to_read", bad_sector)
    outcome = kraftctl("export", node, tmp_path / "out")
    monkeypatch.undo()
    assert outcome.code == 1
    assert outcome.err == (
        f"kraftctl: {node}/bootstrap.checkpoint at byte 0: Input/output error; nothing is exported: "
        "export another node of the cluster\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["node"]


def test_a_missing_segment_is_told(kraftctl: Kraftctl, node: Path, tmp_path: Path) -> None:
    segment(node, 2).rename(segment(node, 7))
    outcome = kraftctl("export", node, tmp_path / "out")
    assert outcome.code == 1
    assert f"{segment(node, 7).name}: its name says offset 7, its first batch offset 2" in outcome.out


def test_a_log_that_begins_later_is_no_good_copy_without_its_snapshot(
    kraftctl: Kraftctl, node: Path, tmp_path: Path
) -> None:
    """Else a backup of nothing would take the place of a sound one: a node refuses such a directory."""
    segment(node, 0).unlink()
    (node / LOG / f"{0:020}.index").unlink()
    (node / LOG / "leader-epoch-checkpoint").write_text("0\n1\n5 2\n")
    outcome = kraftctl("export", node, tmp_path / "out")
    assert outcome.code == 1
    assert "begins at offset 2, and no snapshot holds the state before it" in outcome.out


class RestlessSource(DirectorySource):
    """A directory in which something happens while it is read."""

    def __init__(self, path: Path, happens: Callable[[str], None]) -> None:
        super().__init__(path)
        self._happens = happens

    def read(self, name: str, position: int, max_bytes: int) -> bytes:
        data = super().read(name, position, max_bytes)
        self._happens(name)
        return data


def test_a_log_truncated_during_the_copy_is_copied_anew(node: Path, tmp_path: Path) -> None:
    """What was cut and replaced must not stand in the copy: it was never committed."""
    last = segment(node, 2)
    replaced = encode_batch(2, 6, 1, [NO_OP]) + encode_batch(3, 6, 1, [NO_OP, NO_OP])

    def happens(name: str) -> None:
        if name.endswith(last.name):
            last.write_bytes(replaced)

    run(RestlessSource(node, happens), "node", tmp_path / "out")
    assert segment(tmp_path / "out", 2).read_bytes() == replaced


def test_epochs_of_before_a_truncation_are_copied_anew(node: Path, tmp_path: Path) -> None:
    """The log may be whole and the same in its last batch, and the epochs may be of another one."""
    epochs = node / LOG / "leader-epoch-checkpoint"
    epochs.write_text("0\n3\n3 0\n4 1\n5 2\n")

    def happens(name: str) -> None:
        if name.endswith(epochs.name):
            epochs.write_text("0\n1\n5 0\n")

    report = run(RestlessSource(node, happens), "node", tmp_path / "out")
    assert report["problems"] == []
    assert (tmp_path / "out" / LOG / epochs.name).read_text() == "0\n1\n5 0\n"


def test_the_copy_never_knows_less_of_the_election_than_its_log_needs(node: Path, tmp_path: Path) -> None:
    state = node / LOG / "quorum-state"

    def happens(name: str) -> None:
        if name.endswith(".log"):
            state.write_text(state.read_text().replace('"leaderEpoch":5', '"leaderEpoch":6'))

    report = run(RestlessSource(node, happens), "node", tmp_path / "out")
    assert report["epoch"] == 6


def test_a_log_that_never_rests_gives_no_copy_at_all(kraftctl: Kraftctl, node: Path, tmp_path: Path) -> None:
    epochs = iter(range(6, 100))

    def happens(name: str) -> None:
        if name.endswith(segment(node, 2).name):
            segment(node, 2).write_bytes(encode_batch(2, next(epochs), 1, [NO_OP, NO_OP, NO_OP]))

    with pytest.raises(export.CommandError, match="truncated during the copy, 3 times"):
        run(RestlessSource(node, happens), "node", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["node"]


def serve(quorum: ScriptedQuorum, node: Path, **manifest_fields: int) -> None:
    """Let node 3 export a directory."""

    def answer_manifest(_: ExportManifestRequest) -> ExportManifestResponse:
        files = tuple(
            ExportManifestResponseFile(name=file.name, size_bytes=file.size_bytes, kind=file.kind)
            for file in DirectorySource(node).files()
        )
        return ExportManifestResponse(epoch=5, leader_id=2, files=files, **manifest_fields)

    def answer_chunk(request: ExportChunkRequest) -> object:
        path = node / request.name
        if not path.exists():
            return ExportChunkResponse(error_code=ErrorCode.INVALID_REQUEST, error_message="no such file")
        data = path.read_bytes()
        end = request.position + min(request.max_bytes, 50)
        response = ExportChunkResponse(name=request.name, position=request.position, total_bytes=len(data))
        return response, data[request.position : end]

    quorum.nodes[3].responses[ExportManifestRequest] = answer_manifest
    quorum.nodes[3].responses[ExportChunkRequest] = answer_chunk


def test_a_running_node_is_exported_by_id_or_address(
    kraftctl: Kraftctl, quorum: ScriptedQuorum, node: Path, tmp_path: Path
) -> None:
    serve(quorum, node, high_watermark=4)
    by_id = kraftctl("--bootstrap-controller", quorum.nodes[1].address, "export", 3, tmp_path / "a")
    by_address = kraftctl("export", quorum.nodes[3].address, tmp_path / "b")
    assert (by_id.code, by_address.code) == (0, 0)
    for out in (tmp_path / "a", tmp_path / "b"):
        assert segment(out, 2).read_bytes() == segment(node, 2).read_bytes()
        assert manifest(out)["high_watermark"] == 4


def test_the_high_watermark_never_passes_the_end_of_the_copy(
    kraftctl: Kraftctl, quorum: ScriptedQuorum, node: Path, tmp_path: Path
) -> None:
    serve(quorum, node, high_watermark=1_000)
    kraftctl("export", quorum.nodes[3].address, tmp_path / "out")
    assert manifest(tmp_path / "out")["high_watermark"] == 5


def test_a_node_that_cannot_read_its_file_is_not_asked_again(
    kraftctl: Kraftctl, quorum: ScriptedQuorum, node: Path, tmp_path: Path
) -> None:
    serve(quorum, node)
    asked: list[ExportChunkRequest] = []

    def refuse(request: ExportChunkRequest) -> ExportChunkResponse:
        asked.append(request)
        return ExportChunkResponse(
            error_code=ErrorCode.UNKNOWN_SERVER_ERROR, error_message="cannot be read: Input/output error"
        )

    quorum.nodes[3].responses[ExportChunkRequest] = refuse
    outcome = kraftctl("export", quorum.nodes[3].address, tmp_path / "out")
    assert outcome.code == 1
    assert "bootstrap.checkpoint at byte 0: cannot be read: Input/output error; nothing is" in outcome.err
    assert len(asked) == 1


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/b/c", ""])
def test_a_node_cannot_make_us_write_elsewhere(
    kraftctl: Kraftctl, quorum: ScriptedQuorum, node: Path, tmp_path: Path, name: str
) -> None:
    serve(quorum, node)
    files = (
        ExportManifestResponseFile(name=name, size_bytes=1, kind="segment"),
        ExportManifestResponseFile(name="x.log", size_bytes=1, kind="segment"),
    )
    quorum.nodes[3].responses[ExportManifestRequest] = lambda _: ExportManifestResponse(files=files)
    outcome = kraftctl("export", quorum.nodes[3].address, tmp_path / "out")
    assert outcome.code == 1
    assert "is no part of an export" in outcome.err
    assert {path.name for path in tmp_path.iterdir()} == {"node"}


def test_a_node_that_is_down_or_unknown_is_said_to_be(
    kraftctl: Kraftctl, quorum: ScriptedQuorum, tmp_path: Path
) -> None:
    quorum.nodes[3].close()
    down = kraftctl("--bootstrap-controller", quorum.nodes[1].address, "export", 3, tmp_path / "out")
    assert down.code == 2
    assert "export its directory instead" in down.err
    unknown = kraftctl("--bootstrap-controller", quorum.nodes[1].address, "export", 9, tmp_path / "out")
    assert unknown.code == 1
    assert "no node knows a node 9; known are 1, 2, 3" in unknown.err


def flushed_to(node: Path, offset: int) -> None:
    """The node notes that its log was flushed up to an offset, and the election that is in its directory."""
    election = checksum_of((node / LOG / "quorum-state").read_bytes())
    state = LocalState(old_election=election, new_election=election, election_epoch=5)
    slot = encode_slot(1, OffsetAndEpoch(offset, 5), 0, msgspec.msgpack.encode(state))
    (node / "kraftd.state").write_bytes(slot.ljust(2 * SLOT_BYTES, b"\0"))


def test_a_log_that_ends_before_what_was_flushed_is_damaged(
    kraftctl: Kraftctl, node: Path, tmp_path: Path
) -> None:
    flushed_to(node, 7)
    outcome = kraftctl("export", node, tmp_path / "out")
    assert outcome.code == 1
    assert "kraftd.state knows that it was flushed up to offset 7" in outcome.out
    [problem] = manifest(tmp_path / "out")["problems"]
    assert problem.startswith(f"{LOG}/{2:020}.log at byte ")
    flushed_to(node, 5)
    assert kraftctl("export", node, tmp_path / "whole").code == 0


def test_of_a_batch_that_was_flushed_and_is_cut_the_bytes_are_kept(
    kraftctl: Kraftctl, node: Path, tmp_path: Path
) -> None:
    os.truncate(segment(node, 2), segment(node, 2).stat().st_size - 3)
    flushed_to(node, 5)
    outcome = kraftctl("export", node, tmp_path / "out")
    assert (outcome.code, outcome.out.count("Problem:")) == (1, 1)
    assert "ends inside a batch, but kraftd.state knows" in outcome.out
    assert segment(tmp_path / "out", 2).read_bytes() == segment(node, 2).read_bytes()
    flushed_to(node, 3)  # it was being written
    assert kraftctl("export", node, tmp_path / "torn").code == 0
    assert segment(tmp_path / "torn", 2).read_bytes() == encode_batch(2, 5, 1, [NO_OP])


def test_a_forgotten_vote_is_told(kraftctl: Kraftctl, node: Path, tmp_path: Path) -> None:
    flushed_to(node, 5)
    (node / LOG / "quorum-state").unlink()
    outcome = kraftctl("export", node, tmp_path / "out")
    assert outcome.code == 1
    assert "quorum-state: is gone; epoch 5 was written last: a vote may be forgotten" in outcome.out


def test_a_node_that_cuts_its_log_behind_what_it_noted_is_copied_again(node: Path, tmp_path: Path) -> None:
    class Cut(DirectorySource):
        cuts = 0

        def files(self) -> Sequence[ExportFile]:
            if not self.cuts:
                flushed_to(node, 3)
                segment(node, 2).write_bytes(encode_batch(2, 5, 1, [NO_OP]))
            self.cuts += 1
            return super().files()

    flushed_to(node, 5)
    source = Cut(node)
    report = run(source, "node", tmp_path / "out")
    assert (report["problems"], report["log_end_offset"], source.cuts) == ([], 3, 2)


def test_the_folder_that_one_is_in_is_no_name_for_a_copy(
    kraftctl: Kraftctl, node: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (empty := tmp_path / "empty").mkdir()
    monkeypatch.chdir(empty)
    outcome = kraftctl("export", node, ".")
    assert outcome == (
        ExitCode.ERROR,
        "",
        "kraftctl: . has no name of its own; name a directory that does not exist yet\n",
    )
