"""Azure Resource Manager's compute part as a stand-in: a sequential state machine on a timeline."""

from local.arm.faults import Fault, Throttle
from local.arm.machines import Machine
from local.arm.pools import DEFAULT_SCOPE, vm_template
from local.arm.settings import ArmLatencies, Quirks
from local.arm.stand_in import ArmStandIn
from local.arm.truth import Leaks, Truth, Write

__all__ = [
    "DEFAULT_SCOPE",
    "ArmLatencies",
    "ArmStandIn",
    "Fault",
    "Leaks",
    "Machine",
    "Quirks",
    "Throttle",
    "Truth",
    "Write",
    "vm_template",
]
