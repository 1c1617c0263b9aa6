"""Why a partition got another leader: from what is known at once, and from what a log tells."""

from typing import Any

import pytest

from kraftd.metadata.broker_moments import BrokerMoments, MomentsReader, Place, refuted
from kraftd.metadata.election_reasons import (
    Election,
    Fate,
    LeaderFate,
    Leadership,
    Reason,
    Rule,
    as_told,
    election_of,
)
from kraftd.records import messages as m

A = b"a" * 16
ONE_DIR, OTHER_DIR = b"d" * 16, b"e" * 16


def partition(**what: Any) -> Leadership:
    """One that brokers 1, 2 and 3 hold, led by the first."""
    known: dict[str, Any] = {"leader": 1, "isr": (1, 2, 3), "replicas": (1, 2, 3)} | what
    return Leadership(**known)


def told(fate: Fate, why: str = "so") -> LeaderFate:
    return LeaderFate(fate, why)


@pytest.mark.parametrize(
    ("before", "after", "fate", "reason", "rule"),
    [
        ({}, {"isr": (2, 3), "leader": 2}, Fate.LOST, "offline", "in_sync"),
        ({}, {"isr": (2, 3), "leader": 2}, Fate.SHUTTING_DOWN, "controlled_shutdown", "in_sync"),
        ({}, {"isr": (2, 3), "leader": 2}, Fate.ACTIVE, "unknown", "in_sync"),
        ({"leader": 3}, {"leader": 1}, Fate.ACTIVE, "preferred", "preferred_replica"),
        ({"leader": 3}, {"leader": 2}, Fate.ACTIVE, "unknown", "in_sync"),
        ({"leader": 3}, {"leader": 1, "isr": (1, 2)}, Fate.ACTIVE, "unknown", "in_sync"),
        ({"leader": 3}, {"leader": 1}, Fate.SHUTTING_DOWN, "controlled_shutdown", "in_sync"),
        ({}, {"replicas": (2, 3), "isr": (2, 3), "leader": 2}, Fate.SHUTTING_DOWN, "reassignment", "in_sync"),
        ({"isr": (1,)}, {"isr": (1,), "leader": -1}, Fate.LOST, "offline", "nobody"),
        ({"isr": (1,)}, {"isr": (1,), "leader": -1}, Fate.SHUTTING_DOWN, "controlled_shutdown", "nobody"),
        ({"isr": (1,), "leader": -1}, {"isr": (1,)}, Fate.ACTIVE, "offline", "in_sync"),
        (
            {"isr": (), "leader": -1, "elr": (3,)},
            {"isr": (3,), "leader": 3},
            Fate.LOST,
            "offline",
            "eligible",
        ),
        (
            {"isr": (1,), "elr": (2,)},
            {"isr": (2,), "leader": 2},
            Fate.SHUTTING_DOWN,
            "controlled_shutdown",
            "eligible",
        ),
        (
            {"isr": (1,), "leader": -1},
            {"isr": (3,), "leader": 3, "is_recovering": True},
            Fate.LOST,
            "offline",
            "unclean",
        ),
        (
            {"isr": (), "leader": -1, "last_known_elr": (1,)},
            {"isr": (1,), "leader": 1, "is_recovering": True},
            Fate.LOST,
            "offline",
            "last_known_leader",
        ),
        (
            {"isr": (), "leader": -1, "last_known_elr": (1,)},
            {"isr": (2,), "leader": 2, "is_recovering": True},
            Fate.LOST,
            "offline",
            "unclean",
        ),
        # It was recovering already, so that no record says it again.
        (
            {"isr": (1,), "leader": -1, "is_recovering": True},
            {"isr": (3,), "leader": 3, "is_recovering": True},
            Fate.LOST,
            "offline",
            "unclean",
        ),
        (
            {"isr": (1,), "leader": -1, "is_recovering": True},
            {"isr": (1,), "leader": 1, "is_recovering": True},
            Fate.LOST,
            "offline",
            "in_sync",
        ),
    ],
)
def test_an_election_has_a_reason_and_a_rule(
    before: dict[str, Any], after: dict[str, Any], fate: Fate, reason: str, rule: str
) -> None:
    election = election_of(partition(**before), partition(**after), told(fate))
    assert election is not None
    assert (election.reason, election.rule) == (reason, rule)
    assert election.why


def test_the_same_leader_is_no_election() -> None:
    assert election_of(partition(), partition(isr=(1, 2)), told(Fate.ACTIVE)) is None


def test_the_first_replica_is_called_preferred_only_where_it_got_the_lead_back() -> None:
    assert as_told(Rule.PREFERRED_REPLICA, Reason.OFFLINE) is Rule.IN_SYNC
    assert as_told(Rule.IN_SYNC, Reason.PREFERRED) is Rule.PREFERRED_REPLICA
    assert as_told(Rule.ELIGIBLE, Reason.PREFERRED) is Rule.ELIGIBLE


# -- from a log

_LEFT = partition(isr=(2, 3), leader=2)


def brokers(*records: tuple[int, int, Any], epoch: int = 4, level: int = 30) -> BrokerMoments:
    """Brokers 1 to 3, which are active, and what became of them: offset, batch, record."""
    reader = MomentsReader(
        [m.RegisterBrokerRecord(one, fenced=False, log_dirs=(ONE_DIR, OTHER_DIR)) for one in (1, 2, 3)],
        at=10,
        level=level,
    )
    for offset, batch, record in records:
        reader.add(record, offset, batch, epoch)
    return BrokerMoments(reader.moments)


