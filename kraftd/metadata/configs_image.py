"""The dynamic configs of an image, and how records change them; what else is known of configs is in
`kraftd.metadata.parts.configs`.

Entries keep their hash next to their value, so that replacing one costs one hash, not two, and the tags of
their record that nothing here knows, for those who will. `ConfigsBuilder` writes many changes into one new
image; consecutive changes of one resource share its lookup.

Listing them from any place on costs no more than what is listed: the resources, and the names of a resource
that has many, are kept sorted beside the entries. Replacing a value touches neither.

Follows: Kafka's ConfigurationsDelta.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple, TypeAlias

import msgspec
from immutables import Map, MapMutation

from kraftd.metadata import config_runs
from kraftd.metadata.entity_hash import HASH_MASK, EntityHash, text_with_tags
from kraftd.metadata.sorted_keys import SortedKeys, sorted_in_steps
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
_STEP_RESOURCES: Final = 1_024
"""How many resources a step of `settling` folds: some ms."""


class ConfigsImage(msgspec.Struct, frozen=True):
    """Every dynamic config, by resource and name. `sum` is the sum of their hashes."""

    _resources: _Resources = Map()
    sum: EntityHash = 0
    _order: SortedKeys[Resource] = SortedKeys()
    _names: _Names = Map()
    """In order, for the resources that have many."""

    def get(self, resource_type: int, resource_name: str, name: str) -> str | None:
        """The value of one config, None if there is none."""
        entry = self._resources.get((resource_type, resource_name), _NO_ENTRIES).get(name)
        return None if entry is None else entry[0]

    def resources(self, resource_type: int | None = None) -> Iterator[Resource]:
        """Every resource that has configs, sorted; of one type only, if given."""
        return self._resources_since(
            (resource_type, "") if resource_type is not None else None, resource_type
        )

    def of(
        self, resource_type: int, resource_name: str, after: str | None = None
    ) -> Iterator[tuple[str, str]]:
        """The configs of one resource (name, value), sorted; those after a name only, if given."""
        resource = (resource_type, resource_name)
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
            for name, value in self.of(*resource, after[2] if after and resource == begun else None):
                yield ConfigEntry(*resource, name, value)

    def to_records(self) -> Iterator[ConfigRecord]:
        """The records that make these configs."""
        for resource in self.resources():
            entries = self._resources.get(resource, _NO_ENTRIES)
            for name in self._names_of(resource, entries, None):
                value, _, tags = entries[name]
                yield ConfigRecord(*resource, name, value, tags)

    def records_with_unknown_tags(self, unless_shared_with: "ConfigsImage") -> Iterator[ConfigRecord]:
        """The records with tags that nothing here knows, but for what another image holds as well."""
        if self._resources is unless_shared_with._resources:
            return
        for resource, entries in self._resources.items():
            if not self.shares(unless_shared_with, *resource):
                for name, (value, _, tags) in entries.items():
                    if tags:
                        yield ConfigRecord(*resource, name, value, tags)

    def shares(self, other: "ConfigsImage", resource_type: int, resource_name: str) -> bool:
        """Whether both hold the very same configs of one resource, which is cheap to see."""
        resource = (resource_type, resource_name)
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

    __slots__ = ("_base", "_changed", "_entries", "_names_changed", "_resource", "_sum", "_touched")

    _resource: Resource | None
    """Whose entries `_entries` are."""

    def __init__(self, base: ConfigsImage) -> None:
        self._base = base
        self._sum = base.sum
        self._touched: dict[Resource, MapMutation[str, _Entry]] = {}
        self._changed: dict[Resource, list[str]] = {}  # the names that were added or removed
        self._resource = None

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
                self._names_changed.append(name)
            return
        # `hash_of_text`, written out: this runs for every change on every node.
        text = f"config {resource_type} {len(resource_name)} {len(name)} {resource_name}{name}{value}"
        if tags:
            text = text_with_tags(text, tags)
        hash_ = int.from_bytes(blake2b(text.encode(), digest_size=16).digest(), "big")
        entries[name] = (value, hash_, tags)
        if old is None:
            self._sum += hash_
            self._names_changed.append(name)
        else:
            self._sum += hash_ - old[1]

    def put_values(self, values: Sequence[bytes], start: int) -> int:
        """Set configs by the values of their records, from a position on. Returns the position of the first
        that is not in the usual form.
        """
        last, end = config_runs.last_of_each(values, start)
        for value in last.values():
            self.put(*config_runs.decode(value))
        return end

    def remove(self, resource: Resource) -> None:
        """Remove all configs of a resource."""
        touched = self._touched.get(resource)
        entries = self._base._resources.get(resource, _NO_ENTRIES) if touched is None else touched.finish()
        self._sum -= sum(hash_ for _, hash_, _ in entries.values())
        self._touched[resource] = _NO_ENTRIES.mutate()
        self._changed.setdefault(resource, []).extend(entries)
        self._resource = None

    def settling(self) -> Iterator[None]:
        """Do ahead, in steps, what `image` would have to do. Nothing is changed after the first one."""
        come: list[Resource] = []
        gone: list[Resource] = []
        while self._touched:
            some = [self._touched.popitem() for _ in range(min(_STEP_RESOURCES, len(self._touched)))]
            self._base = self._folded(some, come, gone)
            yield
        if self._base._order:
            order = self._base._order.changed(come, gone)
        else:
            order = yield from sorted_in_steps(come)
        self._base = msgspec.structs.replace(self._base, _order=order)

    def image(self) -> ConfigsImage:
        """The image after all changes. Do not use this builder any more."""
        if not self._touched:
            return self._base
        come: list[Resource] = []
        gone: list[Resource] = []
        image = self._folded(self._touched.items(), come, gone)
        if come or gone:
            return msgspec.structs.replace(image, _order=image._order.changed(come, gone))
        return image

    def _folded(
        self,
        touched: Iterable[tuple[Resource, MapMutation[str, _Entry]]],
        come: list[Resource],
        gone: list[Resource],
    ) -> ConfigsImage:
        """The image with some of the resources that were touched. Those that came and went are still to be
        put in order.
        """
        resources, names = self._base._resources, self._base._names
        for resource, mutation in touched:
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
        return ConfigsImage(resources, self._sum & HASH_MASK, self._base._order, names)

    def _turn_to(self, resource: Resource) -> None:
        entries = self._touched.get(resource)
        if entries is None:
            entries = self._base._resources.get(resource, _NO_ENTRIES).mutate()
            self._touched[resource] = entries
        self._resource = resource
        self._entries: MapMutation[str, _Entry] = entries
        self._names_changed = self._changed.setdefault(resource, [])


def _with_names(names: _Names, resource: Resource, entries: _Entries, changed: Collection[str]) -> _Names:
    """The sorted names of those resources that have many, after names of one came or went."""
    known = names.get(resource)
    if len(entries) <= _FEW:
        return names if known is None else names.delete(resource)
    if known is None:
        return names.set(resource, SortedKeys[str]().changed(entries.keys()))
    come = [name for name in changed if name in entries]
    gone = [name for name in changed if name not in entries]
    return names.set(resource, known.changed(come, gone))
