"""`kraftctl log state|diff|history|verify`: what each prints, in every format, and how each ends."""

import json
import shutil
from pathlib import Path

import pytest
import yaml

from kraftd.records import epoch_checkpoint, names
from kraftd.records.frame import RawRecord
from kraftd.records.messages import (
    BeginTransactionRecord,
    ConfigRecord,
    FenceBrokerRecord,
    UserScramCredentialRecord,
)
from kraftd.serde.binary import base64_text
from kraftd.types import EpochEntry
from tests.fixtures import klog
from tests.unit.cli.kraftctl import Kraftctl
from tests.unit.logtools.logs import T0, LogMaker, config, moved, orders


@pytest.fixture
def made(tmp_path: Path) -> LogMaker:
    return orders(tmp_path / "node")


def damage(made: LogMaker) -> None:
    data = bytearray(made.segment.read_bytes())
    data[-3] ^= 1
    made.segment.write_bytes(data)


def test_the_state_for_a_person(kraftctl: Kraftctl, made: LogMaker) -> None:
    outcome = kraftctl("log", "state", made.home)
    assert outcome.code == 0
    header, *blocks = outcome.out.split("\n\n")
    labels = dict(line.split(None, 1) for line in header.splitlines())
    assert labels["Offset:"] == "11"
    assert labels["LeaderId:"] == "2"
    assert labels["Voters:"] == "1,2,3"
    assert labels["MadeFrom:"] == "9 records"
    assert labels["Timestamp:"] == "2023-11-14T22:13:28.000Z"
    assert [block.splitlines()[0].split()[0] for block in blocks] == ["Feature", "Broker", "Topic", "Also"]
    assert ["orders", "2", "3", "0", "1"] in [line.split() for line in blocks[2].splitlines()]
    assert "/configs            1" in blocks[3]


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_the_state_for_a_program(kraftctl: Kraftctl, made: LogMaker, output: str) -> None:
    out = kraftctl("log", "state", made.home, "--at", "9", "-o", output).out
    data = json.loads(out) if output == "json" else yaml.safe_load(out)
    assert (data["offset"], data["epoch"], data["leader_id"], data["records"]) == (9, 3, 2, 7)
    assert (data["is_partial"], data["problem"], data["snapshot"], data["path"]) == (False, None, None, "/")
    assert data["image"]["topics"]["orders"]["0"]["leader"] == 1
    assert data["image"]["features"] == {"metadata.version": 30}
    assert set(data) == {
        "log", "cluster_id", "node_id", "offset", "epoch", "timestamp", "snapshot", "records",
        "known_committed_offset", "leader_id", "leader_epoch", "hash", "is_partial", "unknown_kinds",
        "transaction", "notes", "problem", "path", "image",
    }  # fmt: skip


def test_a_part_of_the_state(kraftctl: Kraftctl, made: LogMaker) -> None:
    table = kraftctl("log", "state", made.home, "--path", "/topics/orders").out
    assert [line.split()[:4] for line in table.splitlines()] == [
        ["Partition", "Leader", "Replicas", "Isr"],
        ["0", "2", "1,2,3", "1,2,3"],
        ["1", "1", "1,2,3", "1,2"],
    ]
    assert (
        kraftctl("log", "state", made.home, "--path", "/topics").out.split()[-1] == "b3JkZXJzAQEBAQEBAQEBAQ"
    )
    assert kraftctl("log", "state", made.home, "--path", "/configs").out.splitlines()[1].split() == [
        "topic", "orders", "retention.ms", "1000",
    ]  # fmt: skip
    assert kraftctl("log", "state", made.home, "--path", "/local/epoch").out == "3\n"
    several = kraftctl("log", "state", made.home, "--path", "/brokers/*", "-o", "json").data
    assert (several["path"], list(several["image"])) == (["/brokers/1", "/brokers/2"], several["path"])
    missing = kraftctl("log", "state", made.home, "--path", "/topics/oders")
    assert (missing.code, missing.err) == (
        1,
        "kraftctl: there is no /topics/oders; did you mean /topics/orders?\n",
    )


def test_a_part_of_the_state_that_is_empty_is_told_as_such(kraftctl: Kraftctl, made: LogMaker) -> None:
    outcome = kraftctl("log", "state", made.home, "--path", "/scram")
    assert outcome == (0, "", "kraftctl: there is nothing at /scram\n")


