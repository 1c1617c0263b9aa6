"""The admin APIs of the controller, one line each.

A new API is a module that declares its operation, and its line here.
"""

from typing import Any

from kraftd.controller.acls.creating import CREATE_ACLS
from kraftd.controller.acls.deleting import DELETE_ACLS
from kraftd.controller.acls.describing import DESCRIBE_ACLS
from kraftd.controller.brokers.heartbeats import BROKER_HEARTBEAT
from kraftd.controller.brokers.listing import LIST_BROKERS
from kraftd.controller.brokers.registration import BROKER_REGISTRATION
from kraftd.controller.brokers.unregistering import UNREGISTER_BROKER
from kraftd.controller.client_quota_control import ALTER_CLIENT_QUOTAS
from kraftd.controller.configs.configuration_control import ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS
from kraftd.controller.configs.describe_configs import DESCRIBE_CONFIGS
from kraftd.controller.configs.listing import LIST_CONFIGS
from kraftd.controller.controller_registration import CONTROLLER_REGISTRATION
from kraftd.controller.feature_control import UPDATE_FEATURES
from kraftd.controller.operations import Operation, WriteOperation
from kraftd.controller.partitions.conditions import LIST_PARTITIONS
from kraftd.controller.partitions.directory_assignment import ASSIGN_REPLICAS_TO_DIRS
from kraftd.controller.partitions.electing import ELECT_LEADERS
from kraftd.controller.partitions.explaining import EXPLAIN_PARTITION
from kraftd.controller.partitions.in_sync import ALTER_PARTITION
from kraftd.controller.partitions.listing import LIST_PARTITION_REASSIGNMENTS
from kraftd.controller.partitions.reassignment import ALTER_PARTITION_REASSIGNMENTS
from kraftd.controller.producer_ids import ALLOCATE_PRODUCER_IDS
from kraftd.controller.scram_control import ALTER_USER_SCRAM_CREDENTIALS
from kraftd.controller.topics.adding import CREATE_PARTITIONS
from kraftd.controller.topics.creating import CREATE_TOPICS
from kraftd.controller.topics.deleting import DELETE_TOPICS
from kraftd.controller.topics.listing import DESCRIBE_TOPICS, LIST_TOPICS
from kraftd.controller.topics.listing_deletions import LIST_DELETIONS

OPERATIONS: tuple[Operation, ...] = (
    BROKER_REGISTRATION,
    BROKER_HEARTBEAT,
    UNREGISTER_BROKER,
    ALLOCATE_PRODUCER_IDS,
    CONTROLLER_REGISTRATION,
    UPDATE_FEATURES,
    INCREMENTAL_ALTER_CONFIGS,
    ALTER_CONFIGS,
    DESCRIBE_CONFIGS,
    LIST_CONFIGS,
    LIST_BROKERS,
    LIST_TOPICS,
    DESCRIBE_TOPICS,
    ALTER_PARTITION,
    ASSIGN_REPLICAS_TO_DIRS,
    ELECT_LEADERS,
    ALTER_PARTITION_REASSIGNMENTS,
    LIST_PARTITION_REASSIGNMENTS,
    LIST_PARTITIONS,
    EXPLAIN_PARTITION,
    CREATE_TOPICS,
    CREATE_PARTITIONS,
    DELETE_TOPICS,
    LIST_DELETIONS,
    ALTER_CLIENT_QUOTAS,
    ALTER_USER_SCRAM_CREDENTIALS,
    CREATE_ACLS,
    DELETE_ACLS,
    DESCRIBE_ACLS,
)

READS: frozenset[type[Any]] = frozenset(
    each.request for each in OPERATIONS if type(each) is not WriteOperation
)
"""The requests that only read. Their responses may be long."""
