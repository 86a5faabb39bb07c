"""Which pods must start together, as people already say it: one reading for every way of saying it.

- our own annotations (`shared.names`): `sluice.io/gang` with `sluice.io/gang-min-member`, and by role with
  `sluice.io/gang-role` and `sluice.io/gang-role-min-member`; all on the pods;
- Kubernetes 1.36: `spec.schedulingGroup`, a PodGroup of scheduling.k8s.io (`schedulingPolicy.gang.minCount`);
- scheduler-plugins: label `scheduling.x-k8s.io/pod-group`, a PodGroup of scheduling.x-k8s.io (`minMember`);
- Volcano: annotation `scheduling.k8s.io/group-name`, a PodGroup of scheduling.volcano.sh (also `minTaskMember`);
- Kueue's plain pods: label `kueue.x-k8s.io/pod-group-name`, annotation `kueue.x-k8s.io/pod-group-total-count`.

The first that a pod uses counts. A gang lives in one namespace. What is malformed becomes the gang's `problem`: its
pods are told so, and everybody else is planned for.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from shared import names
from shared.model import Gang

Json = dict[str, Any]
PodGroups = Mapping[str, Iterable[Json]]
"""Group objects by API group, as far as it is served and may be read."""

NATIVE, COSCHEDULING, VOLCANO = "scheduling.k8s.io", "scheduling.x-k8s.io", "scheduling.volcano.sh"

PATHS: Mapping[str, str] = {
    NATIVE: f"/apis/{NATIVE}/v1alpha2/podgroups",
    COSCHEDULING: f"/apis/{COSCHEDULING}/v1alpha1/podgroups",
    VOLCANO: f"/apis/{VOLCANO}/v1beta1/podgroups",
}
"""Where group objects are listed, by API group; all are called PodGroup."""

SCHEDULERS = frozenset({"scheduler-plugins-scheduler", "volcano"})
"""Schedulers by their default names whose pods are planned for, if they belong to a gang."""

MOST = 100_000
"""Members of a gang; more than any cluster holds pods of one job."""

_OWN, _KUEUE = "sluice", "kueue"
_COSCHEDULING_LABELS = ("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io")
_VOLCANO_ANNOTATIONS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
_VOLCANO_ROLE = "volcano.sh/task-spec"
_KUEUE_LABEL, _KUEUE_TOTAL = "kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/pod-group-total-count"
_TELLING = frozenset({names.GANG_ANNOTATION, *_COSCHEDULING_LABELS, *_VOLCANO_ANNOTATIONS, _KUEUE_LABEL})
_NAME = re.compile(r"[A-Za-z0-9]([-._A-Za-z0-9]{0,251}[A-Za-z0-9])?", re.ASCII)
_COUNT = re.compile(r"[0-9]{1,9}", re.ASCII)
_SHOWN = 40
_EMPTY: Json = {}


@dataclass(frozen=True, slots=True)
class Membership:
    """What one pod says: its gang (as in `Gang.name`), its role in it, and the minima that it names, if any.

    `settled`: it needs no place any more, having ended well.
    """

    gang: str
    role: str = ""
    minimum: int | None = None
    role_minimum: int | None = None
    problem: str = ""
    settled: bool = False

    @property
    def field(self) -> str:
        """As in `PodShape.gang`."""
        return f"{self.gang}#{self.role}" if self.role else self.gang


def gang_name(field: str) -> str:
    """`Gang.name` from `PodShape.gang`."""
    return field.partition("#")[0]


def role_name(field: str) -> str:
    """The role from `PodShape.gang`, "" for none."""
    return field.partition("#")[2]


def title(name: str) -> str:
    """A gang's name for people: namespace and name."""
    return name.partition(":")[2]


