"""What AlterUserScramCredentials leads to, case by case, and that nobody sees what is secret in it."""

import base64
import hashlib

import pytest
from contexts import context_of

from kraftd.controller.failures import failure_line
from kraftd.controller.scram_control import ALTER_USER_SCRAM_CREDENTIALS, alter_user_scram_credentials
from kraftd.errors import ErrorCode
from kraftd.metadata.image_builder import apply_all
from kraftd.metadata.parts.scram import SCRAM
from kraftd.protocol.messages import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsRequestScramCredentialDeletion,
    AlterUserScramCredentialsRequestScramCredentialUpsertion,
    EnvelopeRequest,
)
from kraftd.records.messages import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from tests.unit.controller.topic_worlds import cluster

SHA_256, SHA_512 = 1, 2
SALT, SALTED = b"a salt that is random", b"a hash of the password and the salt"
THERE = UserScramCredentialRecord("alice", SHA_256, b"s", b"k", b"l", 4096)
IMAGE = cluster(THERE)


def delete(name, mechanism=SHA_256):
    return AlterUserScramCredentialsRequestScramCredentialDeletion(name, mechanism)


def upsert(name, mechanism=SHA_256, iterations=4096, salt=SALT, salted_password=SALTED):
    return AlterUserScramCredentialsRequestScramCredentialUpsertion(
        name, mechanism, iterations, salt, salted_password
    )


def request_of(*changes):
    deletions = tuple(
        each for each in changes if isinstance(each, AlterUserScramCredentialsRequestScramCredentialDeletion)
    )
    return AlterUserScramCredentialsRequest(
        deletions, tuple(each for each in changes if each not in deletions)
    )


def alter(*changes, image=IMAGE):
    records, response = alter_user_scram_credentials(context_of(image), request_of(*changes))
    assert all(each.error_code or each.error_message is None for each in response.results)
    return records, [(each.user, ErrorCode(each.error_code)) for each in response.results]


@pytest.mark.parametrize(
    ("mechanism", "salt", "stored", "server"),
    [
        (  # The user of the example in RFC 7677.
            SHA_256,
            "W22ZaJ0SNY7soEsUEjb6gQ==",
            "WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=",
            "wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=",
        ),
        (  # Derived by Kafka's ScramFormatter.
            SHA_512,
            "c2FsdA==",
            "/0HobAjy5SWocoXto9Y01mm66KtsLls+Ca0AFKaR+rnrJlVwYv+XjuAR2bI+a4dDffNmz3zUyHR9+Sd9Bn/TMA==",
            "oghwiUlz2cdgskC3qVBg8eY1ErXyG4HxXs/plsFjtkjRr0Ey6qLmOz6JtGuxWSvu5fU2wuEAWVRSHPNyeBmWKQ==",
        ),
    ],
)
def test_the_keys_are_derived_from_the_salted_password(mechanism, salt, stored, server):
    digest = {SHA_256: "sha256", SHA_512: "sha512"}[mechanism]
    salted = hashlib.pbkdf2_hmac(digest, b"pencil", base64.b64decode(salt), 4096)
    ((written,), outcomes) = alter(upsert("bob", mechanism, salt=b"s", salted_password=salted))
    assert written == UserScramCredentialRecord(
        "bob", mechanism, b"s", base64.b64decode(stored), base64.b64decode(server), 4096
    )
    assert outcomes == [("bob", ErrorCode.NONE)]


def test_a_credential_is_removed_and_another_one_of_its_user_stays():
    image = apply_all(IMAGE, alter(upsert("alice", SHA_512))[0], 0)
    records, outcomes = alter(delete("alice"), image=image)
    assert records == [RemoveUserScramCredentialRecord("alice", SHA_256)]
    assert outcomes == [("alice", ErrorCode.NONE)]
    (left,) = apply_all(image, records, 0)[SCRAM].values()
    assert left.mechanism == SHA_512