def change(broker_id: int = 1, **what: Any) -> m.BrokerRegistrationChangeRecord:
    return m.BrokerRegistrationChangeRecord(broker_id, **what)


def inferred(moments: BrokerMoments, after: Leadership = _LEFT, **what: Any) -> tuple[str, str, int | None]:
    """Reason, evidence and where that stands, of an election at offset 20 in the batch from 18 on."""
    found = moments.infer(partition(**what), after, Place(20, 18, 4))
    assert found is not None
    return found.election.reason.value, found.election.why, found.until


@pytest.mark.parametrize(
    ("record", "reason", "why"),
    [
        (change(fenced=1), "offline", "was fenced"),
        (m.FenceBrokerRecord(1, 0), "offline", "was fenced"),
        (m.UnregisterBrokerRecord(1, 0), "offline", "was unregistered"),
        (m.RegisterBrokerRecord(1), "offline", "was registered fenced"),
        (change(log_dirs=(ONE_DIR,)), "offline", "lost a log directory"),
        (change(), "offline", "lost all its log directories"),
        (change(in_controlled_shutdown=1), "controlled_shutdown", "began a controlled shutdown"),
    ],
)
def test_what_became_of_the_leader_stands_in_the_same_batch(record: Any, reason: str, why: str) -> None:
    assert inferred(brokers((21, 18, record))) == (reason, f"broker 1 {why} at offset 21", None)


def test_or_before_it() -> None:
    moments = brokers((15, 15, change(in_controlled_shutdown=1)), (30, 30, change(fenced=1)))
    assert inferred(moments) == (
        "controlled_shutdown",
        "broker 1 began a controlled shutdown at offset 15",
        None,
    )
    assert inferred(brokers((15, 15, change(fenced=1)))) == (
        "offline",
        "broker 1 was fenced at offset 15",
        None,
    )


def test_a_plan_in_slices_ends_in_a_later_batch_of_the_epoch() -> None:
    assert inferred(brokers((40, 38, change(fenced=1)))) == (
        "offline",
        "broker 1 was fenced at offset 40",
        40,
    )
    other_epoch = inferred(brokers((40, 38, change(fenced=1)), epoch=5))
    assert other_epoch == (
        "unknown",
        "broker 1 left the ISR; nothing is told of broker 1 by the end of epoch 4",
        None,
    )


def test_what_gives_a_broker_something_back_is_no_reason() -> None:
    assert inferred(brokers((21, 18, change(log_dirs=(ONE_DIR, OTHER_DIR)))))[0] == "unknown"
    assert inferred(brokers((15, 15, change(fenced=1)), (16, 16, change(fenced=-1))))[0] == "unknown"


def test_who_is_unfenced_while_it_shuts_down_goes_on_shutting_down() -> None:
    moments = brokers(
        (14, 14, change(in_controlled_shutdown=1)), (15, 15, change(fenced=1)), (16, 16, change(fenced=-1))
    )
    assert inferred(moments)[0] == "controlled_shutdown"


def test_what_becomes_later_of_who_stays_in_the_isr_is_no_reason() -> None:
    """Broker 3 gives the lead back, and dies afterwards, in the same batch even."""
    for batch in (18, 21):
        found = inferred(brokers((21, batch, change(3, fenced=1))), partition(leader=1), leader=3)
        assert found[0] == "preferred"


def test_the_last_in_sync_stays_in_the_isr_when_it_goes() -> None:
    alone = partition(isr=(1,), leader=-1)
    assert inferred(brokers((21, 18, change(fenced=1))), alone, isr=(1,))[0] == "offline"


def test_of_a_broker_that_is_not_known_nothing_is_said() -> None:
    gone = partition(isr=(2, 3), leader=2, replicas=(9, 2, 3))
    reason, why, _ = inferred(brokers(), gone, leader=9, replicas=(9, 2, 3))
    assert (reason, why) == ("unknown", "broker 9 left the ISR; nothing is told here of broker 9 before")


def test_other_brokers_do_not_matter() -> None:
    assert inferred(brokers((21, 18, change(2, fenced=1))))[0] == "unknown"


def test_who_came_back_before_it_was_fenced_had_left_for_something_else() -> None:
    election = Election(Reason.OFFLINE, Rule.IN_SYNC, "broker 1 was fenced at offset 40")
    assert refuted(election, 1, 33) == Election(
        Reason.UNKNOWN,
        Rule.IN_SYNC,
        "broker 1 ceased to lead, and was back at offset 33 before anything became of it",
    )


def test_an_aborted_transaction_told_nothing() -> None:
    moments = brokers(
        (15, 15, m.BeginTransactionRecord()),
        (16, 15, change(fenced=1)),
        (17, 15, m.AbortTransactionRecord()),
    )
    assert inferred(moments)[0] == "unknown"
    kept = brokers(
        (15, 15, m.BeginTransactionRecord()),
        (16, 15, change(fenced=1)),
        (17, 15, m.EndTransactionRecord()),
    )
    assert inferred(kept)[0] == "offline"


def test_where_a_shutdown_leaves_no_record_who_is_fenced_later_may_have_shut_down() -> None:
    fence = change(fenced=1)
    reason, why, _ = inferred(brokers((40, 38, fence), level=6))
    assert reason == "unknown"
    assert why.endswith(
        "fenced at offset 40, and a controlled shutdown before that would have left no record"
    )
    assert inferred(brokers((21, 18, fence), level=6))[0] == "offline", "one batch is one event"
    raised = brokers((12, 12, m.FeatureLevelRecord("metadata.version", 7)), (40, 38, fence), level=6)
    assert inferred(raised)[0] == "offline"
