"""Bugs of what limits admins: the quota of created and deleted partitions."""

from tests.sabotage.mutant import Mutant, mutant

_UNIT = "tests/unit/controller/"
_QUOTAS = "kraftd.controller.mutation_quotas"


def of_quotas(name: str, text: str, test: str, *edits: tuple[str, str, str]) -> Mutant:
    """A mutant that a unit test of the quota catches."""
    return mutant(name, "D-14", text, "tests", *edits, where=(f"{_UNIT}test_mutation_quotas.py::{test}",))


LIMITS = (
    of_quotas(
        "refusals-cost",
        "A refusal takes tokens too: whoever asks again and again is never served.",
        "test_a_refusal_takes_nothing_and_debts_are_paid_by_the_rate",
        (
            f"{_QUOTAS}:MutationQuota.take",
            "raise RefusedError(",
            "self.tokens -= partitions; raise RefusedError(",
        ),
    ),
    of_quotas(
        "nothing-left-is-owed",
        "An empty bucket refuses, though nothing is owed.",
        "test_a_bucket_begins_with_what_a_window_brings_and_may_go_into_debt_once",
        (
            f"{_QUOTAS}:MutationQuota.take",
            "if self._is_strict and self.tokens < 0:",
            "if self._is_strict and self.tokens <= 0:",
        ),
    ),
    of_quotas(
        "savings-without-end",
        "A bucket fills for ever: who was silent for an hour may create for an hour at once.",
        "test_a_bucket_holds_no_more_than_a_window_brings",
        (
            f"{_QUOTAS}:MutationQuotas.of_request",
            "tokens = min(burst, bucket.tokens + rate * (now_ms - bucket.at_ms) / 1_000)",
            "tokens = bucket.tokens + rate * (now_ms - bucket.at_ms) / 1_000",
        ),
    ),
    of_quotas(
        "a-bucket-for-each-client",
        "The quota of a user is for each of her clients: with a new client id she begins anew.",
        "test_the_first_quota_in_kafkas_order_counts",
        (f"{_QUOTAS}:quota_of", '(of_user, user, ""),', '(both, user, ""),'),
    ),
    of_quotas(
        "quotas-of-clients-first",
        "The quota of a client id counts before that of all users with one.",
        "test_the_first_quota_in_kafkas_order_counts",
        (
            f"{_QUOTAS}:quota_of",
            "for of, named_user, named_client in order:",
            "for of, named_user, named_client in order[:3] + order[6:] + order[3:6]:",
        ),
    ),
    of_quotas(
        "old-versions-are-refused",
        "A client of an old version gets an error that it does not know, instead of being told to wait.",
        "test_an_older_version_is_told_to_wait_and_served",
        (
            "kraftd.controller.active_controller:ActiveController.decide",
            "is_strict=version >= operation.strict_quota_since",
            "is_strict=True",
        ),
    ),
    of_quotas(
        "free-until-written",
        "What only validates is free: it costs the controller as much.",
        "test_to_validate_takes_as_much",
        (
            "kraftd.controller.topics.adding:create_partitions",
            "context.mutation_quota.take(missing)",
            "request.validate_only or context.mutation_quota.take(missing)",
        ),
    ),
    of_quotas(
        "deleting-is-free",
        "To delete a topic takes nothing from the quota.",
        "test_deleting_takes_the_partitions_of_the_topic_and_names_it_whole",
        (
            "kraftd.controller.topics.deleting:_take",
            "context.mutation_quota is not UNLIMITED",
            "False",
        ),
    ),
    of_quotas(
        "forgotten-debts",
        "What a request took is not noted: each begins with a full bucket.",
        "test_a_client_is_refused_by_its_quota_until_it_has_waited",
        (
            "kraftd.controller.active_controller:ActiveController.decide",
            "self._mutation_quotas.keep(quota)",
            "pass",
        ),
    ),
)
