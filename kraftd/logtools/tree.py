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

from collections.abc import Callable, Iterator
from difflib import get_close_matches
from fnmatch import fnmatchcase

import msgspec

from kraftd.logtools.errors import UnanswerableError
from kraftd.logtools.quorum_facts import QuorumFacts
from kraftd.logtools.state import State
from kraftd.metadata.part import ImageView
from kraftd.metadata.registry import PARTS
from kraftd.metadata.views import File, Folder, TreeNode, files
from kraftd.records.frame import record_name
from kraftd.types import uuid_text

_WILD = frozenset("*?[")


class Place(msgspec.Struct, frozen=True):
    """A node and where it is, as `/topics/orders`."""

    path: str
    node: TreeNode


def root_of(state: State, *, show_secrets: bool = False) -> Folder:
    """The tree of a state: the sections of every part of the image, and two of the log's own."""
    view = ImageView(state.image, show_secrets)
    sections: dict[str, Callable[[], TreeNode]] = {
        "local": lambda: files(_local(state)),
        "metadataQuorum": lambda: files(_quorum(state.quorum)),
    }
    for part in PARTS:
        sections |= part.sections(view)
    return Folder(lambda: sorted(sections), lambda name: sections[name]() if name in sections else None)


def find(root: Folder, path: str) -> TreeNode:
    """The node at an absolute path.

    Raises:
        UnanswerableError: There is none.
    """
    node: TreeNode = root
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


def data_of(node: TreeNode) -> object:
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


def _missing(node: TreeNode, walked: str, name: str) -> str:
    if isinstance(node, File):
        return f"{walked} is a file, there is nothing below it"
    near = get_close_matches(name, list(node.names()), n=1)
    hint = f"; did you mean {walked}/{near[0]}?" if near else ""
    return f"there is no {walked}/{name}{hint}"


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
