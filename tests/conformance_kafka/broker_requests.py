"""What brokers ask: they register, send heartbeats, propose ISRs, tell directories, take producer ids."""

from typing import Any

from kraftd.metadata.feature_levels import SUPPORTED
from tests.conformance_kafka.drawing import BROKERS, NOBODY, Body, Draw, Drawing
from tests.conformance_kafka.operations import id_of
from tests.conformance_kafka.sides import CLUSTER_ID

INCARNATIONS = (0, 1, 2)
RESERVED = ("00" * 15 + "01", "00" * 15 + "02", "00" * 16)
BELOW_100 = (f"@bytes:{'00' * 15}2a", f"@bytes:{'00' * 8}80{'00' * 7}", f"@bytes:{'00' * 8}{'ff' * 8}")
"""Ids below 100 where the second half of an id is a signed number."""


def directories_of(broker: int) -> list[str]:
    """The log directories of a broker: those with an even id have two."""
    count = 2 if broker % 2 == 0 else 1
    return [f"@id:directory {number} of {broker}" for number in range(count)]


def features(*, narrow: str = "", leave_out: str = "") -> list[Body]:
    """What a broker supports; of one feature perhaps only its lowest level, or nothing."""
    found = []
    for each in SUPPORTED:
        if each.name not in (leave_out, "kraft.version"):
            highest = each.min_level if each.name == narrow else each.max_level
            found.append(
                {
                    "name": each.name,
                    "min_supported_version": each.min_level,
                    "max_supported_version": highest,
                }
            )
    return found


def registration(draw: Drawing, broker: int | None = None) -> Body:
    rng = draw.rng
    if broker is None:
        broker = rng.choice(BROKERS)
    known = draw.account.brokers.get(broker)
    incarnation = rng.choice(INCARNATIONS)
    is_unheard = known is not None and known.is_fenced and not draw.has_sessions
    if known is not None and (is_unheard or (broker, known.epoch) in draw.stopped or draw.chance(0.5)):
        incarnation = next(
            (
                each
                for each in INCARNATIONS
                if id_of(f"life {each} of {broker}", draw.account) == known.incarnation_id
            ),
            0,
        )
    body: dict[str, Any] = {
        "broker_id": broker,
        "cluster_id": CLUSTER_ID,
        "incarnation_id": f"@id:life {incarnation} of {broker}",
        "listeners": [
            {"name": name, "host": f"b{broker}", "port": 9092 + broker, "security_protocol": 0}
            for name in ("PLAINTEXT", "EXTERNAL")[: rng.randint(1, 2)]
        ],
        "features": features(),
        "rack": rng.choice((None, "a", "b")),
        "log_dirs": directories_of(broker),
        "previous_broker_epoch": rng.choice((-1, f"@epoch:{broker}", f"@epoch:{broker}")),
    }
    if draw.is_odd:
        body |= _odd_registration(draw, broker)
    if known is not None and (known.cordoned is not None or known.is_stopping):
        # `intended`: cordoned-directories-stay, registered-while-it-stops
        body |= _refused_registration(draw, broker)
    return body


def _refused_registration(draw: Drawing, broker: int) -> Body:
    """What costs a broker that is registered the registration, whatever else it says."""
    known = draw.account.brokers[broker]
    finalized = [each.name for each in SUPPORTED if draw.account.features.get(each.name, 0) > each.min_level]
    wrong: list[Body] = [{"cluster_id": "another"}]
    if not (known.is_fenced or known.is_stopping):
        wrong.append({"incarnation_id": f"@id:another life of {broker}"})
    if finalized:
        wrong.append({"features": features(narrow=draw.rng.choice(finalized))})
    return draw.rng.choice(wrong)


