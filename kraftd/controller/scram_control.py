"""AlterUserScramCredentials: SCRAM credentials of users are set and removed.

A request names each user once, for one mechanism: of one that it names twice nothing changes. The others
succeed or fail by themselves, and those that succeed are written together, removals first. A client sends the
password salted and hashed; what is kept are the two keys that RFC 5802 derives from it, of which neither lets
anybody log in. All of these are secrets: their fields are marked as such in `proto`, so that no line shows
them.

Follows: Kafka's ScramControlManager. As there, an empty salted password is an unexpected error; that a
credential is what it was does not keep it from being written again.
Differs: more than 10,000 changes, or users than one response can tell of, are refused (POLICY_VIOLATION).
"""

import hashlib
import hmac
from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

from kraftd.controller.context import Context
from kraftd.controller.java_hash_map import JavaHashMap, string_map
from kraftd.controller.operations import WriteOperation
from kraftd.controller.refused import RefusedError
from kraftd.controller.response_room import OutcomeRoom
from kraftd.errors import ErrorCode
from kraftd.metadata.feature_levels import SCRAM_SINCE, metadata_version_name
from kraftd.metadata.parts.scram import SCRAM
from kraftd.protocol.limits import OPERATION_RECORDS_MAX
from kraftd.protocol.messages import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsRequestScramCredentialDeletion,
    AlterUserScramCredentialsRequestScramCredentialUpsertion,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResponseAlterUserScramCredentialsResult,
)
from kraftd.records.messages import RemoveUserScramCredentialRecord, UserScramCredentialRecord

_ITERATIONS_MAX: Final = 16_384


class _Mechanism(NamedTuple):
    """What a SCRAM mechanism asks for."""

    digest: str
    """The hash, by its name here."""
    iterations_min: int


_MECHANISMS: Final = {1: _Mechanism("sha256", 4_096), 2: _Mechanism("sha512", 4_096)}
"""By Kafka's number."""

_TOO_MANY_USERS: Final = (
    "Not appended: one response cannot tell what became of so many users. Split the request."
)

_Deletion: TypeAlias = AlterUserScramCredentialsRequestScramCredentialDeletion
_Upsertion: TypeAlias = AlterUserScramCredentialsRequestScramCredentialUpsertion
_Record: TypeAlias = RemoveUserScramCredentialRecord | UserScramCredentialRecord


def alter_user_scram_credentials(
    context: Context, request: AlterUserScramCredentialsRequest
) -> tuple[list[_Record], AlterUserScramCredentialsResponse]:
    """The records that a request leads to, and its response for when they are committed."""
    room = OutcomeRoom(_users(request))
    if not room.holds_all or len(request.deletions) + len(request.upsertions) > OPERATION_RECORDS_MAX:
        return [], refuse(request, ErrorCode.POLICY_VIOLATION, _TOO_MANY_USERS)
    credentials = _Credentials(context)
    for deletion in request.deletions:
        credentials.delete(deletion)
    for upsertion in request.upsertions:
        credentials.upsert(upsertion)
    records, done = credentials.records()
    refused = [(name, error.code, room.text(str(error))) for name, error in credentials.refused.items()]
    return records, _response([*((name, ErrorCode.NONE, None) for name in done), *refused])


def refuse(
    request: AlterUserScramCredentialsRequest, error: ErrorCode, text: str
) -> AlterUserScramCredentialsResponse:
    """The response to credentials that were not changed, or may not have been: the error for each user."""
    users = _users(request)
    room = OutcomeRoom(users)
    return _response((name, error, room.text(text)) for name in users[: room.count])


def _stored_key(mechanism: _Mechanism, salted_password: bytes) -> bytes:
    """What a server checks a client by: the hash of the key that the client proves to know (RFC 5802)."""
    return hashlib.new(mechanism.digest, _keyed(mechanism, salted_password, b"Client Key")).digest()


def _server_key(mechanism: _Mechanism, salted_password: bytes) -> bytes:
    """What a client checks a server by."""
    return _keyed(mechanism, salted_password, b"Server Key")


def _keyed(mechanism: _Mechanism, salted_password: bytes, text: bytes) -> bytes:
    return hmac.digest(salted_password, text, mechanism.digest)


