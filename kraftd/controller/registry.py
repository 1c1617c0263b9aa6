"""The admin APIs of the controller, one line each.

A new API is a module that declares its operation, and its line here.
"""

from kraftd.controller.configuration_control import INCREMENTAL_ALTER_CONFIGS
from kraftd.controller.describe_configs import DESCRIBE_CONFIGS
from kraftd.controller.list_configs import LIST_CONFIGS
from kraftd.controller.operations import Operation

OPERATIONS: tuple[Operation, ...] = (
    INCREMENTAL_ALTER_CONFIGS,
    DESCRIBE_CONFIGS,
    LIST_CONFIGS,
)
