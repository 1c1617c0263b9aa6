"""The admin APIs of the controller, one line each.

A new API is a module that declares its operation, and its line here.
"""

from typing import Any

from kraftd.controller.brokers.heartbeats import BROKER_HEARTBEAT
from kraftd.controller.brokers.registration import BROKER_REGISTRATION
from kraftd.controller.brokers.unregistering import UNREGISTER_BROKER
from kraftd.controller.brokers_listing import LIST_BROKERS
from kraftd.controller.configuration_control import INCREMENTAL_ALTER_CONFIGS
from kraftd.controller.controller_registration import CONTROLLER_REGISTRATION
from kraftd.controller.describe_configs import DESCRIBE_CONFIGS
from kraftd.controller.list_configs import LIST_CONFIGS
from kraftd.controller.operations import Operation, WriteOperation
from kraftd.controller.partitions.directory_assignment import ASSIGN_REPLICAS_TO_DIRS
from kraftd.controller.partitions.in_sync import ALTER_PARTITION
from kraftd.controller.partitions.listing import LIST_PARTITION_REASSIGNMENTS
from kraftd.controller.producer_ids import ALLOCATE_PRODUCER_IDS
from kraftd.controller.topics_listing import DESCRIBE_TOPICS, LIST_TOPICS

OPERATIONS: tuple[Operation, ...] = (
    BROKER_REGISTRATION,
    BROKER_HEARTBEAT,
    UNREGISTER_BROKER,
    ALLOCATE_PRODUCER_IDS,
    CONTROLLER_REGISTRATION,
    INCREMENTAL_ALTER_CONFIGS,
    DESCRIBE_CONFIGS,
    LIST_CONFIGS,
    LIST_BROKERS,
    LIST_TOPICS,
    DESCRIBE_TOPICS,
    ALTER_PARTITION,
    ASSIGN_REPLICAS_TO_DIRS,
    LIST_PARTITION_REASSIGNMENTS,
)

READS: frozenset[type[Any]] = frozenset(
    each.request for each in OPERATIONS if type(each) is not WriteOperation
)
"""The requests that only read. Their responses may be long."""
