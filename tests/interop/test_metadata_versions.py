"""Which kinds and versions of records each level of metadata.version allows: our table against Kafka's
classes.

Kafka 4.3 knows the levels that kraftd runs at; 3.9, the last that knew the older ones, says the same of
them, and answers questions that 4.3 does not ask any more.
"""

import json
from typing import Any

import pytest

from kraftd.metadata.feature_levels import METADATA_VERSION, SUPPORTED, metadata_version_name
from kraftd.metadata.record_versions import newest_versions
from kraftd.records.messages import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from tests.interop.conftest import HERE
from tests.interop.peer import Kafka

VERSIONS = {
    "registerBrokerRecordVersion": RegisterBrokerRecord,
    "registerControllerRecordVersion": RegisterControllerRecord,
    "partitionRecordVersion": PartitionRecord,
    "partitionChangeRecordVersion": PartitionChangeRecord,
}
"""Methods that give a version; null where the kind is not allowed."""

ALLOWED = {
    "isScramSupported": (UserScramCredentialRecord, RemoveUserScramCredentialRecord),
    "isDelegationTokenSupported": (DelegationTokenRecord, RemoveDelegationTokenRecord),
    "isMetadataTransactionSupported": (BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord),
    "isControllerRegistrationSupported": (RegisterControllerRecord,),
    "isElrSupported": (ClearElrRecord,),
    "isNoOpRecordSupported": (NoOpRecord,),
    "isBrokerRegistrationChangeRecordSupported": (BrokerRegistrationChangeRecord,),
}
"""Methods that say whether kinds are allowed."""

CHANGES_OF_REGISTRATIONS = {
    "isInControlledShutdownStateSupported": 1,
    "isDirectoryAssignmentSupported": 2,
    "isCordonedLogDirsSupported": 3,
}
"""Methods that say whether BrokerRegistrationChange has what a version adds; Kafka writes the version that
it needs.
"""

ONLY_OLDER = {
    "isNoOpRecordSupported",
    "isBrokerRegistrationChangeRecordSupported",
    "isInControlledShutdownStateSupported",
}


def levels_of(kafka: Kafka) -> dict[int, dict[str, Any]]:
    lines = kafka.run(HERE / "Facts.java").splitlines()
    return {facts["featureLevel"]: facts for facts in map(json.loads, lines)}


@pytest.fixture(scope="module")
def newer(kafka: Kafka) -> dict[int, dict[str, Any]]:
    return levels_of(kafka)


@pytest.fixture(scope="module")
def older(older_kafka: Kafka) -> dict[int, dict[str, Any]]:
    """Only the levels of KRaft that were final then: what a release tests may still move."""
    levels = levels_of(older_kafka)
    return {level: facts for level, facts in levels.items() if level > 0 and facts["isProduction"]}


def compare(levels: dict[int, dict[str, Any]]) -> set[str]:
    """Check every response of Kafka's that has a place in our table; the questions that it answered."""
    asked = set()
    for level, facts in levels.items():
        mine = newest_versions(level)
        for question, kind in VERSIONS.items():
            assert mine.get(kind) == facts[question], (level, question)
            asked.add(question)
        for question in ALLOWED.keys() & facts.keys():
            for kind in ALLOWED[question]:
                assert (kind in mine) is facts[question], (level, question, kind)
            asked.add(question)
        for question, version in CHANGES_OF_REGISTRATIONS.items():
            if question in facts:
                assert (mine.get(BrokerRegistrationChangeRecord, -1) >= version) is facts[question], level
                asked.add(question)
    return asked


def test_the_levels_that_kraftd_runs_at(newer: dict[int, dict[str, Any]]) -> None:
    mine = next(feature for feature in SUPPORTED if feature.name == METADATA_VERSION)
    final = [level for level, facts in newer.items() if facts["isProduction"]]
    assert (mine.min_level, mine.max_level) == (min(newer), max(final))


def test_what_each_level_allows(newer: dict[int, dict[str, Any]]) -> None:
    assert compare(newer) == {*VERSIONS, *ALLOWED, *CHANGES_OF_REGISTRATIONS} - ONLY_OLDER


def test_what_each_older_level_allowed(older: dict[int, dict[str, Any]]) -> None:
    assert compare(older) >= {*VERSIONS, *ALLOWED, "isInControlledShutdownStateSupported"}
    assert min(older) == 1


def test_names_of_levels(newer: dict[int, dict[str, Any]], older: dict[int, dict[str, Any]]) -> None:
    for level, facts in (older | newer).items():
        assert metadata_version_name(level) == facts["version"]
