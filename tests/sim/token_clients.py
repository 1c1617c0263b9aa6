"""Who uses delegation tokens? Clients that have some made, renew them and end them, each through a broker.

On some seeds the controllers have a secret, tokens live for seconds, and those that have ended are looked for
every few seconds. Each client asks for one thing at a time, of its own tokens; now and then it shows the HMAC
of one that is gone.

The judge goes by the committed records. A token is made once, and only its end changes; it is removed after a
client asked for that, or once the leader's clock is past its end, and whoever was removed never comes back,
whoever leads then. What a client was told of must stand in the log: its token, the end that it has now, or
that it is gone. Once everything was healed, no token outlives its end for longer than those that have ended
are looked for. Neither the secret nor an HMAC stands in a record, nor in a line of a log or of the trace.

An answer that refuses may be of a leader that is none any more, and knows no better: it is counted only.

Not here: how a broker forwards (`broker_process`), and how tokens are decided
(`kraftd.controller.delegation_token_control`).
"""

from base64 import b64encode
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kraftd.audit.invariant import Violation
from kraftd.controller.token_secret import TokenSecret, TokenSettings
from kraftd.errors import ErrorCode
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.parts.delegation_tokens import DELEGATION_TOKENS
from kraftd.protocol import messages as m
from kraftd.protocol.principal import Principal
from kraftd.records.committed import CommittedBatch
from kraftd.records.frame import AnyRecord
from kraftd.records.messages import DelegationTokenRecord, RemoveDelegationTokenRecord
from tests.sim.admin_clients import enveloped, opened

if TYPE_CHECKING:
    from tests.sim.world import World

S: Final = 1_000_000
SECRET: Final = "a secret that nobody is shown"
LIFETIME_MS: Final = 30_000
EXPIRY_MS: Final = 8_000
LOOK_MS: Final = 3_000
"""How long a token lives at most, how long unless it is renewed, and how often ended ones are removed."""
STAMPED_MS: Final = 1_000
"""How much later a batch may be stamped than its records were decided, by a loop that is held up."""
TOKENS_MAX: Final = 6
"""Of one client, at a time."""
GONE_PART: Final = 0.15
"""How often a client shows the HMAC of a token that is gone."""
CALLS: Final = 4_000
"""What its calls are noted under."""
CREATE, RENEW, EXPIRE = "create token", "renew token", "expire token"

EXPECTED: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.DELEGATION_TOKEN_NOT_FOUND,
        ErrorCode.DELEGATION_TOKEN_EXPIRED,
    }
)
"""How a request may end; anything else is a bug of somebody."""


def token_settings() -> TokenSettings:
    """What the configuration of a node says; each start of a node reads its own."""
    return TokenSettings(TokenSecret(SECRET), LIFETIME_MS, EXPIRY_MS, LOOK_MS)


class Token(msgspec.Struct):
    """A token, as its only user knows it."""

    id: str
    hmac: bytes
    is_gone: bool = False
    """Whether its user was told that it is removed."""
    seems_gone: bool = False
    """Whether it was told that there is none such: as it ended, or by a leader that has not heard of it."""


