"""What Kafka's image is known to get wrong, told exactly: which records more and fewer after each batch.

Both come of how its deltas are made, so they depend on where a batch or a transaction ends:

- KAFKA-16206 (compare): the configs of a removed topic are dropped only if the image that the delta began
  with held any for that name; those set in the same delta stay for ever.
- KAFKA-20774: when the last user of a SCRAM mechanism goes, all others that come in the same delta are lost
  if they come later in the order of a Java HashMap, which for names of one letter is the alphabet's.

And one thing is no defect: since 4.0 Kafka forgets what old logs say of the migration from ZooKeeper; before,
it wrote that there was none at each level that could say so, also if nobody had.

`known_differences` is an account of its own, of these few kinds only; it knows nothing of `kraftd.metadata`.
"""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from kraftd.metadata.config_schema import ResourceType
from kraftd.records import messages as m
from kraftd.records.frame import AnyRecord, decode_record
from tests.interop.legal_world import ZK_MIGRATION_SINCE

Record: TypeAlias = m.ConfigRecord | m.UserScramCredentialRecord
Group: TypeAlias = tuple[str, str] | tuple[str, int]
"""What a delta changes together: a topic's configs, or the users of a mechanism."""
Groups: TypeAlias = dict[Group, dict[str, Record]]


class Known(NamedTuple):
    """What only Kafka's image has, and what it lacks."""

    more: frozenset[AnyRecord]
    fewer: frozenset[AnyRecord]


@dataclass
class _Account:
    """What is so, and what Kafka's image holds."""

    keeps_migration: bool
    topics: dict[bytes, str] = field(default_factory=dict)
    truth: Groups = field(default_factory=dict)
    image: Groups = field(default_factory=dict)
    delta: dict[Group, dict[str, Record | None]] = field(default_factory=dict)
    migration: m.ZkMigrationStateRecord | None = None
    level: int = 0

    def add(self, record: AnyRecord) -> None:
        match record:
            case m.TopicRecord(name=name, topic_id=topic_id):
                self.topics = {**self.topics, topic_id: name}
            case m.RemoveTopicRecord(topic_id=topic_id):
                self._remove_topic(("configs", self.topics[topic_id]))
                self.topics = {key: name for key, name in self.topics.items() if key != topic_id}
            case m.ConfigRecord(resource_type=ResourceType.TOPIC):
                group = ("configs", record.resource_name)
                self._put(group, record.name, None if record.value is None else record)
            case m.UserScramCredentialRecord():
                self._put(("scram", record.mechanism), record.name, record)
            case m.RemoveUserScramCredentialRecord():
                self._put(("scram", record.mechanism), record.name, None)
            case m.ZkMigrationStateRecord():
                self.migration = record
            case m.FeatureLevelRecord(name="metadata.version", feature_level=level):
                self.level = level

    def end_delta(self) -> None:
        """What the delta says becomes Kafka's image."""
        for group, changes in self.delta.items():
            after = _applied(self.image.get(group, {}), changes, is_scram=group[0] == "scram")
            self.image = {**self.image, group: after}
        self.delta = {}

    def known(self) -> Known:
        truth, image = _all(self.truth), _all(self.image)
        more, fewer = image - truth, truth - image
        if self.keeps_migration and self.migration is None and self.level >= ZK_MIGRATION_SINCE:
            more.add(m.ZkMigrationStateRecord(zk_migration_state=0))
        elif not self.keeps_migration and self.migration is not None:
            fewer.add(self.migration)
        return Known(frozenset(more), frozenset(fewer))

    def _put(self, group: Group, name: str, record: Record | None) -> None:
        others = {key: other for key, other in self.truth.get(group, {}).items() if key != name}
        self.truth = {**self.truth, group: others if record is None else {**others, name: record}}
        self.delta.setdefault(group, {})[name] = record

    def _remove_topic(self, group: Group) -> None:
        self.truth = {**self.truth, group: {}}
        if held := self.image.get(group):
            self.delta[group] = dict.fromkeys(held)


def known_differences(
    batches: Sequence[Sequence[bytes]], *, keeps_migration: bool = False
) -> Iterator[Known]:
    """What Kafka's image has more and what fewer after each batch; one delta a batch or transaction."""
    account, before = _Account(keeps_migration), None
    for values in batches:
        for value in values:
            record = decode_record(value)
            match record:
                case m.BeginTransactionRecord():
                    account.end_delta()
                    before = copy(account)
                case m.EndTransactionRecord():
                    before = None
                case m.AbortTransactionRecord() if before is not None:
                    account, before = before, None
                    account.delta = {}
                case _:
                    account.add(record)
        if before is None:
            account.end_delta()
        yield (before or account).known()


def _applied(
    held: dict[str, Record], changes: dict[str, Record | None], *, is_scram: bool
) -> dict[str, Record]:
    after, lost = dict(held), False
    for name, record in sorted(changes.items()):
        if record is not None:
            after[name] = record
        else:
            after.pop(name, None)
            lost = lost or (is_scram and not after)
    return {} if lost else after


def _all(groups: Groups) -> set[AnyRecord]:
    return {record for group in groups.values() for record in group.values()}
