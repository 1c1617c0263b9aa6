"""The dynamic configs, the busiest part of the image.

Entries keep their hash next to their value, so that replacing one costs one hash, not two, and the tags of
their record that nothing here knows, for those who will. `ConfigsBuilder` writes many changes into one new
image; consecutive changes of one resource share its lookup.

Listing them from any place on costs no more than what is listed: the resources, and the names of a resource
that has many, are kept sorted beside the entries. Replacing a value touches neither.

It is long because a part of the image is one module: its state, how records change it, what differs between
two of it, and what people are shown.

Follows: Kafka's ConfigurationsDelta.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple, TypeAlias

import msgspec
from immutables import Map, MapMutation

from kraftd.metadata import config_runs, kafka_names
from kraftd.metadata.config_schema import ResourceType
from kraftd.metadata.entity_hash import HASH_MASK, EntityHash, text_with_tags
from kraftd.metadata.kafka_names import name_of
from kraftd.metadata.part import (
    Builder,
    Image,
    ImageComparison,
    ImageTable,
    ImageView,
    PartWithBuilder,
    RecordKind,
)
from kraftd.metadata.redaction import is_secret_config, redacted_config_value
from kraftd.metadata.sorted_keys import SortedKeys
from kraftd.metadata.views import (
    DEFAULT,
    Change,
    ColumnType,
    File,
    Folder,
    Row,
    TextTable,
    TreeNode,
    file_name,
    folders,
)
from kraftd.records.frame import AnyRecord
from kraftd.records.messages import ConfigRecord, Record, RemoveTopicRecord, UnknownTags
from kraftd.types import Offset


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

    def image(self) -> ConfigsImage:
        """The image after all changes. Do not use this builder any more."""
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
        return ConfigsImage(resources, self._sum & HASH_MASK, order, names)

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


class ConfigChange(msgspec.Struct, frozen=True):
    """A config changed; None is "not set"."""

    resource_type: int
    resource_name: str
    name: str
    before: str | None
    after: str | None


def _apply(builder: Builder, record: ConfigRecord, _offset: Offset) -> None:
    builder.builder_of(CONFIGS).put(
        record.resource_type, record.resource_name, record.name, record.value, record.unknown_tags
    )


def _put_values(builder: Builder, values: Sequence[bytes], start: int) -> int:
    return builder.builder_of(CONFIGS).put_values(values, start)


def _secrets(record: ConfigRecord) -> tuple[str, ...]:
    is_secret = record.value is not None and is_secret_config(record.resource_type, record.name)
    return ("value",) if is_secret else ()


def _describe_record(record: ConfigRecord, comparison: ImageComparison) -> Iterator[Change]:
    """What differs of the one config that a record names."""
    key = (record.resource_type, record.resource_name, record.name)
    old, new = comparison.before[CONFIGS].get(*key), comparison.after[CONFIGS].get(*key)
    if old != new:
        yield _described(ConfigChange(*key, old, new), comparison)


def _described(change: ConfigChange, comparison: ImageComparison) -> Change:
    kind, name = change.resource_type, change.name
    old, new = (
        value if value is None or comparison.show_secrets else redacted_config_value(kind, name, value)
        for value in (change.before, change.after)
    )
    if new is None:
        text = f"removed (was {old})"
    else:
        text = f"set to {new}" + ("" if old is None else f" (was {old})")
    return Change("config", f"{name} of {_owner(kind, change.resource_name)}", "value", text, old, new)


def _owner(resource_type: int, resource_name: str) -> str:
    """Whose config it is, as `topic orders`, `broker 2`, or `cluster` for the default of all brokers."""
    if resource_type == ResourceType.BROKER and not resource_name:
        return "cluster"
    return f"{name_of(kafka_names.CONFIG_RESOURCES, resource_type)} {resource_name}"


def _rows(view: ImageView) -> Iterator[Row]:
    for entry in view.image[CONFIGS].entries():
        yield {
            "resource_type": _type_in_rows(entry.resource_type),
            "resource_name": entry.resource_name,
            "name": entry.name,
            "value": _visible_value(entry, view),
        }


def _type_in_rows(number: int) -> str:
    """The name of a type of resource; one that has no name keeps its number."""
    try:
        return ResourceType(number).name.lower()
    except ValueError:
        return str(number)


def _visible_value(entry: ConfigEntry, view: ImageView) -> str:
    if view.show_secrets:
        return entry.value
    return redacted_config_value(entry.resource_type, entry.name, entry.value)


class _ConfigFilter(msgspec.Struct, frozen=True):
    """What happened to configs of a name, or to one of them, as `retention.ms of topic orders`."""

    name: str

    def matches_record(self, record: AnyRecord) -> bool:
        """Whether a record may change the config; a topic's configs go with it."""
        config = self.name.partition(" of ")[0]
        return isinstance(record, RemoveTopicRecord) or (
            isinstance(record, ConfigRecord) and record.name == config
        )

    def matches_change(self, change: Change) -> bool:
        name = change.name
        return change.entity == "config" and self.name in (name, name.partition(" of ")[0])


