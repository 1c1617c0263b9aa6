"""The dynamic configs, the busiest part of the image.

The state and its builder are in `kraftd.metadata.configs_image`. What is here: which records change them and
how, what differs between two states, and what people are shown.

Follows: Kafka's ConfigurationsDelta.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from kraftd.metadata import kafka_names
from kraftd.metadata.config_schema import ResourceType
from kraftd.metadata.configs_image import ConfigEntry, ConfigsBuilder, ConfigsImage
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
from kraftd.records.messages import ConfigRecord, Record, RemoveTopicRecord
from kraftd.types import Offset


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