def test_a_time_is_a_point(kraftctl: Kraftctl, made: LogMaker) -> None:
    # The batch of offset 7 is the fifth, a second after the one before it.
    assert (
        kraftctl("log", "state", made.home, "--at", "2023-11-14T22:13:25", "-o", "json").data["offset"] == 8
    )
    assert kraftctl("log", "state", made.home, "--at", "2023-11-14T23:13:24+01:00", "-o", "json").data[
        "offset"
    ] == (7)
    wrong = kraftctl("log", "state", made.home, "--at", "yesterday")
    assert (wrong.code, wrong.err.count("\n")) == (64, 1)
    assert "neither an offset (1234) nor a time" in wrong.err
    late = kraftctl("log", "state", made.home, "--at", T0)
    assert (late.code, late.err.count("\n")) == (1, 1)


@pytest.mark.parametrize("output", ["table", "json", "yaml"])
def test_what_is_left_out_and_what_is_pending_is_in_every_result(
    kraftctl: Kraftctl, made: LogMaker, output: str
) -> None:
    made.batch(RawRecord(99, 0, b"x")).batch(BeginTransactionRecord(name="bulk")).batch(config("2"))
    for words in (
        ("state", made.home),
        ("state", made.home, "--path", "/topics"),
        ("diff", made.home, 4, made.end),
        ("history", made.home, "topic", "orders"),
        ("verify", made.home),
    ):
        outcome = kraftctl("log", *words, "-o", output)
        assert outcome.code == 0, words
        assert "UnknownRecord99" in outcome.out + outcome.err, words
        if words[0] in ("state", "diff"):
            said = (outcome.out + outcome.err).replace("''", "'")  # YAML doubles quotes
            assert "inside the transaction 'bulk' that began at 12" in said, words


def test_damage_is_a_result_and_an_exit_code(kraftctl: Kraftctl, made: LogMaker) -> None:
    damage(made)
    for words in (
        ("state", made.home),
        ("state", made.home, "--path", "/brokers"),
        ("diff", made.home, 4, 11),
        ("history", made.home, "topic", "orders"),
        ("verify", made.home),
    ):
        outcome = kraftctl("log", *words)
        assert outcome.code == 1, words
        assert f"{made.segment.name} at byte" in outcome.out + outcome.err, words
        assert "the checksum is" in outcome.out + outcome.err, words


@pytest.mark.parametrize("output", ["table", "json", "yaml"])
def test_no_result_tells_a_secret_unless_asked(kraftctl: Kraftctl, made: LogMaker, output: str) -> None:
    salt, key = b"the-salt-of-ann", b"the-key-of-ann"
    made.batch(
        UserScramCredentialRecord(name="ann", mechanism=1, salt=salt, stored_key=key, server_key=key),
        ConfigRecord(resource_type=4, resource_name="1", name="ssl.key.password", value="pass-word"),
        ConfigRecord(resource_type=4, resource_name="1", name="some.plugin", value="plug-word"),
    ).batch(
        ConfigRecord(resource_type=4, resource_name="1", name="some.plugin", value="other-word"),
        RawRecord(99, 0, b"raw-word"),
    )
    secrets = ["pass-word", "plug-word", "other-word", *map(base64_text, (salt, key)), b"raw-word".hex()]
    asked = [
        ("state", made.home),
        ("state", made.home, "--path", "/configs"),
        ("state", made.home, "--path", "/scram/*/*"),
        ("state", made.home, "--path", "/configs/broker/1/*"),
        ("diff", made.home, 4, made.end),
        ("history", made.home, "broker", 1),
        ("history", made.home, "config", "some.plugin"),
        ("dump", made.home),
    ]
    told = ""
    for words in asked:
        hidden = kraftctl("log", *words, "-o", output)
        assert [secret for secret in secrets if secret in hidden.out + hidden.err] == [], words
        told += kraftctl("log", *words, "-o", output, "--show-secrets").out
    assert [secret for secret in secrets if secret not in told] == []


def test_what_changed_between_two_points(kraftctl: Kraftctl, made: LogMaker) -> None:
    outcome = kraftctl("log", "diff", made.home, 8, 11)
    first, second, empty, *rows = outcome.out.splitlines()
    assert first == f"From: {made.home} at offset 8 (epoch 1, 2023-11-14T22:13:25.000Z)"
    assert second == f"To:   {made.home} at offset 11 (epoch 3, 2023-11-14T22:13:28.000Z)"
    assert (empty, [" ".join(row.split()) for row in rows]) == (
        "",
        [
            "Entity Name Change",
            "quorum - leader moved 1 (epoch 1) -> 2 (epoch 3)",
            "partition orders-0 leader moved 1 -> 2",
            "partition orders-1 ISR shrank 1,2,3 -> 1,2",
        ],
    )
    back = kraftctl("log", "diff", made.home, 11, 8, "-o", "json").data
    assert [change["text"] for change in back["changes"]][1:] == [
        "leader moved 2 -> 1",
        "ISR expanded 1,2 -> 1,2,3",
    ]
    assert (back["from"]["offset"], back["to"]["offset"]) == (11, 8)
    assert kraftctl("log", "diff", made.home, 11, 11).out.endswith("\n\nNothing differs.\n")


