"""Which feature levels a new cluster starts with: those of a release, but for what its operator chooses.

Entered by `kraftctl format`. A broker of an older release registers only if it supports every level of its
cluster, so a cluster for such brokers is formatted for their release.

Follows: Kafka's `kafka-storage format` with `--release-version` and `--feature`: its default levels, what it
refuses, and the order of the records. Not here: what the levels mean (`feature_levels`).
"""

from collections.abc import Mapping

from kraftd.metadata.feature_levels import (
    ELIGIBLE_LEADER_REPLICAS,
    KRAFT_VERSION,
    METADATA_VERSION,
    REQUIRED_METADATA_VERSION,
    SUPPORTED,
    metadata_version_name,
)

_LEVELS = {feature.name: range(feature.min_level, feature.max_level + 1) for feature in SUPPORTED}

_DEFAULT_SINCE = {
    ELIGIBLE_LEADER_REPLICAS: 26,
    "group.version": 22,
    "share.version": 28,
    "streams.version": 29,
    "transaction.version": 24,
}
"""The first `metadata.version` at which a new cluster has a feature on, at its highest level."""


def level_of_release(release: str) -> int:
    """The `metadata.version` of a release, such as `4.0`, `4.0.1` or `4.0-IV2`: the newest one of `4.0`.

    Raises:
        ValueError: It is none that this program can run at.
    """
    wanted = ".".join(release.split(".")[:2])
    names = {level: metadata_version_name(level) for level in _LEVELS[METADATA_VERSION]}
    found = [level for level, name in names.items() if wanted in (name, name.partition("-")[0])]
    if not found:
        known = list(dict.fromkeys(name.partition("-")[0] for name in names.values()))
        raise ValueError(
            f"{release!r} is no release that kraftd can run at; those are {known[0]} to {known[-1]}"
            f" and their parts, {names[min(names)]} to {names[max(names)]}"
        )
    return max(found)


def parse_feature(text: str) -> tuple[str, int]:
    """Read `NAME=LEVEL`.

    Raises:
        ValueError: It has another form, or no such feature or level is known here.
    """
    name, separator, level_text = text.partition("=")
    if not separator or not level_text.isascii() or not level_text.isdigit():
        raise ValueError(f"{text!r} is not NAME=LEVEL, with a number as level")
    levels = _LEVELS.get(name)
    if levels is None:
        raise ValueError(f"{name!r} is no feature; those are {', '.join(_LEVELS)}")
    level = int(level_text)
    if level not in levels:
        raise ValueError(f"{name} has no level {level}; levels are {levels[0]} to {levels[-1]}")
    return name, level


def new_cluster_levels(chosen: Mapping[str, int], release: str | None = None) -> Mapping[str, int]:
    """The levels of a new cluster, `metadata.version` first; 0 where a feature is off.

    Args:
        chosen: By feature; a feature that is not there has its default of the release.
        release: The newest one if there is none, unless `metadata.version` is chosen.

    Raises:
        ValueError: What was chosen does not go together.
    """
    if release is not None and METADATA_VERSION in chosen:
        raise ValueError(f"--release-version sets {METADATA_VERSION} already; leave one of them out")
    if chosen.get(KRAFT_VERSION, 0):
        raise ValueError(f"{KRAFT_VERSION} is 0 where controller.quorum.voters names the voters")
    newest = _LEVELS[METADATA_VERSION][-1]
    level = level_of_release(release) if release is not None else chosen.get(METADATA_VERSION, newest)
    others = {name: chosen.get(name, _default(name, level)) for name in sorted(_DEFAULT_SINCE)}
    for name, needed in REQUIRED_METADATA_VERSION.items():
        if others[name] and level < needed:
            raise ValueError(
                f"{name} {others[name]} needs {METADATA_VERSION} {metadata_version_name(needed)} or newer, "
                f"and this cluster would have {metadata_version_name(level)}"
            )
    return {METADATA_VERSION: level, **others}


def _default(name: str, metadata_version: int) -> int:
    return _LEVELS[name][-1] if metadata_version >= _DEFAULT_SINCE[name] else 0
