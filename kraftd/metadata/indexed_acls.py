"""The access control entries of an image, by id and by what they are about.

A decision asks for the entries of a resource that speak of one principal and one host. So they are kept by
type, pattern and name of the resource, and there by principal and host; and the lengths of the prefixes of
each type are counted, since a name has to be looked up once for each length. All of it is kept as records
are applied: a new entry costs a few look-ups, and two images share the rest.

Not here: what the entries allow (`kraftd.controller.authorizer`), which of them a filter means
(`kraftd.controller.acls.filters`).
"""

from collections.abc import Iterator
from typing import Final, TypeAlias

from immutables import Map

from kraftd.metadata.acl_kinds import WILDCARD, AclPattern
from kraftd.metadata.entities import Entities, hash_of_record
from kraftd.records.messages import AccessControlEntryRecord
from kraftd.types import Uuid

Acl: TypeAlias = AccessControlEntryRecord
"""One access control entry, as the record that makes it."""

Resource: TypeAlias = tuple[int, int, str]
"""Type, pattern type and name."""

_Who: TypeAlias = tuple[str, str]
"""Principal and host."""

AclsOfResource: TypeAlias = Map[_Who, tuple[Acl, ...]]
"""The entries of one resource, by principal and host; of equal ones, by id."""

_NONE: Final[AclsOfResource] = Map()
_NO_LENGTHS: Final[Map[int, int]] = Map()
_LITERAL: Final = int(AclPattern.LITERAL)
_PREFIXED: Final = int(AclPattern.PREFIXED)


class IndexedAcls(Entities[Uuid, Acl], frozen=True):
    """Access control entries by id, and by resource."""

    _resources: Map[Resource, AclsOfResource] = Map()
    _prefix_lengths: Map[int, Map[int, int]] = Map()
    """By type of resource: how many prefixes have entries, by their length in characters."""

    def put(self, key: Uuid, record: Acl) -> "IndexedAcls":
        """Set an entry, in the place of what had its id."""
        base = self.remove(key)
        resource = _resource_of(record)
        acls = base._resources.get(resource)
        lengths = base._prefix_lengths
        if acls is None:
            acls = _NONE
            if resource[1] == _PREFIXED:
                lengths = _counted(lengths, resource, 1)
        who = record.principal, record.host
        there = sorted((*acls.get(who, ()), record), key=_id)
        return IndexedAcls(
            base._records.set(key, record),
            base.sum + hash_of_record(record, base.hash_version),
            base.hash_version,
            base._resources.set(resource, acls.set(who, tuple(there))),
            lengths,
        )

    def remove(self, key: Uuid) -> "IndexedAcls":
        """Remove an entry if it is there."""
        record = self._records.get(key)
        if record is None:
            return self
        resource = _resource_of(record)
        acls = self._resources[resource]
        who = record.principal, record.host
        left = tuple(acl for acl in acls[who] if acl.id != key)
        acls = acls.set(who, left) if left else acls.delete(who)
        lengths = self._prefix_lengths
        if not acls and resource[1] == _PREFIXED:
            lengths = _counted(lengths, resource, -1)
        return IndexedAcls(
            self._records.delete(key),
            self.sum - hash_of_record(record, self.hash_version),
            self.hash_version,
            self._resources.set(resource, acls) if acls else self._resources.delete(resource),
            lengths,
        )

    def resources(self) -> Iterator[AclsOfResource]:
        """The entries of every resource, in no order."""
        return iter(self._resources.values())

    def of(self, resource: Resource) -> AclsOfResource:
        """The entries of exactly this type, pattern and name."""
        return self._resources.get(resource, _NONE)

    def about(self, resource_type: int, name: str) -> Iterator[AclsOfResource]:
        """The entries that speak of a resource: of its name, of `*`, and of what its name begins with.

        Those of `*` do not speak of another name that begins with it: it is a quirk of Kafka's, whose
        brokers decide so.
        """
        resources = self._resources
        found = resources.get((resource_type, _LITERAL, name))
        if found is not None:
            yield found
        if not name.startswith(WILDCARD):
            found = resources.get((resource_type, _LITERAL, WILDCARD))
            if found is not None:
                yield found
        for length in self._prefix_lengths.get(resource_type, _NO_LENGTHS):
            if length <= len(name):
                found = resources.get((resource_type, _PREFIXED, name[:length]))
                if found is not None:
                    yield found

    def lookups(self, resource_type: int) -> int:
        """How often `about` and `matching` look something up."""
        return 2 + len(self._prefix_lengths.get(resource_type, _NO_LENGTHS))

    def matching(self, resource_type: int, name: str) -> Iterator[AclsOfResource]:
        """The entries that a filter for whatever matches a name means: `about` without its quirk."""
        if name.startswith(WILDCARD) and name != WILDCARD:
            yield self.of((resource_type, _LITERAL, WILDCARD))
        yield from self.about(resource_type, name)


def _resource_of(acl: Acl) -> Resource:
    return acl.resource_type, acl.pattern_type, acl.resource_name


def _counted(lengths: Map[int, Map[int, int]], prefix: Resource, by: int) -> Map[int, Map[int, int]]:
    """The counts with one prefix more or less."""
    resource_type, _, name = prefix
    counts = lengths.get(resource_type, _NO_LENGTHS)
    count = counts.get(len(name), 0) + by
    counts = counts.set(len(name), count) if count else counts.delete(len(name))
    return lengths.set(resource_type, counts) if counts else lengths.delete(resource_type)


def _id(acl: Acl) -> Uuid:
    return acl.id
