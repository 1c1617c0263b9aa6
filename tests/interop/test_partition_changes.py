"""What becomes of a partition is what Kafka's own PartitionChangeBuilder makes of it, in 60,000 cases.

The cases are random and wilder than any cluster: leaders out of the ISR, reassignments of nobody, ISRs that
are empty without eligible leader replicas. Only what no log can hold is left out. Where Kafka keeps brokers
eligible that hold no replica any more, ours are only looked at.
"""

from collections import Counter
from pathlib import Path
from random import Random
from typing import NamedTuple

import msgspec

from kraftd.controller.partitions.election import ElectionKind
from kraftd.controller.partitions.partition_change_builder import Rules, Target, partition_change
from kraftd.metadata.feature_levels import ELIGIBLE_LEADER_REPLICAS_SINCE
from kraftd.metadata.record_versions import encode_allowed
from kraftd.records.frame import decode_record, encode_record
from kraftd.records.messages import PartitionChangeRecord, PartitionRecord
from kraftd.types import NodeId, Uuid
from tests.interop.conftest import HERE
from tests.interop.peer import Kafka

SEED = 43
CASES = 60_000
LEVELS = (7, 11, 12, 16, 17, 23, 24, 30, 30)
TOPIC = bytes(15) + b"\x2a"
NEWEST = 2


class Case(NamedTuple):
    """A partition, and what it shall become."""

    partition: PartitionRecord
    target: Target
    election: ElectionKind
    level: int
    has_elr: bool
    min_isr: int
    acceptable: tuple[NodeId, ...]

    def ours(self) -> PartitionChangeRecord | None:
        """What we make of it."""
        rules = Rules(
            self.level, self.has_elr, self.min_isr, lambda broker: broker in self.acceptable, directory
        )
        return partition_change(self.partition, self.target, self.election, rules)

    def line(self) -> str:
        """The case for `PartitionChanges.java`."""
        target = self.target
        directories = ",".join(f"{broker}:{one[-1]}" for broker, one in target.directories.items())
        return " ".join(
            (
                encode_record(self.partition, NEWEST).hex(),
                str(self.level),
                str(int(self.has_elr)),
                str(self.min_isr),
                self.election.name,
                listed(self.acceptable),
                listed(target.isr),
                listed(target.replicas),
                listed(target.removing),
                listed(target.adding),
                "-" if target.recovery is None else str(target.recovery),
                listed(target.unclean),
                directories or "-",
            )
        )


def listed(brokers: tuple[NodeId, ...] | None) -> str:
    return "-" if brokers is None else "=" + ",".join(map(str, brokers))


def directory(number: int) -> Uuid:
    return bytes(7) + b"\x07" + bytes(7) + bytes((number,))


def case(rng: Random) -> Case:
    """A random one; about half of them are what clusters see."""
    level = rng.choice(LEVELS)
    can_have_elr = level >= ELIGIBLE_LEADER_REPLICAS_SINCE
    brokers = list(range(rng.choice((3, 5))))
    replicas = some(rng, brokers, at_least=1)
    isr = some(rng, replicas)
    elr = (
        some(rng, [one for one in replicas if one not in isr]) if can_have_elr and rng.random() < 0.4 else ()
    )
    last_known = some(rng, brokers)[: rng.choice((1, 1, 2))] if can_have_elr and rng.random() < 0.4 else ()
    elr = tuple(sorted(elr))  # as Kafka writes it, while ids are small
    leader = rng.choice([*isr, *isr, *isr, -1, *replicas])
    adding = some(rng, replicas) if rng.random() < 0.3 else ()
    removing = some(rng, [one for one in replicas if one not in adding]) if rng.random() < 0.3 else ()
    partition = PartitionRecord(
        partition_id=rng.randrange(3),
        topic_id=TOPIC,
        replicas=replicas,
        isr=isr,
        removing_replicas=removing,
        adding_replicas=adding,
        leader=leader,
        leader_recovery_state=int(rng.random() < 0.2),
        leader_epoch=5,
        partition_epoch=9,
        directories=tuple(directory(rng.randrange(8)) for _ in replicas),
        eligible_leader_replicas=elr or None,
        last_known_elr=last_known or None,
    )
    return Case(
        partition,
        target(rng, partition, brokers),
        rng.choice(list(ElectionKind)),
        level,
        can_have_elr and rng.random() < 0.8,
        rng.choice((1, 2, 2, 3)),
        some(rng, brokers),
    )


