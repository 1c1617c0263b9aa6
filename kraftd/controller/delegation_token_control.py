"""Create-, Renew- and ExpireDelegationToken: passwords for a while, made for programs.

Whoever logs in at a broker may have a token made: for itself, or for an owner for whom it has the right
CREATE_TOKENS. The owner and the renewers that it named may let the token live longer or end it, each showing
its HMAC, which is all that names a token. Whoever logged in with a token may do none of this. Without a
secret in the configuration (`token_secret`) there are no tokens.

Times are those of the wall clock. A token has ended once the clock is past its expiration or its maximum;
it stays until `EndedTokens`, a plan of `timers`, removes it.

Follows: Kafka's DelegationTokenControlManager, and allowTokenRequests of its ControllerApis.
Differs: renewed for a time that no 64 bits hold, a token lives as long as it may; Kafka's has ended then.
Kafka's controller may not know a token yet whose making it has told of; here it does.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, Final, TypeAlias, TypeVar

from msgspec.structs import replace

from kraftd.controller.context import Client, Context
from kraftd.controller.operations import Decided, WriteOperation
from kraftd.controller.plans import SLICE_RECORDS, LogLine, Plan
from kraftd.controller.refused import RefusedError
from kraftd.controller.token_secret import TokenSettings
from kraftd.controller.uuids import is_usable, uuid_of
from kraftd.errors import ErrorCode
from kraftd.metadata.acl_kinds import AclOperation, AclResource
from kraftd.metadata.feature_levels import DELEGATION_TOKENS_SINCE, metadata_version_name
from kraftd.metadata.parts.delegation_tokens import DELEGATION_TOKENS
from kraftd.protocol.messages import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from kraftd.protocol.principal import ANONYMOUS, Principal
from kraftd.records.frame import AnyRecord
from kraftd.records.messages import DelegationTokenRecord, RemoveDelegationTokenRecord
from kraftd.serde.binary import STRING_BYTES_MAX
from kraftd.types import uuid_text

_USER: Final = "User"
_INT64_MAX: Final = (1 << 63) - 1
_REQUESTER_SINCE: Final = 3
"""The version of CreateDelegationToken since which the requester is told."""
_UNTOLD: Final = Principal("", "")
"""The requester in older versions."""
_NO_TIME: Final = -1
_NOT_ALLOWED: Final = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED

_Changed: TypeAlias = tuple[Sequence[AnyRecord], Any]
"""The records of a decision, and its response."""
_ByHmac = TypeVar("_ByHmac", RenewDelegationTokenRequest, ExpireDelegationTokenRequest)
"""A request that shows an HMAC."""


# -- making


def create_delegation_token(context: Context, request: CreateDelegationTokenRequest) -> Decided:
    """The record of a new token, and its response for when that is committed."""
    owner = _owner_of(context, request)
    if owner is None:
        return [], replace(_timeless(_about(ANONYMOUS, ANONYMOUS)), error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    may = _may_create(context, owner)
    requester = context.client.principal if context.version >= _REQUESTER_SINCE else _UNTOLD
    nothing = _about(owner, requester)
    if may is not ErrorCode.NONE:
        return [], replace(_timeless(nothing), error_code=may)
    try:
        tokens = _enabled(context)
        record = _new_token(context, request, owner, tokens)
    except RefusedError as error:
        return [], replace(nothing, error_code=error.code)
    response = replace(
        nothing,
        issue_timestamp_ms=record.issue_timestamp,
        expiry_timestamp_ms=record.expiration_timestamp,
        max_timestamp_ms=record.max_timestamp,
        token_id=record.token_id,
        hmac=tokens.secret.hmac_of_new(record.token_id, context.image[DELEGATION_TOKENS]),
    )
    return [record], response


def refuse_to_create(
    _request: CreateDelegationTokenRequest, error: ErrorCode, _text: str
) -> CreateDelegationTokenResponse:
    """The response if no token was made, or perhaps none: it names nobody.

    Kafka's says since version 3 that nobody asked, too; which version is to be answered is not known here.
    """
    return replace(_timeless(_about(ANONYMOUS, _UNTOLD)), error_code=error)


def _owner_of(context: Context, request: CreateDelegationTokenRequest) -> Principal | None:
    """Whom the token is for: whoever asks, unless somebody is named; None if that is not whole."""
    if not request.owner_principal_name:
        return context.client.principal
    if request.owner_principal_type is None:
        return None
    return Principal(request.owner_principal_type, request.owner_principal_name)


def _may_create(context: Context, owner: Principal) -> ErrorCode:
    if not _may_ask(context.client):
        return _NOT_ALLOWED
    is_own = _text(owner) == _text(context.client.principal)
    if is_own or context.rights.has(AclOperation.CREATE_TOKENS, AclResource.USER, _text(owner)):
        return ErrorCode.NONE
    return ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED


def _new_token(
    context: Context, request: CreateDelegationTokenRequest, owner: Principal, tokens: TokenSettings
) -> DelegationTokenRecord:
    now_ms = context.now.wall_ms
    lifetime_ms = tokens.max_lifetime_ms
    if request.max_lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, request.max_lifetime_ms)
    max_ms = _sum(now_ms, lifetime_ms)
    for renewer in request.renewers:
        if renewer.principal_type != _USER:
            raise RefusedError(ErrorCode.INVALID_PRINCIPAL_TYPE, "Only users can renew a token.")
    record = DelegationTokenRecord(
        owner=_text(owner),
        requester=_text(context.client.principal),
        renewers=tuple(f"{_USER}:{renewer.principal_name}" for renewer in request.renewers),
        issue_timestamp=now_ms,
        max_timestamp=max_ms,
        expiration_timestamp=min(max_ms, _sum(now_ms, tokens.expiry_time_ms)),
        token_id=_new_id(context),
    )
    if any(
        len(each.encode()) > STRING_BYTES_MAX for each in (record.owner, record.requester, *record.renewers)
    ):
        text = "A principal is longer than a record can hold."
        raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, text)
    return record


def _new_id(context: Context) -> str:
    """An id that no token has."""
    tokens = context.image[DELEGATION_TOKENS]
    for attempt in count():
        uuid = uuid_of(f"{context.seed} {context.next_offset} {attempt} token")
        token_id = uuid_text(uuid)
        if is_usable(uuid) and tokens.get(token_id) is None:
            return token_id
    raise AssertionError("there is always one more number")


def _about(owner: Principal, requester: Principal) -> CreateDelegationTokenResponse:
    """A response that says whom it is about, and nothing else."""
    return CreateDelegationTokenResponse(
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
    )


def _timeless(response: CreateDelegationTokenResponse) -> CreateDelegationTokenResponse:
    """The same response, of a token that never was."""
    return replace(
        response, issue_timestamp_ms=_NO_TIME, expiry_timestamp_ms=_NO_TIME, max_timestamp_ms=_NO_TIME
    )


# -- renewing and ending


def renew_delegation_token(context: Context, request: RenewDelegationTokenRequest) -> Decided:
    """The record of a token that lives longer, and its response, once the token was found."""
    return _once_found(context, request, _renew)


def _renew(context: Context, request: RenewDelegationTokenRequest) -> _Changed:
    now_ms = context.now.wall_ms
    if not _may_ask(context.client):
        return [], RenewDelegationTokenResponse(_NOT_ALLOWED, _NO_TIME)
    try:
        tokens, token = _shown(context, request.hmac)
        _check_alive(token, now_ms)
        _check_renewer(context, token)
    except RefusedError as error:
        return [], refuse_to_renew(request, error.code, str(error))
    period_ms = tokens.expiry_time_ms
    if request.renew_period_ms > 0:
        period_ms = min(period_ms, request.renew_period_ms)
    until_ms = min(token.max_timestamp, _sum(now_ms, period_ms))
    response = RenewDelegationTokenResponse(expiry_timestamp_ms=until_ms)
    return [replace(token, expiration_timestamp=until_ms)], response


def refuse_to_renew(
    _request: RenewDelegationTokenRequest, error: ErrorCode, _text: str
) -> RenewDelegationTokenResponse:
    """The response if the token stays as it was, or perhaps does."""
    return RenewDelegationTokenResponse(error_code=error)


def expire_delegation_token(context: Context, request: ExpireDelegationTokenRequest) -> Decided:
    """The record of a token that ends, at once or later, and its response, once the token was found."""
    return _once_found(context, request, _expire)


def _expire(context: Context, request: ExpireDelegationTokenRequest) -> _Changed:
    now_ms = context.now.wall_ms
    if not _may_ask(context.client):
        return [], ExpireDelegationTokenResponse(_NOT_ALLOWED, _NO_TIME)
    try:
        _, token = _shown(context, request.hmac)
        _check_renewer(context, token)
        if request.expiry_time_period_ms < 0:
            removed = RemoveDelegationTokenRecord(token.token_id)
            return [removed], ExpireDelegationTokenResponse(expiry_timestamp_ms=now_ms)
        _check_alive(token, now_ms)
    except RefusedError as error:
        return [], refuse_to_expire(request, error.code, str(error))
    until_ms = min(token.max_timestamp, _sum(now_ms, request.expiry_time_period_ms))
    response = ExpireDelegationTokenResponse(expiry_timestamp_ms=until_ms)
    return [replace(token, expiration_timestamp=until_ms)], response


def refuse_to_expire(
    _request: ExpireDelegationTokenRequest, error: ErrorCode, _text: str
) -> ExpireDelegationTokenResponse:
    """The response if the token stays as it was, or perhaps does."""
    return ExpireDelegationTokenResponse(error_code=error)


def _once_found(
    context: Context, request: _ByHmac, decide: Callable[[Context, _ByHmac], _Changed]
) -> Decided:
    """Decide about the token whose HMAC was shown, at once unless that takes long to find."""
    tokens = context.settings.tokens
    if tokens is None or not _may_ask(context.client):
        return decide(context, request)
    slices = tokens.secret.look_for(request.hmac, context.image[DELEGATION_TOKENS])
    return TokenSearch(slices, request, decide) if _goes_on(slices) else decide(context, request)


def _goes_on(slices: Iterator[None]) -> bool:
    """Whether another slice was done, and it was not the last one."""
    return any(True for _ in slices)


class TokenSearch(Plan):
    """The token of an HMAC is looked for in slices, and then decided about."""

    kind = "FindDelegationToken"

    def __init__(
        self, slices: Iterator[None], request: Any, decide: Callable[[Context, Any], _Changed]
    ) -> None:
        self._slices, self._request, self._decide = slices, request, decide
        self._response: Any = None

    def advance(self, context: Context) -> tuple[Sequence[AnyRecord], bool]:
        """Look at some more tokens; once it was found, or is none, the records of the decision."""
        if _goes_on(self._slices):
            return (), False
        records, self._response = self._decide(context, self._request)
        return records, True

    def response(self) -> Any:
        """That of the decision."""
        return self._response


def _shown(context: Context, hmac: bytes) -> tuple[TokenSettings, DelegationTokenRecord]:
    """The token whose HMAC was shown."""
    tokens = _enabled(context)
    token = tokens.secret.token_of(hmac, context.image[DELEGATION_TOKENS])
    if token is None:
        raise RefusedError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND, "There is no such token.")
    return tokens, token


def _check_alive(token: DelegationTokenRecord, now_ms: int) -> None:
    if _has_ended(token, now_ms):
        raise RefusedError(ErrorCode.DELEGATION_TOKEN_EXPIRED, "The token has ended.")


def _check_renewer(context: Context, token: DelegationTokenRecord) -> None:
    principal = context.client.principal
    # In a record the type ends with the first colon: one that holds a colon is nobody's there.
    if ":" in principal.type or _text(principal) not in (token.owner, *token.renewers):
        text = "Only its owner and its renewers may change a token."
        raise RefusedError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, text)


# -- what all have in common


def _may_ask(client: Client) -> bool:
    """Whether a client is somebody, and did not log in with a token itself."""
    if client.principal.token_authenticated:
        return False
    if client.is_forwarded:
        return True
    is_nobody = client.protocol == "SSL" and client.principal == ANONYMOUS
    return client.protocol != "PLAINTEXT" and not is_nobody


def _enabled(context: Context) -> TokenSettings:
    """The settings of tokens, if there can be any."""
    tokens, level = context.settings.tokens, context.image.metadata_version
    if tokens is None:
        raise RefusedError(
            ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, "delegation.token.secret.key is not set."
        )
    if level < DELEGATION_TOKENS_SINCE:
        needed, there = map(metadata_version_name, (DELEGATION_TOKENS_SINCE, level))
        text = f"Delegation tokens need metadata.version {needed}; the cluster is at {there}."
        raise RefusedError(ErrorCode.UNSUPPORTED_VERSION, text)
    return tokens


def _text(principal: Principal) -> str:
    return f"{principal.type}:{principal.name}"


def _sum(a_ms: int, b_ms: int) -> int:
    return min(a_ms + b_ms, _INT64_MAX)


def _has_ended(token: DelegationTokenRecord, now_ms: int) -> bool:
    return token.max_timestamp < now_ms or token.expiration_timestamp < now_ms


class EndedTokens(Plan):
    """The tokens that have ended are removed."""

    kind = "RemoveEndedDelegationTokens"

    def __init__(self) -> None:
        self._left: list[str] | None = None
        """The ids of those that had ended when it began, the lowest last; None before that."""
        self._removed = 0

    def advance(self, context: Context) -> tuple[Sequence[AnyRecord], bool]:
        """Remove some, unless they are gone by now or live longer."""
        tokens, now_ms = context.image[DELEGATION_TOKENS], context.now.wall_ms
        if self._left is None:
            ended = (token_id for token_id, token in tokens.items() if _has_ended(token, now_ms))
            self._left = sorted(ended, reverse=True)
        records: list[AnyRecord] = []
        while self._left and len(records) < SLICE_RECORDS:
            token = tokens.get(self._left.pop())
            if token is not None and _has_ended(token, now_ms):
                records.append(RemoveDelegationTokenRecord(token.token_id))
        self._removed += len(records)
        return records, not self._left

    def response(self) -> None:
        """Nobody asked."""

    def lines(self) -> Sequence[LogLine]:
        """How many there were, if there were any."""
        return [LogLine("delegation_tokens_ended", {"tokens": self._removed})] if self._removed else []


CREATE_DELEGATION_TOKEN: Final = WriteOperation(
    CreateDelegationTokenRequest, create_delegation_token, refuse_to_create
)
RENEW_DELEGATION_TOKEN: Final = WriteOperation(
    RenewDelegationTokenRequest, renew_delegation_token, refuse_to_renew
)
EXPIRE_DELEGATION_TOKEN: Final = WriteOperation(
    ExpireDelegationTokenRequest, expire_delegation_token, refuse_to_expire
)
