"""What differs in what the image keeps about clients: quotas, producer ids, ACLs and logins.

The other half of `words`. No secret is in any of these facts.
"""

from collections.abc import Iterator

from kraftd.forensics import kafka_names
from kraftd.forensics.facts import Fact
from kraftd.forensics.kafka_names import name_of
from kraftd.metadata.image_diff import Change, ImageDiff, R
from kraftd.records.messages import AccessControlEntryRecord, ClientQuotaRecord


def client_facts(delta: ImageDiff) -> Iterator[Fact]:
    """Every fact about clients."""
    yield from map(_quota, delta.client_quotas)
    for ids in delta.producer_ids:
        old, new = (None if one is None else one.next_producer_id for one in (ids.before, ids.after))
        text = f"next is {new}" + ("" if old is None else f" (was {old})")
        yield Fact("producer ids", "", "next", text, old, new)
    for acl in delta.acls:
        yield _came_or_went("acl", _acl_text(acl.before or acl.after), acl, "created", "removed")
    for scram in delta.scram_credentials:
        if (one := scram.after or scram.before) is not None:
            mechanism = name_of(kafka_names.SCRAM_MECHANISMS, one.mechanism)
            yield _came_or_went("scram", f"{mechanism} of user {one.name}", scram, "set", "removed")
    for token in delta.delegation_tokens:
        if (mark := token.after or token.before) is not None:
            name = f"{mark.token_id} of {mark.owner}"
            yield _came_or_went("token", name, token, "created", "removed", "renewed")
    for state in delta.zk_migration:
        old, new = (None if one is None else one.zk_migration_state for one in (state.before, state.after))
        text = f"state is {name_of(kafka_names.ZK_MIGRATION_STATES, -1 if new is None else new)}"
        yield Fact("zk migration", "", "state", text, old, new)


def _quota(change: Change[ClientQuotaRecord]) -> Fact:
    old, new = (None if one is None else one.value for one in (change.before, change.after))
    record = change.before or change.after
    entity = " ".join(
        f"{part.entity_type} {part.entity_name if part.entity_name is not None else '<default>'}"
        for part in (record.entity if record is not None else ())
    )
    name = f"{record.key if record is not None else ''} of {entity}"
    if new is None:
        return Fact("quota", name, "value", f"removed (was {old:g})", old, new)
    return Fact(
        "quota", name, "value", f"set to {new:g}" + ("" if old is None else f" (was {old:g})"), old, new
    )


def _acl_text(acl: AccessControlEntryRecord | None) -> str:
    if acl is None:
        return ""
    permission = name_of(kafka_names.ACL_PERMISSIONS, acl.permission_type)
    operation = name_of(kafka_names.ACL_OPERATIONS, acl.operation)
    resource = name_of(kafka_names.ACL_RESOURCES, acl.resource_type)
    star = "*" if acl.pattern_type == kafka_names.PREFIXED else ""
    where = f"{resource} {acl.resource_name}{star}"
    return f"{acl.principal} {permission} {operation} on {where} from {acl.host}"


def _came_or_went(
    entity: str,
    name: str,
    change: Change[R],
    came: str,
    went: str,
    changed: str = "changed",
) -> Fact:
    what = went if change.after is None else came if change.before is None else changed
    return Fact(entity, name, what, what)
