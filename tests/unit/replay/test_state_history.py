"""The states of partitions and replicas over time, and elections, of small logs worked out by hand."""

from collections.abc import Sequence

import pytest

from kraftd.records import messages as m
from kraftd.records.frame import encode_record
from kraftd.replay.image import state_history
from kraftd.replay.image.entity_history import FoldRow
from kraftd.replay.image.shards import (
    Shard,
    ShardRows,
    fold_non_partition,
    is_of_partition,
    topic_of_non_partition,
)

A = b"a" * 16
D1, D2, D3 = (bytes([9, one]) * 8 for one in (1, 2, 3))
SECOND = 1_000_000


def history(*batches: Sequence[object], start: int = 0, epochs: dict[int, int] | None = None) -> ShardRows:
    """What one shard tells of batches, a second apart, the first at second 0."""
    rows, offset = [], start
    for number, batch in enumerate(batches):
        for at, record in enumerate(batch, offset):
            epoch = 1 if epochs is None else epochs[number]
            rows.append(FoldRow(offset, at, epoch, number * 1000, encode_record(record)))
        offset += len(batch)
    rest = fold_non_partition(row for row in rows if not is_of_partition(row.value))
    assert rest.stopped is None
    shard = Shard("c", 0, 1, rest.cross_shard, rest.moments)
    mine = [
        row for row in rows if is_of_partition(row.value) or topic_of_non_partition(row.value) is not None
    ]
    found = list(shard.history(mine))
    assert (shard.stopped, shard.illegal_moves) == (None, 0)
    partitions, replicas, elections = [], [], []
    for each in found:
        partitions += each.states.partition_states
        replicas += each.states.replica_states
        elections += each.states.elections
    return ShardRows(
        [], type(found[0].states)(sorted(partitions, key=str), sorted(replicas, key=str), sorted(elections))
    )


def broker(broker_id: int, *, fenced: bool = False, epoch: int = 1) -> m.RegisterBrokerRecord:
    return m.RegisterBrokerRecord(
        broker_id, broker_epoch=epoch, fenced=fenced, log_dirs=(bytes([9, broker_id]) * 8,)
    )


def change(broker_id: int, epoch: int = 1, **what: int) -> m.BrokerRegistrationChangeRecord:
    return m.BrokerRegistrationChangeRecord(broker_id, epoch, **what)


def moved(number: int = 0, **what: object) -> m.PartitionChangeRecord:
    return m.PartitionChangeRecord(number, A, **what)


VERSION = m.FeatureLevelRecord("metadata.version", 25)
BORN = [VERSION, broker(1), broker(2), broker(3)]
TOPIC = [
    m.TopicRecord("orders", A),
    m.PartitionRecord(0, A, (1, 2), (1, 2), leader=1, directories=(D1, D2)),
]


def partition_states(found: ShardRows) -> list[tuple]:
    """State, from and to in offsets and seconds."""
    return [
        (one.state, one.from_offset, _s(one.from_time), one.to_offset, _s(one.to_time))
        for one in found.states.partition_states
    ]


def replica_states(found: ShardRows, broker_id: int) -> list[tuple]:
    rows = [one for one in found.states.replica_states if one.broker_id == broker_id]
    rows.sort(key=lambda one: (one.from_offset is not None, one.from_offset))
    return [
        (one.state, one.known_by, one.from_offset, one.to_offset, _s(one.from_time), _s(one.to_time))
        for one in rows
    ]


def elections(found: ShardRows) -> list[tuple]:
    return [
        (one.offset, one.leader_before, one.leader, one.reason, one.rule, one.without_leader_ms)
        for one in found.states.elections
    ]


def _s(timestamp: int | None) -> float | None:
    return None if timestamp is None else timestamp / SECOND


def test_a_partition_loses_its_leader_and_gets_one_again() -> None:
    found = history(
        BORN,  # 0 to 3
        TOPIC,  # 4, 5
        [moved(isr=(2,), leader=2), change(1, fenced=1)],  # 6, 7
        [moved(leader=-1), change(2, fenced=1)],  # 8, 9
        [change(1, fenced=-1)],  # 10
        [moved(leader=1, isr=(1,), leader_recovery_state=1)],  # 11
    )
    assert partition_states(found) == [
        ("Offline", 8, 3, 11, 5),
        ("Online", 11, 5, None, None),
        ("Online", 5, 1, 8, 3),
    ]
    assert elections(found) == [
        (6, 1, 2, "offline", "in_sync", 0),
        (8, 2, -1, "offline", "nobody", None),
        (11, -1, 1, "offline", "unclean", 2000),
    ]
    assert replica_states(found, 1) == [
        ("OnlineReplica", "registration", 5, 7, 1, 2),
        ("OfflineReplica", "registration", 7, 10, 2, 4),
        ("OnlineReplica", "registration", 10, None, 4, None),
    ]


