"""The feature levels of a new cluster. That they are Kafka's is shown by `tests/interop/test_formats.py`."""

import pytest

from kraftd.metadata.feature_levels import NEW_CLUSTER_LEVELS, metadata_version_name
from kraftd.metadata.new_cluster import level_of_release, new_cluster_levels, parse_feature


def test_without_a_choice_a_cluster_has_the_newest_levels() -> None:
    assert list(new_cluster_levels({}).items()) == list(NEW_CLUSTER_LEVELS.items())


@pytest.mark.parametrize(
    ("release", "name"),
    [
        ("3.3", "3.3-IV3"),
        ("3.9", "3.9-IV0"),
        ("3.9.1", "3.9-IV0"),
        ("4.0", "4.0-IV3"),
        ("4.0-IV1", "4.0-IV1"),
        ("4.3.1", "4.3-IV0"),
    ],
)
def test_a_release_is_its_newest_level_whatever_the_patch(release: str, name: str) -> None:
    assert metadata_version_name(level_of_release(release)) == name


@pytest.mark.parametrize("release", ["", "3", "3.2", "3.3-IV2", "4.4", "4.0-IV9", "four"])
def test_what_is_no_release_is_told_with_those_that_are(release: str) -> None:
    with pytest.raises(ValueError, match=r"is no release that kraftd can run at; those are 3\.3 to 4\.3"):
        level_of_release(release)


def test_a_cluster_of_an_older_release_has_only_what_that_release_had() -> None:
    assert {name for name, level in new_cluster_levels({}, "3.9").items() if level} == {"metadata.version"}
    assert new_cluster_levels({}, "4.0")["eligible.leader.replicas.version"] == 0
    assert new_cluster_levels({}, "4.1")["eligible.leader.replicas.version"] == 1


def test_a_choice_goes_before_the_default_of_the_release() -> None:
    levels = new_cluster_levels({"transaction.version": 0, "share.version": 1}, "4.0")
    assert (levels["transaction.version"], levels["share.version"], levels["group.version"]) == (0, 1, 1)
    assert new_cluster_levels({"metadata.version": 21}) == new_cluster_levels({}, "3.9")


@pytest.mark.parametrize(
    ("chosen", "release", "why"),
    [
        ({"metadata.version": 25}, "4.0", "sets metadata.version already"),
        ({"kraft.version": 1}, None, "kraft.version is 0 where"),
        ({"eligible.leader.replicas.version": 1}, "3.9", "needs metadata.version 4.0-IV1 or newer, and this"),
    ],
)
def test_what_does_not_go_together_is_refused(chosen: dict[str, int], release: str | None, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        new_cluster_levels(chosen, release)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("group.version", "is not NAME=LEVEL"),
        ("group.version=", "is not NAME=LEVEL"),
        ("group.version=-1", "is not NAME=LEVEL"),
        ("=1", "is no feature; those are"),
        ("nonsense=1", "is no feature; those are"),
        ("group.version=2", "has no level 2; levels are 0 to 1"),
        ("metadata.version=6", "has no level 6; levels are 7 to 30"),
    ],
)
def test_a_feature_that_cannot_be_read_is_told_with_what_can(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_feature(text)