def membership(pod: Json) -> Membership | None:
    """What the pod says of a gang; None for most pods."""
    spec, meta = pod.get("spec") or _EMPTY, pod.get("metadata") or _EMPTY
    labels, annotations = meta.get("labels") or _EMPTY, meta.get("annotations") or _EMPTY
    group = spec.get("schedulingGroup")
    if not group and _TELLING.isdisjoint(annotations) and _TELLING.isdisjoint(labels):
        return None
    home = meta.get("namespace") or "default"
    if names.GANG_ANNOTATION in annotations:
        return _own(home, annotations)
    if group:
        return Membership(_key(NATIVE, home, group.get("podGroupName") or ""))
    if name := _first(labels, _COSCHEDULING_LABELS):
        return Membership(_key(COSCHEDULING, home, name))
    if name := _first(annotations, _VOLCANO_ANNOTATIONS):
        return Membership(_key(VOLCANO, home, name), annotations.get(_VOLCANO_ROLE) or "")
    total, problem = _count(_KUEUE_TOTAL, annotations.get(_KUEUE_TOTAL))
    return Membership(_key(_KUEUE, home, labels.get(_KUEUE_LABEL, "")), minimum=total, problem=problem)


def counts_ended(member: Membership) -> bool:
    """Whether members that ended well count as having started: kube-scheduler and coscheduling forget them."""
    return not member.gang.startswith((f"{NATIVE}:", f"{COSCHEDULING}:"))


def gangs_of(members: Iterable[Membership], groups: PodGroups) -> tuple[Gang, ...]:
    """The gangs of these pods by name. `members` are all that run, wait, or have ended well."""
    by_gang: dict[str, list[Membership]] = {}
    for member in members:
        by_gang.setdefault(member.gang, []).append(member)
    by_source: dict[str, dict[str, Json]] = {}
    found = []
    for name in sorted(by_gang):
        if all(member.settled for member in by_gang[name]):
            continue
        source = name.partition(":")[0]
        if source in PATHS and source not in by_source:
            by_source[source] = {_named(item): item for item in groups.get(source, ())}
        found.append(_gang(name, source, by_gang[name], by_source.get(source, _EMPTY)))
    return tuple(found)


def groups_asked_for(members: Iterable[Membership]) -> list[str]:
    """The API groups whose objects say something about these pods."""
    sources = {member.gang.partition(":")[0] for member in members}
    return [source for source in PATHS if source in sources]


def _gang(name: str, source: str, members: list[Membership], groups: Mapping[str, Json]) -> Gang:
    problem = next((member.problem for member in members if member.problem), "")
    if problem:
        return Gang(name, 0, problem=problem)
    if source not in PATHS:
        return _settled(_as_pods_say(name, members), members)
    group = groups.get(title(name))
    if group is None:
        return Gang(name, 0, problem=f"PodGroup {title(name)} of {source} is not there, or Sluice may not list it")
    try:
        read = _READERS[source](name, group.get("spec") or _EMPTY)
    except (AttributeError, TypeError, ValueError) as error:
        return Gang(name, 0, problem=f"PodGroup {title(name)} of {source} is malformed: {error}")
    return _settled(read, members)


def _settled(gang: Gang, members: Iterable[Membership]) -> Gang:
    """Less the members that ended well."""
    off = Counter(member.role for member in members if member.settled)
    if gang.problem or not off:
        return gang
    roles = tuple((role, least) for role, number in gang.roles if (least := number - off[role]) > 0)
    return Gang(gang.name, max(0, gang.minimum - off.total()), roles)


def _as_pods_say(name: str, members: Iterable[Membership]) -> Gang:
    said: dict[str, set[int]] = {}
    for member in members:
        if member.minimum is not None:
            said.setdefault("", set()).add(member.minimum)
        if member.role_minimum is not None:
            said.setdefault(member.role, set()).add(member.role_minimum)
    for role, numbers in said.items():
        if len(numbers) > 1:
            which = f"for role {role}" if role else "the minimum"
            low, high = min(numbers), max(numbers)
            return Gang(name, 0, problem=f"its pods differ in {which}: {low} and {high}; say the same on each")
    if not said:
        key = _KUEUE_TOTAL if name.startswith(f"{_KUEUE}:") else names.GANG_MINIMUM_ANNOTATION
        return Gang(name, 0, problem=f"none of its pods says {key}")
    least = {role: next(iter(numbers)) for role, numbers in said.items()}
    return _made(name, least.pop("", 0), least)


