"""`kraftctl log dump` against what Kafka's own tool printed, and on logs that Kafka's tool gives up on."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from kraftd.cli import dump
from kraftd.cli.dump import DumpedRecord, FileStart, Selection
from kraftd.logtools.batch_reader import Batch
from kraftd.records.batch import encode_batch, encode_control_batch, scan
from kraftd.records.control import encode_control
from kraftd.records.frame import RawRecord, decode_record, encode_record
from kraftd.records.messages import (
    ConfigRecord,
    LeaderChangeMessage,
    NoOpRecord,
    UserScramCredentialRecord,
)
from kraftd.serde.binary import base64_text
from tests.fixtures import klog, klog_files
from tests.unit.cli.kraftctl import Kraftctl, Outcome

HERE = Path(__file__).parent
T0 = 1_700_000_000_000


def node_1() -> Path:
    return klog("generated-kafka-4.3-dynamic-voters") / "node-1"


def config(name: str) -> bytes:
    return encode_record(ConfigRecord(resource_type=4, resource_name="", name=name, value="1"))


NO_OP = encode_record(NoOpRecord())


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    """Offsets 0 LeaderChange, 1-2 configs, 3 NoOp, 4 a kind from the future; a second apart, epoch 5."""
    path = tmp_path / "__cluster_metadata-0" / "00000000000000000000.log"
    path.parent.mkdir()
    path.write_bytes(b"".join(batches()))
    return path


def batches() -> list[bytes]:
    leader = encode_control(LeaderChangeMessage(leader_id=3))
    return [
        encode_control_batch(0, 5, T0, [leader]),
        encode_batch(1, 5, T0 + 1_000, [config("a.b"), config("c.d")]),
        encode_batch(3, 5, T0 + 2_000, [NO_OP]),
        encode_batch(4, 5, T0 + 3_000, [encode_record(RawRecord(99, 7, b"\x01\x02"))]),
    ]


def lines(outcome: Outcome) -> list[dict[str, object]]:
    return [json.loads(line) for line in outcome.out.splitlines()]


def offsets(outcome: Outcome) -> list[object]:
    return [line["offset"] for line in lines(outcome) if line["kind"] == "record"]


def normalize(text: str) -> list[str]:
    return [
        f"Dumping {Path(line).name}" if line.startswith("Dumping ") else line for line in text.splitlines()
    ]


def test_snapshots_look_as_kafka_prints_them(kraftctl: Kraftctl) -> None:
    bootstrap = node_1() / "bootstrap.checkpoint"
    voters = node_1() / "__cluster_metadata-0" / "00000000000000000000-0000000000.checkpoint"
    golden = (HERE / "kafka_dump_of_snapshots.txt").read_text()
    assert normalize(kraftctl("log", "dump", bootstrap, voters).out) == normalize(golden)


def test_a_segment_looks_as_kafka_prints_it(kraftctl: Kraftctl) -> None:
    path = node_1() / "__cluster_metadata-0" / "00000000000000000000.log"
    golden = normalize((HERE / "kafka_dump_of_segment.txt").read_text())
    outcome = kraftctl("log", "dump", path)
    assert normalize(outcome.out)[: len(golden)] == golden
    assert outcome.code == 0


def test_every_log_that_kafka_wrote_is_dumped_to_its_last_byte() -> None:
    for path in klog_files("*.log"):
        seen = [item for item in dump.read_file(path, Selection()) if isinstance(item, Batch)]
        assert all(batch.problem is None for batch in seen)
        assert seen[-1].position + seen[-1].view.size_bytes == path.stat().st_size


def test_a_directory_stands_for_its_segments_in_order(kraftctl: Kraftctl) -> None:
    for path in (node_1(), node_1() / "__cluster_metadata-0"):
        seen = [line for line in lines(kraftctl("log", "dump", path, "-o", "json")) if line["kind"] == "file"]
        assert [line["offset"] for line in seen] == [0, 375, 736, 1119, 1503]


def test_an_empty_file_is_said_to_be_empty(kraftctl: Kraftctl, tmp_path: Path) -> None:
    empty = tmp_path / f"{7:020}.log"
    empty.touch()
    for more in ((), ("--from-offset", 9)):
        outcome = kraftctl("log", "dump", empty, *more)
        assert (outcome.code, outcome.err) == (0, f"kraftctl: {empty} is empty: it holds no batch\n")
    assert len(lines(kraftctl("log", "dump", empty, "-o", "json"))) == 1


def test_a_fifo_is_refused_in_one_line(kraftctl: Kraftctl, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo.log"
    os.mkfifo(fifo)
    outcome = kraftctl("log", "dump", fifo)
    says = f"kraftctl: {fifo} is a FIFO, and only files can be dumped: write what it holds to one\n"
    assert outcome == (1, "", says)


def test_records_are_filtered_by_type_offset_and_time(kraftctl: Kraftctl, segment: Path) -> None:
    def dumped(*filters: object) -> list[object]:
        return offsets(kraftctl("log", "dump", segment, "-o", "json", *filters))

    assert dumped() == [0, 1, 2, 3, 4]
    assert dumped("--type", "ConfigRecord") == dumped("--type", "config") == [1, 2]
    assert dumped("--type", "CONFIG_RECORD", "--type", "LeaderChange") == [0, 1, 2]
    assert dumped("--type", "UnknownRecord99") == [4]
    assert dumped("--without-type", "noop") == [0, 1, 2, 4]
    assert dumped("--from-offset", 2, "--to-offset", 4) == [2, 3]
    assert dumped("--from-time", "2023-11-14T22:13:21", "--to-time", T0 + 3_000) == [1, 2, 3]
    assert dumped("--from-time", "2023-11-14T23:13:22+01:00") == [3, 4]


def test_batches_without_anything_wanted_are_left_out(kraftctl: Kraftctl, segment: Path) -> None:
    seen = lines(kraftctl("log", "dump", segment, "-o", "json", "--type", "NoOp"))
    assert [line["kind"] for line in seen] == ["file", "batch", "record"]


def test_json_and_yaml_tell_the_same(kraftctl: Kraftctl, segment: Path) -> None:
    seen = lines(kraftctl("log", "dump", segment, "-o", "json"))
    assert yaml.safe_load(kraftctl("log", "dump", segment, "-o", "yaml").out) == seen
    assert seen[0] == {"kind": "file", "file": str(segment), "type": "segment", "offset": 0, "epoch": -1}
    assert seen[2] == {
        "kind": "record",
        "file": str(segment),
        "position": 0,
        "offset": 0,
        "timestamp": T0,
        "epoch": 5,
        "is_control": True,
        "type": "LeaderChange",
        "version": 0,
        "data": {"version": 0, "leaderId": 3, "voters": [], "grantingVoters": []},
        "key_size": 4,
        "value_size": 9,
        "is_valid": True,
        "problem": None,
    }


def test_a_kind_from_the_future_is_shown_as_bytes_if_secrets_may_be(
    kraftctl: Kraftctl, segment: Path
) -> None:
    last = lines(kraftctl("log", "dump", segment, "-o", "json"))[-1]
    assert (last["version"], last["data"], last["is_valid"]) == (7, {"raw": "[redacted]"}, True)
    last = lines(kraftctl("log", "dump", segment, "-o", "json", "--show-secrets"))[-1]
    assert (last["version"], last["data"], last["is_valid"]) == (7, {"raw": "0102"}, True)


@pytest.mark.parametrize("output", ["table", "json", "yaml"])
def test_keys_and_passwords_are_told_only_on_demand(kraftctl: Kraftctl, output: str) -> None:
    """Whatever the form: no salt and no key of a real log leaves without being asked for."""
    node = klog("generated-kafka-4.3-dynamic-voters") / "node-1"
    secrets = {
        base64_text(part)
        for path in node.rglob("*.log")
        for batch in scan(path.read_bytes())
        for record in map(decode_record, batch.values())
        if isinstance(record, UserScramCredentialRecord)
        for part in (record.salt, record.stored_key, record.server_key)
    }
    assert len(secrets) > 10
    asked = ("log", "dump", node, "--type", "UserScramCredential", "-o", output)
    hidden, told = kraftctl(*asked).out, kraftctl(*asked, "--show-secrets").out
    assert hidden.count("[redacted]") == 3 * hidden.count("storedKey") > 10
    assert [secret for secret in secrets if secret in hidden] == []
    assert [secret for secret in secrets if secret not in told] == []


def test_a_control_record_that_nobody_knows_may_hold_anything(kraftctl: Kraftctl, segment: Path) -> None:
    with segment.open("ab") as file:
        file.write(encode_control_batch(5, 5, T0, [(77, b"\0\1secret")]))
    asked = ("log", "dump", segment, "--type", "Unknown77", "-o", "json")
    assert lines(kraftctl(*asked))[-1]["data"] == {"raw": "[redacted]"}
    assert lines(kraftctl(*asked, "--show-secrets"))[-1]["data"] == {"raw": b"\0\1secret".hex()}


def test_a_bad_checksum_is_told_with_byte_and_offset_and_the_dump_goes_on(
    kraftctl: Kraftctl, segment: Path
) -> None:
    first, second, *_ = batches()
    data = bytearray(segment.read_bytes())
    data[len(first) + len(second) - 3] ^= 1
    segment.write_bytes(data)
    outcome = kraftctl("log", "dump", segment)
    assert outcome.code == 1
    assert f"Damaged: {segment} at byte {len(first)}, offset 1: the checksum is " in outcome.out
    assert outcome.out.count("isvalid: false") == 1
    assert outcome.out.count("isvalid: true") == 3
    seen = lines(kraftctl("log", "dump", segment, "-o", "json", "--type", "NoOp"))
    assert [line["base_offset"] for line in seen if line["kind"] == "batch" and not line["is_valid"]] == [1]


def test_after_a_batch_that_lies_about_its_size_the_next_good_one_is_found(
    kraftctl: Kraftctl, segment: Path
) -> None:
    first, second, *_ = batches()
    data = bytearray(segment.read_bytes())
    data[len(first) + 8] = 0x7F
    segment.write_bytes(data)
    outcome = kraftctl("log", "dump", segment, "-o", "json")
    assert outcome.code == 1
    assert offsets(outcome) == [0, 3, 4]
    [problem] = [line for line in lines(outcome) if line["kind"] == "problem"]
    assert (problem["position"], problem["size_bytes"], problem["offset"]) == (len(first), len(second), 1)
    assert not problem["is_torn"]


def test_a_torn_end_is_told_apart_from_damage(kraftctl: Kraftctl, segment: Path) -> None:
    data = segment.read_bytes()
    segment.write_bytes(data[:-5])
    outcome = kraftctl("log", "dump", segment)
    assert outcome.code == 0
    start = len(data) - len(batches()[-1])
    assert (
        f"Found {len(data) - 5 - start} invalid bytes at the end of {segment.name} at byte {start}"
        in outcome.out
    )
    [problem] = [
        line for line in lines(kraftctl("log", "dump", segment, "-o", "json")) if line["kind"] == "problem"
    ]
    assert problem["is_torn"]


def test_a_record_that_cannot_be_decoded_does_not_hide_its_neighbours(
    kraftctl: Kraftctl, tmp_path: Path
) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(encode_batch(0, 1, T0, [config("a.b"), b"\x01\x04\x00\xff", NO_OP]))
    outcome = kraftctl("log", "dump", path)
    assert outcome.code == 1
    assert "payload: Error at 1, skipping. " in outcome.out
    assert '"name":"a.b"' in outcome.out
    assert "NO_OP_RECORD" in outcome.out


def test_any_file_gives_a_result(kraftctl: Kraftctl, tmp_path: Path) -> None:
    path = tmp_path / "noise.log"
    for noise in (b"", b"\0" * 10_000, bytes(range(256)) * 40, b"x" * 11):
        path.write_bytes(noise)
        outcome = kraftctl("log", "dump", path)
        assert outcome.code == (1 if noise else 0)
        assert ("invalid bytes" in outcome.out or "Damaged" in outcome.out) == bool(noise)


def test_a_directory_without_segments_is_an_error(kraftctl: Kraftctl, tmp_path: Path) -> None:
    outcome = kraftctl("log", "dump", tmp_path)
    assert outcome.code == 1
    assert outcome.err.startswith(f"kraftctl: {tmp_path} holds no metadata log; ")


def test_a_directory_that_was_only_formatted_says_where_its_levels_are(
    kraftctl: Kraftctl, tmp_path: Path
) -> None:
    (tmp_path / "bootstrap.checkpoint").write_bytes(b"")
    outcome = kraftctl("log", "state", tmp_path)
    assert (outcome.code, outcome.err.count("\n")) == (1, 1)
    assert f"no node has started there; {tmp_path / 'bootstrap.checkpoint'}" in outcome.err


class Followed:
    """`dump.follow`, driven step by step: every wait runs the next of the test's steps."""

    def __init__(self, path: Path, *steps: object) -> None:
        self._steps: Iterator[object] = iter(steps)
        self.items = []
        try:
            for item in dump.follow(path, Selection(), wait=self._step):
                self.items.append(item)
        except StopAsyncIteration:
            pass

    def _step(self) -> None:
        step = next(self._steps, None)
        if step is None:
            raise StopAsyncIteration
        step()

    @property
    def told(self) -> list[object]:
        return [
            item.offset if isinstance(item, DumpedRecord) else type(item).__name__
            for item in self.items
            if not isinstance(item, Batch | FileStart)
        ]


