"""An operation of a script: a request that names what the two sides have different numbers for.

One line of JSON each:

    {"api": "AlterPartition", "version": 3, "body": {"broker_id": 1, "broker_epoch": "@epoch:1", ...}}

`body` has the fields of the request by the names of `kraftd.protocol.messages`; those that are left out have
their defaults. A text that begins with `@` is looked up in the account of the side that is asked:

    @id:TEXT                   an id that the script chooses: of an incarnation, a directory, nobody
    @bytes:HEX                 bytes as they are
    @topic:NAME                the newest id of the topic of this name, also after it is gone
    @epoch:BROKER              the newest epoch of the broker, also after it is gone; 0 if it never was there
    @registered:BROKER         the offset of its registration
    @end                       the offset of the last record
    @hmac:N                    of the delegation token that was made as the Nth; of nobody's if there is none
    @leader-epoch:TOPIC/P      of the partition, 0 if it is not there
    @partition-epoch:TOPIC/P

The numbers may be followed by `+N` or `-N`. So operations can be left out of a script, and the others still
say what they said. With `"forwarded": true` the request goes in an envelope, as a broker forwards it, and
with `"principal": "alice"` as that user's. `"host": "127.0.0.2"` is where a connection comes from, and
`"after_s": 1` a time that passes before.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from kraftd.protocol.kafka_codec import KAFKA
from tests.conformance_kafka.account import Account
from tests.conformance_kafka.hmacs import hmac_of

HERE = "127.0.0.1"
BY_NAME = {api.name: api for api in KAFKA.apis.values()}
_NUMBER = re.compile(r"@(end|epoch|registered|leader-epoch|partition-epoch)(?::((?:.*/)?-?\d+))?([+-]\d+)?")


class Operation(msgspec.Struct, frozen=True, omit_defaults=True):
    """One request to both sides."""

    api: str
    version: int
    body: Mapping[str, Any]
    forwarded: bool = False
    principal: str = "ANONYMOUS"
    """Whose request is forwarded, by the name of the user."""
    host: str = HERE
    """Where it comes from, if it is not forwarded."""
    after_s: float = 0.0
    """For how long both sides are left alone before: what Kafka's controller hears from its own image, such
    as quotas and ACLs, it hears a little later."""

    @property
    def line(self) -> str:
        """As a script has it."""
        return json.dumps(msgspec.to_builtins(self))


class ScriptError(Exception):
    """A line is no operation; the text says which and why."""


def id_of(text: str, account: Account | None = None) -> bytes:
    """The id that a script calls `@id:text`."""
    life = 0 if account is None else account.life
    return hashlib.sha256(f"{text}{life or ''}".encode()).digest()[:16]


def request_of(operation: Operation, account: Account) -> Any:
    """The message for one side."""
    body = _resolved(operation.body, account)
    return msgspec.convert(body, BY_NAME[operation.api].request, builtin_types=(bytes,))


def encode_request(operation: Operation, message: Any) -> bytes:
    """The whole frame of the request of its API, without its length.

    Raises:
        UnencodableError: The version of the operation has no place for what it says.
    """
    return b"".join(KAFKA.encode_request(operation.version, 1, "conformance", message))[4:]


def read_script(path: Path) -> list[Operation]:
    """The operations of a file; empty lines and those that begin with `#` are left out.

    Raises:
        ScriptError: A line is no operation.
    """
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            try:
                operation = msgspec.json.decode(line, type=Operation)
                api = BY_NAME[operation.api]
                if not api.min_version <= operation.version <= api.max_version:
                    raise ScriptError(f"{path}:{number}: {api.name} has {api.versions}")
                encode_request(operation, request_of(operation, Account()))
            except KeyError:
                raise ScriptError(f"{path}:{number}: no API is called {operation.api}") from None
            except (msgspec.MsgspecError, ValueError) as error:
                raise ScriptError(f"{path}:{number}: {error}") from None
            found.append(operation)
    return found


def script_of(operations: Sequence[Operation], remarks: Iterable[str] = ()) -> str:
    """The text of a script."""
    return "".join(
        f"{line}\n" for line in (*(f"# {each}" for each in remarks), *(o.line for o in operations))
    )


def _resolved(value: Any, account: Account) -> Any:
    if isinstance(value, Mapping):
        return {key: _resolved(each, account) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_resolved(each, account) for each in value]
    if isinstance(value, str) and value.startswith("@"):
        return _looked_up(value, account)
    return value


def _looked_up(text: str, account: Account) -> Any:
    kind, _, rest = text.partition(":")
    if kind == "@id":
        return id_of(rest, account)
    if kind == "@bytes":
        return bytes.fromhex(rest)
    if kind == "@topic":
        return account.ids.get(rest) or id_of(f"topic {rest}")
    if kind == "@hmac":
        made = [*account.token_names]
        return hmac_of(made[int(rest)] if int(rest) < len(made) else "nobody's")
    found = _NUMBER.fullmatch(text)
    if found is None:
        raise ValueError(f"{text} is nothing that can be looked up")
    name, of, more = found.groups()
    return _number(name, of, account) + int(more or 0)


def _number(name: str, of: str, account: Account) -> int:
    match name:
        case "end":
            return account.end_offset - 1
        case "epoch":
            return account.epochs.get(int(of), 0)
        case "registered":
            broker = account.brokers.get(int(of))
            return 0 if broker is None else broker.offset
    topic, _, index = of.rpartition("/")
    partition = account.partition(topic, int(index))
    if partition is None:
        return 0
    return partition.leader_epoch if name == "leader-epoch" else partition.partition_epoch
