"""Names that Azure gives to what it makes: instances, computers, disks, NICs."""

from __future__ import annotations

from random import Random

_BASE36 = "0123456789abcdefghijklmnopqrstuvwxyz"


def uniform_computer_name(prefix: str, instance: int) -> str:
    """Prefix and the instance number in six base-36 digits, as uniform scale sets do (documented)."""
    digits = ""
    for _ in range(6):
        instance, digit = divmod(instance, 36)
        digits = _BASE36[digit] + digits
    return prefix + digits


def flexible_vm_name(scale_set: str, ids: Random) -> str:
    """Set name and eight hex digits (documented for Flexible orchestration)."""
    return f"{scale_set}_{ids.getrandbits(32):08x}"


def flexible_computer_name(prefix: str, ids: Random) -> str:
    """Prefix and six random letters or digits."""
    return prefix + "".join(ids.choice(_BASE36) for _ in range(6))


def os_disk_name(vm_name: str, ids: Random, scale_set: str = "") -> str:
    """What an unnamed OS disk is called; in a uniform set the set's name comes first."""
    owner = f"{scale_set}_{vm_name}" if scale_set else vm_name
    return f"{owner}_OsDisk_1_{ids.getrandbits(128):032x}"


def nic_name(configuration: str, ids: Random) -> str:
    """What a NIC made from a configuration is called."""
    return f"{configuration}-{ids.getrandbits(32):08x}"
