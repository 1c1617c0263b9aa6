"""Bugs of what limits admins: the quota of created and deleted partitions, and policies."""

from tests.sabotage.mutant import Mutant, mutant

_UNIT = "tests/unit/controller/"
_QUOTAS = "kraftd.controller.mutation_quotas"
_CHECKS = "kraftd.controller.policy_checks"
_CONFIGS = "kraftd.controller.configs.configuration_control"


def of_quotas(name: str, text: str, test: str, *edits: tuple[str, str, str]) -> Mutant:
    """A mutant that a unit test of the quota catches."""
    return mutant(name, "D-14", text, "tests", *edits, where=(f"{_UNIT}test_mutation_quotas.py::{test}",))


def of_policies(name: str, text: str, test: str, *edits: tuple[str, str, str]) -> Mutant:
    """A mutant that a unit test of the policies catches."""
    return mutant(name, "D-14", text, "tests", *edits, where=(f"{_UNIT}test_policies.py::{test}",))


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
            "tokens = min(burst, bucket.tokens + rate * ((now_ms - bucket.at_ms) / 1_000))",
            "tokens = bucket.tokens + rate * ((now_ms - bucket.at_ms) / 1_000)",
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
    of_quotas(
        "names-of-any-length",
        "Names are kept whole: ten thousand long client ids fill hundreds of megabytes.",
        "test_long_names_are_not_kept",
        (f"{_QUOTAS}:_short", "if len(name) <= _NAME_MAX:", "if name:"),
    ),
    of_quotas(
        "buckets-of-who-took-nothing",
        "Whoever asks for nothing under new client ids pushes out the buckets of those who owe.",
        "test_who_took_nothing_has_no_bucket_and_changes_none",
        (f"{_QUOTAS}:MutationQuotas.keep", "if not quota.was_asked:", "if quota is UNLIMITED:"),
    ),
    of_quotas(
        "idle-buckets-stay",
        "The buckets of clients that ask no more stay for ever.",
        "test_idle_buckets_go_two_with_each_request",
        (f"{_QUOTAS}:MutationQuotas.keep", "for _ in range(_FORGOTTEN_AT_ONCE):", "for _ in ():"),
    ),
    of_policies(
        "broken-policy-accepts",
        "A policy that fails accepts: a typo in it lets everything pass.",
        "test_a_policy_that_fails_refuses_without_a_text",
        (f"{_CHECKS}:_ask", 'raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, "") from None', "return"),
    ),
    of_policies(
        "policy-ends-the-process",
        "A policy that ends in `sys.exit` ends this node, and the next leader when the client asks again.",
        "test_whatever_a_policy_raises_costs_the_one_topic",
        (f"{_CHECKS}:_ask", "except BaseException as error:", "except Exception as error:"),
    ),
    of_policies(
        "password-in-the-line",
        "A policy that fails on a password writes it to the log.",
        "test_a_password_that_a_policy_fails_on_is_in_no_line",
        (f"{_CHECKS}:_ask", "_TEXT_HIDDEN if has_secrets else _text_of(error)", "_text_of(error)"),
    ),
    of_policies(
        "quota-before-the-policy",
        "What the policy refuses has used up the quota.",
        "test_a_policy_is_asked_last_but_before_the_quota",
        (
            "kraftd.controller.topics.creating:_Creation.create",
            "check_topic(",
            "self._context.mutation_quota.take(len(assignments)); check_topic(",
        ),
    ),
    of_policies(
        "configs-of-new-topics-pass",
        "What may not be set on a topic may be set by making it so.",
        "test_the_configs_of_a_new_topic_are_asked_about_as_well",
        (f"{_CONFIGS}:set_at_creation", "check_configs(context, _TOPIC, topic, values)", "pass"),
    ),
    of_policies(
        "policy-hears-of-all",
        "A policy is asked about what an AlterConfigs removes by not naming it, which Kafka's is not.",
        "test_what_goes_because_it_was_not_named_is_not_told",
        (
            f"{_CONFIGS}:_written",
            "for record in records if record.name not in not_named",
            "for record in records",
        ),
    ),
    of_policies(
        "counts-by-hand",
        "Replicas that are placed by hand are told as mere counts.",
        "test_a_topic_that_is_placed_by_hand_is_told_with_its_replicas",
        (f"{_CHECKS}:check_topic", "if is_by_hand:", "if False:"),
    ),
    of_policies(
        "meddling-policy",
        "A policy can change what it is told, and so what is written.",
        "test_a_policy_cannot_change_what_it_is_told",
        (f"{_CHECKS}:check_topic", "own = MappingProxyType(dict(configs))", "own = configs"),
    ),
    mutant(
        "policy-nobody-waits-for",
        "D-14",
        "An asynchronous function is taken for a policy, and accepts everything.",
        "tests",
        (
            "kraftd.runtime.policy_loader:_complaint",
            "if inspect.iscoroutinefunction(called) or inspect.iscoroutinefunction(policy):",
            "if False:",
        ),
        where=("tests/unit/runtime/test_policy_loader.py::test_what_is_none_is_told_in_one_line",),
    ),
)
