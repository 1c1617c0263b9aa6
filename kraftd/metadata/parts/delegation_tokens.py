"""Delegation tokens, without their HMACs, which are in no log.

Follows: Kafka's DelegationTokenDelta.
"""

from collections.abc import Iterator
from typing import Final

from kraftd.metadata.feature_levels import DELEGATION_TOKENS_SINCE
from kraftd.metadata.part import (
    Builder,
    Changes,
    EntityPart,
    ImageComparison,
    ImageTable,
    ImageView,
    RecordKind,
    came_or_went,
)
from kraftd.metadata.views import Change, ColumnType, Row
from kraftd.records.messages import DelegationTokenRecord, RemoveDelegationTokenRecord
from kraftd.types import Offset


def _put(builder: Builder, record: DelegationTokenRecord, _offset: Offset) -> None:
    builder.put(DELEGATION_TOKENS, builder.state(DELEGATION_TOKENS).put(record.token_id, record))


def _remove(builder: Builder, record: RemoveDelegationTokenRecord, _offset: Offset) -> None:
    builder.put(DELEGATION_TOKENS, builder.state(DELEGATION_TOKENS).remove(record.token_id))


def _rows(view: ImageView) -> Iterator[Row]:
    for token in view.image[DELEGATION_TOKENS].values():
        yield {
            "token_id": token.token_id,
            "owner": token.owner,
            "requester": token.requester,
            "renewers": token.renewers,
            "issued_at": _time(token.issue_timestamp),
            "max_at": _time(token.max_timestamp),
            "expires_at": _time(token.expiration_timestamp),
        }


def _time(milliseconds: int) -> int | None:
    return milliseconds if milliseconds >= 0 else None


class DelegationTokens(EntityPart[str, DelegationTokenRecord]):
    """Tokens by id."""

    section = "delegationTokens"
    kinds = (
        RecordKind(DelegationTokenRecord, _put, levels=(DELEGATION_TOKENS_SINCE,)),
        RecordKind(RemoveDelegationTokenRecord, _remove, levels=(DELEGATION_TOKENS_SINCE,)),
    )
    tables = (
        ImageTable(
            "tokens",
            "a delegation token of the image; its HMAC is in no log",
            (
                ("token_id", ColumnType.TEXT),
                ("owner", ColumnType.TEXT),
                ("requester", ColumnType.TEXT),
                ("renewers", ColumnType.TEXTS),
                ("issued_at", ColumnType.TIME_MS),
                ("max_at", ColumnType.TIME_MS),
                ("expires_at", ColumnType.TIME_MS),
            ),
            _rows,
        ),
    )

    def file_name(self, record: DelegationTokenRecord) -> str:
        return record.token_id

    def describe(self, differences: Changes[DelegationTokenRecord], _: ImageComparison) -> Iterator[Change]:
        for change in differences:
            name = f"{change.record.token_id} of {change.record.owner}"
            yield came_or_went("token", name, change, "created", "removed", "renewed")


DELEGATION_TOKENS: Final = DelegationTokens()
