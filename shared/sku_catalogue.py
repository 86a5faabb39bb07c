"""Common Azure VM sizes, so that a pools file need not repeat what everybody can look up.

Figures are the nominal ones of Microsoft's size pages. A node reports a little less memory than its size's name says,
which is why `learnt_reservation` takes a share for the firmware and kernel beside what AKS documents. A pool whose
nodes exist should say `reserved:` as `kubectl describe node` shows it; that beats every estimate.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

PODS_PER_NODE = 110
"""The kubelet's own default of maxPods, and AKS's with overlay networking up to 250: the smaller is safe."""

GPU = "nvidia.com/gpu"

_GIB = 1024**3
_MIB = 1024**2

_CPU_MEMORY_GPU: Mapping[str, tuple[int, int, int]] = {
    "Standard_D2s_v5": (2, 8, 0),
    "Standard_D4s_v5": (4, 16, 0),
    "Standard_D8s_v5": (8, 32, 0),
    "Standard_D16s_v5": (16, 64, 0),
    "Standard_D32s_v5": (32, 128, 0),
    "Standard_D48s_v5": (48, 192, 0),
    "Standard_D64s_v5": (64, 256, 0),
    "Standard_D96s_v5": (96, 384, 0),
    "Standard_E2s_v5": (2, 16, 0),
    "Standard_E4s_v5": (4, 32, 0),
    "Standard_E8s_v5": (8, 64, 0),
    "Standard_E16s_v5": (16, 128, 0),
    "Standard_E32s_v5": (32, 256, 0),
    "Standard_E48s_v5": (48, 384, 0),
    "Standard_E64s_v5": (64, 512, 0),
    "Standard_F2s_v2": (2, 4, 0),
    "Standard_F4s_v2": (4, 8, 0),
    "Standard_F8s_v2": (8, 16, 0),
    "Standard_F16s_v2": (16, 32, 0),
    "Standard_F32s_v2": (32, 64, 0),
    "Standard_F48s_v2": (48, 96, 0),
    "Standard_F64s_v2": (64, 128, 0),
    "Standard_F72s_v2": (72, 144, 0),
    "Standard_NC4as_T4_v3": (4, 28, 1),
    "Standard_NC8as_T4_v3": (8, 56, 1),
    "Standard_NC16as_T4_v3": (16, 110, 1),
    "Standard_NC64as_T4_v3": (64, 440, 4),
    "Standard_NC6s_v3": (6, 112, 1),
    "Standard_NC12s_v3": (12, 224, 2),
    "Standard_NC24s_v3": (24, 448, 4),
    "Standard_NC24ads_A100_v4": (24, 220, 1),
    "Standard_NC48ads_A100_v4": (48, 440, 2),
    "Standard_NC96ads_A100_v4": (96, 880, 4),
    "Standard_NC40ads_H100_v5": (40, 320, 1),
    "Standard_NC80adis_H100_v5": (80, 640, 2),
    "Standard_NV36ads_A10_v5": (36, 440, 1),
    "Standard_NV72ads_A10_v5": (72, 880, 2),
    "Standard_ND96asr_v4": (96, 900, 8),
    "Standard_ND96amsr_A100_v4": (96, 1900, 8),
    "Standard_ND96isr_H100_v5": (96, 1900, 8),
}

_FEWER_DISKS: Mapping[str, int] = {
    "Standard_NC24ads_A100_v4": 8,
    "Standard_NC48ads_A100_v4": 16,
    "Standard_NC40ads_H100_v5": 8,
    "Standard_NC80adis_H100_v5": 16,
    "Standard_ND96asr_v4": 16,
    "Standard_ND96amsr_A100_v4": 16,
    "Standard_ND96isr_H100_v5": 16,
}

KNOWN_SKUS = tuple(_CPU_MEMORY_GPU)
_FIGURES = {name.casefold(): figures for name, figures in _CPU_MEMORY_GPU.items()}
_FEWER = {name.casefold(): count for name, count in _FEWER_DISKS.items()}

_FAMILIES: Mapping[str, str] = {
    "B_ms": "standardBSFamily",
    "NC_as_T4_v3": "Standard NCASv3_T4 Family",
    "NC_ads_A100_v4": "StandardNCADSA100v4Family",
    "NC_ads_H100_v5": "StandardNCadsH100v5Family",
    "NC_adis_H100_v5": "StandardNCadsH100v5Family",
    "NV_ads_A10_v5": "StandardNVADSA10v5Family",
    "ND_asr_v4": "Standard NDASv4_A100 Family",
    "ND_amsr_A100_v4": "standardNDAMSv4_A100Family",
    "ND_isr_H100_v5": "standardNDSH100v5Family",
}
"""Series (the size without its number) whose quota is not named by the common rule, as usages lists show them. A name
that is wrong matches no usage, and then that quota is not planned with."""

_SIZE = re.compile(r"Standard_(?P<letters>[A-Z]+)(?P<cores>\d+)(?P<features>[a-z]*)(?P<rest>(?:_[A-Z]\w*?)?(?:_v\d+)?)")


def quota_family(sku: str) -> str:
    """The core quota that a size counts against, as compute's usages list names it: Standard_D4s_v5 has cores of
    standardDSv5Family. "" for a name that tells none (of constrained cores, or of no known convention)."""
    found = _SIZE.fullmatch(sku)
    if found is None:
        return ""
    letters, features, rest = found["letters"], found["features"], found["rest"]
    known = _FAMILIES.get(f"{letters}_{features}{rest}")
    if known is not None or re.fullmatch(r"(_v\d+)?", rest) is None:
        return known or ""
    return f"standard{letters}{features.upper()}{rest.removeprefix('_')}Family"


def vcpus(sku: str) -> int:
    """The vCPUs that a known size counts for; 0 for an unknown one."""
    known = capacity(sku)
    return known["cpu"] // 1000 if known else 0


def capacity(sku: str) -> dict[str, int] | None:
    """What a node of this size has, in the core's units; None for an unknown size. Names are compared without case."""
    figures = _FIGURES.get(sku.casefold())
    if figures is None:
        return None
    cores, gib, gpus = figures
    shape = {"cpu": cores * 1000, "memory": gib * _GIB, "pods": PODS_PER_NODE}
    return {**shape, GPU: gpus} if gpus else shape


