"""Bugs of the decisions about the levels of features."""

from tests.sabotage.mutant import Mutant, mutant

_TESTS = "tests/unit/controller/test_feature_control.py::"


def of_features(name: str, source: str, text: str, test: str, function: str, *edits: str) -> Mutant:
    """A mutant of `kraftd.controller.feature_control`, which one unit test catches."""
    old, new = edits
    target = f"kraftd.controller.feature_control:{function}"
    return mutant(name, source, text, "tests", (target, old, new), where=(_TESTS + test,))


def of_registration(name: str, text: str, test: str, edit: tuple[str, str, str]) -> Mutant:
    """A mutant of how the active controller registers, which a unit test of its life catches."""
    return mutant(
        name, "KIP-919", text, "tests", edit, where=(f"tests/unit/controller/test_controller.py::{test}",)
    )


FEATURE_LEVELS = (
    of_features(
        "one-feature-of-a-refused-request-is-written",
        "KIP-584",
        "A request whose second feature is refused raises the first.",
        "test_one_that_fails_keeps_all_from_being_written",
        "update_features",
        "return (), refuse(request, error.code,",
        "return [FeatureLevelRecord(METADATA_VERSION, 30)], refuse(request, error.code,",
    ),
    of_features(
        "the-first-of-a-feature-counts",
        "KIP-584",
        "Of a feature that is named twice the first level is written; in Kafka it is the last.",
        "test_the_last_counts_of_a_feature_that_is_named_twice",
        "_by_feature",
        "for update in request.feature_updates",
        "for update in reversed(request.feature_updates)",
    ),
    of_features(
        "a-dry-run-is-written",
        "KIP-584",
        "What was only to be checked is written.",
        "test_nothing_is_written_where_it_is_only_checked",
        "update_features",
        "if request.validate_only:",
        "if request.validate_only and not records:",
    ),
    of_features(
        "brokers-are-not-asked-for-a-level",
        "KIP-584",
        "A level is raised that a broker cannot run at: it ends at its next start.",
        "test_every_node_must_support_a_level",
        "_nodes",
        'yield f"Broker {broker.broker_id}", ranges.get(name, _NOT_SUPPORTED)',
        'yield f"Broker {broker.broker_id}", ranges.get(name, (0, 99))',
    ),
    of_features(
        "unregistered-controllers-are-passed-over",
        "KIP-919",
        "A level is raised that a controller which has not registered may not support.",
        "test_a_controller_that_has_not_registered_may_not_support_a_level",
        "_unregistered",
        "return context.settings.voter_ids - known - {context.settings.node_id}",
        "return frozenset()",
    ),
    of_features(
        "metadata-is-lost-on-the-way-down",
        "KIP-778",
        "metadata.version goes down past a level that brought records: the log cannot be read any more.",
        "test_metadata_version_goes_down_only_where_nothing_is_lost",
        "_check_metadata_version",
        "level < each <= current",
        "level < each < current",
    ),
    of_features(
        "an-upgrade-may-go-down",
        "KIP-584",
        "A level goes down though nobody said that it may.",
        "test_what_cannot_be_is_refused_with_its_reason",
        "_complaint",
        "if level < current and upgrade_type == UpgradeType.UPGRADE:",
        "if level < current and upgrade_type > UpgradeType.UNSAFE_DOWNGRADE:",
    ),
    of_features(
        "dependencies-as-they-were",
        "KIP-1022",
        "Two features that are raised together are refused, since the one that the other needs is not there yet.",
        "test_eligible_leader_replicas_need_their_metadata_version",
        "update_features",
        "after = {**dict(context.image[FEATURES].items()), **wanted}",
        "after = dict(context.image[FEATURES].items())",
    ),
    of_features(
        "brokers-keep-a-minimum-in-sync",
        "KIP-966",
        "With eligible leader replicas two controllers take different values of min.insync.replicas.",
        "test_with_eligible_leader_replicas_the_minimum_in_sync_is_one_value",
        "_one_min_isr",
        "if name != CLUSTER_DEFAULT and",
        "if name == CLUSTER_DEFAULT and",
    ),
    of_registration(
        "leader-without-a-registration",
        "The active controller registers only when it becomes active again: until then nobody knows what it can run.",
        "test_the_active_controller_registers_as_soon_as_the_level_has_registrations",
        (
            "kraftd.controller.timers:Timers.committed",
            "if image[FEATURES] is before[FEATURES] or self._me is None:",
            "if True:",
        ),
    ),
    of_registration(
        "registered-below-the-level",
        "A controller registers at a level that has no such record: writing it fails, again and again.",
        "test_a_level_that_changes_nothing_about_registrations_writes_none",
        (
            "kraftd.controller.controller_registration:missing_registration",
            "image.metadata_version < REGISTER_CONTROLLER_SINCE or",
            "",
        ),
    ),
    of_registration(
        "registers-for-ever",
        "The active controller registers again and again.",
        "test_the_active_controller_registers_as_soon_as_the_level_has_registrations",
        ("kraftd.controller.timers:Timers.due", "self._register = False", "pass"),
    ),
    mutant(
        "minimum-of-no-file",
        "Kafka 4.3.1",
        "A new cluster with eligible leader replicas has min.insync.replicas=1, whatever the file says.",
        "tests",
        ("kraftd.controller.activation:_bootstrap", "value=str(min_insync_replicas),", 'value="1",'),
        where=(
            "tests/unit/controller/test_controller.py"
            "::test_a_new_cluster_has_the_minimum_in_sync_of_the_file",
        ),
    ),
)
