"""Asks the operator's policies, where a decision has nothing else against a topic or its configs.

What a policy raises costs the one topic or resource that it was asked about. A `PolicyViolation` is
POLICY_VIOLATION with its text; anything else is UNKNOWN_SERVER_ERROR without one, as in Kafka, and a line of
the log, which leaves the text out where a config that may be a password was asked about.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from kraftd.controller.context import Context
from kraftd.controller.failures import place_of
from kraftd.controller.policies import (
    AlterConfigMetadata,
    ConfigResource,
    CreateTopicMetadata,
    PolicyFailure,
    PolicyViolation,
)
from kraftd.controller.refused import RefusedError
from kraftd.errors import ErrorCode
from kraftd.metadata.config_schema import ResourceType
from kraftd.metadata.redaction import is_secret_config
from kraftd.protocol.brief import brief

CREATE_TOPIC_POLICY: Final = "create.topic.policy.class.name"
ALTER_CONFIG_POLICY: Final = "alter.config.policy.class.name"
_ERROR_BYTES_MAX: Final = 400
_TEXT_HIDDEN: Final = "its text may hold a secret config"


def check_topic(
    context: Context,
    topic: str,
    configs: Mapping[str, str],
    replicas: list[tuple[int, ...]],
    *,
    is_by_hand: bool,
) -> None:
    """Ask whether a topic may be made with these replicas, by partition.

    Raises:
        RefusedError: It may not, or the policy failed.
    """
    policy = context.settings.policies.create_topic
    if policy is None:
        return
    own = MappingProxyType(dict(configs))
    if is_by_hand:
        by_partition = MappingProxyType(dict(enumerate(replicas)))
        metadata = CreateTopicMetadata(topic=topic, replicas_assignments=by_partition, configs=own)
    else:
        metadata = CreateTopicMetadata(
            topic=topic, num_partitions=len(replicas), replication_factor=len(replicas[0]), configs=own
        )
    _ask(context, CREATE_TOPIC_POLICY, policy, metadata)


def check_configs(context: Context, kind: int, name: str, altered: Mapping[str, str | None]) -> None:
    """Ask whether these configs of a resource may be what they would be.

    Raises:
        RefusedError: They may not, or the policy failed.
    """
    policy = context.settings.policies.alter_config
    if policy is not None:
        resource = ConfigResource(ResourceType(kind), name)
        metadata = AlterConfigMetadata(resource=resource, configs=MappingProxyType(dict(altered)))
        has_secrets = any(is_secret_config(kind, each) for each in altered)
        _ask(context, ALTER_CONFIG_POLICY, policy, metadata, has_secrets=has_secrets)


def _ask(
    context: Context, key: str, policy: Callable[[Any], object], metadata: Any, *, has_secrets: bool = False
) -> None:
    # Whatever it raises costs what it was asked about, and nothing else (D-14): one that ends in `sys.exit`
    # would end this process, and that of the next leader when the client asks again, until no quorum is left.
    try:
        policy(metadata)
    except PolicyViolation as violation:
        raise RefusedError(ErrorCode.POLICY_VIOLATION, _text_of(violation)) from None
    except BaseException as error:  # noqa: BLE001 - somebody else's code
        text = _TEXT_HIDDEN if has_secrets else _text_of(error)
        shown = brief(f"{type(error).__name__}: {text}", _ERROR_BYTES_MAX)
        context.policy_failures.append(PolicyFailure(key, shown, place_of(error)))
        raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, "") from None


def _text_of(error: BaseException) -> str:
    """What an exception says, in UTF-8, whatever its class makes of that."""
    try:
        return str(error).encode(errors="replace").decode()
    except Exception:  # noqa: BLE001 - the same code's
        return "it has no text"
