"""What happened to one entity: every change of it, in order, with who wrote it, and nothing of others."""

from pathlib import Path

import pytest

from kraftd.logtools.errors import UnanswerableError
from kraftd.logtools.finding import find_log
from kraftd.logtools.history import History, history_of
from kraftd.logtools.state import state_at
from kraftd.metadata.image import EMPTY
from kraftd.metadata.image_diff import changes
from kraftd.metadata.parts.topics import TOPICS
from kraftd.metadata.registry import HISTORY_SUBJECTS
from kraftd.records.frame import RawRecord
from kraftd.records.messages import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tests.fixtures import klog
from tests.unit.logtools.logs import ORDERS, T0, LogMaker, broker, config, moved, orders


def lines(history: History) -> list[tuple[int, int, int, str]]:
    return [(one.offset, one.epoch, one.leader_id, str(one.change)) for one in history.entries]


def test_a_topic_has_its_partitions_and_configs_with_it(tmp_path: Path):
    orders(tmp_path)
    history = history_of(find_log(tmp_path), HISTORY_SUBJECTS["topic"], "orders")
    assert lines(history) == [
        (4, 1, 1, "topic orders created"),
        (5, 1, 1, "partition orders-0 created on 1,2,3, led by 1"),
        (6, 1, 1, "partition orders-1 created on 1,2,3, led by 1"),
        (7, 1, 1, "config retention.ms of topic orders set to 1000"),
        (9, 3, 2, "partition orders-0 leader moved 1 -> 2"),
        (10, 3, 2, "partition orders-1 ISR shrank 1,2,3 -> 1,2"),
    ]
    assert [one.timestamp_ms - T0 for one in history.entries[:2]] == [4_000, 4_000]
    assert [one.record for one in history.entries[3:5]] == ["ConfigRecord", "PartitionChangeRecord"]
    assert (history.start_offset, history.end_offset) == (0, 11)


def test_a_partition_ends_with_its_topic(tmp_path: Path):
    orders(tmp_path).batch(RemoveTopicRecord(topic_id=ORDERS))
    history = history_of(find_log(tmp_path), HISTORY_SUBJECTS["partition"], "orders-0")
    assert lines(history) == [
        (5, 1, 1, "partition orders-0 created on 1,2,3, led by 1"),
        (9, 3, 2, "partition orders-0 leader moved 1 -> 2"),
        (11, 3, 2, "partition orders-0 deleted"),
    ]


def test_a_broker_and_its_restarts(tmp_path: Path):
    made = orders(tmp_path)
    made.batch(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=1, fenced=-1)).batch(broker(1, 12))
    assert lines(history_of(find_log(tmp_path), HISTORY_SUBJECTS["broker"], "1")) == [
        (2, 1, 1, "broker 1 registered (epoch 1, fenced)"),
        (11, 3, 2, "broker 1 unfenced"),
        (12, 3, 2, "broker 1 registered again, it was started anew (epoch 1 -> 12)"),
        (12, 3, 2, "broker 1 fenced"),
    ]


def test_a_config_of_all_and_of_one(tmp_path: Path):
    made = orders(tmp_path)
    made.batch(config("5", topic="other"), config("7")).batch(RemoveTopicRecord(topic_id=ORDERS))
    log = find_log(tmp_path)
    everywhere = [line[3] for line in lines(history_of(log, HISTORY_SUBJECTS["config"], "retention.ms"))]
    assert everywhere == [
        "config retention.ms of topic orders set to 1000",
        "config retention.ms of topic other set to 5",
        "config retention.ms of topic orders set to 7 (was 1000)",
        "config retention.ms of topic orders removed (was 7)",
    ]
    one = history_of(log, HISTORY_SUBJECTS["config"], "retention.ms of topic other")
    assert [line[3] for line in lines(one)] == everywhere[1:2]


def test_a_topic_of_the_same_name_again(tmp_path: Path):
    made = orders(tmp_path)
    made.batch(RemoveTopicRecord(topic_id=ORDERS)).batch(TopicRecord(name="orders", topic_id=b"n" * 16))
    history = history_of(find_log(tmp_path), HISTORY_SUBJECTS["topic"], "orders")
    assert [line[3] for line in lines(history)[-2:]] == [
        "topic orders deleted, with its 2 partitions",
        "topic orders created",
    ]


