"""The dynamic configs: the part of the image that ConfigRecords make, and the busiest one.

Entries keep their mark next to their value, so that replacing one costs one hash, not two, and the tags of
their record that nothing here knows, for those who will. `ConfigsFold` writes many changes into one new
image; consecutive changes of one resource share its lookup.
"""

from collections.abc import Iterator
from hashlib import blake2b
from typing import Final, NamedTuple, TypeAlias

import msgspec
from immutables import Map, MapMutation

from kraftd.metadata.mark import MARK_MASK, Mark, tagged
from kraftd.records.messages import ConfigRecord, UnknownTags


class ConfigEntry(NamedTuple):
    """One dynamic config. `resource_type` stays a number: the log may hold types we have no name for."""

    resource_type: int
    resource_name: str
    name: str
    value: str


Resource: TypeAlias = tuple[int, str]
"""Type and name of what a config belongs to."""

_Entry: TypeAlias = tuple[str, Mark, UnknownTags]
_Entries: TypeAlias = Map[str, _Entry]
_Resources: TypeAlias = Map[Resource, _Entries]

_NO_ENTRIES: Final[_Entries] = Map()


class ConfigsImage(msgspec.Struct, frozen=True):
    """Every dynamic config, by resource and name. `sum` is the sum of their marks."""

    _resources: _Resources = Map()
    sum: Mark = 0

    def __bool__(self) -> bool:
        return bool(self._resources)

    def get(self, resource: Resource, name: str) -> str | None:
        """The value of one config, None if there is none."""
        entry = self._resources.get(resource, _NO_ENTRIES).get(name)
        return None if entry is None else entry[0]

    def resources(self, resource_type: int | None = None) -> Iterator[Resource]:
        """Every resource that has configs, sorted; of one type only, if given."""
        resources = self._resources.keys()
        return iter(sorted(r for r in resources if resource_type is None or r[0] == resource_type))

    def of(self, resource: Resource) -> Iterator[tuple[str, str]]:
        """The configs of one resource (name, value), sorted."""
        entries = self._resources.get(resource, _NO_ENTRIES)
        return iter(sorted((name, entry[0]) for name, entry in entries.items()))

    def entries(self, resource_type: int | None = None) -> Iterator[ConfigEntry]:
        """Every config, sorted; of one type of resource only, if given."""
        for resource in self.resources(resource_type):
            for name, value in self.of(resource):
                yield ConfigEntry(*resource, name, value)

    def to_records(self) -> Iterator[ConfigRecord]:
        """The records that make these configs."""
        for resource in self.resources():
            entries = self._resources.get(resource, _NO_ENTRIES)
            for name, (value, _, tags) in sorted(entries.items()):
                yield ConfigRecord(*resource, name, value, tags)

    def tagged(self, unless_shared_with: "ConfigsImage") -> Iterator[ConfigRecord]:
        """The records with tags that nothing here knows, but for what another image holds as well."""
        if self._resources is unless_shared_with._resources:
            return
        for resource, entries in self._resources.items():
            if not self.shares(unless_shared_with, resource):
                for name, (value, _, tags) in entries.items():
                    if tags:
                        yield ConfigRecord(*resource, name, value, tags)

    def shares(self, other: "ConfigsImage", resource: Resource) -> bool:
        """Whether both hold the very same configs of one resource, which is cheap to see."""
        return self._resources.get(resource, _NO_ENTRIES) is other._resources.get(resource, _NO_ENTRIES)


class ConfigsFold:
    """A scratch copy that changes are written into. One owner, mutable."""

    __slots__ = ("_base", "_entries", "_resource", "_sum", "_touched")

    _resource: Resource | None
    """Whose entries `_entries` are."""

    def __init__(self, base: ConfigsImage) -> None:
        self._load(base)

    def put(
        self,
        resource_type: int,
        resource_name: str,
        name: str,
        value: str | None,
        tags: UnknownTags = (),
    ) -> None:
        """Set a config, or with None remove it."""
        resource = (resource_type, resource_name)
        if resource != self._resource:
            self._turn_to(resource)
        entries = self._entries
        old = entries.get(name)
        if value is None:
            if old is not None:
                del entries[name]
                self._sum -= old[1]
            return
        # `mark_of`, written out: this runs for every change on every node.
        text = f"config {resource_type} {len(resource_name)} {len(name)} {resource_name}{name}{value}"
        if tags:
            text = tagged(text, tags)
        mark = int.from_bytes(blake2b(text.encode(), digest_size=16).digest(), "big")
        entries[name] = (value, mark, tags)
        self._sum += mark if old is None else mark - old[1]

    def remove(self, resource: Resource) -> None:
        """Remove all configs of a resource."""
        touched = self._touched.get(resource)
        entries = self._base._resources.get(resource, _NO_ENTRIES) if touched is None else touched.finish()
        self._sum -= sum(mark for _, mark, _ in entries.values())
        self._touched[resource] = _NO_ENTRIES.mutate()
        self._resource = None

    def image(self) -> ConfigsImage:
        """What has been written so far, as an image."""
        if not self._touched:
            return self._base
        resources = self._base._resources
        for resource, mutation in self._touched.items():
            entries = mutation.finish()
            if entries:
                resources = resources.set(resource, entries)
            elif resource in resources:
                resources = resources.delete(resource)
        image = ConfigsImage(resources, self._sum & MARK_MASK)
        self._load(image)
        return image

    def _load(self, base: ConfigsImage) -> None:
        self._base = base
        self._sum = base.sum
        self._touched: dict[Resource, MapMutation[str, _Entry]] = {}
        self._resource = None

    def _turn_to(self, resource: Resource) -> None:
        entries = self._touched.get(resource)
        if entries is None:
            entries = self._base._resources.get(resource, _NO_ENTRIES).mutate()
            self._touched[resource] = entries
        self._resource = resource
        self._entries: MapMutation[str, _Entry] = entries
