"""What both logs amount to, compared as a whole: Kafka's log and its snapshot against kraftd's image.

Three images are folds by kraftd: of Kafka's log, of the newest snapshot that Kafka made of its own image, and
of kraftd's log. The snapshot has to be what Kafka's log leads to where it ends: Kafka and kraftd agree about
what records mean. Both logs have to lead to the same, once ids and epochs are called alike, so that no
difference between records went by unnoticed. And kraftd has to have the image that its log leads to: it tells
the hash of its own.

Left out is what a controller says of itself. What is a set in a record is sorted, as in `normal`.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from kraftd.metadata.image import EMPTY, MetadataImage, to_records
from kraftd.metadata.image_builder import ImageBuilder
from kraftd.metadata.image_diff import changes
from kraftd.records.batch import scan
from kraftd.records.frame import decode_record
from tests.conformance_kafka.account import Account
from tests.conformance_kafka.normal import EPOCHS, OWN_RECORDS, SETS_IN_RECORDS, shown
from tests.conformance_kafka.sides import Side, TwoSides

SHOWN_MAX = 10
_TIMES = frozenset({"issue_timestamp", "max_timestamp", "expiration_timestamp"})
"""Of tokens. They are left out here: the records say that they are nearly equal."""


class Names(msgspec.Struct):
    """What stands for what: ids and epochs of one side, and those of the other."""

    ids: Mapping[bytes, bytes]
    epochs: Mapping[int, int]
    tokens: Mapping[str, str]

    @staticmethod
    def between(one: Account, other: Account) -> "Names":
        """What the numbers of one side are on the other."""
        ids: dict[bytes, bytes] = {}
        for names, others in ((one.topic_names, other.topic_names), (one.acl_names, other.acl_names)):
            there = {name: number for number, name in others.items()}
            ids |= {number: there[name] for number, name in names.items() if name in there}
        there_epochs = {name: epoch for epoch, name in other.epoch_names.items()}
        epochs = {e: there_epochs[name] for e, name in one.epoch_names.items() if name in there_epochs}
        there_tokens = {name: token for token, name in other.token_names.items()}
        tokens = {t: there_tokens[name] for t, name in one.token_names.items() if name in there_tokens}
        return Names(ids, epochs, tokens)


SAME = Names({}, {}, {})


def folded(records: Iterable[Any]) -> MetadataImage:
    """The image that records lead to from the beginning of a log."""
    builder = ImageBuilder(EMPTY)
    for offset, record in enumerate(records):
        builder.apply(record, offset)
    return builder.image()


def alike(image: MetadataImage, names: Names = SAME) -> MetadataImage:
    """The image with the numbers of the other side, its sets in one order, and without controllers."""
    records = (_renamed(each, names) for each in to_records(image) if not isinstance(each, OWN_RECORDS))
    return folded(records)


def differing(one: MetadataImage, other: MetadataImage) -> list[str]:
    """What differs between two images, for people; empty if their hashes are equal."""
    if one.hash() == other.hash():
        return []
    found = [shown(msgspec.to_builtins(each)) for each in changes(one, other, show_secrets=True)]
    return found[:SHOWN_MAX] or ["the hashes differ, and nothing else"]


def complaint(pair: TwoSides) -> str:
    """What is not as it should be; empty if all images agree."""
    kafka, kraftd = pair
    of_kafka = folded(each.record for each in kafka.log)
    of_kraftd = folded(each.record for each in kraftd.log)
    if found := _differs_from_its_snapshot(kafka, pair.kafka_folder):
        return found
    told, own = pair.kraftd_hash(of_kraftd.hash()), of_kraftd.hash()
    if told != own:
        return f"kraftd tells of an image with the hash {told}; its log leads to {own}"
    found = differing(alike(of_kafka, Names.between(kafka.account, kraftd.account)), alike(of_kraftd))
    return f"the two logs lead to different images: {'; '.join(found)}" if found else ""


def snapshot_of(folder: Path) -> tuple[int, list[Any]] | None:
    """The newest snapshot in a directory of Kafka's: its end and its records; None if there is none."""
    names = sorted(each for each in folder.glob("*/*.checkpoint") if int(each.name.partition("-")[0]) > 0)
    if not names:
        return None
    return int(names[-1].name.partition("-")[0]), [*_records_of(names[-1].read_bytes())]


def _differs_from_its_snapshot(kafka: Side, folder: Path) -> str:
    found = snapshot_of(folder)
    if found is None:
        return ""
    end, records = found
    before = (each.record for each in kafka.log if each.offset < end)
    differences = differing(alike(folded(before)), alike(folded(records)))
    text = "; ".join(each for each in differences if not _is_kafkas_loss(each))
    return f"Kafka's snapshot at {end} is not what its log leads to here: {text}" if text else ""


def _is_kafkas_loss(difference: str) -> bool:
    """Whether a snapshot of Kafka's lacks a SCRAM credential. If records that are published together delete
    the last one of a mechanism and then make another, `ScramDelta.apply` puts that into a map which it has
    taken out of the image before, as the order of the names will have it.
    """
    told = msgspec.json.decode(difference)
    return bool(told["entity"] == "scram" and told["what"] == "removed")


def _records_of(data: bytes) -> Iterator[Any]:
    for batch in scan(data):
        if not batch.is_control:
            yield from map(decode_record, batch.values())


def _renamed(record: Any, names: Names) -> Any:
    value = _mapped(msgspec.to_builtins(record, builtin_types=(bytes,)), names)
    return msgspec.convert(value, type(record), builtin_types=(bytes,))


def _mapped(value: Any, names: Names, name: str = "") -> Any:
    match value:
        case dict():
            return {key: _mapped(each, names, key) for key, each in value.items()}
        case list() | tuple():
            inner = [_mapped(each, names, name) for each in value]
            return sorted(inner, key=shown) if name in SETS_IN_RECORDS else inner
        case bytes():
            return names.ids.get(value, value)
        case int() if name in EPOCHS:
            return names.epochs.get(value, value)
        case int() if name in _TIMES:
            return 0
        case str() if name == "token_id":
            return names.tokens.get(value, value)
    return value
