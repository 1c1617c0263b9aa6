"""Bugs of the decisions about delegation tokens."""

from tests.sabotage.mutant import Mutant, mutant

_TESTS = "tests/unit/controller/"
_CONTROL = "kraftd.controller.delegation_token_control"
_SECRET = "kraftd.controller.token_secret"
_JUDGED = ("tests/sim/test_token_judge.py",)
_TIMERS = "kraftd.controller.timers:Timers"


def of_tokens(name: str, text: str, test: str, *edits: tuple[str, str, str]) -> Mutant:
    """A mutant that a unit test of the controller catches."""
    return mutant(name, "D-14", text, "tests", *edits, where=(_TESTS + test,))


TOKENS = (
    of_tokens(
        "token-by-a-token",
        "Who logged in with a token has itself another one made: it never ends.",
        "test_delegation_token_control.py::test_whoever_is_nobody_or_shows_a_token_may_ask_nothing",
        (f"{_CONTROL}:_may_ask", "if client.principal.token_authenticated:", "if False:"),
    ),
    of_tokens(
        "token-for-nobody",
        "Whoever reaches the listener, and is known to nobody, has tokens made.",
        "test_delegation_token_control.py::test_whoever_is_nobody_or_shows_a_token_may_ask_nothing",
        (f"{_CONTROL}:_may_ask", 'return client.protocol != "PLAINTEXT" and not is_nobody', "return True"),
    ),
    of_tokens(
        "token-of-anybody",
        "Tokens of other users are made for whoever asks for them.",
        "test_delegation_token_control.py::test_for_another_owner_it_takes_the_right_to_make_its_tokens",
        (f"{_CONTROL}:_may_create", "if is_own or", "if True or"),
    ),
    of_tokens(
        "token-renewed-by-its-requester",
        "Who asked for a token of another user renews it for ever.",
        "test_delegation_token_control.py::test_who_asked_for_anothers_token_does_not_change_it",
        (
            f"{_CONTROL}:_check_renewer",
            "(token.owner, *token.renewers)",
            "(token.owner, token.requester, *token.renewers)",
        ),
    ),
    of_tokens(
        "token-beyond-its-maximum",
        "A token is renewed beyond its maximum, again and again.",
        "test_delegation_token_control.py::test_a_token_is_renewed_for_a_while_and_never_beyond_its_maximum",
        (
            f"{_CONTROL}:_renew",
            "min(token.max_timestamp, _sum(now_ms, period_ms))",
            "_sum(now_ms, period_ms)",
        ),
    ),
    of_tokens(
        "lifetime-as-asked",
        "Whoever asks for a longer life of its token than is configured gets it.",
        "test_delegation_token_control.py::test_a_token_lives_as_long_as_is_asked_and_no_longer_than_it_may",
        (
            f"{_CONTROL}:_new_token",
            "lifetime_ms = min(lifetime_ms, request.max_lifetime_ms)",
            "lifetime_ms = request.max_lifetime_ms",
        ),
    ),
    of_tokens(
        "token-without-its-maximum",
        "A token that is to live for less than a day lives a day.",
        "test_delegation_token_control.py::test_a_token_lives_as_long_as_is_asked_and_no_longer_than_it_may",
        (
            f"{_CONTROL}:_new_token",
            "min(max_ms, _sum(now_ms, tokens.expiry_time_ms))",
            "_sum(now_ms, tokens.expiry_time_ms)",
        ),
    ),
    of_tokens(
        "dead-token-renewed",
        "A token that has ended is renewed.",
        "test_delegation_token_control.py::test_what_has_ended_is_changed_no_more",
        (f"{_CONTROL}:_renew", "_check_alive(token, now_ms)", "pass"),
    ),
    of_tokens(
        "token-for-old-nodes",
        "Tokens are written at a level at which nobody reads them: the decision fails.",
        "test_delegation_token_control.py::test_there_are_no_tokens_without_a_secret_or_at_an_old_level",
        (f"{_CONTROL}:_enabled", "if level < DELEGATION_TOKENS_SINCE:", "if False:"),
    ),
    of_tokens(
        "token-too-long-for-a-record",
        "A token is written whose record nobody can read again.",
        "test_delegation_token_control.py::test_a_principal_that_no_record_can_hold_makes_no_token",
        (f"{_CONTROL}:_new_token", "len(each.encode()) > STRING_BYTES_MAX", "False"),
    ),
    of_tokens(
        "hmac-by-half",
        "HMACs are made with another hash than Kafka's: no broker lets anybody in.",
        "test_delegation_token_control.py::test_an_hmac_is_kafkas",
        (f"{_SECRET}:TokenSecret.hmac_of", '"sha512"', '"sha256"'),
    ),
    of_tokens(
        "token-found-after-its-end",
        "A token that was removed is still found by its HMAC.",
        "test_delegation_token_control.py::test_tokens_are_found_whatever_came_and_went",
        (
            f"{_SECRET}:TokenSecret.token_of",
            "return None if token_id is None else tokens.get(token_id)",
            "return None if token_id is None else tokens.get(token_id) or DelegationTokenRecord()",
        ),
    ),
    of_tokens(
        "every-guess-is-work",
        "Whoever guesses HMACs has the active controller go through all tokens, each time.",
        "test_delegation_token_control.py::test_guesses_are_looked_up_among_the_same_tokens_once",
        (
            f"{_SECRET}:TokenSecret.look_for",
            "if token_hmac in self._ids or tokens is self._known:\n        return\n    self._forget",
            "if token_hmac in self._ids:\n        return\n    self._forget",
        ),
    ),
    of_tokens(
        "hmacs-in-one-turn",
        "A new active controller makes the HMACs of ten thousand tokens in one turn, and answers nobody meanwhile.",
        "test_delegation_token_control.py::test_hmacs_of_many_tokens_are_made_in_slices",
        (f"{_SECRET}:TokenSecret.look_for", "if work_left <= 0:", "if False:"),
    ),
    of_tokens(
        "hmacs-are-cheap",
        "A slice makes as many HMACs as it may look at tokens, and lasts a turn of 35 ms again.",
        "test_delegation_token_control.py::test_hmacs_of_many_tokens_are_made_in_slices",
        (f"{_SECRET}:TokenSecret.look_for", "work_left -= _MADE_WORK", "pass"),
    ),
    of_tokens(
        "token-as-it-was-shown",
        "A token is decided about as it was when the search began, and what was changed meanwhile is undone.",
        "test_delegation_token_control.py::test_a_token_among_many_is_found_and_changed_as_it_is_by_then",
        (
            f"{_CONTROL}:TokenSearch.advance",
            "if _goes_on(self._slices):\n        return (), False",
            "if not hasattr(self, 'first'):\n        self.first = context\n    context = self.first\n"
            "    if _goes_on(self._slices):\n        return (), False",
        ),
    ),
    of_tokens(
        "known-though-forgotten",
        "A token whose HMAC was forgotten during a search is never found again.",
        "test_delegation_token_control.py::test_a_search_does_not_take_for_known_what_was_forgotten_meanwhile",
        (f"{_SECRET}:TokenSecret.look_for", "if forgotten == self._forgotten:", "if True:"),
    ),
    of_tokens(
        "strangers-have-tokens-looked-for",
        "Who may not ask has the HMACs of all tokens made all the same.",
        "test_delegation_token_control.py::test_who_may_not_ask_has_nothing_looked_for",
        (f"{_CONTROL}:_once_found", "or not _may_ask(context.client)", ""),
    ),
    of_tokens(
        "hmacs-for-ever",
        "An HMAC stays of each token that was ever made, for as long as nobody shows one that is unknown.",
        "test_delegation_token_control.py"
        "::test_tokens_that_are_made_and_ended_again_and_again_leave_a_thousand_hmacs",
        (f"{_SECRET}:TokenSecret.hmac_of_new", "self._forget(tokens)", "pass"),
    ),
    of_tokens(
        "withdrawn-end-of-a-token",
        "A token whose end was withdrawn is not found: its HMAC was forgotten, and taken for known.",
        "test_delegation_token_control.py::test_a_token_whose_end_was_withdrawn_is_found_again",
        (f"{_SECRET}:TokenSecret._forget", "self._known = None", "pass"),
    ),
    of_tokens(
        "every-hmac-anew",
        "When a token was added, the HMACs of all are made again for whoever guesses.",
        "test_delegation_token_control.py::test_guesses_are_looked_up_among_the_same_tokens_once",
        (f"{_SECRET}:TokenSecret.look_for", "if token_id not in self._hmacs:", "if True:"),
    ),
    of_tokens(
        "renewer-by-its-text",
        "A principal whose type holds a colon renews the tokens of a user of the same text.",
        "test_delegation_token_control.py::test_its_owner_and_its_renewers_change_it",
        (f"{_CONTROL}:_check_renewer", '":" in principal.type or', ""),
    ),
    of_tokens(
        "secret-in-the-log",
        "Whatever prints the settings prints the secret of all tokens.",
        "test_delegation_token_control.py::test_nothing_shows_the_secret_nor_an_hmac",
        (f"{_SECRET}:TokenSecret.__repr__", 'return "[hidden]"', "return repr(self._key)"),
    ),
    mutant(
        "password-among-the-settings",
        "D-14",
        "The passwords of the file are kept where everything that is set is kept to be shown.",
        "tests",
        ("kraftd.runtime.config:_Reader.of_brokers", "HIDDEN if key.is_sensitive else value", "value"),
        where=("tests/unit/runtime/test_config.py::test_no_password_is_kept_to_be_shown",),
    ),
    of_tokens(
        "tokens-never-removed",
        "Tokens that have ended stay for ever.",
        "test_ended_tokens.py::test_they_are_removed_after_the_interval_and_not_before",
        (f"{_TIMERS}.begin", "self._ended_tokens_at_ms = now_ms + self._ended_tokens_ms", "pass"),
    ),
    of_tokens(
        "renewed-token-removed",
        "A token that was renewed while many were removed is removed with them.",
        "test_delegation_token_control.py::test_many_are_removed_in_slices_each_decided_on_what_is_there",
        (
            f"{_CONTROL}:EndedTokens.advance",
            "if token is not None and _has_ended(token, now_ms):",
            "if token is not None:",
        ),
    ),
    mutant(
        "token-ends-early",
        "D-18",
        "A token ends two seconds before its end.",
        "tests",
        (
            f"{_CONTROL}:_has_ended",
            "or token.expiration_timestamp < now_ms",
            "or token.expiration_timestamp < now_ms + 2_000",
        ),
        where=_JUDGED,
    ),
    mutant(
        "ended-token-renewed",
        "D-18",
        "A token that has ended and is not removed yet lives again once somebody renews it.",
        "tests",
        (f"{_CONTROL}:_renew", "_check_alive(token, now_ms)", "pass"),
        where=_JUDGED,
    ),
    mutant(
        "removed-token-in-the-image",
        "D-18",
        "A token that ended is removed in the log, and stays in the image.",
        "tests",
        (
            "kraftd.metadata.parts.delegation_tokens:_remove",
            "builder.state(DELEGATION_TOKENS).remove(record.token_id)",
            "builder.state(DELEGATION_TOKENS)",
        ),
        where=_JUDGED,
    ),
)
