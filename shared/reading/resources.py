"""What a pod asks of a node, added up the way kube-scheduler does it.

Source of the rules: `k8s.io/component-helpers/resource` (PodRequests, AggregateContainerRequests) of Kubernetes 1.34,
which kube-scheduler's NodeResourcesFit uses. In short: containers and sidecars run together and are added; ordinary
init containers run one after the other, each beside the sidecars started before it, and only the largest counts;
the pod's own `spec.resources` replaces the sum for cpu, memory and hugepages; overhead comes on top.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from shared.quantity import amount

Json = dict[str, Any]
Requests = tuple[tuple[str, int], ...]

MAX_AMOUNT = 2**53
"""Units; a pod that asks for more fits no machine, and below it sums stay exact in 64-bit integers and floats alike."""

_EMPTY: Json = {}


def pod_requests(pod: Json) -> dict[str, int]:
    """Effective requests in the core's units, zeros left out. Raises ValueError naming a quantity that is none."""
    return dict(request_tuple(pod))


def request_tuple(pod: Json) -> Requests:
    """The same, sorted by name, as one shared tuple for all pods that ask for the same."""
    spec = pod.get("spec") or _EMPTY
    containers: Sequence[Json] = spec.get("containers") or ()
    plain = not (spec.get("initContainers") or spec.get("overhead") or spec.get("resources"))
    resized = _resized(pod) if spec.get("nodeName") else _EMPTY
    if plain and not resized and len(containers) == 1:
        (only,) = containers
        return _container_requests(only)
    total = _aggregate(containers, spec.get("initContainers") or (), resized)
    _apply_pod_level(total, spec.get("resources") or _EMPTY)
    _add(total, _canonical(tuple((spec.get("overhead") or _EMPTY).items())))
    return _settled(tuple(total.items()))


def amounts(quantities: Mapping[str, str | int | float]) -> dict[str, int]:
    """A resource list of the API (such as `status.allocatable`) in the core's units, zeros left out."""
    return dict(_canonical(tuple(quantities.items())))


def _aggregate(
    containers: Iterable[Json], init_containers: Iterable[Json], resized: Mapping[str, Requests]
) -> dict[str, int]:
    """Containers with sidecars, or the largest step of the init sequence, whichever is more, per resource."""
    total: dict[str, int] = {}
    for container in containers:
        _add(total, _grown(container, resized))
    sidecars: dict[str, int] = {}
    largest_step: dict[str, int] = {}
    for container in init_containers:
        requests = _grown(container, resized)
        if container.get("restartPolicy") == "Always":
            _add(total, requests)
            _add(sidecars, requests)
            step = sidecars
        else:
            step = dict(sidecars)
            _add(step, requests)
        _raise_to(largest_step, step.items())
    _raise_to(total, largest_step.items())
    return total


def _apply_pod_level(total: dict[str, int], resources: Json) -> None:
    """Pod-level requests win; a pod-level limit stands in where neither the pod nor a container gave a request."""
    if not resources:
        return
    given = resources.get("requests") or _EMPTY
    requests = _canonical(tuple(given.items()))
    for name, limit in _canonical(tuple((resources.get("limits") or _EMPTY).items())):
        if name not in given and name not in total and _pod_level(name):
            total[name] = limit
    total.update((name, count) for name, count in requests if _pod_level(name))


def _pod_level(name: str) -> bool:
    return name in {"cpu", "memory"} or name.startswith("hugepages-")


def _grown(container: Json, resized: Mapping[str, Requests]) -> Requests:
    requests = _container_requests(container)
    actual = resized.get(container.get("name", ""))
    if not actual:
        return requests
    larger = dict(requests)
    _raise_to(larger, actual)
    return tuple(larger.items())


def _resized(pod: Json) -> dict[str, Requests]:
    """What containers of a bound pod hold already, by name, where an in-place resize let it differ from the spec.

    Until a resize is done, the scheduler reserves the larger of what is asked for and what is held.
    """
    status = pod.get("status") or _EMPTY
    found: dict[str, Requests] = {}
    for container in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())):
        held = (container.get("resources") or _EMPTY).get("requests") or container.get("allocatedResources")
        if held:
            found[container.get("name", "")] = _canonical(tuple(held.items()))
    return found


def _container_requests(container: Json) -> Requests:
    """A missing request is the limit, as the API server sets it; a manifest that never met one may lack it."""
    resources = container.get("resources")
    if not resources:
        return ()
    requests, limits = resources.get("requests"), resources.get("limits")
    if not limits:
        return _canonical(tuple(requests.items())) if requests else ()
    return _canonical(tuple({**limits, **(requests or _EMPTY)}.items()))


@lru_cache(maxsize=16384, typed=True)
def _canonical(quantities: tuple[tuple[str, str | int | float], ...]) -> Requests:
    return _settled(tuple((name, amount(name, quantity)) for name, quantity in quantities))


@lru_cache(maxsize=16384)
def _settled(requests: Requests) -> Requests:
    return tuple(sorted((name, min(count, MAX_AMOUNT)) for name, count in requests if count > 0))


def _add(total: dict[str, int], requests: Iterable[tuple[str, int]]) -> None:
    for name, count in requests:
        total[name] = total.get(name, 0) + count


def _raise_to(total: dict[str, int], requests: Iterable[tuple[str, int]]) -> None:
    for name, count in requests:
        if count > total.get(name, 0):
            total[name] = count
