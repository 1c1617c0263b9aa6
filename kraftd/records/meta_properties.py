"""The `meta.properties` file: which cluster, node and directory this is, as Java properties.

Version 0, of old brokers, has no version line and calls the node `broker.id`; it is read, never written.
"""

import javaproperties
import msgspec

from kraftd.errors import MalformedError
from kraftd.types import ZERO_UUID, NodeId, Uuid, parse_uuid, uuid_text


class MetaProperties(msgspec.Struct, frozen=True):
    """What the file says. `directory_id` is None if it was never given one."""

    cluster_id: str | None
    node_id: NodeId | None
    directory_id: Uuid | None = None
    version: int = 1

    @property
    def problem(self) -> str:
        """What a file that can be read lacks, as one of version 0 may; empty if nothing."""
        if self.cluster_id is None or self.node_id is None:
            return "does not say which cluster and which node this is"
        return ""


def encode(properties: MetaProperties) -> bytes:
    """The file's bytes, in version 1."""
    if properties.cluster_id is None or properties.node_id is None:
        raise ValueError("version 1 of meta.properties needs a cluster id and a node id")
    values = {
        "version": "1",
        "cluster.id": properties.cluster_id,
        "node.id": str(properties.node_id),
    }
    if properties.directory_id is not None:
        values["directory.id"] = uuid_text(properties.directory_id)
    return javaproperties.dumps(values, timestamp=False).encode("latin-1")


def decode(data: bytes) -> MetaProperties:
    """Read the file.

    Raises:
        MalformedError: It is no properties file, of another version, or lacks what its version needs.
    """
    try:
        values = javaproperties.loads(data.decode("latin-1"))
    except ValueError as error:
        raise MalformedError(str(error)) from None
    version = _number(values, "version") or 0
    if version not in {0, 1}:
        raise MalformedError(f"version {version}; only 0 and 1 are known")
    cluster_id = values.get("cluster.id")
    node_id = _number(values, "node.id" if version else "broker.id")
    if version == 1 and (cluster_id is None or node_id is None):
        missing = "cluster.id" if cluster_id is None else "node.id"
        raise MalformedError(f"version 1 needs {missing}")
    return MetaProperties(
        cluster_id=cluster_id, node_id=node_id, directory_id=_directory(values), version=version
    )


def _number(values: dict[str, str], key: str) -> int | None:
    text = values.get(key)
    if text is None:
        return None
    if not text.strip().isascii() or not text.strip().isdigit() or len(text.strip()) > 10:
        raise MalformedError(f"{key}={text!r} is not a number")
    return int(text)


def _directory(values: dict[str, str]) -> Uuid | None:
    text = values.get("directory.id")
    if text is None:
        return None
    try:
        directory_id = parse_uuid(text)
    except ValueError as error:
        raise MalformedError(f"directory.id: {error}") from None
    if directory_id == ZERO_UUID:
        raise MalformedError("directory.id is the zero UUID, which stands for none")
    return directory_id
