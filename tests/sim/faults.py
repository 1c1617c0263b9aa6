"""All that can go wrong with the nodes of a simulated cluster. A seed draws which of it (`fault_schedule`).

By what breaks: `fault_network`, `fault_machines`, `fault_disks`, `fault_snapshots`, `fault_strangers`,
`fault_impostors`; two of them at a time: `fault_meetings`. What goes wrong with brokers is not in this table
(`fault_brokers`): it is drawn apart, by seeds that have brokers. Clients that repeat a write whose outcome
they do not know are in `clients`, and are part of every seed's shape.
"""

from tests.sim.fault_base import Fault
from tests.sim.fault_disks import DISK_FAULTS
from tests.sim.fault_impostors import IMPOSTOR_FAULTS
from tests.sim.fault_machines import MACHINE_FAULTS
from tests.sim.fault_meetings import MEETINGS
from tests.sim.fault_network import NETWORK_FAULTS
from tests.sim.fault_snapshots import SNAPSHOT_FAULTS
from tests.sim.fault_strangers import STRANGER_FAULTS

FAULTS: tuple[type[Fault], ...] = (
    *NETWORK_FAULTS,
    *MACHINE_FAULTS,
    *DISK_FAULTS,
    *STRANGER_FAULTS,
    *IMPOSTOR_FAULTS,
    *MEETINGS,
    *SNAPSHOT_FAULTS,
)

__all__ = ["FAULTS", "Fault"]