class TokenJudge:
    """What the committed records say of all tokens, and what clients were told of them."""

    def __init__(self) -> None:
        self.there: dict[str, DelegationTokenRecord] = {}
        self.gone: set[str] = set()
        self.end_asked: set[str] = set()
        """The tokens whose removal somebody has asked for."""
        self.change_asked: set[str] = set()
        """Those of which somebody has asked for another end."""
        self._ends: dict[str, set[int]] = {}
        """All the ends that each ever had."""
        self.latest_ms = 0
        """How long after its end a token was removed that nobody asked to remove, at most."""
        self._told: list[tuple[str, int | None]] = []
        """What was acknowledged: a token with its end, or None that it is removed."""
        self._needles: list[bytes] = [SECRET.encode()]
        self._text_needles: list[str] = [SECRET]

    # -- what is committed

    def on_record(self, record: AnyRecord, batch: CommittedBatch, held_up_ms: int = 0) -> bool:
        """Look at a committed record, in the order of the log. Returns whether it is about a token.

        A process may be stopped for `held_up_ms` between a decision and the append that stamps it.

        Raises:
            Violation: It must not be there.
        """
        if isinstance(record, DelegationTokenRecord):
            self._on_token(record, batch.timestamp_ms, held_up_ms + STAMPED_MS)
        elif isinstance(record, RemoveDelegationTokenRecord):
            self._on_removal(record.token_id, batch.timestamp_ms)
        else:
            return False
        return True

    def on_batch(self, batch: CommittedBatch) -> None:
        """Look for secrets in what is committed.

        Raises:
            Violation: There is one.
        """
        data = b"".join(batch.records)
        if any(needle in data for needle in self._needles):
            raise Violation(f"SecretsAreNotShown: the records at {batch.base_offset} hold one")

    def compare(self, image: MetadataImage) -> None:
        """The tokens of an image at the end of the newest batch are those that the records made.

        Raises:
            Violation: They are not.
        """
        found = dict(image[DELEGATION_TOKENS].items())
        if found != self.there:
            differ = sorted(each for each in {*found, *self.there} if found.get(each) != self.there.get(each))
            raise Violation(f"TokensAreWhatTheRecordsSay: an image differs in {differ}")

    def _on_token(self, record: DelegationTokenRecord, at_ms: int, stamped_ms: int) -> None:
        before = self.there.get(record.token_id)
        if record.token_id in self.gone:
            raise Violation(f"EndedTokensStayGone: {record.token_id} is made again at {at_ms}")
        if before is not None:
            same = msgspec.structs.replace(record, expiration_timestamp=before.expiration_timestamp)
            if same != before or record.token_id not in self.change_asked:
                raise Violation(f"TokensChangeOnRequest: {before} becomes {record}")
            if _has_ended(before, at_ms - stamped_ms):
                raise Violation(f"EndedTokensStayGone: {before} is renewed at {at_ms}")
        if record.expiration_timestamp > record.max_timestamp:
            raise Violation(f"TokensEnd: {record} lives longer than it may")
        self.there[record.token_id] = record
        self._ends.setdefault(record.token_id, set()).add(record.expiration_timestamp)

    def _on_removal(self, token_id: str, at_ms: int) -> None:
        token = self.there.pop(token_id, None)
        if token is None:
            raise Violation(f"TokensAreRemovedOnce: {token_id} is removed at {at_ms}, and is not there")
        if token_id not in self.end_asked and not _has_ended(token, at_ms):
            raise Violation(f"TokensAreThereUntilTheyEnd: {token} is removed at {at_ms}, and nobody asked")
        if token_id not in self.end_asked:
            self.latest_ms = max(self.latest_ms, at_ms - _end_of(token))
        self.gone.add(token_id)

    # -- what clients are told

    def told(self, token_id: str, end_ms: int | None) -> None:
        """A client was told of a token with its end, or that it is removed."""
        self._told.append((token_id, end_ms))

    def complaint(self) -> str | None:
        """What of all that clients were told the log does not say."""
        for token_id, end_ms in self._told:
            if end_ms is None and token_id not in self.gone:
                return f"{token_id} was to be removed, and is there"
            if end_ms is not None and end_ms not in self._ends.get(token_id, ()):
                return f"{token_id} was to end at {end_ms}, and ever ended at {self._ends.get(token_id)}"
        return None

    def ended(self, at_ms: int) -> set[str]:
        """The tokens that are there and have ended."""
        return {each for each, token in self.there.items() if _has_ended(token, at_ms)}

    # -- what must not be shown

    def hide(self, hmac: bytes) -> None:
        """Look for an HMAC from now on; its start is enough, in any of the forms that it may be shown in."""
        self._needles.append(hmac)
        self._text_needles += [
            hmac.hex()[:24],
            b64encode(hmac).decode()[:20],
            repr(hmac[:12]).removeprefix("b")[1:-1],
        ]

    def reader_of(self, sink: Callable[[str], None]) -> Callable[[str], None]:
        """What takes the lines of a trace, and shows them to this judge as well."""

        def read(line: str) -> None:
            sink(line)
            self.check_line(line)

        return read

    def check_line(self, line: str) -> None:
        """A line of a log, or of the trace.

        Raises:
            Violation: It shows a secret.
        """
        if any(needle in line for needle in self._text_needles):
            raise Violation(f"SecretsAreNotShown: a line that begins with {line[:60]!r} holds one")


