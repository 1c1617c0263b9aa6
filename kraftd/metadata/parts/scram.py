"""SCRAM credentials: what a user logs in with, by mechanism.

Follows: Kafka's ScramDelta.
Differs: a credential that is not there cannot be removed; Kafka's controller refuses that too, its image does
not look.
"""

from collections.abc import Iterator
from typing import Final, TypeAlias

from kraftd.metadata import kafka_names
from kraftd.metadata.feature_levels import SCRAM_SINCE
from kraftd.metadata.impossible import ImpossibleRecordError
from kraftd.metadata.kafka_names import name_of
from kraftd.metadata.part import (
    Builder,
    Changes,
    EntityPart,
    ImageComparison,
    ImageView,
    RecordKind,
    came_or_went,
)
from kraftd.metadata.views import Change, Folder, folders
from kraftd.records.messages import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from kraftd.types import Offset

ScramKey: TypeAlias = tuple[int, str]
"""Mechanism and user."""


def _put(builder: Builder, record: UserScramCredentialRecord, _offset: Offset) -> None:
    builder.put(SCRAM, builder.state(SCRAM).put((record.mechanism, record.name), record))


def _remove(builder: Builder, record: RemoveUserScramCredentialRecord, offset: Offset) -> None:
    scram, key = builder.state(SCRAM), (record.mechanism, record.name)
    if scram.get(key) is None:
        which = f"of mechanism {record.mechanism} for user {record.name}"
        raise ImpossibleRecordError(offset, f"there is no SCRAM credential {which}")
    builder.put(SCRAM, scram.remove(key))


def _secrets(_record: UserScramCredentialRecord) -> tuple[str, ...]:
    return ("salt", "storedKey", "serverKey")


class Scram(EntityPart[ScramKey, UserScramCredentialRecord]):
    """Credentials by mechanism and user."""

    section = "scram"
    kinds = (
        RecordKind(UserScramCredentialRecord, _put, levels=(SCRAM_SINCE,), secrets=_secrets),
        RecordKind(RemoveUserScramCredentialRecord, _remove, levels=(SCRAM_SINCE,)),
    )

    def describe(
        self, differences: Changes[UserScramCredentialRecord], _: ImageComparison
    ) -> Iterator[Change]:
        for change in differences:
            name = f"{_mechanism(change.record)} of user {change.record.name}"
            yield came_or_went("scram", name, change, "set", "removed")

    def folder(self, view: ImageView) -> Folder:
        """A folder for each mechanism."""
        mechanisms: dict[str, dict[str, UserScramCredentialRecord]] = {}
        for record in view.image[self].values():
            mechanisms.setdefault(_mechanism(record), {})[record.name] = record
        return folders({name: self.record_files(users, view) for name, users in mechanisms.items()})


def _mechanism(record: UserScramCredentialRecord) -> str:
    return name_of(kafka_names.SCRAM_MECHANISMS, record.mechanism)


SCRAM: Final = Scram()