def data_disks(sku: str) -> int | None:
    """How many data disks can be attached to this size: two per core and at most 32, save for some GPU sizes; None for
    an unknown one. Source: the size pages, and what the Azure disk driver tells the kubelet of these sizes."""
    shape = capacity(sku)
    if shape is None:
        return None
    return _FEWER.get(sku.casefold(), min(32, 2 * (shape["cpu"] // 1000)))


def learnt_reservation(shape: Mapping[str, int]) -> dict[str, int]:
    """What AKS keeps of a node, for a pool that names only its size.

    Source: Microsoft Learn, "Node resource reservations" (AKS 1.29 and later): CPU by the number of cores; memory the
    smaller of 20 MB per pod + 50 MB and a quarter, plus the eviction threshold of 100 Mi. Our addition, an assumption
    on the cautious side: 3 % of the memory never reaches the kubelet at all.
    """
    pods, memory = shape.get("pods", PODS_PER_NODE), shape["memory"]
    kubelet = min((20 * pods + 50) * _MIB, memory // 4)
    reserved = {"cpu": _cpu_reservation(shape["cpu"] // 1000), "memory": kubelet + 100 * _MIB + memory * 3 // 100}
    return {name: min(amount, shape[name]) for name, amount in reserved.items()}


def _cpu_reservation(cores: int) -> int:
    """Millicores; the documented table (1: 60, 2: 100, 4: 140, 8: 180, 16: 260, 32: 420, 64: 740) with straight lines
    between its points."""
    return 60 + 40 * min(1, max(0, cores - 1)) + 20 * min(2, max(0, cores - 2)) + 10 * max(0, cores - 4)
