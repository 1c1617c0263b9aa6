"""What an operator's own rules are told of a topic or of configs, before they are accepted.

A policy is a function of the operator's, named in the configuration file as `package.module:name`. The active
controller calls it for each topic that is to be made (`create.topic.policy.class.name`) and for each resource
whose configs are to change (`alter.config.policy.class.name`), once nothing else speaks against it; also for
requests that only validate. It accepts by returning and refuses by raising `PolicyViolation`. Anything else
that it raises is a defect of its own, and refuses too.

Follows: CreateTopicPolicy and AlterConfigPolicy of Kafka (KIP-108, KIP-133) with their RequestMetadata.
Not here: when they are called (`policy_checks`), and how they are found (`kraftd.runtime.policy_loader`).
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

import msgspec

from kraftd.metadata.config_schema import ResourceType
from kraftd.metadata.redaction import redacted_config_value


class PolicyViolation(Exception):  # noqa: N818 - the name that Kafka's policies raise
    """What a policy raises to refuse; its text goes to who asked, with POLICY_VIOLATION."""


class CreateTopicMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """A topic that is to be made: either with counts, or with replicas placed by hand."""

    topic: str
    num_partitions: int | None = None
    """None if replicas are placed by hand; the default has been put in if the request left it open."""
    replication_factor: int | None = None
    """The same."""
    replicas_assignments: Mapping[int, tuple[int, ...]] | None = None
    """The brokers of each partition, if they are placed by hand."""
    configs: Mapping[str, str]
    """The topic's own."""


class ConfigResource(NamedTuple):
    """What configs belong to."""

    type: ResourceType
    name: str
    """Empty for the default of all brokers."""


class AlterConfigMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """Configs that are to change, those of a topic that is made with configs too."""

    resource: ConfigResource
    configs: Mapping[str, str | None]
    """What each of them would be, None for one that is deleted. A config that keeps its value is not among
    them, unless it is a broker's; nor is what AlterConfigs removes by not naming it."""

    def __repr__(self) -> str:
        """Without the values of configs that may be passwords: it may go into a text that is shown."""
        shown = {
            name: value and redacted_config_value(self.resource.type, name, value)
            for name, value in self.configs.items()
        }
        return f"AlterConfigMetadata(resource={self.resource!r}, configs={shown!r})"


CreateTopicPolicy: TypeAlias = Callable[[CreateTopicMetadata], object]
AlterConfigPolicy: TypeAlias = Callable[[AlterConfigMetadata], object]


class Policies(msgspec.Struct, frozen=True):
    """The policies of a controller; None for none."""

    create_topic: CreateTopicPolicy | None = None
    alter_config: AlterConfigPolicy | None = None


class PolicyFailure(NamedTuple):
    """A policy raised something else than a `PolicyViolation`."""

    policy: str
    """The key that names it."""
    error: str
    at: str
    """File and line."""