def test_follow_waits_for_the_rest_of_a_batch(segment: Path) -> None:
    data = segment.read_bytes()
    segment.write_bytes(data[:-5])

    def finish() -> None:
        with segment.open("ab") as file:
            file.write(data[-5:])

    assert Followed(segment, lambda: None, finish, lambda: None).told == [0, 1, 2, 3, 4]


def test_follow_goes_on_in_the_next_segment(segment: Path) -> None:
    following = segment.with_name("00000000000000000005.log")

    def roll() -> None:
        with segment.open("ab") as file:
            file.write(encode_batch(5, 5, T0, [NO_OP]))
        following.with_name("00000000000000000006.log").write_bytes(encode_batch(6, 6, T0, [NO_OP, NO_OP]))

    assert Followed(segment.parents[1], roll, lambda: None).told == [0, 1, 2, 3, 4, 5, 6, 7]


def test_follow_tells_again_what_replaces_a_truncated_end(segment: Path) -> None:
    *kept, cut = batches()

    def truncate() -> None:
        segment.write_bytes(b"".join(kept))

    def replace() -> None:
        with segment.open("ab") as file:
            file.write(encode_batch(4, 6, T0, [NO_OP, config("new")]))

    assert cut
    assert Followed(segment, truncate, replace).told == [0, 1, 2, 3, 4, 4, 5]