def test_the_two_points_are_folded_as_one_history(kraftctl: Kraftctl) -> None:
    """A snapshot between them that holds what no record said is no part of it."""
    node = klog("generated-kafka-4.3-dynamic-voters") / "node-1"
    between = kraftctl("log", "diff", node, 500, 700)
    assert between.code == 0
    assert "t564" not in between.out


def test_what_differs_between_two_directories(kraftctl: Kraftctl, tmp_path: Path, made: LogMaker) -> None:
    other = made.copy(tmp_path / "other", 2)
    other.lead(3, 5).batch(config("7"))
    outcome = kraftctl("log", "diff", made.home, other.home, "-o", "json")
    assert [(c["entity"], c["text"]) for c in outcome.data["changes"]] == [
        ("quorum", "leader moved 2 (epoch 3) -> 3 (epoch 5)"),
        ("config", "set to 7 (was 1000)"),
    ]
    assert (outcome.data["from"]["node_id"], outcome.data["to"]["node_id"]) == (1, 2)
    same = kraftctl("log", "diff", made.home, other.home, "--at", 11)
    assert same.out.endswith("Nothing differs.\n")


@pytest.mark.parametrize("words", [("DIR",), ("DIR", "1", "2", "3"), ("DIR", "1", "2", "--at", "3")])
def test_a_diff_needs_two_sides(kraftctl: Kraftctl, made: LogMaker, words: tuple[str, ...]) -> None:
    outcome = kraftctl("log", "diff", *(made.home if word == "DIR" else word for word in words))
    assert (outcome.code, outcome.err.count("\n")) == (64, 1)


def test_a_history(kraftctl: Kraftctl, made: LogMaker) -> None:
    why = "broker 1 was registered fenced at offset 2"
    rows = kraftctl("log", "history", made.home, "partition", "orders-0").out.splitlines()
    assert [" ".join(row.split()) for row in rows] == [
        "Offset Time Epoch Leader Change",
        "5 2023-11-14T22:13:24.000Z 1 1 created on 1,2,3, led by 1",
        f"9 2023-11-14T22:13:27.000Z 3 2 leader moved 1 -> 2: offline, in_sync ({why})",
    ]
    partition = kraftctl("log", "history", made.home, "partition", "orders-0", "-o", "json").data
    assert [change["election"] for change in partition["changes"]] == [
        None,
        {
            "reason": "offline",
            "rule": "in_sync",
            "why": why,
        },
    ]
    data = kraftctl("log", "history", made.home, "broker", "2", "-o", "json").data
    assert (data["subject"], data["name"], data["start_offset"], data["end_offset"]) == ("broker", "2", 0, 11)
    [change] = data["changes"]
    assert (change["offset"], change["leader_id"], change["record"]) == (3, 1, "RegisterBrokerRecord")
    nothing = kraftctl("log", "history", made.home, "topic", "odrers")
    assert (nothing.code, nothing.err.count("\n")) == (1, 1)
    assert "did you mean orders?" in nothing.err
    assert kraftctl("log", "history", made.home, "planet", "x").code == 64


@pytest.mark.parametrize(
    ("kind", "name", "says"),
    [
        ("partition", "orders", "'orders' names no partition; write TOPIC-PARTITION, as orders-3"),
        ("broker", "x", "'x' is no broker; write its node.id, as 2"),
    ],
)
def test_a_history_of_what_can_be_no_name_is_a_usage_error(
    kraftctl: Kraftctl, made: LogMaker, kind: str, name: str, says: str
) -> None:
    assert kraftctl("log", "history", made.home, kind, name) == (64, "", f"kraftctl: {says}\n")


def test_a_history_says_once_that_a_partition_went_offline(kraftctl: Kraftctl, made: LogMaker) -> None:
    made.batch(FenceBrokerRecord(2, 1), moved(0, leader=-1))
    *_, row = kraftctl("log", "history", made.home, "partition", "orders-0").out.splitlines()
    assert row.endswith("leader lost, it was 2: offline, nobody (broker 2 was fenced at offset 11)")


