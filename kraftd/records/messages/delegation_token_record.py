"""A delegation token is given out or renewed. Its HMAC is not here: each node works it out from the id
and its secret. Generated from `proto/records/DelegationTokenRecord.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags


class DelegationTokenRecord(Struct, frozen=True, gc=False):
    """A delegation token is given out or renewed. Its HMAC is not here: each node works it out from the
    id and its secret.
    """

    API_KEY: ClassVar[int] = 10
    NAME: ClassVar[str] = "DelegationTokenRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    owner: str = ""
    """Who it speaks for. (string)"""
    requester: str = ""
    """Who asked for it. (string)"""
    renewers: tuple[str, ...] = ()
    """Who else may renew it. ([]string)"""
    issue_timestamp: int = 0
    """When it was given out, in ms since 1970. (int64)"""
    max_timestamp: int = 0
    """After when it cannot be renewed. (int64)"""
    expiration_timestamp: int = 0
    """When it ends unless it is renewed. (int64)"""
    token_id: str = ""
    """Its id. (string)"""
    unknown_tags: UnknownTags = ()