def _made(name: str, minimum: int, roles: Mapping[str, int]) -> Gang:
    return Gang(name, max(minimum, sum(roles.values())), tuple(sorted(roles.items())))


def _own(home: str, annotations: Mapping[str, str]) -> Membership:
    problems = []
    name, role = annotations[names.GANG_ANNOTATION], annotations.get(names.GANG_ROLE_ANNOTATION) or ""
    for key, text in ((names.GANG_ANNOTATION, name), (names.GANG_ROLE_ANNOTATION, role)):
        if (text or key == names.GANG_ANNOTATION) and not _NAME.fullmatch(text):
            problems.append(f"{key} {_brief(text)} must be a name of letters, digits, -, _ and .")
    minimum, wrong = _count(names.GANG_MINIMUM_ANNOTATION, annotations.get(names.GANG_MINIMUM_ANNOTATION))
    problems.append(wrong)
    least, wrong = _count(names.GANG_ROLE_MINIMUM_ANNOTATION, annotations.get(names.GANG_ROLE_MINIMUM_ANNOTATION))
    problems.append(wrong)
    if least is not None and not role:
        problems.append(f"{names.GANG_ROLE_MINIMUM_ANNOTATION} needs {names.GANG_ROLE_ANNOTATION} beside it")
    problem = next((each for each in problems if each), "")
    return Membership(_key(_OWN, home, name), "" if problem else role, minimum, least, problem)


def _key(source: str, home: str, name: str) -> str:
    """`Gang.name`; a `#` would begin the role."""
    return f"{source}:{home}/{name[:253].replace('#', '?')}"


def _count(key: str, text: object) -> tuple[int | None, str]:
    """A number of pods, or what is wrong with it."""
    if text is None:
        return None, ""
    if isinstance(text, str) and _COUNT.fullmatch(text) and 1 <= int(text) <= MOST:
        return int(text), ""
    return None, f"{key} {_brief(text)} must be a whole number from 1 to {MOST}"


def _least(spec: Json, key: str) -> int:
    """A minimum of a group object; one that is left out asks for nothing."""
    if (number := spec.get(key)) is None:
        return 0
    return _checked(key, number)


def _checked(key: str, number: object) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= MOST:
        raise ValueError(f"{key} {_brief(number)} must be a whole number from 1 to {MOST}")
    return number


def _native(name: str, spec: Json) -> Gang:
    topology = (spec.get("schedulingConstraints") or _EMPTY).get("topology")
    if topology:
        keys = ", ".join(str(each.get("key")) for each in topology)
        return Gang(name, 0, problem=f"NotModelled: TopologyPlacement of PodGroup {title(name)} by {keys}")
    policy = spec.get("schedulingPolicy") or _EMPTY
    if (gang := policy.get("gang")) is None:
        return Gang(name, 0)
    return Gang(name, _checked("minCount", gang.get("minCount")))


def _coscheduling(name: str, spec: Json) -> Gang:
    return Gang(name, _least(spec, "minMember"))


def _volcano(name: str, spec: Json) -> Gang:
    minimum = _least(spec, "minMember")
    roles = {
        str(role): _checked(f"minTaskMember.{role}", number)
        for role, number in (spec.get("minTaskMember") or _EMPTY).items()
        if number != 0
    }
    # Volcano looks at tasks only where the whole minimum covers them (`CheckTaskValid` of its job_info.go).
    return _made(name, minimum, roles) if minimum >= sum(roles.values()) else Gang(name, minimum)


_READERS: Mapping[str, Callable[[str, Json], Gang]] = {
    NATIVE: _native,
    COSCHEDULING: _coscheduling,
    VOLCANO: _volcano,
}


def _first(texts: Mapping[str, str], keys: Iterable[str]) -> str:
    return next((texts[key] for key in keys if texts.get(key)), "")


def _named(group: Json) -> str:
    meta = group.get("metadata") or _EMPTY
    return f"{meta.get('namespace') or 'default'}/{meta.get('name')}"


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