class _ConfigSubject:
    word = "config"
    list_order = 1
    with_consequences = True

    def names(self, image: Image) -> Iterable[str]:
        return (config.name for config in image[CONFIGS].entries())

    def filter_for(self, name: str, _image: Image) -> _ConfigFilter:
        return _ConfigFilter(name)


class Configs(PartWithBuilder[ConfigsImage, tuple[ConfigChange, ...], ConfigsBuilder]):
    """Configs by resource and name."""

    empty = ConfigsImage()
    kinds = (
        RecordKind(
            ConfigRecord,
            _apply,
            levels=(1,),
            secrets=_secrets,
            is_always_accepted=True,
            apply_values=_put_values,
            describe=_describe_record,
        ),
    )
    tables = (
        ImageTable(
            "configs",
            "a dynamic config of the image, its value redacted where it may be a password",
            (
                ("resource_type", ColumnType.TEXT),
                ("resource_name", ColumnType.TEXT),
                ("name", ColumnType.TEXT),
                ("value", ColumnType.TEXT),
            ),
            _rows,
            list_order=0,
        ),
    )
    history_subjects = (_ConfigSubject(),)

    def builder(self, state: ConfigsImage) -> ConfigsBuilder:
        return ConfigsBuilder(state)

    def to_records(self, image: Image) -> Iterator[ConfigRecord]:
        return image[self].to_records()

    def diff(self, before: ConfigsImage, after: ConfigsImage) -> tuple[ConfigChange, ...]:
        return tuple(_changes(before, after))

    def describe(
        self, differences: tuple[ConfigChange, ...], comparison: ImageComparison
    ) -> Iterator[Change]:
        for change in differences:
            resource = (change.resource_type, change.resource_name)
            if comparison.with_consequences or resource not in comparison.removed_resources:
                yield _described(change, comparison)

    def records_with_unknown_tags(
        self, state: ConfigsImage, other: ConfigsImage
    ) -> Mapping[tuple[str, int, str], ConfigRecord]:
        return {
            (config.resource_name, config.resource_type, config.name): config
            for config in state.records_with_unknown_tags(unless_shared_with=other)
        }

    def entity_and_name(self, record: Record) -> tuple[str, str]:
        if not isinstance(record, ConfigRecord):
            return "config", ""
        return "config", f"{record.name} of {_owner(record.resource_type, record.resource_name)}"

    def sections(self, view: ImageView) -> Mapping[str, Callable[[], TreeNode]]:
        return {"configs": lambda: _folder(view)}

    def overview_count(self, image: Image) -> tuple[str, int]:
        return "/configs", sum(1 for _ in image[self].entries())

    def text_table(self, view: ImageView, path: Sequence[str]) -> TextTable | None:
        """All configs in the folder of a type, of a resource or of all; a single value is a file."""
        within = path[1:]
        if len(within) > 2:
            return None
        rows = [
            (_owner(entry.resource_type, entry.resource_name), entry.name, _visible_value(entry, view))
            for entry in view.image[self].entries()
            if _is_within(entry, within)
        ]
        return TextTable(("Entity", "Name", "Value"), rows)


def _changes(before: ConfigsImage, after: ConfigsImage) -> Iterator[ConfigChange]:
    if before is after:
        return
    for resource in sorted({*before.resources(), *after.resources()}):
        if before.shares(after, *resource):
            continue
        old, new = dict(before.of(*resource)), dict(after.of(*resource))
        for name in sorted({*old, *new}):
            if old.get(name) != new.get(name):
                yield ConfigChange(*resource, name, old.get(name), new.get(name))


def _is_within(entry: ConfigEntry, within: Sequence[str]) -> bool:
    names = (name_of(kafka_names.CONFIG_RESOURCES, entry.resource_type), entry.resource_name or DEFAULT)
    return all(name == wanted for name, wanted in zip(names, within, strict=False))


def _folder(view: ImageView) -> Folder:
    """A folder for each type of resource, in it one for each resource."""
    types: dict[int, dict[str, Folder]] = {}
    for resource_type, resource_name in view.image[CONFIGS].resources():
        folder = _resource_folder(view, resource_type, resource_name)
        types.setdefault(resource_type, {})[resource_name or DEFAULT] = folder
    return folders(
        {name_of(kafka_names.CONFIG_RESOURCES, kind): folders(found) for kind, found in types.items()}
    )


def _resource_folder(view: ImageView, resource_type: int, resource_name: str) -> Folder:
    configs = view.image[CONFIGS]

    def open_file(file: str) -> File | None:
        name = file.replace("%2F", "/").replace("%25", "%")
        value = configs.get(resource_type, resource_name, name)
        if value is None:
            return None
        return File(value if view.show_secrets else redacted_config_value(resource_type, name, value))

    return Folder(
        lambda: (file_name(name) for name, _ in configs.of(resource_type, resource_name)), open_file
    )


CONFIGS: Final = Configs()