def test_lists_of_nodes_are_lists_in_a_history_and_none_is_null(kraftctl: Kraftctl, made: LogMaker) -> None:
    made.batch(moved(1, isr=(1,), eligible_leader_replicas=(2,), last_known_elr=(3,)))
    made.batch(moved(1, isr=(1, 2), eligible_leader_replicas=(), last_known_elr=()))
    made.batch(moved(1, replicas=(1, 2, 3, 4), adding_replicas=(4,)))
    history = kraftctl("log", "history", made.home, "partition", "orders-1", "-o", "json").data["changes"]
    assert [(one["what"], one["before"], one["after"]) for one in history if one["offset"] > 10] == [
        ("isr", [1, 2], [1]),
        ("eligible_leader_replicas", None, [2]),
        ("last_known_elr", None, [3]),
        ("isr", [1], [1, 2]),
        ("eligible_leader_replicas", [2], None),
        ("last_known_elr", [3], None),
        ("replicas", [1, 2, 3], [1, 2, 3, 4]),
        ("adding_replicas", None, [4]),
    ]
    assert "last known ELR 3 -> none" in kraftctl("log", "history", made.home, "topic", "orders").out


def test_verify_lists_what_is_wrong(kraftctl: Kraftctl, tmp_path: Path, made: LogMaker) -> None:
    made.copy(tmp_path / "other", 2)
    whole = kraftctl("log", "verify", tmp_path)
    assert whole.code == 0
    assert "The 2 logs agree batch by batch as far as they reach, all of them to offset 11" in whole.out
    damage(made)
    outcome = kraftctl("log", "verify", made.home, tmp_path / "other")
    assert outcome.code == 1
    assert f"Problems in {made.home}:\n  __cluster_metadata-0/{0:020}.log at byte" in outcome.out
    assert "as far as they reach" not in outcome.out
    assert outcome.out.endswith(
        "The 2 logs agree batch by batch where they can be read, all of them to offset "
        f"10. Not compared: {made.home} from offset 10 on.\n"
    )
    data = kraftctl("log", "verify", tmp_path, "-o", "json").data
    assert [(log["node_id"], log["is_whole"]) for log in data["logs"]] == [(1, False), (2, True)]
    assert data["is_whole"] is False
    a_file = kraftctl("log", "verify", made.segment)
    assert (a_file.code, a_file.err.count("\n")) == (64, 1)


@pytest.mark.parametrize("command", ["state", "diff", "history", "verify", "shell"])
def test_what_is_no_log_is_one_line(kraftctl: Kraftctl, tmp_path: Path, command: str) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    more = {"diff": ("1", "2"), "history": ("topic", "x"), "shell": ("-c", "ls")}.get(command, ())
    words = (command,) if command == "shell" else ("log", command)
    for path, text in ((tmp_path / "gone", "does not exist"), (tmp_path, "holds no metadata log")):
        outcome = kraftctl(*words, path, *more)
        assert (outcome.code, outcome.out, outcome.err.count("\n")) == (1, "", 1)
        assert text in outcome.err


def test_logs_of_every_age_can_be_asked(kraftctl: Kraftctl) -> None:
    """From before `metadata.version` to the newest kinds."""
    old = klog("kafka-before-3.3-three-nodes") / "node-1"
    assert "Feature" not in kraftctl("log", "state", old).out
    assert kraftctl("log", "history", old, "broker", 1).code == 0
    assert kraftctl("log", "verify", old).code == 0
    new = klog("kafka-4.1-newest-records")
    assert kraftctl("log", "state", new, "-o", "json").data["image"]["features"]["metadata.version"] == 27


def test_a_point_for_the_replay_that_is_none_is_a_usage_error(
    kraftctl: Kraftctl, made: LogMaker, tmp_path: Path
) -> None:
    out = tmp_path / "tables"
    outcome = kraftctl("replay", made.home, "--out", out, "--at", "foo")
    assert (outcome.code, outcome.err.count("\n")) == (64, 1)
    assert "neither an offset (1234) nor a time" in outcome.err
    assert not out.exists()


