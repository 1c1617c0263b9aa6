"""Delegation tokens, case by case: who may have one made, renewed or ended, and when it ends by itself."""

import base64
import pickle

import pytest
from contexts import context_of
from msgspec.structs import replace

from kraftd.controller.authorizer import Authorizer
from kraftd.controller.context import Client, ControllerSettings
from kraftd.controller.decisions import ImmediateResponse
from kraftd.controller.delegation_token_control import (
    CREATE_DELEGATION_TOKEN,
    EXPIRE_DELEGATION_TOKEN,
    RENEW_DELEGATION_TOKEN,
    EndedTokens,
    create_delegation_token,
    expire_delegation_token,
    renew_delegation_token,
)
from kraftd.controller.failures import failure_line
from kraftd.controller.plans import SLICE_RECORDS
from kraftd.controller.token_secret import TokenSecret, TokenSettings
from kraftd.errors import ErrorCode
from kraftd.metadata.acl_kinds import AclOperation
from kraftd.metadata.feature_levels import bootstrap_records
from kraftd.metadata.image_builder import apply_all
from kraftd.metadata.parts.delegation_tokens import DELEGATION_TOKENS
from kraftd.protocol.messages import (
    BrokerHeartbeatRequest,
    CreateDelegationTokenRequest,
    CreateDelegationTokenRequestCreatableRenewers,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from kraftd.protocol.principal import ANONYMOUS, Principal
from kraftd.records.messages import DelegationTokenRecord, RemoveDelegationTokenRecord
from kraftd.types import Now
from tests.contexts import NewestImage
from tests.unit.controller.acl_worlds import acl
from tests.unit.controller.broker_world import BrokerWorld
from tests.unit.controller.topic_worlds import cluster

SECRET = "nobody-knows"
TOKENS = TokenSettings(TokenSecret(SECRET), max_lifetime_ms=7_000, expiry_time_ms=1_000)
NOW_MS = 1_000_000
INT64_MAX = (1 << 63) - 1
ALICE, BOB, CAROL = (Client(Principal("User", name), is_forwarded=True) for name in ("alice", "bob", "carol"))
NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
USER_RESOURCE = 7
KAFKAS = "8r+tSrt8bUb1HYJF2vCbpN3oNh2uXTbcOQgd4oZ+JA6ag1cLVzCtEeVsrzzErDWsr8Qlu8V+CLuC+1KSxbk7hg=="


def world(*records, client=ALICE, tokens=TOKENS, authorizer=None, version=3, level=30, now_ms=NOW_MS):
    return context_of(
        cluster(*records, level=level),
        settings=ControllerSettings(tokens=tokens, authorizer=authorizer),
        client=client,
        version=version,
        now=Now(5, now_ms),
    )


def create(context, **fields):
    records, response = create_delegation_token(context, CreateDelegationTokenRequest(**fields))
    if records:
        assert response.error_code == ErrorCode.NONE
        return records[0], response
    return ErrorCode(response.error_code), response


def renewers(*names, kind="User"):
    return tuple(CreateDelegationTokenRequestCreatableRenewers(kind, name) for name in names)


def token(token_id="id-1", owner="User:alice", may_renew=("User:bob",), end=NOW_MS + 10, most=NOW_MS + 20):
    return DelegationTokenRecord(owner, owner, may_renew, NOW_MS - 10, most, end, token_id)


def hmac_of(token_id="id-1"):
    return TOKENS.secret.hmac_of(token_id)


def renew(context, hmac=None, period_ms=-1):
    request = RenewDelegationTokenRequest(hmac_of() if hmac is None else hmac, period_ms)
    records, response = renew_delegation_token(context, request)
    return records, ErrorCode(response.error_code), response.expiry_timestamp_ms


def expire(context, hmac=None, period_ms=-1):
    request = ExpireDelegationTokenRequest(hmac_of() if hmac is None else hmac, period_ms)
    records, response = expire_delegation_token(context, request)
    return records, ErrorCode(response.error_code), response.expiry_timestamp_ms


# -- the secret


def test_an_hmac_is_kafkas() -> None:
    """Made by the JDK's HmacSHA512."""
    made = TokenSecret("secret-ü").hmac_of("xmXZhmHBSOmvhWuPI5QXoA")
    assert base64.b64encode(made).decode() == KAFKAS
    assert TokenSecret("secret-ü") == TokenSecret("secret-ü") != TokenSecret("other")
    assert hash(TokenSecret("a")) == hash(TokenSecret("a"))


def test_nothing_shows_the_secret_nor_an_hmac() -> None:
    settings = ControllerSettings(tokens=TOKENS)
    assert SECRET not in f"{settings!r} {TOKENS} {TOKENS.secret!s}"
    assert "[hidden]" in repr(TOKENS)
    with pytest.raises(TypeError, match="not written"):
        pickle.dumps(TOKENS.secret)
    _, response = create(world())
    request = RenewDelegationTokenRequest(response.hmac, 1)
    expiring = ExpireDelegationTokenRequest(response.hmac, 1)
    for shown in map(repr, (response, request, expiring)):
        assert "[redacted]" in shown
        assert repr(response.hmac)[2:-1] not in shown
    line = failure_line("RenewDelegationTokenRequest", request, KeyError("planted"))
    assert repr(response.hmac)[2:20] not in str(line.fields)


def found(secret, hmac, tokens):
    """The token of an HMAC, looked for to the end."""
    for _ in secret.look_for(hmac, tokens):
        pass
    return secret.token_of(hmac, tokens)


def test_tokens_are_found_whatever_came_and_went() -> None:
    secret = TokenSecret(SECRET)
    image = cluster(token("id-1"), token("id-2"))
    tokens = image[DELEGATION_TOKENS]
    assert found(secret, hmac_of("id-2"), tokens) == token("id-2")
    assert found(secret, b"", tokens) is None
    fewer = apply_all(image, [RemoveDelegationTokenRecord("id-2"), token("id-3")], 0)[DELEGATION_TOKENS]
    assert found(secret, hmac_of("id-2"), fewer) is None
    assert found(secret, hmac_of("id-3"), fewer) == token("id-3")
    assert found(secret, hmac_of("id-2"), tokens) == token("id-2")


@pytest.fixture
def made(monkeypatch):
    """The ids of tokens whose HMACs are made, in order."""
    ids, make = [], TokenSecret.hmac_of
    monkeypatch.setattr(TokenSecret, "hmac_of", lambda self, each: ids.append(each) or make(self, each))
    return ids


def test_guesses_are_looked_up_among_the_same_tokens_once(made) -> None:
    secret, third = TokenSecret(SECRET), hmac_of("id-3")
    tokens, looked = cluster(token("id-1"), token("id-2"))[DELEGATION_TOKENS], []
    made.clear()
    seen = Looked(tokens, looked)
    for _ in range(3):
        assert found(secret, b"guessed", seen) is None
    assert (sorted(made), sorted(looked)) == (["id-1", "id-2"], ["id-1", "id-2"])
    assert found(secret, third, tokens.put("id-3", token("id-3"))) == token("id-3")
    assert sorted(made) == ["id-1", "id-2", "id-3"], "only that of the new one is made"


class Looked:
    """Tokens that note which of them are looked at."""

    def __init__(self, tokens, looked):
        self._tokens, self._looked = tokens, looked

    def __len__(self):
        return len(self._tokens)

    def get(self, token_id):
        return self._tokens.get(token_id)

    def items(self):
        for token_id, each in self._tokens.items():
            self._looked.append(token_id)
            yield token_id, each


def test_hmacs_of_tokens_that_are_gone_are_forgotten() -> None:
    secret, tokens = TokenSecret(SECRET), cluster(token("id-1"))[DELEGATION_TOKENS]
    for number in range(1_003):
        secret.hmac_of_new(f"gone-{number}", tokens)
    assert found(secret, hmac_of("id-1"), tokens) == token("id-1")
    assert secret._hmacs == {"id-1": hmac_of("id-1")}
    assert secret._ids == {hmac_of("id-1"): "id-1"}


def test_tokens_that_are_made_and_ended_again_and_again_leave_a_thousand_hmacs() -> None:
    settings = TokenSettings(TokenSecret(SECRET))
    context, remembered = world(tokens=settings), []
    for number in range(2_500):
        made, response = create(replace(context, seed=number))
        there = replace(context, newest=NewestImage(apply_all(context.image, [made], 0)))
        assert expire(there, response.hmac)[0] == [RemoveDelegationTokenRecord(made.token_id)]
        remembered.append(len(settings.secret._hmacs))
        assert len(settings.secret._ids) == remembered[-1]
    assert 1_000 <= max(remembered) <= 1_002


def test_a_token_whose_end_was_withdrawn_is_found_again() -> None:
    secret, tokens = TokenSecret(SECRET), cluster(token("id-1"))[DELEGATION_TOKENS]
    assert found(secret, hmac_of("id-1"), tokens) == token("id-1")
    without = tokens.remove("id-1")
    for number in range(1_003):
        secret.hmac_of_new(f"gone-{number}", without)
    assert "id-1" not in secret._hmacs
    assert found(secret, hmac_of("id-1"), tokens) == token("id-1")


# -- a new active controller, and many tokens

MANY = 10_000


@pytest.fixture(scope="module")
def many():
    """A cluster with ten thousand tokens."""
    return cluster(*(token(f"id-{number}") for number in range(MANY)))


def slices_of(decided, context):
    """How many slices a plan takes, and what it decides."""
    number, is_last = 1, False
    while not is_last:
        number += 1
        records, is_last = decided.advance(context)
        assert is_last or not records
    return number, records, ErrorCode(decided.response().error_code)


@pytest.mark.covers("D-35")
def test_hmacs_of_many_tokens_are_made_in_slices(many, made) -> None:
    """All in one turn took 35 ms, in which no heartbeat was answered."""
    context = replace(world(tokens=TokenSettings(TokenSecret(SECRET))), newest=NewestImage(many))
    plan = renew_delegation_token(context, RenewDelegationTokenRequest(b"guessed", -1))
    work = [len(made)]
    while not plan.advance(context)[1]:
        work.append(len(made) - sum(work))
    assert sum(work) <= MANY == len(made) == len(set(made))
    assert max(work) <= 1_024
    assert ErrorCode(plan.response().error_code) is ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    records, error, _ = renew(context, b"guessed too")  # nothing is left to be made
    assert (records, error, len(made)) == ([], ErrorCode.DELEGATION_TOKEN_NOT_FOUND, MANY)


@pytest.mark.covers("D-35")
@pytest.mark.parametrize("request_of", [RenewDelegationTokenRequest, ExpireDelegationTokenRequest])
def test_a_token_among_many_is_found_and_changed_as_it_is_by_then(many, request_of) -> None:
    context = replace(world(client=BOB, tokens=TokenSettings(TokenSecret(SECRET))), newest=NewestImage(many))
    decide = {
        RenewDelegationTokenRequest: renew_delegation_token,
        ExpireDelegationTokenRequest: expire_delegation_token,
    }[request_of]
    last = list(many[DELEGATION_TOKENS].items())[-1][0]
    plan = decide(context, request_of(hmac_of(last), 5))
    now = token(last, may_renew=("User:bob", "User:carol"))
    changed = replace(context, newest=NewestImage(apply_all(many, [now], 0)))
    assert plan.advance(context) == ((), False)
    number, records, error = slices_of(plan, changed)
    assert (number, records, error) == (10, [replace(now, expiration_timestamp=NOW_MS + 5)], ErrorCode.NONE)
    assert decide(changed, request_of(hmac_of(last), 5))[0] == records  # at once


@pytest.mark.covers("D-35", "D-12")
@pytest.mark.parametrize("not_found", [ErrorCode.NONE, ErrorCode.NOT_CONTROLLER])
def test_a_new_active_controller_answers_others_between_two_slices_of_a_search(not_found: ErrorCode) -> None:
    """That there is no such token it tells only if a majority confirms that it leads."""
    tokens = [token(f"id-{number}", end=10, most=20) for number in range(2_500)]
    leading = BrokerWorld(log=[*bootstrap_records(), *tokens], tokens=TokenSettings(TokenSecret(SECRET)))
    leading.up(5)
    asked, controller = [], leading.controller
    for hmac in (b"guessed", hmac_of("id-7")):
        asked.append(object())
        request = RenewDelegationTokenRequest(hmac, 5)
        leading._take(controller.handle(request, leading.now, 2, ALICE), asked[-1])
    assert (leading.answers, controller.has_next_slice) == ({}, True)
    leading.slice()
    heartbeat = BrokerHeartbeatRequest(5, leading.broker(5).broker_epoch, 1)
    assert isinstance(controller.handle(heartbeat, leading.now, 2), ImmediateResponse)
    assert leading.answers == {}
    leading.read_ends_with = not_found
    leading.settle()
    assert [ErrorCode(leading.answers[each].error_code) for each in asked] == [
        not_found or ErrorCode.DELEGATION_TOKEN_NOT_FOUND,
        ErrorCode.NONE,
    ]
    assert leading.image[DELEGATION_TOKENS].get("id-7").expiration_timestamp == 5


def test_a_search_ends_as_soon_as_it_is_found_here_or_by_another(many, made) -> None:
    tokens, secret = many[DELEGATION_TOKENS], TokenSecret(SECRET)
    ids = [token_id for token_id, _ in tokens.items()]
    shown = hmac_of(ids[1_500])
    made.clear()
    slices = secret.look_for(shown, tokens)
    assert (next(slices), len(made) < 1_024) == (None, True)
    assert (next(slices), next(slices, "over"), 1_500 < len(made) < 2_048) == (None, "over", True)
    first, second = secret.look_for(b"one", tokens), secret.look_for(b"another", tokens)
    next(first)
    assert found(secret, b"", tokens) is None
    made.clear()
    assert (next(first, "over"), next(second, "over"), made) == ("over", "over", [])


def test_a_search_does_not_take_for_known_what_was_forgotten_meanwhile(many) -> None:
    secret, tokens = TokenSecret(SECRET), many[DELEGATION_TOKENS]
    first = next(iter(tokens.items()))[0]
    slices = secret.look_for(b"guessed", tokens)
    next(slices)
    few = cluster(token("id-1"))[DELEGATION_TOKENS]
    for number in range(1_003):
        secret.hmac_of_new(f"gone-{number}", few)
    assert sum(1 for _ in slices) > 5
    assert secret.token_of(hmac_of(first), tokens) is None
    assert found(secret, hmac_of(first), tokens) == token(first)


def test_who_may_not_ask_has_nothing_looked_for(many, made) -> None:
    nobody = Client(Principal("User", "alice", token_authenticated=True), is_forwarded=True)
    context = replace(
        world(client=nobody, tokens=TokenSettings(TokenSecret(SECRET))), newest=NewestImage(many)
    )
    for decide, request in (
        (renew_delegation_token, RenewDelegationTokenRequest(b"guessed", -1)),
        (expire_delegation_token, ExpireDelegationTokenRequest(b"guessed", -1)),
    ):
        assert decide(context, request)[1].error_code == NOT_ALLOWED
    assert made == []


# -- making


def test_a_token_is_made_for_who_asks() -> None:
    record, response = create(world(), renewers=renewers("bob", "bob", "c:d"), max_lifetime_ms=-1)
    assert record == DelegationTokenRecord(
        owner="User:alice",
        requester="User:alice",
        renewers=("User:bob", "User:bob", "User:c:d"),
        issue_timestamp=NOW_MS,
        max_timestamp=NOW_MS + 7_000,
        expiration_timestamp=NOW_MS + 1_000,
        token_id=record.token_id,
    )
    assert len(record.token_id) == 22
    assert (response.principal_type, response.principal_name) == ("User", "alice")
    assert response.token_requester_principal_type == "User"
    assert response.token_requester_principal_name == "alice"
    times = response.issue_timestamp_ms, response.expiry_timestamp_ms, response.max_timestamp_ms
    assert times == (NOW_MS, NOW_MS + 1_000, NOW_MS + 7_000)
    assert response.token_id == record.token_id
    assert response.hmac == hmac_of(record.token_id)


def test_a_token_lives_as_long_as_is_asked_and_no_longer_than_it_may() -> None:
    lives = [
        (create(world(), max_lifetime_ms=asked)[0].max_timestamp - NOW_MS)
        for asked in (-1, 0, 1, 6_999, 7_001, INT64_MAX)
    ]
    assert lives == [7_000, 7_000, 1, 6_999, 7_000, 7_000]
    record, response = create(world(), max_lifetime_ms=400)
    assert record.expiration_timestamp == response.expiry_timestamp_ms == NOW_MS + 400


def test_no_time_is_beyond_what_a_record_can_hold() -> None:
    for_ever = TokenSettings(TokenSecret(SECRET), INT64_MAX, INT64_MAX)
    record, _ = create(world(tokens=for_ever))
    assert (record.max_timestamp, record.expiration_timestamp) == (INT64_MAX, INT64_MAX)
    assert renew(world(token(most=INT64_MAX), tokens=for_ever))[2] == INT64_MAX
    assert expire(world(token(most=INT64_MAX)), period_ms=INT64_MAX)[2] == INT64_MAX


def test_no_two_tokens_have_one_id() -> None:
    ids = {create(replace(world(), seed=seed))[0].token_id for seed in range(100)}
    ids |= {create(replace(world(), next_offset=offset))[0].token_id for offset in range(1, 100)}
    assert len(ids) == 199
    assert not any(each.startswith("-") for each in ids)
    taken, _ = create(world())
    assert create(world(taken))[0].token_id != taken.token_id


def test_old_versions_tell_no_requester() -> None:
    _, response = create(world(version=2))
    assert response.token_requester_principal_name == ""
    assert response.principal_name == "alice"


def test_only_users_renew() -> None:
    both = renewers("bob") + renewers("g", kind="Group")
    code, response = create(world(), renewers=both)
    assert code is ErrorCode.INVALID_PRINCIPAL_TYPE
    assert (response.principal_name, response.issue_timestamp_ms, response.hmac) == ("alice", 0, b"")


def test_for_another_owner_it_takes_the_right_to_make_its_tokens() -> None:
    asked = {"owner_principal_type": "User", "owner_principal_name": "bob"}
    denied = world(authorizer=Authorizer())
    code, response = create(denied, **asked)
    assert code is ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert (response.principal_name, response.token_requester_principal_name) == ("bob", "alice")
    times = response.issue_timestamp_ms, response.expiry_timestamp_ms, response.max_timestamp_ms
    assert times == (-1, -1, -1)
    of_bob = acl(1, "User:bob", kind=USER_RESOURCE, operation=AclOperation.CREATE_TOKENS)
    record, response = create(world(of_bob, authorizer=Authorizer()), **asked)
    assert (record.owner, record.requester) == ("User:bob", "User:alice")
    assert (response.principal_name, response.token_requester_principal_name) == ("bob", "alice")
    of_carol = acl(1, "User:carol", kind=USER_RESOURCE, operation=AclOperation.CREATE_TOKENS)
    assert create(world(of_carol, authorizer=Authorizer()), **asked)[0] is code
    assert create(world(), **asked)[0].owner == "User:bob", "without an authorizer everybody may"


def test_for_oneself_it_takes_no_right() -> None:
    for asked in (
        {},
        {"owner_principal_type": "User", "owner_principal_name": "alice"},
        {"owner_principal_type": "Group", "owner_principal_name": ""},
        {"owner_principal_type": None, "owner_principal_name": None},
    ):
        assert create(world(authorizer=Authorizer()), **asked)[0].owner == "User:alice"


def test_an_owner_without_a_type_is_what_kafka_fails_of() -> None:
    code, response = create(world(), owner_principal_type=None, owner_principal_name="bob")
    assert code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert response.principal_name == response.token_requester_principal_name == "ANONYMOUS"
    assert response.expiry_timestamp_ms == -1


def test_a_principal_that_no_record_can_hold_makes_no_token() -> None:
    for asked in (
        {"owner_principal_type": "U" * 20_000, "owner_principal_name": "b" * 20_000},
        {"renewers": renewers("é" * 16_400)},
    ):
        assert create(world(), **asked)[0] is ErrorCode.UNKNOWN_SERVER_ERROR
    longest = "r" * (32_767 - len("User:"))
    assert create(world(), renewers=renewers(longest))[0].renewers == (f"User:{longest}",)


# -- who may ask at all


@pytest.mark.parametrize(
    ("client", "may"),
    [
        (Client(Principal("User", "alice"), is_forwarded=True), True),
        (Client(ANONYMOUS, is_forwarded=True), True),
        (Client(Principal("User", "alice", token_authenticated=True), is_forwarded=True), False),
        (Client(Principal("User", "alice")), False),
        (Client(Principal("User", "alice"), protocol="SSL"), True),
        (Client(ANONYMOUS, protocol="SSL"), False),
        (Client(ANONYMOUS, protocol="SASL_PLAINTEXT"), True),
        (Client(Principal("User", "alice", token_authenticated=True), protocol="SASL_SSL"), False),
        (Client(Principal("User", "alice"), protocol="PLAINTEXT", is_forwarded=True), True),
    ],
)
def test_whoever_is_nobody_or_shows_a_token_may_ask_nothing(client: Client, may: bool) -> None:
    context = world(token(owner=f"User:{client.principal.name}"), client=client, authorizer=Authorizer())
    asked = [create(context)[0], renew(context)[1], expire(context, period_ms=5)[1]]
    refused = [each is ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED for each in asked]
    assert refused == [not may] * 3
    if not may:
        assert create(context)[1].max_timestamp_ms == renew(context)[2] == expire(context)[2] == -1


def test_it_is_not_asked_for_rights_first() -> None:
    client = Client(Principal("User", "alice", token_authenticated=True), is_forwarded=True)
    context = world(client=client, authorizer=Authorizer(), tokens=None)
    asked = {"owner_principal_type": "User", "owner_principal_name": "bob"}
    assert create(context, **asked)[0] is ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


@pytest.mark.parametrize(
    ("context", "code"),
    [
        (world(token(), tokens=None), ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED),
        (world(tokens=None, level=13), ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED),
        (world(level=13), ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_there_are_no_tokens_without_a_secret_or_at_an_old_level(context, code) -> None:
    made, response = create(context, renewers=renewers("g", kind="Group"))
    assert made is code
    assert (response.principal_name, response.token_requester_principal_name) == ("alice", "alice")
    assert (response.issue_timestamp_ms, response.max_timestamp_ms) == (0, 0)
    assert renew(context) == ([], code, 0)
    assert expire(context) == ([], code, 0)


def test_the_first_level_with_tokens_has_them() -> None:
    assert create(world(level=14))[0].owner == "User:alice"


# -- renewing and ending


@pytest.mark.parametrize("change", [renew, expire])
def test_a_token_is_named_by_its_hmac_alone(change) -> None:
    for hmac in (b"", b"id-1", hmac_of("id-2"), hmac_of()[:-1], base64.b64encode(hmac_of())):
        assert change(world(token()), hmac) == ([], ErrorCode.DELEGATION_TOKEN_NOT_FOUND, 0)


@pytest.mark.parametrize("change", [renew, expire])
@pytest.mark.parametrize(
    ("owner", "may_renew", "client", "may"),
    [
        ("User:alice", (), ALICE, True),
        ("User:alice", (), BOB, False),
        ("User:alice", ("User:carol", "User:bob"), BOB, True),
        ("User:alice", ("User:bob",), CAROL, False),
        ("Group:alice", (), ALICE, False),
        ("User:a:b", (), Client(Principal("User", "a:b"), is_forwarded=True), True),
        ("User:a:b", (), Client(Principal("User:a", "b"), is_forwarded=True), False),
        ("User:alice", ("User:c:d",), Client(Principal("User", "c:d"), is_forwarded=True), True),
        ("User:alice", ("User:c:d",), Client(Principal("User:c", "d"), is_forwarded=True), False),
    ],
)
def test_its_owner_and_its_renewers_change_it(change, owner, may_renew, client, may) -> None:
    records, code, _ = change(world(token(owner=owner, may_renew=may_renew), client=client))
    assert code is (ErrorCode.NONE if may else ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
    assert bool(records) is may


def test_who_asked_for_anothers_token_does_not_change_it() -> None:
    of_bob = replace(token(owner="User:bob", may_renew=()), requester="User:alice")
    assert renew(world(of_bob))[1] is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH


@pytest.mark.parametrize(
    ("period_ms", "most_ms", "lives_ms"),
    [
        (-1, 9_999, 1_000),
        (0, 9_999, 1_000),
        (1, 9_999, 1),
        (1_001, 9_999, 1_000),
        (-1, 700, 700),
        (800, 700, 700),
    ],
)
def test_a_token_is_renewed_for_a_while_and_never_beyond_its_maximum(period_ms, most_ms, lives_ms) -> None:
    there = token(most=NOW_MS + most_ms)
    records, code, until_ms = renew(world(there), period_ms=period_ms)
    assert (code, until_ms) == (ErrorCode.NONE, NOW_MS + lives_ms)
    assert records == [replace(there, expiration_timestamp=until_ms)]


@pytest.mark.parametrize(
    ("period_ms", "most_ms", "lives_ms"),
    [(0, 9_999, 0), (1, 9_999, 1), (5_000, 9_999, 5_000), (800, 700, 700)],
)
def test_a_token_is_to_end_later(period_ms, most_ms, lives_ms) -> None:
    there = token(most=NOW_MS + most_ms)
    records, code, until_ms = expire(world(there), period_ms=period_ms)
    assert (code, until_ms) == (ErrorCode.NONE, NOW_MS + lives_ms)
    assert records == [replace(there, expiration_timestamp=until_ms)]


def test_a_token_ends_at_once() -> None:
    for there in (token(), token(end=NOW_MS - 5), token(most=NOW_MS - 5)):
        expected = ([RemoveDelegationTokenRecord("id-1")], ErrorCode.NONE, NOW_MS)
        assert expire(world(there), period_ms=-7) == expected


ENDED = [token(end=NOW_MS - 1), token(most=NOW_MS - 1)]
ALIVE = [token(end=NOW_MS), token(most=NOW_MS)]


def test_what_has_ended_is_changed_no_more() -> None:
    for there in ENDED:
        assert renew(world(there)) == ([], ErrorCode.DELEGATION_TOKEN_EXPIRED, 0)
        assert expire(world(there), period_ms=5) == ([], ErrorCode.DELEGATION_TOKEN_EXPIRED, 0)
    for there in ALIVE:
        assert renew(world(there))[1] is ErrorCode.NONE
        assert expire(world(there), period_ms=5)[1] is ErrorCode.NONE


def test_of_a_token_that_has_ended_a_stranger_is_told_as_by_kafka() -> None:
    context = world(ENDED[0], client=CAROL)
    assert renew(context)[1] is ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert expire(context, period_ms=5)[1] is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH


# -- refusals, and what ends by itself


def test_a_refusal_names_nobody() -> None:
    refused = CREATE_DELEGATION_TOKEN.refuse(CreateDelegationTokenRequest(), ErrorCode.NOT_CONTROLLER, "x")
    assert (refused.error_code, refused.principal_type, refused.principal_name) == (41, "User", "ANONYMOUS")
    assert refused.token_requester_principal_name == "", "old versions have no place for it"
    assert (refused.issue_timestamp_ms, refused.token_id, refused.hmac) == (-1, "", b"")
    asked = RenewDelegationTokenRequest(), ExpireDelegationTokenRequest()
    for operation, request in zip((RENEW_DELEGATION_TOKEN, EXPIRE_DELEGATION_TOKEN), asked, strict=True):
        refused = operation.refuse(request, ErrorCode.NOT_CONTROLLER, "x")
        assert (refused.error_code, refused.expiry_timestamp_ms) == (41, 0)


def test_what_has_ended_is_removed_and_counted() -> None:
    plan = EndedTokens()
    there = [token("b", end=NOW_MS - 1), token("a", most=NOW_MS - 1), token("c", end=NOW_MS), token("d")]
    assert plan.advance(world(*there)) == ([RemoveDelegationTokenRecord(each) for each in "ab"], True)
    (line,) = plan.lines()
    assert (line.name, line.fields) == ("delegation_tokens_ended", {"tokens": 2})
    assert plan.response() is None


def test_where_nothing_has_ended_nothing_is_written_nor_told() -> None:
    plan = EndedTokens()
    assert plan.advance(world(token())) == ([], True)
    assert plan.lines() == []


def test_many_are_removed_in_slices_each_decided_on_what_is_there() -> None:
    there = [token(f"t{number:04}", end=NOW_MS - 1) for number in range(SLICE_RECORDS + 3)]
    plan, first = EndedTokens(), world(*there)
    records, is_last = plan.advance(first)
    assert (len(records), is_last) == (SLICE_RECORDS, False)
    last = [each.token_id for each in there[SLICE_RECORDS:]]
    renewed, removed = token(last[0]), RemoveDelegationTokenRecord(last[1])
    later = replace(first, newest=NewestImage(apply_all(first.image, [*records, renewed, removed], 0)))
    assert plan.advance(later) == ([RemoveDelegationTokenRecord(last[2])], True)
    assert plan.lines()[0].fields == {"tokens": SLICE_RECORDS + 1}