def test_all_four_reasons() -> None:
    found = history(
        BORN,  # 0 to 3
        TOPIC,  # 4, 5
        [change(1, in_controlled_shutdown=1), moved(isr=(2,), leader=2)],  # 6, 7
        [change(1, fenced=1)],  # 8
        [broker(1, epoch=2)],  # 9
        [moved(isr=(2, 1))],  # 10
        [moved(leader=1)],  # 11
        [moved(isr=(2,), leader=2), change(1, 2, fenced=1)],  # 12, 13
        [moved(replicas=(3,), isr=(3,), leader=3, directories=(D3,))],  # 14
    )
    assert elections(found) == [
        (7, 1, 2, "controlled_shutdown", "in_sync", 0),
        (11, 2, 1, "preferred", "preferred_replica", 0),
        (12, 1, 2, "offline", "in_sync", 0),
        (14, 2, 3, "reassignment", "in_sync", 0),
    ]


def test_an_election_in_slices_has_its_reason_in_a_later_batch_of_the_epoch() -> None:
    batches = BORN, TOPIC, [moved(isr=(2,), leader=2)], [change(1, fenced=1)]
    assert elections(history(*batches))[0][3] == "offline"
    late = history(*batches, epochs={0: 1, 1: 1, 2: 1, 3: 2})
    assert elections(late)[0][3] == "unknown"
    [row] = late.states.elections
    assert row.why == "broker 1 left the ISR; nothing is told of broker 1 by the end of epoch 1"


def test_who_is_eligible_is_known_until_that_is_cleared() -> None:
    eligible = moved(isr=(), leader=-1, eligible_leader_replicas=(2,), last_known_elr=(1,))
    back = moved(isr=(2,), leader=2, eligible_leader_replicas=())
    feature = m.FeatureLevelRecord("eligible.leader.replicas.version", 1)
    lost = [eligible, change(1, fenced=1)]
    assert elections(history([*BORN, feature], TOPIC, lost, [back]))[1][4] == "eligible"
    unclean = moved(isr=(1,), leader=1, leader_recovery_state=1, last_known_elr=())
    assert elections(history([*BORN, feature], TOPIC, lost, [unclean]))[1][4] == "unclean"
    last = moved(eligible_leader_replicas=())
    assert elections(history([*BORN, feature], TOPIC, lost, [last], [unclean]))[1][4] == "last_known_leader"
    cleared = [m.ClearElrRecord("orders")]
    assert elections(history([*BORN, feature], TOPIC, lost, cleared, [back]))[1][4] == "in_sync"
    off = [m.FeatureLevelRecord("eligible.leader.replicas.version", 0)]
    assert elections(history([*BORN, feature], TOPIC, lost, off, [back]))[1][4] == "in_sync"


def test_a_topic_goes_and_its_replicas_are_known_to_be_gone_after_a_restart() -> None:
    found = history(
        BORN,  # 0 to 3
        TOPIC,  # 4, 5
        [m.RemoveTopicRecord(A)],  # 6
        [change(1, fenced=1)],  # 7
        [broker(1, fenced=True, epoch=2)],  # 8
        [change(1, 2, fenced=-1)],  # 9
    )
    assert partition_states(found) == [("Online", 5, 1, 6, 2)]
    assert replica_states(found, 1) == [
        ("OnlineReplica", "registration", 5, 6, 1, 2),
        ("ReplicaDeletionStarted", "removal", 6, 7, 2, 3),
        ("ReplicaDeletionIneligible", "removal", 7, 9, 3, 5),
        ("ReplicaDeletionSuccessful", "restart", 9, 9, 5, 5),
    ]
    assert replica_states(found, 2) == [
        ("OnlineReplica", "registration", 5, 6, 1, 2),
        ("ReplicaDeletionStarted", "removal", 6, None, 2, None),
    ]


def test_who_comes_back_without_a_restart_need_not_have_read_the_removal() -> None:
    found = history(BORN, TOPIC, [m.RemoveTopicRecord(A)], [change(1, fenced=1)], [change(1, fenced=-1)])
    assert [row[0] for row in replica_states(found, 1)] == [
        "OnlineReplica",
        "ReplicaDeletionStarted",
        "ReplicaDeletionIneligible",
        "ReplicaDeletionStarted",
    ]


def jbod(epoch: int, *directories: bytes, fenced: bool = True) -> m.RegisterBrokerRecord:
    """Broker 1, which may have more than one directory."""
    return m.RegisterBrokerRecord(1, broker_epoch=epoch, fenced=fenced, log_dirs=directories)


def lost_first(*after: Sequence[object], removes: object = m.RemoveTopicRecord(A)) -> ShardRows:
    """What is taken away while its directory at broker 1 is offline, and what comes after that."""
    return history(
        [VERSION, jbod(1, D1, D3, fenced=False), broker(2), broker(3)],  # 0 to 3
        TOPIC,  # 4, 5
        [moved(isr=(2,), leader=2), change(1, log_dirs=(D3,))],  # 6, 7
        [removes],  # 8
        *after,
    )


