"""The admin APIs of the controller, one line each.

A new API is a module that declares its operation, and its line here.
"""

from typing import Any

from kraftd.controller.brokers_listing import LIST_BROKERS
from kraftd.controller.configuration_control import INCREMENTAL_ALTER_CONFIGS
from kraftd.controller.describe_configs import DESCRIBE_CONFIGS
from kraftd.controller.list_configs import LIST_CONFIGS
from kraftd.controller.operations import Operation, WriteOperation
from kraftd.controller.operations import Operation, ReadOperation
from kraftd.controller.partitions.directory_assignment import ASSIGN_REPLICAS_TO_DIRS
from kraftd.controller.partitions.in_sync import ALTER_PARTITION
from kraftd.controller.partitions.listing import LIST_PARTITION_REASSIGNMENTS
from kraftd.controller.topics_listing import DESCRIBE_TOPICS, LIST_TOPICS

OPERATIONS: tuple[Operation, ...] = (
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
