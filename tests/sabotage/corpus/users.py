"""Bugs of the decisions about client quotas and SCRAM credentials."""

from tests.sabotage.mutant import Mutant, mutant

_TESTS = "tests/unit/controller/"
_QUOTAS = "kraftd.controller.client_quota_control"
_SCRAM = "kraftd.controller.scram_control"


def of_users(name: str, text: str, test: str, *edits: tuple[str, str, str]) -> Mutant:
    """A mutant that a unit test of the controller catches."""
    return mutant(name, "D-14", text, "tests", *edits, where=(_TESTS + test,))


USERS = (
    of_users(
        "quota-of-nothing",
        "A quota of zero is set: whoever has it may do nothing at all.",
        "test_client_quota_control.py::test_a_quota_that_cannot_be_set_is_refused",
        (f"{_QUOTAS}:_check_quota", "if value <= 0:", "if value < 0:"),
    ),
    of_users(
        "rate-beyond-an-int",
        "The rate of connections may be more than a broker's int holds.",
        "test_client_quota_control.py::test_a_quota_that_cannot_be_set_is_refused",
        (f"{_QUOTAS}:_check_quota", "if value > largest:", "if value > largest * 2:"),
    ),
    of_users(
        "address-with-a-user",
        "A quota is for an address and a user together, which no broker can look up.",
        "test_client_quota_control.py::test_an_entity_that_cannot_be_is_refused_whatever_is_said_of_it",
        (f"{_QUOTAS}:_check_entity", "if len(names) > 1:", "if len(names) > 2:"),
    ),
    of_users(
        "rates-of-addresses-for-all",
        "An address may have the quotas of users, which no broker looks up for it.",
        "test_client_quota_control.py::test_a_quota_that_cannot_be_set_is_refused",
        (
            f"{_QUOTAS}:_check_entity",
            "return _OF_ADDRESSES",
            "return {**_OF_ADDRESSES, **_OF_USERS_AND_CLIENTS}",
        ),
    ),
    of_users(
        "half-of-an-entity",
        "A quota that cannot be is left out, and the others of its entity are set.",
        "test_client_quota_control.py::test_entities_succeed_and_fail_by_themselves_with_all_that_is_said_of_them",
        (f"{_QUOTAS}:_changes", "_check_quota(known, key, value)", "if value % 1: continue"),
    ),
    of_users(
        "quota-written-again",
        "A quota that is what it was is written again, with every run of whatever keeps it so.",
        "test_client_quota_control.py::test_what_is_there_is_not_written_again_and_what_is_not_there_is_not_removed",
        (f"{_QUOTAS}:_changes", "if there is None or not _is_same(there.value, value):", "if True:"),
    ),
    of_users(
        "default-has-no-name",
        "The quota of all users without one of their own is that of a user without a name.",
        "test_client_quota_control.py::test_an_entity_that_cannot_be_is_refused_whatever_is_said_of_it",
        (f"{_QUOTAS}:_check_entity", 'if name == "":', "if False:"),
    ),
    of_users(
        "quotas-validated-and-written",
        "A request that only validates sets its quotas.",
        "test_client_quota_control.py::test_who_only_validates_changes_nothing",
        (f"{_QUOTAS}:alter_client_quotas", "[] if request.validate_only else records", "records"),
    ),
    of_users(
        "map-without-growth",
        "The buckets of a map are always sixteen: records stand in another order than Kafka's.",
        "test_java_hash_map.py::test_a_map_goes_through_its_buckets",
        ("kraftd.controller.java_hash_map:JavaHashMap.__setitem__", "self._buckets *= 2", "break"),
    ),
    of_users(
        "password-kept",
        "The salted password is kept as it came: whoever reads the log logs in.",
        "test_scram_control.py::test_the_keys_are_derived_from_the_salted_password",
        (
            f"{_SCRAM}:_stored_key",
            'hashlib.new(mechanism.digest, _keyed(mechanism, salted_password, b"Client Key")).digest()',
            "salted_password",
        ),
    ),
    of_users(
        "client-key-kept",
        "The client's key is kept and not its hash: whoever reads the log logs in.",
        "test_scram_control.py::test_the_keys_are_derived_from_the_salted_password",
        (
            f"{_SCRAM}:_stored_key",
            'hashlib.new(mechanism.digest, _keyed(mechanism, salted_password, b"Client Key")).digest()',
            '_keyed(mechanism, salted_password, b"Client Key")',
        ),
    ),
    of_users(
        "few-iterations",
        "A password may be hashed once: it is found out from what is kept.",
        "test_scram_control.py::test_what_cannot_be_is_refused",
        (f"{_SCRAM}:_check_iterations", "mechanism.iterations_min <= iterations", "0 <= iterations"),
    ),
    of_users(
        "removed-and-set",
        "A user whose credential is removed and set in one request has it removed.",
        "test_scram_control.py::test_of_a_user_who_is_named_twice_nothing_changes",
        (
            f"{_SCRAM}:_Credentials._check_user",
            "if self._deletions.remove(change.name) or self._upsertions.remove(change.name):",
            "if change.name in self._deletions or self._upsertions.remove(change.name):",
        ),
    ),
    of_users(
        "credential-for-old-nodes",
        "Credentials are written at a level at which nobody reads them: the decision fails.",
        "test_scram_control.py::test_the_cluster_must_be_at_a_level_that_has_credentials",
        (f"{_SCRAM}:_Credentials._check_user", "if self._level < SCRAM_SINCE:", "if False:"),
    ),
    of_users(
        "removal-of-what-is-not-there",
        "A credential that is not there is removed: no node can apply that.",
        "test_scram_control.py::test_what_cannot_be_is_refused",
        (
            f"{_SCRAM}:_Credentials.delete",
            "if self._there.get((deletion.mechanism, deletion.name)) is None:",
            "if False:",
        ),
    ),
    of_users(
        "password-in-the-log",
        "The line about a decision that failed shows the salted password.",
        "test_scram_control.py::test_no_message_shows_a_secret",
        (
            "kraftd.serde.generated:shown_without",
            "HIDDEN if name in secrets else repr(getattr(message, name))",
            "repr(getattr(message, name))",
        ),
    ),
)
