"""Bugs of the fold: each rule by which a record changes the image, broken once.

Every one of them is caught by a unit test, and by Kafka's own classes where these can see it
(`tests/interop/test_fold_mutants.py` runs them all against what Kafka made of the same records).
"""

from tests.sabotage.corpus.fold_of_topics import FOLD_OF_TOPICS, of_fold

FOLD = (
    # --- features ---
    of_fold(
        "feature-off-stays",
        "A feature at level 0 is still listed.",
        "test_topics.py::test_elr_is_forgotten_when_the_feature_goes_off",
        ("parts.features:FeaturesImage.put", "if level:", "if True:"),
    ),
    of_fold(
        "elr-outlives-its-feature",
        "Eligible leader replicas stay when their feature is switched off.",
        "test_topics.py::test_elr_is_forgotten_when_the_feature_goes_off",
        (
            "parts.features:apply_feature",
            "record.feature_level == 0:",
            "record.feature_level < 0:",
        ),
    ),
    of_fold(
        "elr-off-raises-epochs",
        "Partitions get a new epoch when eligible leader replicas are switched off.",
        "test_topics.py::test_elr_is_forgotten_when_the_feature_goes_off",
        ("parts.topics.builder:TopicsBuilder.drop_elr", "partitions.without_elr", "partitions.cleared"),
    ),
    of_fold(
        "negative-level",
        "A feature can be at a level below 0.",
        "test_image.py::test_an_impossible_record_is_one_error_with_its_offset_and_changes_nothing",
        (
            "parts.features:apply_feature",
            "record.feature_level < 0:",
            "record.feature_level < -9:",
        ),
    ),
    of_fold(
        "kraft-version-feature-folded",
        "A level of kraft.version that old logs hold is a feature of the image.",
        "test_image.py::test_a_level_of_kraft_version_is_no_feature_of_the_image",
        ("parts.features:apply_feature", "record.name == KRAFT_VERSION:", "False:"),
    ),
    of_fold(
        "migration-states-pile-up",
        "A new state of the migration from ZooKeeper does not replace the one before.",
        "test_clients.py::test_a_later_record_takes_the_place_of_an_earlier_one",
        ("parts.zk_migration:_apply", "THE_ONLY", "record.zk_migration_state"),
    ),
    # --- brokers and controllers ---
    of_fold(
        "unregistered-broker-stays",
        "A broker that was unregistered is still listed.",
        "test_brokers.py::test_an_unregistered_broker_leaves_no_trace",
        (
            "parts.brokers:_unregister",
            "brokers.remove(record.broker_id)",
            "brokers",
        ),
    ),
    of_fold(
        "unfence-fences",
        "UnfenceBroker fences, as FenceBroker does.",
        "test_brokers.py::test_a_change_changes_what_it_names_and_nothing_else",
        ("parts.brokers:_unfence", "fenced=False", "fenced=True"),
    ),
    of_fold(
        "broker-epoch-ignored",
        "A record about an earlier registration changes the one of today.",
        "test_brokers.py::test_a_record_that_cannot_follow_is_one_error",
        ("parts.brokers:in_epoch", "if broker.broker_epoch != epoch:", "if broker.broker_epoch < epoch:"),
    ),
    of_fold(
        "unchanged-means-unfenced",
        "A change of a broker that says nothing of fencing unfences it.",
        "test_brokers.py::test_a_change_changes_what_it_names_and_nothing_else",
        ("parts.brokers:changed", "get(change.fenced, broker.fenced)", "get(change.fenced, False)"),
    ),
    of_fold(
        "shutdown-forgotten",
        "A change that says nothing of it ends a broker's controlled shutdown.",
        "test_brokers.py::test_a_change_changes_what_it_names_and_nothing_else",
        (
            "parts.brokers:changed",
            "change.in_controlled_shutdown, broker.in_controlled_shutdown",
            "change.in_controlled_shutdown, False",
        ),
    ),
    of_fold(
        "log-dirs-emptied",
        "A change that names no log directories takes all from a broker.",
        "test_brokers.py::test_a_change_changes_what_it_names_and_nothing_else",
        (
            "parts.brokers:changed",
            "_sorted(change.log_dirs) if change.log_dirs else broker.log_dirs",
            "_sorted(change.log_dirs)",
        ),
    ),
    of_fold(
        "log-dirs-stay",
        "A change of a broker's log directories is not taken.",
        "test_brokers.py::test_a_change_changes_what_it_names_and_nothing_else",
        (
            "parts.brokers:changed",
            "_sorted(change.log_dirs) if change.log_dirs else broker.log_dirs",
            "broker.log_dirs or _sorted(change.log_dirs)",
        ),
    ),
    of_fold(
        "cordoned-emptied",
        "A change that does not speak of cordoned log directories uncordons all.",
        "test_brokers.py::test_a_change_changes_what_it_names_and_nothing_else",
        (
            "parts.brokers:changed",
            "broker.cordoned_log_dirs if cordoned is None else",
            "() if cordoned is None else",
        ),
    ),
    of_fold(
        "never-uncordoned",
        "A change that names no cordoned log directory leaves those cordoned that were.",
        "test_brokers.py::test_a_change_changes_what_it_names_and_nothing_else",
        ("parts.brokers:changed", "if cordoned is None else", "if not cordoned else"),
    ),
    of_fold(
        "impossible-fencing",
        "A change of a broker may hold a value of `fenced` that means nothing.",
        "test_brokers.py::test_a_record_that_cannot_follow_is_one_error",
        ("parts.brokers:changed", "change.fenced not in (-1, 0, 1)", "change.fenced not in range(-9, 9)"),
    ),
    of_fold(
        "listeners-in-any-order",
        "Two registrations that list the same listeners in another order are two states.",
        "test_brokers.py::test_what_has_no_order_is_kept_in_one",
        ("parts.brokers:_by_name", "for name in sorted(last)", "for name in last"),
    ),
    of_fold(
        "controller-registers-once",
        "The second registration of a controller is not taken.",
        "test_fold_rules.py::test_a_controller_that_registers_again_is_what_it_said_last",
        (
            "parts.controllers:ControllersImage.put",
            "self._registrations.set(node_id, registration)",
            "self._registrations.set(node_id, self._registrations.get(node_id, registration))",
        ),
    ),
    of_fold(
        "migration-readiness-lost",
        "A controller's registration forgets whether it was ready to migrate from ZooKeeper.",
        "test_fold_rules.py::test_a_controller_says_whether_it_is_ready_to_migrate",
        ("parts.controllers:ControllerRegistration.of", "record.zk_migration_ready", "False"),
    ),
    *FOLD_OF_TOPICS,
    # --- configs and clients ---
    of_fold(
        "null-is-a-value",
        "A config that is set to null stays as it was.",
        "test_image.py::test_a_config_is_set_replaced_and_removed_by_null",
        ("parts.configs:ConfigsBuilder.put", "if old is not None:", "if old is None:"),
    ),
    of_fold(
        "empty-is-null",
        "A config that is set to an empty value is removed.",
        "test_image.py::test_a_config_is_set_replaced_and_removed_by_null",
        ("parts.configs:ConfigsBuilder.put", "if value is None:", "if not value:"),
    ),
    of_fold(
        "one-quota-an-entity",
        "A second quota of the same client replaces the first.",
        "test_clients.py::test_quotas_differ_by_entity_default_and_name",
        ("parts.client_quotas:quota_key", "return entity, key", 'return entity, ""'),
    ),
    of_fold(
        "removed-quota-stays",
        "A quota that is removed is set.",
        "test_clients.py::test_a_quota_or_a_token_may_be_removed_twice",
        ("parts.client_quotas:with_quota", "if record.remove", "if record.remove and not record.value"),
    ),
    of_fold(
        "order-of-an-entity",
        "The same client named in another order is another one.",
        "test_clients.py::test_a_removal_leaves_no_trace",
        ("parts.client_quotas:with_quota", "for entity_type in sorted(last)", "for entity_type in last"),
    ),
    of_fold(
        "default-is-nameless",
        "The default of a type of client is the client without a name.",
        "test_clients.py::test_quotas_differ_by_entity_default_and_name",
        ("parts.client_quotas:quota_key", "one.entity_name is not None", "True"),
    ),
    of_fold(
        "producer-ids-of-a-broker",
        "The next producer id keeps who asked for the block before it.",
        "test_clients.py::test_who_was_given_a_block_of_producer_ids_does_not_matter",
        ("parts.producer_ids:_apply", "broker_id=_NO_BROKER, broker_epoch=_NO_BROKER", ""),
    ),
    of_fold(
        "one-acl",
        "An ACL replaces all others.",
        "test_clients.py::test_each_is_shown",
        ("parts.acls:_put", "record.id, record", "bytes(16), record"),
    ),
    of_fold(
        "removed-acl-stays",
        "An ACL that is removed stays.",
        "test_clients.py::test_a_removal_leaves_no_trace",
        ("parts.acls:_remove", "acls.remove(record.id)", "acls"),
    ),
    of_fold(
        "unknown-acl-removed",
        "An ACL that is not there can be removed.",
        "test_clients.py::test_an_acl_or_a_credential_that_is_not_there_cannot_be_removed",
        ("parts.acls:_remove", "if acls.get(record.id) is None:", "if acls is None:"),
    ),
    of_fold(
        "one-mechanism-a-user",
        "A credential of another mechanism replaces that of the same user.",
        "test_image.py::test_every_kind_of_record_that_can_be_read_can_be_folded",
        ("parts.scram:_put", "(record.mechanism, record.name)", "(1, record.name)"),
    ),
    of_fold(
        "removed-credential-stays",
        "A SCRAM credential that is removed stays.",
        "test_clients.py::test_a_removal_leaves_no_trace",
        ("parts.scram:_remove", "scram.remove(key)", "scram"),
    ),
    of_fold(
        "unknown-credential-removed",
        "A SCRAM credential that is not there can be removed.",
        "test_clients.py::test_an_acl_or_a_credential_that_is_not_there_cannot_be_removed",
        ("parts.scram:_remove", "if scram.get(key) is None:", "if scram is None:"),
    ),
    of_fold(
        "token-not-renewed",
        "A delegation token that is renewed stays as it was.",
        "test_clients.py::test_a_later_record_takes_the_place_of_an_earlier_one",
        (
            "parts.delegation_tokens:_put",
            "put(record.token_id, record)",
            "put(record.token_id, builder.state(DELEGATION_TOKENS).get(record.token_id) or record)",
        ),
    ),
    of_fold(
        "removed-token-stays",
        "A delegation token that is removed stays.",
        "test_clients.py::test_a_removal_leaves_no_trace",
        ("parts.delegation_tokens:_remove", ".remove(record.token_id)", ""),
    ),
    # --- transactions ---
    of_fold(
        "dirty-reads",
        "An open transaction shows.",
        "test_image.py::test_every_kind_of_record_that_can_be_read_can_be_folded",
        ("image_builder:ImageBuilder.image", "if self._committed_image is None:", "if self is not None:"),
    ),
    of_fold(
        "end-drops",
        "A transaction that ends well leaves nothing.",
        "test_fold_rules.py::test_a_transaction_that_ends_well_leaves_what_it_did",
        (
            "image_builder:ImageBuilder._end_transaction",
            "self._committed_image = None",
            "self._load(self._committed_image)\n    self._committed_image = None",
        ),
    ),
    of_fold(
        "abort-keeps",
        "An aborted transaction leaves all that it did.",
        "test_image.py::test_unknown_records_of_an_aborted_transaction_leave_no_trace",
        ("image_builder:ImageBuilder._abort_transaction", "self._load(before)", "pass"),
    ),
    of_fold(
        "begin-inside-begin",
        "A transaction may begin inside another, and what the first did shows.",
        "test_image.py::test_an_impossible_record_is_one_error_with_its_offset_and_changes_nothing",
        (
            "image_builder:ImageBuilder._begin_transaction",
            "if self._committed_image is not None:",
            "if self is None:",
        ),
    ),
    of_fold(
        "end-without-begin",
        "A transaction may end that never began.",
        "test_image.py::test_an_impossible_record_is_one_error_with_its_offset_and_changes_nothing",
        (
            "image_builder:ImageBuilder._end_transaction",
            "if self._committed_image is None:",
            "if self is None:",
        ),
    ),
    # --- the hash ---
    of_fold(
        "hash-remembers-topics",
        "The hash of an image depends on topics that were removed.",
        "test_fold_rules.py::test_the_name_of_a_removed_topic_is_free",
        (
            "parts.topics.builder:TopicsBuilder.remove_topic",
            "self._sum -= topic.sum + hash_of_record(topic.record)",
            "self._sum -= topic.sum",
        ),
    ),
    of_fold(
        "hash-remembers-configs",
        "The hash of an image depends on configs that went with their topic.",
        "test_topics.py::test_a_removed_topic_takes_its_partitions_and_configs_along",
        ("parts.configs:ConfigsBuilder.remove", "self._sum -= sum(", "self._sum -= 0 * sum("),
    ),
    of_fold(
        "hash-remembers-entities",
        "The hash of an image depends on what an entity was before.",
        "test_brokers.py::test_a_change_changes_what_it_names_and_nothing_else",
        ("entities:Entities.put", "hashes -= hash_of_record(old, self.hash_version)", "pass"),
    ),
)
"""Rules, by what they are about."""