@pytest.mark.parametrize(
    "removes",
    [m.RemoveTopicRecord(A), moved(replicas=(2,), isr=(2,), directories=(D2,))],
    ids=["deleted", "moved"],
)
def test_what_is_in_an_offline_directory_is_gone_only_after_a_start_that_has_it(removes: object) -> None:
    until_then = [
        ("OnlineReplica", "registration", 5, 7, 1, 2),
        ("OfflineReplica", "registration", 7, 8, 2, 3),
    ]
    without = [jbod(2, D3)], [change(1, 2, fenced=-1)], [jbod(2, D1, D3, fenced=False)]  # 9 to 11
    assert replica_states(lost_first(*without, removes=removes), 1) == [
        *until_then,
        ("ReplicaDeletionIneligible", "removal", 8, None, 3, None),
    ]
    back = [*without, [jbod(3, D1, D3)], [change(1, 3, fenced=-1)]]  # 12, 13
    assert replica_states(lost_first(*back, removes=removes), 1) == [
        *until_then,
        ("ReplicaDeletionIneligible", "removal", 8, 13, 3, 8),
        ("ReplicaDeletionSuccessful", "restart", 13, 13, 8, 8),
    ]


def test_a_directory_that_fails_after_the_removal_keeps_the_replica() -> None:
    found = history(
        [VERSION, jbod(1, D1, D3, fenced=False), broker(2), broker(3)],  # 0 to 3
        TOPIC,  # 4, 5
        [m.RemoveTopicRecord(A)],  # 6
        [change(1, log_dirs=(D3,))],  # 7
    )
    assert replica_states(found, 1) == [
        ("OnlineReplica", "registration", 5, 6, 1, 2),
        ("ReplicaDeletionStarted", "removal", 6, 7, 2, 3),
        ("ReplicaDeletionIneligible", "removal", 7, None, 3, None),
    ]


def test_a_replica_that_is_moved_away_and_back() -> None:
    away = moved(replicas=(2,), isr=(2,), leader=2, directories=(D2,))
    back = moved(replicas=(2, 1), directories=(D2, D1))
    assert replica_states(history(BORN, TOPIC, [away], [back]), 1) == [
        ("OnlineReplica", "registration", 5, 6, 1, 2),
        ("ReplicaDeletionStarted", "removal", 6, 7, 2, 3),
        ("OnlineReplica", "registration", 7, None, 3, None),
    ]


def test_a_replica_is_new_until_its_directory_is_told_and_offline_without_it() -> None:
    unassigned = bytes(15) + b"\1"
    topic = [TOPIC[0], m.PartitionRecord(0, A, (1, 2), (1, 2), leader=1, directories=(unassigned, D2))]
    two = m.RegisterBrokerRecord(1, broker_epoch=1, fenced=False, log_dirs=(D1, D3))
    found = history(
        [VERSION, two, broker(2)],  # 0 to 2
        topic,  # 3, 4
        [moved(directories=(D3, D2))],  # 5
        [moved(isr=(2,), leader=2), m.BrokerRegistrationChangeRecord(1, 1, log_dirs=(D1,))],  # 6, 7
    )
    assert [(row[0], row[2], row[3]) for row in replica_states(found, 1)] == [
        ("NewReplica", 4, 5),
        ("OnlineReplica", 5, 7),
        ("OfflineReplica", 7, None),
    ]
    assert elections(found) == [(6, 1, 2, "offline", "in_sync", 0)]


def test_what_a_snapshot_holds_began_before_the_log() -> None:
    found = history(BORN, [TOPIC[0], TOPIC[1], moved(isr=(2,), leader=-1)], start=-7)
    assert partition_states(found) == [("Offline", None, None, None, None)]
    assert replica_states(found, 2) == [("OnlineReplica", "registration", None, None, None, None)]


def test_how_long_a_partition_of_the_snapshot_had_no_leader_is_not_known() -> None:
    offline = m.PartitionRecord(0, A, (1, 2), (1,), leader=-1, directories=(D1, D2))
    found = history([*BORN, TOPIC[0], offline], [moved(leader=1)], start=-6)
    assert elections(found) == [(0, -1, 1, "offline", "in_sync", None)]


def test_an_aborted_transaction_was_no_state() -> None:
    lost = [moved(leader=-1, isr=(1,)), change(1, fenced=1)]
    begin, abort = m.BeginTransactionRecord("t"), m.AbortTransactionRecord(None)
    found = history(BORN, TOPIC, [begin, *lost, abort])
    assert partition_states(found) == [("Online", 5, 1, None, None)]
    assert elections(found) == []
    assert replica_states(found, 1) == [("OnlineReplica", "registration", 5, None, 1, None)]


def test_a_move_that_no_table_allows_is_counted_and_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_history, "moves", lambda *_: None)
    rows = [
        FoldRow(at, at, 1, 0, encode_record(record))
        for at, record in enumerate([*BORN, *TOPIC, moved(leader=-1, isr=(1,))])
    ]
    shard = Shard("c", 0, 1, ())
    mine = [row for row in rows if is_of_partition(row.value) or topic_of_non_partition(row.value)]
    found = [row for each in shard.history(mine) for row in each.states.partition_states]
    assert (found, shard.illegal_moves) == ([], 2)
