"""What brokers' coming and going and their requests lead to is what Kafka's own classes make of it."""

from collections import Counter
from pathlib import Path
from random import Random

from kraftd.protocol.kafka import alter_partition as alter_partition_codec
from kraftd.records.frame import decode_record
from kraftd.records.messages import PartitionChangeRecord
from tests.interop.broker_events import Life, comparable, outcomes
from tests.interop.conftest import HERE
from tests.interop.peer import Kafka

LIVES = 150
EVENTS = 120


def test_every_event_leads_to_kafkas_changes(kafka: Kafka, tmp_path: Path) -> None:
    lives = []
    for seed in range(LIVES):
        life = Life(Random(seed))
        for _ in range(EVENTS):
            life.go_on()
        lives.append(life)
    asked, answered = tmp_path / "commands", tmp_path / "told"
    asked.write_text("".join(f"{line}\n" for life in lives for line in life.commands), encoding="ascii")
    kafka.run(*kafka.compiled(HERE / "BrokerEvents.java", tmp_path), asked, answered, memory_mb=1024)
    lines = iter(answered.read_text(encoding="ascii").splitlines())
    seen: Counter[str] = Counter()
    for seed, life in enumerate(lives):
        for number, (command, ours) in enumerate(zip(life.commands, life.told, strict=True)):
            kind = command.partition(" ")[0]
            records, _, response = next(lines).partition(" ")
            seen[kind] += 1
            if kind in ("cluster", "replay"):
                continue
            theirs = [decode_record(bytes.fromhex(one)) for one in records.split(",") if one]
            changes = [one for one in theirs if isinstance(one, PartitionChangeRecord)]
            where = f"life {seed}, event {number}, {command[:80]}"
            assert comparable(ours.changes) == comparable(changes), where
            seen["changes"] += len(changes)
            if kind == "by-hand":
                version = int(command.split(" ")[1])
                told_by_hand = outcomes(ours.response, version)
                assert told_by_hand == outcomes(bytes.fromhex(response), version), where
                seen.update(f"by hand {error}" for _, of_topic in told_by_hand for _, error in of_topic)
                continue
            assert (ours.response.hex() or "-") == response, where
            if kind == "alter":
                read = alter_partition_codec.RESPONSE_READERS[3]
                told, _ = read(ours.response, 0)
                seen.update(f"error {one.error_code}" for topic in told.topics for one in topic.partitions)
    assert min(seen.values()) >= LIVES // 10, seen
    assert {f"by hand {error}" for error in (0, 3, 80, 83, 84)} <= seen.keys()
