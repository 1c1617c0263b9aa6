"""The managers of Kafka's controller, as a process that decides what it is asked (`Topics.java`)."""

import importlib
import subprocess
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple

from kraftd.records.frame import AnyRecord, encode_record
from tests.interop.peer import Kafka

NODE_ID = 3000
"""The controller that decides, on both sides."""


class KafkaDecision(NamedTuple):
    """What Kafka decides of a request."""

    error: int
    """Of the whole request; there is no response then."""
    response: Any
    records: list[bytes]


class Managers:
    """A running process. Its state is that after every record so far."""

    def __init__(self, kafka: Kafka, compiled: Sequence[str], static_configs: Mapping[str, str]) -> None:
        arguments = [f"{name}={value}" for name, value in static_configs.items()]
        self._process = subprocess.Popen(
            kafka.command(*compiled, *arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __enter__(self) -> "Managers":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def replay(self, records: Sequence[AnyRecord]) -> None:
        """Apply records."""
        written = ",".join(encode_record(record).hex() for record in records)
        assert self._ask("records", 0, 0, is_forwarded=False, body=written) == ""

    def decide(self, api: str, request: Any, version: int, seed: int, *, is_forwarded: bool) -> KafkaDecision:
        """Decide a request, and apply its records."""
        codec: Any = importlib.import_module(f"kraftd.protocol.kafka.{api}")
        body: list[bytes] = []
        codec.REQUEST_WRITERS[version](body, request)
        kind = type(request).NAME.removesuffix("Request")
        answer = self._ask(kind, seed, version, is_forwarded=is_forwarded, body=b"".join(body).hex())
        error, response, records = answer.split("\t")
        decoded = codec.RESPONSE_READERS[version](bytes.fromhex(response), 0)[0] if response else None
        return KafkaDecision(
            int(error), decoded, [bytes.fromhex(each) for each in records.split(",") if each]
        )

    def _ask(self, kind: str, seed: int, version: int, *, is_forwarded: bool, body: str) -> str:
        sent, received = self._process.stdin, self._process.stdout
        assert sent is not None
        assert received is not None
        sent.write(f"{kind}\t{seed}\t{version}\t{str(is_forwarded).lower()}\t{body}\n")
        sent.flush()
        line = received.readline()
        assert line, "Kafka's managers ended"
        return line.rstrip("\n")