class _Credentials:
    """What of a request is to be done; whoever cannot be served is among the refused."""

    def __init__(self, context: Context) -> None:
        self._there = context.image[SCRAM]
        self._level = context.image.metadata_version
        self._deletions: JavaHashMap[str, _Deletion] = string_map(())
        self._upsertions: JavaHashMap[str, _Upsertion] = string_map(())
        self.refused: JavaHashMap[str, RefusedError] = string_map(())

    def delete(self, deletion: _Deletion) -> None:
        """Remove a credential."""
        if deletion.name not in self.refused:
            try:
                self._check_user(deletion)
                if self._there.get((deletion.mechanism, deletion.name)) is None:
                    text = "There is no such credential of this user to be removed."
                    raise RefusedError(ErrorCode.RESOURCE_NOT_FOUND, text)
                self._deletions[deletion.name] = deletion
            except RefusedError as error:
                self.refused[deletion.name] = error

    def upsert(self, upsertion: _Upsertion) -> None:
        """Set a credential."""
        if upsertion.name not in self.refused:
            try:
                mechanism = self._check_user(upsertion)
                _check_iterations(upsertion.iterations, mechanism)
                self._upsertions[upsertion.name] = upsertion
            except RefusedError as error:
                self.refused[upsertion.name] = error

    def records(self) -> tuple[list[_Record], list[str]]:
        """The records, and the users that they are about, in one order."""
        records: list[_Record] = []
        users: list[str] = []
        for name, deletion in self._deletions.items():
            records.append(RemoveUserScramCredentialRecord(name, deletion.mechanism))
            users.append(name)
        for name, upsertion in self._upsertions.items():
            if upsertion.salted_password:
                records.append(_record(upsertion))
                users.append(name)
            else:
                text = "The salted password is empty."
                self.refused[name] = RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, text)
        return records, users

    def _check_user(self, change: _Deletion | _Upsertion) -> _Mechanism:
        """The mechanism of a change of a user that is not named before."""
        if self._deletions.remove(change.name) or self._upsertions.remove(change.name):
            text = "A user may appear only once, whatever the mechanism."
            raise RefusedError(ErrorCode.DUPLICATE_RESOURCE, text)
        if self._level < SCRAM_SINCE:
            needed, there = map(metadata_version_name, (SCRAM_SINCE, self._level))
            text = f"SCRAM credentials need metadata.version {needed}; the cluster is at {there}."
            raise RefusedError(ErrorCode.UNSUPPORTED_VERSION, text)
        if not change.name:
            raise RefusedError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "A user needs a name.")
        mechanism = _MECHANISMS.get(change.mechanism)
        if mechanism is None:
            text = f"There is no SCRAM mechanism {change.mechanism}."
            raise RefusedError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, text)
        return mechanism


def _check_iterations(iterations: int, mechanism: _Mechanism) -> None:
    if not mechanism.iterations_min <= iterations <= _ITERATIONS_MAX:
        text = f"There must be {mechanism.iterations_min} to {_ITERATIONS_MAX} iterations, not {iterations}."
        raise RefusedError(ErrorCode.UNACCEPTABLE_CREDENTIAL, text)


def _record(upsertion: _Upsertion) -> UserScramCredentialRecord:
    mechanism = _MECHANISMS[upsertion.mechanism]
    return UserScramCredentialRecord(
        name=upsertion.name,
        mechanism=upsertion.mechanism,
        salt=upsertion.salt,
        stored_key=_stored_key(mechanism, upsertion.salted_password),
        server_key=_server_key(mechanism, upsertion.salted_password),
        iterations=upsertion.iterations,
    )


def _users(request: AlterUserScramCredentialsRequest) -> list[str]:
    """The users of the first changes, each once."""
    deleted = {deletion.name for deletion in request.deletions[:OPERATION_RECORDS_MAX]}
    return sorted(
        deleted | {upsertion.name for upsertion in request.upsertions[: OPERATION_RECORDS_MAX - len(deleted)]}
    )


def _response(outcomes: Iterable[tuple[str, ErrorCode, str | None]]) -> AlterUserScramCredentialsResponse:
    return AlterUserScramCredentialsResponse(
        results=tuple(
            AlterUserScramCredentialsResponseAlterUserScramCredentialsResult(*outcome) for outcome in outcomes
        )
    )


ALTER_USER_SCRAM_CREDENTIALS: Final = WriteOperation(
    AlterUserScramCredentialsRequest, alter_user_scram_credentials, refuse
)