def test_the_fixtures_stay_as_they_are(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(node_1(), copy)
    list(dump.read_file(copy / "bootstrap.checkpoint", Selection()))
    assert (copy / "bootstrap.checkpoint").read_bytes() == (node_1() / "bootstrap.checkpoint").read_bytes()


def test_an_offset_past_the_end_is_said(kraftctl: Kraftctl, segment: Path) -> None:
    outcome = kraftctl("log", "dump", segment, "--from-offset", "5")
    assert outcome.code == 0
    assert outcome.err == f"kraftctl: {segment} ends at offset 5: nothing in it is at or after 5\n"
    assert kraftctl("log", "dump", segment, "--from-offset", "4").err == ""


@pytest.mark.parametrize(
    "more",
    [
        ("--to-offset", "0"),
        ("--from-offset", "3", "--to-offset", "2"),
        ("--from-time", "2099-01-01"),
        ("--to-time", "2001-01-01"),
    ],
)
def test_that_nothing_is_what_was_asked_for_is_said(
    kraftctl: Kraftctl, segment: Path, more: tuple[str, ...]
) -> None:
    outcome = kraftctl("log", "dump", segment, *more)
    says = "kraftctl: nothing is within the offsets, times and types that were asked for\n"
    assert (outcome.code, outcome.err) == (0, says)
    assert kraftctl("log", "dump", segment, *more, "-o", "json").err == says