def test_a_credential_is_set_again_whatever_it_was():
    records, _ = alter(upsert("alice"))
    assert records == alter(upsert("alice"), image=apply_all(IMAGE, records, 0))[0]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (delete("bob"), ErrorCode.RESOURCE_NOT_FOUND),
        (delete("alice", SHA_512), ErrorCode.RESOURCE_NOT_FOUND),
        (delete(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (delete("", 9), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (delete("alice", 0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (delete("alice", 3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (delete("alice", -1), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsert(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsert("", 9), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsert("bob", 0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsert("bob", 3, iterations=0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsert("bob", iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsert("bob", SHA_512, iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsert("bob", iterations=16_385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsert("bob", iterations=-1), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsert("bob", salted_password=b""), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_what_cannot_be_is_refused(change, error):
    assert alter(change) == ([], [(change.name, error)])


@pytest.mark.parametrize("iterations", [4096, 16_384])
@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
def test_the_fewest_and_the_most_iterations(mechanism, iterations):
    ((written,), _) = alter(upsert("bob", mechanism, iterations, salt=b""))
    assert (written.iterations, written.salt) == (iterations, b"")


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ((delete("alice"), delete("alice")), ErrorCode.DUPLICATE_RESOURCE),
        ((delete("alice"), delete("alice", SHA_512)), ErrorCode.DUPLICATE_RESOURCE),
        ((delete("alice"), upsert("alice")), ErrorCode.DUPLICATE_RESOURCE),
        ((delete("alice"), upsert("alice", SHA_512)), ErrorCode.DUPLICATE_RESOURCE),
        ((delete("alice"), delete("alice"), delete("alice")), ErrorCode.DUPLICATE_RESOURCE),
        ((upsert("alice"), upsert("alice", SHA_512)), ErrorCode.DUPLICATE_RESOURCE),
        ((upsert("alice"), upsert("alice", 7)), ErrorCode.DUPLICATE_RESOURCE),
        # The first error of a user is the one that is told.
        ((delete("bob"), upsert("bob")), ErrorCode.RESOURCE_NOT_FOUND),
        ((upsert("bob", iterations=1), upsert("bob")), ErrorCode.UNACCEPTABLE_CREDENTIAL),
    ],
)
def test_of_a_user_who_is_named_twice_nothing_changes(changes, error):
    assert alter(*changes) == ([], [(changes[0].name, error)])


def test_users_succeed_and_fail_by_themselves_and_removals_come_first():
    records, outcomes = alter(upsert("carol"), upsert("dave", iterations=1), delete("alice"), delete("bob"))
    assert [(type(each), each.name) for each in records] == [
        (RemoveUserScramCredentialRecord, "alice"),
        (UserScramCredentialRecord, "carol"),
    ]
    assert outcomes[:2] == [("alice", ErrorCode.NONE), ("carol", ErrorCode.NONE)]
    assert dict(outcomes[2:]) == {
        "dave": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "bob": ErrorCode.RESOURCE_NOT_FOUND,
    }


@pytest.mark.parametrize(("level", "is_there"), [(10, False), (11, True)])
def test_the_cluster_must_be_at_a_level_that_has_credentials(level, is_there):
    image = cluster(level=level)
    expected = ErrorCode.NONE if is_there else ErrorCode.UNSUPPORTED_VERSION
    assert alter(upsert("bob"), image=image)[1] == [("bob", expected)]
    expected = ErrorCode.RESOURCE_NOT_FOUND if is_there else ErrorCode.UNSUPPORTED_VERSION
    assert alter(delete("bob"), image=image) == ([], [("bob", expected)])
    if not is_there:
        assert alter(upsert("", 9), image=image)[1] == [("", expected)]
        assert alter(delete("", 9), delete("", 9), image=image)[1] == [("", expected)]


def test_ten_thousand_changes_are_decided_at_once_and_not_one_more():
    assert alter(*[delete("bob")] * 10_000)[1] == [("bob", ErrorCode.RESOURCE_NOT_FOUND)]
    assert alter(*[delete("bob")] * 10_001) == ([], [("bob", ErrorCode.POLICY_VIOLATION)])


def test_so_many_users_that_no_response_can_tell_of_them_are_refused():
    records, outcomes = alter(*(upsert(f"{number}{'u' * 30_000}") for number in range(20)))
    assert records == []
    assert 0 < len(outcomes) < 20
    assert {code for _, code in outcomes} == {ErrorCode.POLICY_VIOLATION}


def test_an_empty_request_is_answered():
    assert alter() == ([], [])


def test_refusals_name_each_user_once():
    request = request_of(delete("bob"), upsert("bob"), upsert("alice"))
    told = ALTER_USER_SCRAM_CREDENTIALS.refuse(request, ErrorCode.NOT_CONTROLLER, "not here").results
    assert [(each.user, each.error_code, each.error_message) for each in told] == [
        ("alice", 41, "not here"),
        ("bob", 41, "not here"),
    ]


def test_no_message_shows_a_secret():
    request = request_of(upsert("bob"))
    ((record,), _) = alter(*request.upsertions)
    secrets = (SALT, SALTED, record.stored_key, record.server_key)
    envelope = EnvelopeRequest(request_data=b"".join(secrets))
    for shown in map(repr, (request, record, envelope)):
        assert "[redacted]" in shown
        for secret in secrets:
            assert repr(secret)[2:-1] not in shown
    assert "name='bob', mechanism=1, iterations=4096" in repr(request)
    line = failure_line("AlterUserScramCredentialsRequest", request, KeyError("planted"))
    assert "bob" in str(line.fields["request"])
    assert SALTED.decode() not in str(line.fields)