def test_a_verdict_fits_a_terminal_of_80_columns(
    kraftctl: Kraftctl, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Words and names of files are whole, what is alike is said once, and ids and paths are cut."""
    shutil.copytree(klog("generated-kafka-4.3-eligible-leader-replicas"), tmp_path / "fleet-of-november")
    log = tmp_path / "fleet-of-november" / "node-3" / "__cluster_metadata-0"
    for path in sorted(log.glob("*.log"))[:2]:
        path.unlink()
    before = kraftctl("log", "verify", tmp_path).out
    request.getfixturevalue("terminal")
    after = kraftctl("log", "verify", tmp_path).out
    assert max(map(len, before.splitlines())) > 100
    assert max(map(len, after.splitlines())) <= 80
    assert before.split()[0] == "Cluster"
    assert "EBIiM3dMShm0xWP_kkRsKA" in before
    assert "EBIiM3dM…" in after
    assert all(line.endswith(f"node-{number}") for number, line in enumerate(after.splitlines()[1:4], 1))
    names = [path.name for path in log.glob("*.checkpoint") if path.name in after]
    assert names
    assert after.count("older than the log, not compared") == 1


def test_without_a_terminal_a_line_is_one_line(kraftctl: Kraftctl, made: LogMaker) -> None:
    damage(made)
    outcome = kraftctl("log", "state", made.home)
    [note] = [line for line in outcome.out.splitlines() if line.startswith("Note:")]
    assert len(note) > 120


@pytest.mark.usefixtures("terminal")
def test_notes_of_a_state_are_broken_between_words(
    kraftctl: Kraftctl, made: LogMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage(made)
    monkeypatch.chdir(made.home.parent)
    out = kraftctl("log", "state", made.home.name).out
    lines = out.splitlines()
    [start] = [number for number, line in enumerate(lines) if line.startswith("Note:")]
    assert [line for line in lines if len(line) > 80 and " " in line.strip()] == []
    assert lines[start + 1].startswith(" " * 24)


# -- logs that begin above 0


@pytest.fixture
def cleaned(made: LogMaker) -> LogMaker:
    """The log begins at 11, with a snapshot there."""
    made.snapshot()
    made.roll().batch(config("2"))
    (made.log / names.segment_name(0)).unlink()
    (made.log / names.EPOCH_CHECKPOINT).write_bytes(epoch_checkpoint.encode([EpochEntry(3, 11)]))
    return made


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("log state DIR", "snapshot 11-3 and 1 record"),
        ("log state DIR --at 11", "snapshot 11-3 and 0 records"),
        ("log diff DIR 11 12", "set to 2"),
        ("log history DIR topic orders", "in the snapshot: created with 2 partitions"),
        ("log verify DIR", "whole"),
        ("log dump DIR", "Log starting offset: 11"),
        ("shell DIR -c ls", "topics"),
        ("info DIR", "start.offset=11, end.offset=12, end.epoch=3"),
    ],
)
def test_a_log_that_begins_with_a_snapshot_answers(
    kraftctl: Kraftctl, cleaned: LogMaker, question: str, said: str
) -> None:
    outcome = kraftctl(*(cleaned.home if word == "DIR" else word for word in question.split()))
    assert outcome.code == 0, outcome
    assert said in outcome.out


@pytest.mark.parametrize(
    "question",
    ["log state DIR --at 10", "log diff DIR 3 12", "shell DIR --at 5 -c ls", "log state DIR --at 2023"],
)
def test_what_was_before_the_snapshot_is_one_line_and_exit_1(
    kraftctl: Kraftctl, cleaned: LogMaker, question: str
) -> None:
    words = ["2023-01-01" if word == "2023" else word for word in question.split()]
    outcome = kraftctl(*(cleaned.home if word == "DIR" else word for word in words))
    assert (outcome.code, outcome.out) == (1, "")
    (line,) = outcome.err.splitlines()
    assert line.startswith(f"kraftctl: {cleaned.home}: the log begins at offset 11, ")


def test_a_diff_from_a_snapshot_that_does_not_reach_the_log_is_between_the_two_states(
    kraftctl: Kraftctl, made: LogMaker
) -> None:
    made.snapshot()
    made.batch(config("2"))
    made.roll().batch(config("3"))
    made.snapshot()
    (made.log / names.segment_name(0)).unlink()
    (made.log / names.EPOCH_CHECKPOINT).write_bytes(epoch_checkpoint.encode([EpochEntry(3, 12)]))
    for words in (("11", "13"), ("13", "11")):
        outcome = kraftctl("log", "diff", made.home, *words, "-o", "json")
        assert outcome.code == 0, outcome
        found = json.loads(outcome.out)
        assert [str(found[side]["offset"]) for side in ("from", "to")] == [*words]
        assert [change["entity"] for change in found["changes"]] == ["config"]