def _odd_registration(draw: Drawing, broker: int) -> Body:
    other = BROKERS[(BROKERS.index(broker) + 1) % len(BROKERS)]
    wrong: tuple[Body, ...] = (
        {"cluster_id": "another"},
        {"features": features(narrow=draw.rng.choice([each.name for each in SUPPORTED]))},
        {"features": features(leave_out=draw.rng.choice([each.name for each in SUPPORTED]))},
        {"features": []},
        {"log_dirs": []},
        {"log_dirs": [f"@bytes:{draw.rng.choice(RESERVED)}"]},
        {"log_dirs": [draw.rng.choice(BELOW_100)]},
        {"log_dirs": directories_of(broker)[:1] * 2},
        # Only of who has them: else they become its own (`intended`: directories-of-another-process).
        {"log_dirs": directories_of(other) if other in draw.account.brokers else []},
        {"listeners": []},
        {"listeners": [{"name": name, "host": f"{name}{n}", "port": n} for n, name in enumerate("XYX", 1)]},
        {"cluster_id": "another", "listeners": [{"name": "X", "host": "", "port": 0}]},
        {"is_migrating_zk_broker": True},
        {"previous_broker_epoch": f"@epoch:{broker}-1"},
    )
    return draw.rng.choice(wrong)


def heartbeat(draw: Drawing) -> Body:
    broker = draw.broker()
    rng = draw.rng
    wants_fence, wants_stop = rng.choice(((False, False),) * 5 + ((True, False), (False, True), (True, True)))
    wants_stop &= draw.has_sessions
    body: dict[str, Any] = {
        "broker_id": broker,
        "broker_epoch": draw.broker_epoch(broker),
        "current_metadata_offset": rng.choice(
            ("@end",) * 4 + (f"@registered:{broker}", f"@registered:{broker}-1")
        ),
        "want_fence": wants_fence,
        "want_shut_down": wants_stop,
    }
    known = draw.account.brokers.get(broker)
    if (known is not None and not known.is_fenced) or not draw.has_sessions:
        body["current_metadata_offset"] = "@end"
    if known is not None and known.is_stopping:
        if known.is_fenced:  # `intended`: unfenced-while-it-stops
            body |= {"want_fence": True, "cordoned_log_dirs": None}
        else:
            return _behind_the_others(draw, body)
    if wants_stop and known is not None:
        draw.stopped.add((broker, known.epoch))
    if draw.chance(0.15) and draw.has_sessions:
        body |= _lost_directories(draw, broker)
    if draw.has(30) and draw.chance(0.25):
        body["cordoned_log_dirs"] = draw.some(directories_of(broker), 0, 2)
        if draw.odd(0.4):
            body["cordoned_log_dirs"] = draw.some(("@id:directory of nobody", *directories_of(2)))
    return body


def _behind_the_others(draw: Drawing, stopping: dict[str, Any]) -> Body:
    """A heartbeat of a broker that stops, once all that are up have said how far they are: Kafka forgets that
    when they register again or are unfenced (`intended`: a-heartbeat-later).
    """
    up = [number for number, each in draw.account.brokers.items() if not (each.is_fenced or each.is_stopping)]
    beats = [
        {"broker_id": number, "broker_epoch": f"@epoch:{number}", "current_metadata_offset": "@end"}
        for number in up
    ]
    first, *others = [*beats, stopping]
    draw.pending += [draw.operation("BrokerHeartbeat", each) for each in others]
    return first


def _lost_directories(draw: Drawing, broker: int) -> Body:
    """Lost directories, perhaps all, of a broker that stays what it is (`intended`: lost-directories-first).
    Not after a topic was removed (`Drawing.has_removed_topics`).
    """
    known = draw.account.brokers.get(broker)
    if known is None or known.is_stopping or known.cordoned or draw.has_removed_topics:
        return {"offline_log_dirs": ["@id:directory of nobody"]}
    directories = directories_of(broker)
    lost = directories if draw.chance(0.4) else [draw.rng.choice(directories)]
    odd = ["@id:directory of nobody"] if draw.odd() else []
    return {"want_fence": known.is_fenced, "want_shut_down": False, "offline_log_dirs": [*lost, *odd]}


def alter_partition(draw: Drawing) -> Body:
    rng = draw.rng
    leader = draw.broker()
    topics: dict[str, list[Body]] = {}
    led = [
        (topic.name, index)
        for topic in draw.account.topics.values()
        for index, partition in topic.partitions.items()
        if partition.leader == leader
    ]
    if not led and not draw.is_odd and draw.account.topics:
        name, index, partition = draw.partition()
        leader = leader if partition is None or partition.leader < 0 else partition.leader
        led = [(name, index)]
    moving = [
        place for place in led if (found := draw.account.partition(*place)) is not None and found.is_moving
    ]
    for _ in range(0 if draw.odd(0.1) else rng.choice((1, 1, 2, 3))):
        name, index = rng.choice(led) if led else draw.partition()[:2]
        if moving and draw.chance(0.5):  # it may complete the move, perhaps into an ISR without its leader
            name, index = rng.choice(moving)
        if draw.odd(0.3):
            name, index = draw.partition()[:2]
        if all(each["partition_index"] != index for each in topics.get(name, ())):
            topics.setdefault(name, []).append(_proposal(draw, leader, name, index))
    return {
        "broker_id": leader,
        "broker_epoch": draw.broker_epoch(leader),
        "topics": [{"topic_id": f"@topic:{name}", "partitions": each} for name, each in topics.items()],
    }