def target(rng: Random, partition: PartitionRecord, brokers: list[NodeId]) -> Target:
    """What it shall become: as it is, without a member of the ISR, or anything else."""
    isr = partition.isr
    gone = rng.choice(partition.replicas)
    kind = rng.randrange(5)
    replicas = None
    if kind == 0:
        return Target()
    if kind in (1, 2):
        return Target(
            isr=tuple(one for one in isr if one != gone), unclean=(gone,) if rng.random() < 0.5 else ()
        )
    if kind == 3:
        return Target(isr=some(rng, list(partition.replicas), at_least=1), recovery=rng.choice((None, 0, 1)))
    if rng.random() < 0.6:
        replicas = some(rng, brokers, at_least=1)
    known = replicas or partition.replicas
    return Target(
        isr=some(rng, list(known)) if rng.random() < 0.5 else None,
        replicas=replicas,
        removing=some(rng, list(known)) if rng.random() < 0.5 else None,
        adding=some(rng, list(known)) if rng.random() < 0.5 else None,
        recovery=rng.choice((None, 0, 1)),
        directories={one: directory(rng.randrange(8)) for one in some(rng, list(known))},
        unclean=some(rng, list(known)) if rng.random() < 0.2 else (),
    )


def some(rng: Random, brokers: list[NodeId], at_least: int = 0) -> tuple[NodeId, ...]:
    return tuple(rng.sample(brokers, rng.randint(min(at_least, len(brokers)), len(brokers))))


def written(record: PartitionChangeRecord | None, level: int) -> tuple[bytes, object] | None:
    """The version and the record, the ELR in order: Kafka's has the order of a hash set."""
    if record is None:
        return None
    elr = record.eligible_leader_replicas
    ordered = msgspec.structs.replace(
        record, eligible_leader_replicas=None if elr is None else tuple(sorted(elr))
    )
    value = encode_allowed(ordered, level)
    return value[:3], decode_record(value)


def test_every_change_is_kafkas(kafka: Kafka, tmp_path: Path) -> None:
    rng = Random(SEED)
    cases = [case(rng) for _ in range(CASES)]
    asked, told = tmp_path / "cases", tmp_path / "changes"
    asked.write_text("".join(f"{one.line()}\n" for one in cases), encoding="ascii")
    kafka.run(HERE / "PartitionChanges.java", asked, told)
    lines = told.read_text(encoding="ascii").splitlines()
    assert len(lines) == CASES
    seen: Counter[str] = Counter()
    for number, (one, line) in enumerate(zip(cases, lines, strict=True)):
        record = None if line == "-" else decode_record(bytes.fromhex(line))
        assert record is None or isinstance(record, PartitionChangeRecord)
        ours = one.ours()
        if one.has_elr and not could_be_eligible(one.partition) <= set(replicas_after(one.partition, ours)):
            assert set(elr_after(one.partition, ours)) <= set(replicas_after(one.partition, ours))
            seen.update(["removed"])
            continue
        assert written(ours, one.level) == written(record, one.level), (number, one)
        assert record is None or line[:6] == encode_allowed(record, one.level).hex()[:6]
        seen.update(["none"] if ours is None else [field for field in FIELDS if set_in(ours, field)])
    assert set(seen) == {"none", "removed", *FIELDS}
    assert seen["removed"] < CASES // 5
    assert min(seen.values()) > CASES // 100, seen


def could_be_eligible(partition: PartitionRecord) -> set[NodeId]:
    return {*partition.isr, *(partition.eligible_leader_replicas or ())}


def elr_after(before: PartitionRecord, change: PartitionChangeRecord | None) -> tuple[NodeId, ...]:
    elr = None if change is None else change.eligible_leader_replicas
    return (before.eligible_leader_replicas or ()) if elr is None else elr


def replicas_after(before: PartitionRecord, change: PartitionChangeRecord | None) -> tuple[NodeId, ...]:
    replicas = None if change is None else change.replicas
    return before.replicas if replicas is None else replicas


FIELDS = [
    field
    for field in PartitionChangeRecord.__struct_fields__
    if field not in ("partition_id", "topic_id", "unknown_tags")
]


def set_in(record: PartitionChangeRecord, field: str) -> bool:
    return bool(getattr(record, field) != getattr(PartitionChangeRecord(), field))
