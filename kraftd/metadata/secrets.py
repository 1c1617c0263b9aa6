"""Records without their secrets: each part of the image declares which fields of its records are some.

Every output that tells what is in a log goes through `redacted_json`, unless whoever asks says that secrets
may be seen. The body of a record that cannot be read here may hold anything, so it counts as a secret. The
HMACs of delegation tokens are in no record.

Of a few lines: it needs all parts of the image, and these need the rest (`redaction`).

Follows: Kafka's metadata shell, which leaves out the same.
Differs: Kafka's dump of a log leaves nothing out.
"""

from kraftd.metadata.redaction import redacted
from kraftd.metadata.registry import KINDS
from kraftd.records.frame import AnyRecord, RawRecord, to_json


def redacted_json(record: AnyRecord, version: int | None = None) -> dict[str, object]:
    """A record as Kafka's dump prints it, without its secrets."""
    dump, hidden = to_json(record, version), _secrets_of(record)
    body = dump["data"]
    return dump | {"data": redacted(body, hidden)} if hidden and isinstance(body, dict) else dump


def holds_secret(record: AnyRecord) -> bool:
    """Whether a record's bytes must not be shown."""
    return bool(_secrets_of(record))


def _secrets_of(record: AnyRecord) -> tuple[str, ...]:
    """The fields of a record that are secret, by their names in JSON."""
    if isinstance(record, RawRecord):
        return ("raw",)
    kind = KINDS.get(type(record))
    return () if kind is None or kind.secrets is None else kind.secrets(record)
