"""The dynamic configs: the part of the image that ConfigRecords make, and the busiest one.

Entries keep their hash next to their value, so that replacing one costs one hash, not two, and the tags of
their record that nothing here knows, for those who will. `ConfigsFold` writes many changes into one new
image; consecutive changes of one resource share its lookup.

Listing them from any place on costs no more than what is listed: the resources, and the names of a resource
that has many, are kept sorted beside the entries. Replacing a value touches neither.
"""

from collections.abc import Collection, Iterator
from hashlib import blake2b
from typing import Final, NamedTuple, TypeAlias

import msgspec
from immutables import Map, MapMutation

from kraftd.metadata.entity_hash import HASH_MASK, EntityHash, tagged
from kraftd.metadata.sorted_keys import SortedKeys
from kraftd.records.messages import ConfigRecord, UnknownTags


class ConfigEntry(NamedTuple):
    """One dynamic config. `resource_type` stays a number: the log may hold types we have no name for."""

    resource_type: int
    resource_name: str
    name: str
    value: str


Resource: TypeAlias = tuple[int, str]
"""Type and name of what a config belongs to."""

ConfigPlace: TypeAlias = tuple[int, str, str]
"""A place in the order of all configs: type and name of a resource, name of a config."""

_Entry: TypeAlias = tuple[str, EntityHash, UnknownTags]
_Entries: TypeAlias = Map[str, _Entry]
_Resources: TypeAlias = Map[Resource, _Entries]

_Names: TypeAlias = Map[Resource, SortedKeys[str]]

_NO_ENTRIES: Final[_Entries] = Map()

_FEW: Final = 256
"""The names of a resource with no more configs than this are sorted when they are asked for."""


class ConfigsImage(msgspec.Struct, frozen=True):
    """Every dynamic config, by resource and name. `sum` is the sum of their hashes."""

    _resources: _Resources = Map()
    sum: EntityHash = 0
    _order: SortedKeys[Resource] = SortedKeys()
    _names: _Names = Map()
    """In order, for the resources that have many."""

    def __bool__(self) -> bool:
        return bool(self._resources)

    def get(self, resource: Resource, name: str) -> str | None:
        """The value of one config, None if there is none."""
        entry = self._resources.get(resource, _NO_ENTRIES).get(name)
        return None if entry is None else entry[0]

    def resources(self, resource_type: int | None = None) -> Iterator[Resource]:
        """Every resource that has configs, sorted; of one type only, if given."""
        return self._resources_since(
            (resource_type, "") if resource_type is not None else None, resource_type
        )

    def of(self, resource: Resource, after: str | None = None) -> Iterator[tuple[str, str]]:
        """The configs of one resource (name, value), sorted; those after a name only, if given."""
        entries = self._resources.get(resource, _NO_ENTRIES)
        for name in self._names_of(resource, entries, after):
            yield name, entries[name][0]

    def entries(
        self, resource_type: int | None = None, after: ConfigPlace | None = None
    ) -> Iterator[ConfigEntry]:
        """Every config, sorted; of one type of resource, and after a place only, if given."""
        begun = None if after is None else after[:2]
        start = begun
        if resource_type is not None:
            start = max(begun or (resource_type, ""), (resource_type, ""))
        for resource in self._resources_since(start, resource_type):
            for name, value in self.of(resource, after[2] if after and resource == begun else None):
                yield ConfigEntry(*resource, name, value)

    def to_records(self) -> Iterator[ConfigRecord]:
        """The records that make these configs."""
        for resource in self.resources():
            entries = self._resources.get(resource, _NO_ENTRIES)
            for name in self._names_of(resource, entries, None):
                value, _, tags = entries[name]
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

    def _resources_since(self, start: Resource | None, resource_type: int | None) -> Iterator[Resource]:
        for resource in self._order if start is None else self._order.since(start):
            if resource_type is not None and resource[0] != resource_type:
                return
            yield resource

    def _names_of(self, resource: Resource, entries: _Entries, after: str | None) -> Iterator[str]:
        names = self._names.get(resource)
        if names is None:
            return iter(sorted(name for name in entries if after is None or name > after))
        return iter(names) if after is None else (name for name in names.since(after) if name != after)


class ConfigsBuilder:
    """A scratch copy that changes are written into. One owner, mutable."""

    __slots__ = ("_base", "_changed", "_entries", "_moves", "_resource", "_sum", "_touched")

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
                self._moves.append(name)
            return
        # `hash_of_text`, written out: this runs for every change on every node.
        text = f"config {resource_type} {len(resource_name)} {len(name)} {resource_name}{name}{value}"
        if tags:
            text = tagged(text, tags)
        hash_ = int.from_bytes(blake2b(text.encode(), digest_size=16).digest(), "big")
        entries[name] = (value, hash_, tags)
        if old is None:
            self._sum += hash_
            self._moves.append(name)
        else:
            self._sum += hash_ - old[1]

    def remove(self, resource: Resource) -> None:
        """Remove all configs of a resource."""
        touched = self._touched.get(resource)
        entries = self._base._resources.get(resource, _NO_ENTRIES) if touched is None else touched.finish()
        self._sum -= sum(hash_ for _, hash_, _ in entries.values())
        self._touched[resource] = _NO_ENTRIES.mutate()
        self._changed.setdefault(resource, []).extend(entries)
        self._resource = None

    def image(self) -> ConfigsImage:
        """What has been written so far, as an image."""
        if not self._touched:
            return self._base
        resources, names = self._base._resources, self._base._names
        come, gone = [], []
        for resource, mutation in self._touched.items():
            entries = mutation.finish()
            if entries:
                if resource not in resources:
                    come.append(resource)
                resources = resources.set(resource, entries)
            elif resource in resources:
                gone.append(resource)
                resources = resources.delete(resource)
            moves = self._changed[resource]
            if moves:
                names = _with_names(names, resource, entries, moves)
        order = self._base._order.changed(come, gone) if come or gone else self._base._order
        image = ConfigsImage(resources, self._sum & HASH_MASK, order, names)
        self._load(image)
        return image

    def _load(self, base: ConfigsImage) -> None:
        self._base = base
        self._sum = base.sum
        self._touched: dict[Resource, MapMutation[str, _Entry]] = {}
        self._changed: dict[Resource, list[str]] = {}  # the names that came or went
        self._resource = None

    def _turn_to(self, resource: Resource) -> None:
        entries = self._touched.get(resource)
        if entries is None:
            entries = self._base._resources.get(resource, _NO_ENTRIES).mutate()
            self._touched[resource] = entries
        self._resource = resource
        self._entries: MapMutation[str, _Entry] = entries
        self._moves = self._changed.setdefault(resource, [])


def _with_names(names: _Names, resource: Resource, entries: _Entries, moves: Collection[str]) -> _Names:
    """The sorted names of those resources that have many, after names of one came or went."""
    known = names.get(resource)
    if len(entries) <= _FEW:
        return names if known is None else names.delete(resource)
    if known is None:
        return names.set(resource, SortedKeys[str]().changed(entries.keys()))
    come = [name for name in moves if name in entries]
    gone = [name for name in moves if name not in entries]
    return names.set(resource, known.changed(come, gone))