def test_what_an_aborted_transaction_did_never_held(tmp_path: Path):
    made = orders(tmp_path)
    made.batch(BeginTransactionRecord(name="a")).batch(config("1")).batch(AbortTransactionRecord(reason="no"))
    made.batch(BeginTransactionRecord(name="b")).batch(config("2")).batch(EndTransactionRecord())
    made.batch(BeginTransactionRecord(name="c")).batch(config("3"))
    history = history_of(find_log(tmp_path), HISTORY_SUBJECTS["config"], "retention.ms")
    assert [line[3] for line in lines(history)] == [
        "config retention.ms of topic orders set to 1000",
        "config retention.ms of topic orders set to 2 (was 1000)",
    ]
    assert history.notes == (
        "the transaction from 11 to 13 was aborted: 1 change in it never held",
        "the transaction that began at 17 has no end in this log: 1 change in it never held",
    )


def test_what_concerns_all_topics_concerns_each(tmp_path: Path):
    made = orders(tmp_path).batch(moved(0, isr=(1, 2), eligible_leader_replicas=(3,)))
    made.batch(ClearElrRecord(topic_name=""))
    made.batch(moved(0, eligible_leader_replicas=(3,)))
    made.batch(FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=0))
    history = history_of(find_log(tmp_path), HISTORY_SUBJECTS["partition"], "orders-0")
    assert [(line[0], line[3]) for line in lines(history)[-4:]] == [
        (11, "partition orders-0 ELR none -> 3"),
        (12, "partition orders-0 ELR 3 -> none"),
        (13, "partition orders-0 ELR none -> 3"),
        (14, "partition orders-0 ELR 3 -> none"),
    ]


def test_a_log_that_begins_later_begins_with_its_snapshot(tmp_path: Path):
    made = orders(tmp_path)
    made.snapshot()
    made.roll().batch(moved(0, leader=3))
    (made.log / f"{0:020}.log").unlink()
    history = history_of(find_log(tmp_path), HISTORY_SUBJECTS["partition"], "orders-0")
    assert lines(history) == [
        (11, 3, -1, "partition orders-0 created on 1,2,3, led by 2"),
        (11, 3, -1, "partition orders-0 leader moved 2 -> 3"),
    ]
    assert [one.record for one in history.entries] == ["", "PartitionChangeRecord"]
    assert history.notes == (
        "the first state is that of the snapshot at offset 11: what was before is not here",
    )


def test_what_the_log_never_speaks_of_is_an_error_with_a_hint(tmp_path: Path):
    orders(tmp_path)
    with pytest.raises(UnanswerableError, match=r"is about topic order; did you mean orders\?"):
        history_of(find_log(tmp_path), HISTORY_SUBJECTS["topic"], "order")
    with pytest.raises(UnanswerableError, match="is about partition orders-7"):
        history_of(find_log(tmp_path), HISTORY_SUBJECTS["partition"], "orders-7")


def test_damage_ends_the_history_and_is_told(tmp_path: Path):
    made = orders(tmp_path)
    data = bytearray(made.segment.read_bytes())
    data[-3] ^= 1
    made.segment.write_bytes(data)
    history = history_of(find_log(tmp_path), HISTORY_SUBJECTS["topic"], "orders")
    assert history.end_offset == 10
    assert history.damage is not None
    assert history.damage.offset == 10


def test_unknown_kinds_are_counted(tmp_path: Path):
    orders(tmp_path).batch(RawRecord(99, 0, b"x"))
    assert history_of(find_log(tmp_path), HISTORY_SUBJECTS["topic"], "orders").unknown_kinds == ((99, 1),)


def test_the_histories_of_a_real_log_make_its_state():
    """Told one after the other, the changes of every partition end with its leader."""
    log = find_log(klog("generated-kafka-4.3-eligible-leader-replicas") / "node-2")
    state = state_at(log)
    names = [str(change.name) for change in changes(EMPTY, state.image, with_consequences=True)
             if change.entity == "partition"]  # fmt: skip
    for name in names[::10]:
        topic, _, number = name.rpartition("-")
        topic_id = state.image[TOPICS].id_of(topic)
        assert topic_id is not None
        now = state.image[TOPICS].partition(topic_id, int(number))
        assert now is not None
        leaders = [
            one.change.after
            for one in history_of(log, HISTORY_SUBJECTS["partition"], name).entries
            if one.change.what == "leader"
        ]
        assert leaders[-1:] in ([], [now.leader]), name