def _proposal(draw: Drawing, leader: int, topic: str, index: int) -> dict[str, Any]:
    rng = draw.rng
    partition = draw.account.partition(topic, index)
    replicas = [] if partition is None else [each for each in partition.replicas if each != leader]
    in_sync = [leader, *rng.sample(replicas, rng.randint(0, len(replicas)))]
    if draw.chance(0.4):
        up = [each for each in replicas if (known := draw.account.brokers.get(each)) and not known.is_fenced]
        in_sync = [leader, *up]
    if draw.odd(0.3):
        in_sync = draw.brokers(4)
    epochs = [f"@epoch:{each}" for each in in_sync]
    if draw.odd(0.2):
        epochs = [f"{each}{rng.choice(('-1', '+1'))}" for each in epochs]
    elif draw.chance(0.1):
        epochs = [-1 for _ in epochs]  # type: ignore[misc]
    elif draw.chance(0.1) and epochs:  # of another start than the one that caught up
        epochs[-1] += "-1"
    place = f"{topic}/{index}"
    return {
        "partition_index": index,
        "leader_epoch": f"@leader-epoch:{place}" + (rng.choice(("-1", "+1")) if draw.odd(0.15) else ""),
        "new_isr_with_epochs": [
            {"broker_id": each, "broker_epoch": epoch} for each, epoch in zip(in_sync, epochs, strict=True)
        ],
        "leader_recovery_state": rng.choice((0, 0, 0, 1)),
        "partition_epoch": f"@partition-epoch:{place}" + (rng.choice(("-1", "+1")) if draw.odd(0.15) else ""),
    }


def assign_replicas(draw: Drawing) -> Body:
    """Directories of the broker's own, perhaps failed, or that stand for something else (`intended`:
    directories-of-another-process).
    """
    rng = draw.rng
    broker = draw.broker()
    held = [
        (topic.name, index)
        for topic in draw.account.topics.values()
        for index, partition in topic.partitions.items()
        if broker in partition.replicas
    ]
    directories = []
    for directory in draw.some(directories_of(broker), 1, 2):
        topics: dict[str, list[Body]] = {}
        for _ in range(rng.randint(1, 3)):
            name, index = draw.partition()[:2] if not held or draw.odd() else rng.choice(held)
            topics.setdefault(name, []).append({"partition_index": index})
        if draw.odd(0.4):
            directory = f"@bytes:{rng.choice(RESERVED)}"
        directories.append(
            {
                "id": directory,
                "topics": [
                    {"topic_id": f"@topic:{name}", "partitions": each} for name, each in topics.items()
                ],
            }
        )
    return {"broker_id": broker, "broker_epoch": draw.broker_epoch(broker), "directories": directories}


def producer_ids(draw: Drawing) -> Body:
    broker = draw.broker()
    return {"broker_id": broker, "broker_epoch": draw.broker_epoch(broker)}


def unregister(draw: Drawing) -> Body:
    broker = draw.rng.choice((NOBODY, -1)) if draw.is_odd else draw.broker()
    is_eligible = draw.has_elr and any(  # `intended`: eligible-after-unregistering
        broker in (*partition.elr, *partition.isr)
        for topic in draw.account.topics.values()
        for partition in topic.partitions.values()
    )
    return {"broker_id": NOBODY if is_eligible or draw.has_removed_topics else broker}


BROKER_REQUESTS: dict[str, tuple[int, Draw]] = {
    "BrokerRegistration": (8, registration),
    "BrokerHeartbeat": (22, heartbeat),
    "AlterPartition": (14, alter_partition),
    "AssignReplicasToDirs": (6, assign_replicas),
    "AllocateProducerIds": (3, producer_ids),
    "UnregisterBroker": (2, unregister),
}