def _has_ended(token: DelegationTokenRecord, at_ms: int) -> bool:
    return _end_of(token) < at_ms


def _end_of(token: DelegationTokenRecord) -> int:
    return min(token.expiration_timestamp, token.max_timestamp)


class TokenClient:
    """One client; nobody else uses its tokens. Its random numbers are its own."""

    def __init__(self, number: int, world: "World", judge: TokenJudge, random: Random) -> None:
        self._principal = Principal("User", f"token-user-{number}")
        self._world = world
        self._judge = judge
        self._random = random
        self.tokens: list[Token] = []
        self._asked = 0
        """Requests so far: an answer to an older one comes too late."""

    def start(self) -> None:
        """Begin to work."""
        self._world.at(int(self._random.random() * 2 * S), self._next)

    def _next(self) -> None:
        world = self._world
        if world.is_over:
            return
        self._asked += 1
        asked = self._asked
        kind, request, token = self._choose()
        was_gone = token is not None and token.is_gone
        up = [broker for broker in world.brokers.brokers.values() if broker.is_up]
        world.count("call", CALLS)

        def done(response: m.EnvelopeResponse) -> None:
            world.statistics["token late"] += asked != self._asked
            self._answered(kind, request, token, opened(world, response, request), was_gone=was_gone)

        if up:
            sent = enveloped(request, asked, self._principal)
            self._random.choice(up).forward(sent, done, lambda: None)
        world.at(int(self._random.random() * 2 * S), self._next)

    def _choose(self) -> tuple[str, Any, Token | None]:
        random = self._random
        live = [token for token in self.tokens if not token.is_gone and not token.seems_gone]
        if self.tokens and (random.random() < GONE_PART or len(live) >= TOKENS_MAX):
            token = random.choice(self.tokens)
        elif live and random.random() < 0.6:
            token = random.choice(live)
        else:
            return CREATE, m.CreateDelegationTokenRequest(max_lifetime_ms=random.choice((-1, 5_000))), None
        draw = random.random()
        if draw < 0.5:
            self._judge.change_asked.add(token.id)
            period_ms = random.choice((-1, 2_000, 20_000))
            return RENEW, m.RenewDelegationTokenRequest(token.hmac, period_ms), token
        if draw < 0.7:
            self._judge.change_asked.add(token.id)
            return EXPIRE, m.ExpireDelegationTokenRequest(token.hmac, random.choice((0, 1_000))), token
        self._judge.end_asked.add(token.id)
        return EXPIRE, m.ExpireDelegationTokenRequest(token.hmac, -1), token

    def _answered(
        self, kind: str, request: Any, token: Token | None, response: Any, *, was_gone: bool
    ) -> None:
        """An answer, or None; one that comes late is true, too. `was_gone` says what was known when it was
        asked for.
        """
        world = self._world
        if response is None:
            return
        error = response.error_code
        world.statistics[f"{kind} {error}"] += 1
        if error not in EXPECTED:
            raise Violation(f"TokenRequestsAreServed: {kind} ends with error {error}")
        if token is not None:
            token.seems_gone = error in (
                ErrorCode.DELEGATION_TOKEN_NOT_FOUND,
                ErrorCode.DELEGATION_TOKEN_EXPIRED,
            )
        if error != ErrorCode.NONE:
            return
        if token is None:
            made = Token(response.token_id, response.hmac)
            self.tokens.append(made)
            self._judge.hide(made.hmac)
            self._judge.told(made.id, response.expiry_timestamp_ms)
        elif kind == EXPIRE and request.expiry_time_period_ms < 0:
            if was_gone:
                raise Violation(f"EndedTokensStayGone: {token.id} is removed once more")
            token.is_gone = True
            self._judge.told(token.id, None)
        else:
            if was_gone:
                raise Violation(f"EndedTokensStayGone: {kind} of {token.id} succeeds, which was removed")
            self._judge.told(token.id, response.expiry_timestamp_ms)
