"""Nothing is written that the metadata.version does not allow. `make interop` compares the table."""

from typing import get_args

import pytest

from kraftd.errors import InvariantError, UnencodableError
from kraftd.metadata.feature_levels import METADATA_VERSION, SUPPORTED
from kraftd.metadata.record_versions import SINCE, encode_allowed, newest_versions
from kraftd.records.frame import RawRecord, decode_record, read_frame
from kraftd.records.messages import (
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionRecord,
    Record,
    RegisterBrokerRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)

MINE = next(feature for feature in SUPPORTED if feature.name == METADATA_VERSION)


def version_of(record, level):
    return read_frame(encode_allowed(record, level))[1]


def test_every_kind_and_every_version_has_its_level():
    assert set(SINCE) == set(get_args(Record))
    for kind, levels in SINCE.items():
        assert len(levels) in (0, kind.MAX_VERSION + 1), kind
        assert list(levels) == sorted(set(levels))
        assert all(level <= MINE.max_level for level in levels)


@pytest.mark.parametrize(
    ("record", "versions"),
    [
        (RegisterBrokerRecord(), {7: 1, 8: 2, 16: 2, 17: 3, 29: 3, 30: 4}),
        (PartitionRecord(), {7: 0, 16: 0, 17: 1, 22: 1, 23: 2, 30: 2}),
        (BeginTransactionRecord(), {13: 0, 30: 0}),
        (FeatureLevelRecord(METADATA_VERSION, 30), {0: 0, 30: 0}),
    ],
)
def test_the_newest_version_that_the_level_allows_is_written(record, versions):
    assert {level: version_of(record, level) for level in versions} == versions


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ({"fenced": 1}, 0),
        ({"fenced": -1}, 0),
        ({"in_controlled_shutdown": 1}, 1),
        ({"log_dirs": (bytes(15) + b"d",)}, 2),
        ({}, 2),
        ({"cordoned_log_dirs": ()}, 3),
        ({"log_dirs": (bytes(15) + b"d",), "cordoned_log_dirs": ()}, 3),
    ],
)
def test_a_change_of_a_registration_is_in_the_oldest_version_that_can_say_it(said, version):
    record = BrokerRegistrationChangeRecord(1, 2, **said)
    assert version_of(record, MINE.max_level) == version
    assert decode_record(encode_allowed(record, MINE.max_level)) == record


@pytest.mark.parametrize(
    ("record", "level", "name"),
    [
        (BeginTransactionRecord(), 12, "3.6-IV0"),
        (UserScramCredentialRecord(), 10, "3.5-IV1"),
        (NoOpRecord(), 4, "3.3-IV0"),
        (NoOpRecord(), 0, "0"),
        (FenceBrokerRecord(), 30, "4.3-IV0"),
        (ZkMigrationStateRecord(), 7, "3.3-IV3"),
        (RawRecord(99, 0, b""), 30, "4.3-IV0"),
    ],
)
def test_what_the_level_does_not_allow_is_not_written(record, level, name):
    with pytest.raises(InvariantError, match=f"may be written at metadata.version {name}$"):
        encode_allowed(record, level)


def test_what_the_allowed_version_cannot_say_is_not_cut_short():
    with pytest.raises(UnencodableError, match="directories"):
        encode_allowed(PartitionRecord(directories=(bytes(16),)), 16)


def test_the_table_of_a_level_is_made_once_and_cannot_be_changed():
    assert newest_versions(30) is newest_versions(30)
    with pytest.raises(TypeError):
        newest_versions(30)[NoOpRecord] = 1
