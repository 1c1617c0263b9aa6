"""The state as folders and files, as in Kafka's metadata shell.

    /brokers/ID  /controllers/ID  /features/NAME  /topicIds/ID  /producerIds/nextProducerId
    /topics/NAME/id  /topics/NAME/PARTITION  /configs/TYPE/RESOURCE/NAME  /clientQuotas/ENTITY/QUOTA
    /acls/ID  /scram/MECHANISM/USER  /delegationTokens/ID  /metadataQuorum/…  /local/…

`root_of` makes the tree of a state. Folders are opened when they are asked for, so that a large image costs
nothing until somebody looks. A file holds plain data: the body of the record that makes the entity, with
Kafka's names. Secrets are left out unless asked for. A slash in a name is written `%2F`, a percent sign
`%25`.

Follows: the layout of Kafka's shell before 3.5, which its users know; the files' content of the newer one.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import partial
from typing import TypeAlias

import msgspec

from kraftd.forensics import kafka_names
from kraftd.forensics.kafka_names import name_of
from kraftd.logtools.errors import UnanswerableError
from kraftd.logtools.quorum_facts import QuorumFacts
from kraftd.logtools.state import State
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.secrets import shown, shown_config
from kraftd.records.frame import AnyRecord, record_name, to_json
from kraftd.records.messages import ClientQuotaRecord
from kraftd.types import uuid_text

DEFAULT = "<default>"
"""What stands for the entity without a name."""

_WILD = frozenset("*?[")


class File(msgspec.Struct, frozen=True):
    """What `cat` shows: plain data."""

    data: object


class Folder(msgspec.Struct, frozen=True):
    """Names, and what each stands for. Both are asked for anew each time."""

    names: Callable[[], Iterable[str]]
    open: Callable[[str], "Node | None"]


Node: TypeAlias = File | Folder


class Place(msgspec.Struct, frozen=True):
    """A node and where it is, as `/topics/orders`."""

    path: str
    node: Node


def root_of(state: State, *, show_secrets: bool = False) -> Folder:
    """The tree of a state."""
    image = state.image
    records = partial(_records, show_secrets=show_secrets)
    sections: dict[str, Callable[[], Node]] = {
        "acls": lambda: records({uuid_text(acl.id): acl for acl in image.acls()}),
        "brokers": lambda: records({str(broker.broker_id): broker for broker in image.brokers()}),
        "clientQuotas": lambda: _quotas(image),
        "configs": lambda: _configs(image, show_secrets=show_secrets),
        "controllers": lambda: records({str(one.id): one.to_record() for one in image.controllers()}),
        "delegationTokens": lambda: records({token.token_id: token for token in image.delegation_tokens()}),
        "features": lambda: _files(dict(image.features())),
        "local": lambda: _files(_local(state)),
        "metadataQuorum": lambda: _files(_quorum(state.quorum)),
        "producerIds": lambda: _files(_producer_ids(image)),
        "scram": lambda: _scram(image, show_secrets=show_secrets),
        "topicIds": lambda: _files({uuid_text(topic.topic_id): topic.name for topic in image.topics()}),
        "topics": lambda: _topics(image),
    }
    return Folder(lambda: sections, lambda name: sections[name]() if name in sections else None)


def find(root: Folder, path: str) -> Node:
    """The node at an absolute path.

    Raises:
        UnanswerableError: There is none.
    """
    node: Node = root
    walked = ""
    for name in _parts(path):
        child = node.open(name) if isinstance(node, Folder) else None
        if child is None:
            raise UnanswerableError(_missing(node, walked, name))
        node, walked = child, f"{walked}/{name}"
    return node


def match(root: Folder, pattern: str) -> list[Place]:
    """Every node that an absolute path with wildcards (`*`, `?`, `[…]`) stands for.

    Raises:
        UnanswerableError: There is none.
    """
    if not _WILD & set(pattern):
        return [Place(normal(pattern), find(root, pattern))]
    found = [Place("", root)]
    for name in _parts(pattern):
        found = [child for place in found for child in _children(place, name)]
    if not found:
        raise UnanswerableError(f"there is nothing that fits {pattern}")
    return found


def _children(place: Place, pattern: str) -> Iterator[Place]:
    if not isinstance(place.node, Folder):
        return
    is_wild = bool(_WILD & set(pattern))
    names = [name for name in place.node.names() if fnmatchcase(name, pattern)] if is_wild else [pattern]
    for name in names:
        if (node := place.node.open(name)) is not None:
            yield Place(f"{place.path}/{name}", node)


def walk(place: Place) -> Iterator[Place]:
    """A node and everything below it, folders before what is in them."""
    yield place
    if isinstance(place.node, Folder):
        for name in place.node.names():
            child = place.node.open(name)
            if child is not None:
                yield from walk(Place(f"{place.path.rstrip('/')}/{name}", child))


def data_of(node: Node) -> object:
    """All of a node as plain data; a folder is an object."""
    if isinstance(node, File):
        return node.data
    return {name: data_of(child) for name in node.names() if (child := node.open(name)) is not None}


def _parts(path: str) -> list[str]:
    """The names on a path; `.` and `..` are understood."""
    parts: list[str] = []
    for name in path.split("/"):
        if name == "..":
            parts = parts[:-1]
        elif name not in ("", "."):
            parts.append(name)
    return parts


def normal(path: str) -> str:
    """An absolute path without `.`, `..` and needless slashes."""
    return "/" + "/".join(_parts(path))


def _missing(node: Node, walked: str, name: str) -> str:
    if isinstance(node, File):
        return f"{walked} is a file, there is nothing below it"
    near = get_close_matches(name, list(node.names()), n=1)
    hint = f"; did you mean {walked}/{near[0]}?" if near else ""
    return f"there is no {walked}/{name}{hint}"


def _named(name: str) -> str:
    return name.replace("%", "%25").replace("/", "%2F")


def _files(contents: Mapping[str, object]) -> Folder:
    named = {_named(name): data for name, data in contents.items()}
    return Folder(lambda: named, lambda name: File(named[name]) if name in named else None)


def _folders(folders: Mapping[str, Folder]) -> Folder:
    named = {_named(name): folder for name, folder in folders.items()}
    return Folder(lambda: named, named.get)


def _records(records: Mapping[str, AnyRecord], *, show_secrets: bool) -> Folder:
    named = {_named(name): record for name, record in records.items()}
    return Folder(lambda: named, lambda name: _file(named.get(name), show_secrets=show_secrets))


def _file(record: AnyRecord | None, *, show_secrets: bool) -> File | None:
    if record is None:
        return None
    return File((to_json(record) if show_secrets else shown(record))["data"])


def _topics(image: MetadataImage) -> Folder:
    return Folder(
        lambda: (_named(topic.name) for topic in image.topics()),
        lambda name: _topic(image, name),
    )


def _topic(image: MetadataImage, name: str) -> Folder | None:
    topic_id = image.topic_id(name)
    if topic_id is None:
        return None

    def names() -> Iterator[str]:
        yield "id"
        yield from (str(partition.partition_id) for partition in image.partitions(topic_id))

    def open_file(file: str) -> File | None:
        if file == "id":
            return File(uuid_text(topic_id))
        number = int(file) if file.isascii() and file.isdecimal() and len(file) < 11 else -1
        return _file(image.partition(topic_id, number), show_secrets=True)

    return Folder(names, open_file)


def _configs(image: MetadataImage, *, show_secrets: bool) -> Folder:
    kinds: dict[int, dict[str, Folder]] = {}
    for kind, resource in image.config_resources():
        folder = _configs_of(image, kind, resource, show_secrets=show_secrets)
        kinds.setdefault(kind, {})[resource or DEFAULT] = folder
    return _folders(
        {name_of(kafka_names.CONFIG_RESOURCES, kind): _folders(folders) for kind, folders in kinds.items()}
    )


def _configs_of(image: MetadataImage, kind: int, resource: str, *, show_secrets: bool) -> Folder:
    def open_file(name: str) -> File | None:
        value = image.config(kind, resource, name.replace("%2F", "/").replace("%25", "%"))
        if value is None:
            return None
        return File(value if show_secrets else shown_config(kind, name, value))

    return Folder(lambda: (_named(name) for name, _ in image.configs_of(kind, resource)), open_file)


def quota_entity(record: ClientQuotaRecord) -> str:
    """Whom a quota is for, as `client-id=c1,user=<default>`."""
    return ",".join(
        f"{part.entity_type}={DEFAULT if part.entity_name is None else part.entity_name}"
        for part in record.entity
    )


def _quotas(image: MetadataImage) -> Folder:
    entities: dict[str, dict[str, object]] = {}
    for record in image.client_quotas():
        entities.setdefault(quota_entity(record), {})[record.key] = record.value
    return _folders({name: _files(quotas) for name, quotas in entities.items()})


def _scram(image: MetadataImage, *, show_secrets: bool) -> Folder:
    mechanisms: dict[str, dict[str, AnyRecord]] = {}
    for record in image.scram_credentials():
        mechanism = name_of(kafka_names.SCRAM_MECHANISMS, record.mechanism)
        mechanisms.setdefault(mechanism, {})[record.name] = record
    folders = {name: _records(users, show_secrets=show_secrets) for name, users in mechanisms.items()}
    return _folders(folders)


def _producer_ids(image: MetadataImage) -> dict[str, object]:
    next_id = image.next_producer_id()
    return {} if next_id is None else {"nextProducerId": next_id}


def _quorum(facts: QuorumFacts) -> dict[str, object]:
    return {
        "leader": {"leaderId": facts.leader_id, "leaderEpoch": facts.leader_epoch},
        "kraftVersion": facts.kraft_version,
        "voters": [
            {
                "id": voter.id,
                "directoryId": uuid_text(voter.directory_id),
                "endpoints": list(voter.endpoints),
            }
            for voter in facts.voters
        ],
    }


def _local(state: State) -> dict[str, object]:
    snapshot, transaction = state.snapshot, state.image.transaction
    return {
        "offset": state.end_offset,
        "epoch": state.epoch,
        "timestamp": state.timestamp_ms,
        "snapshot": None if snapshot is None else {"offset": snapshot.offset, "epoch": snapshot.epoch},
        "hash": state.image.hash(),
        "isPartial": state.image.is_partial,
        "unknownKinds": {record_name(kind): count for kind, count in state.image.unknown_kinds()},
        "transaction": None
        if transaction is None
        else {"beginOffset": transaction.begin_offset, "name": transaction.name},
    }