def test_cordoned_directories_of_kafka_4_3_are_told():
    log = find_log(klog("generated-kafka-4.3-eligible-leader-replicas") / "node-2")
    found = history_of(log, HISTORY_SUBJECTS["broker"], "12")
    told = [(entry.offset, entry.change.text) for entry in found.entries]
    assert (23, "cordoned log directories unknown (told since Kafka 4.3) -> none") in told
    assert not [text for _, text in told if "not shown here" in text]


def why(history: History) -> list[tuple[int, str, str, str]]:
    """What entries tell of elections."""
    return [
        (one.offset, one.election.reason.value, one.election.rule.value, one.election.why)
        for one in history.entries
        if one.election is not None
    ]


def active(broker_id: int, **what: int) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id, 1, **what)


def all_up(made: LogMaker) -> None:
    made.batch(broker(3), *(active(one, fenced=-1) for one in (1, 2, 3)))


def test_why_leaders_changed(tmp_path: Path):
    made = orders(tmp_path)
    all_up(made)
    first = made.end - 3
    made.batch(moved(0, leader=3, isr=(1, 3)), active(2, fenced=1))
    made.batch(moved(0, leader=1))
    made.batch(active(1, in_controlled_shutdown=1), moved(0, leader=3, isr=(3,)))
    made.batch(moved(0, leader=2, isr=(2,), leader_recovery_state=1))
    made.batch(moved(0, leader=-1))
    history = history_of(find_log(tmp_path), HISTORY_SUBJECTS["partition"], "orders-0")
    assert why(history)[1:] == [
        (first + 3, "offline", "in_sync", f"broker 2 was fenced at offset {first + 4}"),
        (
            first + 5,
            "preferred",
            "preferred_replica",
            "broker 3 could have gone on, and the first replica leads",
        ),
        (
            first + 7,
            "controlled_shutdown",
            "in_sync",
            f"broker 1 began a controlled shutdown at offset {first + 6}",
        ),
        (
            first + 8,
            "unknown",
            "unclean",
            "broker 3 left the ISR; nothing is told of broker 3 by the end of epoch 3",
        ),
        (first + 9, "offline", "nobody", f"broker 2 was fenced at offset {first + 4}"),
    ]


def test_who_comes_back_before_it_is_fenced_was_not_being_fenced(tmp_path: Path):
    made = orders(tmp_path)
    all_up(made)
    left = made.end
    made.batch(moved(0, leader=3, isr=(1, 3)))
    made.batch(moved(0, isr=(1, 3, 2)))
    made.batch(active(2, fenced=1))
    history = history_of(find_log(tmp_path), HISTORY_SUBJECTS["partition"], "orders-0")
    assert why(history)[1:] == [
        (
            left,
            "unknown",
            "in_sync",
            f"broker 2 ceased to lead, and was back at offset {left + 1} before anything became of it",
        )
    ]


def test_a_plan_in_slices_is_one_event(tmp_path: Path):
    made = orders(tmp_path)
    all_up(made)
    left = made.end
    made.batch(moved(0, leader=3, isr=(1, 3)))
    made.batch(moved(1, leader=3, isr=(1, 3)))
    made.batch(active(2, fenced=1))
    history = history_of(find_log(tmp_path), HISTORY_SUBJECTS["partition"], "orders-0")
    assert why(history)[1:] == [(left, "offline", "in_sync", f"broker 2 was fenced at offset {left + 2}")]


def test_an_election_that_was_aborted_never_was(tmp_path: Path):
    made = orders(tmp_path)
    all_up(made)
    made.batch(BeginTransactionRecord(), moved(0, leader=3, isr=(1, 3)), active(2, fenced=1))
    made.batch(AbortTransactionRecord())
    left = made.end
    made.batch(moved(0, leader=3, isr=(1, 3)))
    history = history_of(find_log(tmp_path), HISTORY_SUBJECTS["partition"], "orders-0")
    assert [(offset, reason) for offset, reason, _, _ in why(history)][1:] == [(left, "unknown")]
