"""Everything taken away again, so that the next script begins as the first did, and no process is started.

Each side is asked by its own account, since a script was tried on it that ended with a difference.
"""

from collections.abc import Mapping
from random import Random
from typing import Any, TypeAlias

from kraftd.errors import ErrorCode
from kraftd.metadata.feature_levels import METADATA_VERSION
from kraftd.protocol import messages as m
from tests.conformance_kafka.account import Account
from tests.conformance_kafka.broker_requests import registration
from tests.conformance_kafka.drawing import Drawing
from tests.conformance_kafka.hmacs import hmac_of
from tests.conformance_kafka.operations import Operation
from tests.conformance_kafka.sides import Side, TwoSides

ANY_ACL = m.DeleteAclsRequestDeleteAclsFilter(
    resource_type_filter=1,
    resource_name_filter=None,
    pattern_type_filter=1,
    principal_filter=None,
    host_filter=None,
    operation=1,
    permission_type=1,
)
UPGRADE, SAFE_DOWNGRADE = 1, 2


class NotEmptyError(Exception):
    """A side cannot be brought back to where it began; the text says what is left."""


Configs: TypeAlias = Mapping[tuple[int, str], Mapping[str, str]]


def reset(pair: TwoSides, features: Mapping[str, int], configs: Configs) -> None:
    """Leave both with nothing but these levels of features and these configs.

    Raises:
        NotEmptyError: That did not succeed; new processes are needed.
    """
    for side in pair:
        _reset(side, features, configs)
        left = _left(side.account, configs)
        if left or side.account.features != features:
            raise NotEmptyError(f"{side.name} keeps {left or side.account.features}")
    if pair.kafka.account.next_producer_id != pair.kraftd.account.next_producer_id:
        raise NotEmptyError("the producer ids differ")


def _reset(side: Side, features: Mapping[str, int], configs: Configs) -> None:
    account = side.account
    _register_again(side)
    resources = tuple(
        _back(key, names, configs.get(key, {}))
        for key, names in account.configs.items()
        if names != configs.get(key, {})
    )
    if resources:
        side.client.ask(m.IncrementalAlterConfigsRequest(resources=resources))
    _unregister(side)  # before the topics: Kafka's controller may look for them
    _delete_topics(side)
    _register_again(side)  # may cost it the lead, if it still does: here, not in what is done next
    _unregister(side)
    entries = tuple(_no_quotas(entity, keys) for entity, keys in account.quotas.items() if keys)
    if entries:
        side.client.ask(m.AlterClientQuotasRequest(entries=entries))
    if account.scram:
        for user, mechanism in account.scram:
            deletion = m.AlterUserScramCredentialsRequestScramCredentialDeletion(user, mechanism)
            side.client.ask(m.AlterUserScramCredentialsRequest(deletions=(deletion,)))
    _end_tokens(side)
    if account.acls:
        side.client.ask(m.DeleteAclsRequest(filters=(ANY_ACL,)))
    updates = tuple(_level(name, level, account) for name, level in features.items())
    updates = tuple(
        each for each in updates if each.max_version_level != account.features.get(each.feature, 0)
    )
    if updates:
        side.client.ask(m.UpdateFeaturesRequest(feature_updates=updates))
    side.appended()
    account.forget_names()


def _register_again(side: Side) -> None:
    """Register the brokers that are gone: Kafka's controller lets their configs not be changed."""
    account = side.account
    for broker in [each for each in account.epochs if each not in account.brokers]:
        body = registration(Drawing(Random(0), account, {}), broker)
        side.ask(Operation("BrokerRegistration", 4, body))
    side.appended()


def _unregister(side: Side) -> None:
    for broker in [*side.account.brokers]:
        side.client.ask(m.UnregisterBrokerRequest(broker_id=broker))
    side.appended()


def _delete_topics(side: Side) -> None:
    states = tuple(
        m.DeleteTopicsRequestDeleteTopicState(topic_id=topic_id) for topic_id in side.account.by_id
    )
    if states:
        response = side.client.ask(m.DeleteTopicsRequest(topics=states, timeout_ms=60_000))
        codes = {each.error_code for each in response.responses}
        if codes != {ErrorCode.NONE}:
            raise NotEmptyError(f"{side.name} does not delete topics: {codes}")


def _end_tokens(side: Side) -> None:
    for token_id, record in side.account.tokens.items():
        body = {"hmac": f"@bytes:{hmac_of(token_id).hex()}", "expiry_time_period_ms": -1}
        owner = record.owner.partition(":")[2]
        side.ask(Operation("ExpireDelegationToken", 2, body, forwarded=True, principal=owner))


def _back(
    resource: tuple[int, str], names: Mapping[str, str], wanted: Mapping[str, str]
) -> m.IncrementalAlterConfigsRequestAlterConfigsResource:
    changes = dict.fromkeys(names) | dict(wanted)
    configs = tuple(
        m.IncrementalAlterConfigsRequestAlterableConfig(name, int(value is None), value)
        for name, value in changes.items()
    )
    return m.IncrementalAlterConfigsRequestAlterConfigsResource(*resource, configs)


def _no_quotas(
    entity: tuple[tuple[str, str | None], ...], keys: dict[str, float]
) -> m.AlterClientQuotasRequestEntryData:
    return m.AlterClientQuotasRequestEntryData(
        entity=tuple(m.AlterClientQuotasRequestEntityData(*each) for each in entity),
        ops=tuple(m.AlterClientQuotasRequestOpData(key=key, remove=True) for key in keys),
    )


def _level(name: str, level: int, account: Account) -> m.UpdateFeaturesRequestFeatureUpdateKey:
    is_up = level >= account.features.get(name, 0) or name == METADATA_VERSION
    kind = UPGRADE if is_up else SAFE_DOWNGRADE
    return m.UpdateFeaturesRequestFeatureUpdateKey(name, level, allow_downgrade=not is_up, upgrade_type=kind)


def _left(account: Account, configs: Configs) -> dict[str, Any]:
    left = {
        "topics": account.topics,
        "brokers": account.brokers,
        "configs": {k: names for k, names in account.configs.items() if names != configs.get(k, {})},
        "quotas": {key: names for key, names in account.quotas.items() if names},
        "users": account.scram,
        "ACLs": account.acls,
        "tokens": account.tokens,
    }
    return {name: value for name, value in left.items() if value}
