"""What a pool's nodes are really like: read off those that stand, and remembered for when there are none.

What a pools file says of a node to come is a promise; reservations, DaemonSets' room and labels that nobody thought of
make it wrong, and a plan that trusts it buys nodes which its pods do not fit, again and again. So nodes teach:

- Who teaches: nodes that are Ready, open to pods, past their start, of the promised size, and sound. Sound is who has
  all extended resources (GPUs) that were promised, and at least half of everything else: what a sick node lacks is its
  own trouble. Where no node of a pool is sound, two or more that have had time enough teach together, extended
  resources by the best of them; but only as long as they stand, and until two hours after the newest of them was made:
  those that a minimum keeps would else shut the pool for good, and only another node can tell.
- Which of them: the newest generation, those made within an hour before the newest (twenty at most), since what a
  pool's template made a day ago says little about the next node. Of several that disagree the least room counts: a plan
  for the largest would leave pods waiting on the others, one for the least costs a little room. Labels and taints count
  if all have them.
- A lesson stays when the nodes go, until newer ones teach another, or the pools file promises something else. One that
  would shut pods out whom the pools file lets in (a taint that nobody wrote down, or far less room) is doubted two
  hours after its nodes went, and where only one or two stand, which a minimum may keep, two hours after the newer of
  them was made: what befell them may be over, and only another node can tell. If that one is no better, the lesson is
  good for two hours more, and taught by three it holds as long as they stand.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from shared.model import Config, Learnt, Ledger, NodeView, Pairs, Pool, Resources, Snapshot, Taint, Timing
from shared.names import POOL_LABEL, RETIRING_TAINT
from shared.nodes.starting import is_startup_taint
from shared.nodes.supply import is_extended, join_time
from shared.nodes.template_node import HOSTNAME_LABEL, INSTANCE_TYPE_LABEL, assumed_labels
from shared.quantity import format_amount
from shared.rules.predicates import PODS

GENERATION = timedelta(hours=1)

DOUBTED = timedelta(hours=2)  # since the nodes of a lesson that shuts pods out were last seen, or few were made

_CERTAIN = 3  # nodes that have the same odd taint, or as little room: no accident

_ENOUGH = 20  # nodes of one generation
_MUCH = 0.9  # of what is promised: less than that is more than a reservation misjudged

_VITAL = ("cpu", "memory", PODS)
_BYTES_WORTH_SAYING = 100  # of memory and disks a hundredth: that much differs from one boot to the next
_MOST_LABELS = 32
_LONGEST_LABEL = 128
_MOST_RESOURCES = 24
_ZONE_LABELS = frozenset(
    {
        "topology.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/zone",
        "topology.disk.csi.azure.com/zone",
    }
)
_OWN_LABELS = frozenset({HOSTNAME_LABEL, "alpha.kubernetes.io/provided-node-ip"})
_PASSING_TAINTS = frozenset(  # what says that a node goes, whoever lets it go
    {
        RETIRING_TAINT,
        "ToBeDeletedByClusterAutoscaler",
        "DeletionCandidateOfClusterAutoscaler",
        "karpenter.sh/disrupted",
        "karpenter.sh/disruption",
        "kubernetes.azure.com/scalesetpriority-eviction",
    }
)
_CONDITION_TAINTS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")


def lessons(snapshot: Snapshot, config: Config, ledger: Ledger, now: datetime) -> dict[str, Learnt]:
    """What is known of each pool's nodes: from the snapshot, or from the ledger where that tells of newer ones."""
    standing: dict[str, list[NodeView]] = {}
    for node in snapshot.nodes:
        if node.pool:
            standing.setdefault(node.pool, []).append(node)
    found = {}
    for pool in config.pools:
        nodes, known = standing.get(pool.name, ()), ledger.learnt.get(pool.name)
        lesson = _newer(_taught(pool, nodes, ledger, config.timing, now), known, promise(pool))
        teachers = sum(_can_teach(node, pool, ledger) for node in nodes)
        if lesson is not None and not _is_doubtful(lesson, pool, teachers, now):
            found[pool.name] = lesson
    return found


def _is_doubtful(lesson: Learnt, pool: Pool, teachers: int, now: datetime) -> bool:
    since = lesson.newest if teachers else lesson.seen or lesson.newest
    if teachers >= _CERTAIN or now - since <= DOUBTED:
        return False
    short = (lesson.allocatable.get(name, 0) < _MUCH * amount for name, amount in pool.allocatable.items())
    return bool(set(lesson.taints) - set(pool.taints)) or any(short)


def promise(pool: Pool) -> str:
    """A digest of what the pools file says of the pool's nodes."""
    taints = sorted((taint.key, taint.value, taint.effect) for taint in pool.taints)
    said = (sorted(pool.allocatable.items()), pool.sku, sorted(pool.labels.items()), taints, pool.zones)
    return hashlib.sha256(repr(said).encode()).hexdigest()[:12]


def drift(pool: Pool, lesson: Learnt) -> Iterator[str]:
    """What the pools file should say, one line for each resource, for labels and for taints."""
    promised = pool.allocatable
    for name in sorted({*promised, *filter(is_extended, lesson.allocatable)}):
        has, said = lesson.allocatable.get(name, 0), promised.get(name, 0)
        if _is_worth_saying(name, has, said):
            there, here = format_amount(name, has), format_amount(name, said) if said else "none"
            yield f"pool {pool.name}: nodes have {there} {name} allocatable, the pools file promises {here}"
    declared = {key: value for key, value in pool.labels.items() if key in lesson.lacking}
    changed = [key for key, _ in lesson.labels if key in pool.labels]
    declared |= {key: pool.labels[key] for key in changed}
    if declared:
        written = ", ".join(f"{key}={value}" for key, value in sorted(declared.items()))
        yield f"pool {pool.name}: nodes lack labels that the pools file promises: {written}"
    if set(lesson.taints) != set(pool.taints):
        yield f"pool {pool.name}: nodes have {_taint_texts(lesson.taints)}, the pools file promises " + (
            _taint_texts(pool.taints)
        )


def _is_worth_saying(name: str, has: int, said: int) -> bool:
    if name in {"memory", "ephemeral-storage"} or name.startswith("hugepages-"):
        return abs(has - said) * _BYTES_WORTH_SAYING > said
    return has != said


def _taint_texts(taints: Iterable[Taint]) -> str:
    texts = sorted(f"{each.key}={each.value}:{each.effect}".replace("=:", ":") for each in taints)
    return f"the taints {', '.join(texts)}" if texts else "no taints"


def _newer(seen: Learnt | None, known: Learnt | None, declared: str) -> Learnt | None:
    if known is None or known.declared != declared:
        return seen
    return known if seen is None or seen.newest < known.newest else seen


def _taught(pool: Pool, nodes: Sequence[NodeView], ledger: Ledger, timing: Timing, now: datetime) -> Learnt | None:
    newest_first = sorted(sorted(nodes, key=_name), key=_age, reverse=True)
    able = (node for node in newest_first if _can_teach(node, pool, ledger))
    promised = pool.allocatable
    sound = _generation(node for node in able if _is_sound(node, promised))
    if sound:
        return _lesson(pool, sound, now, lasting=True)
    patience = join_time(pool, timing)
    able = (node for node in newest_first if _can_teach(node, pool, ledger))
    doubtful = _generation(node for node in able if now - node.created_at >= patience)
    if len(doubtful) < 2 or now - doubtful[0].created_at > DOUBTED:
        return None
    return _lesson(pool, doubtful, now, lasting=False)


def _generation(newest_first: Iterable[NodeView]) -> list[NodeView]:
    """The first of them, and those made not long before: enough of them to tell."""
    found: list[NodeView] = []
    for node in newest_first:
        if len(found) == _ENOUGH or (found and found[0].created_at - node.created_at > GENERATION):
            break
        found.append(node)
    return found


def _name(node: NodeView) -> str:
    return node.name


def _age(node: NodeView) -> datetime:
    return node.created_at


def _can_teach(node: NodeView, pool: Pool, ledger: Ledger) -> bool:
    if not node.ready or node.unschedulable or node.evicting_at is not None or node.name in ledger.retiring:
        return False
    if any(is_startup_taint(taint) or taint.key in _PASSING_TAINTS for taint in node.taints):
        return False
    size = node.labels.get(INSTANCE_TYPE_LABEL, "")
    if size and pool.sku and size.casefold() != pool.sku.casefold():
        return False  # of the time before the pool was given another size
    return all(node.allocatable.get(name, 0) > 0 for name in _VITAL)


def _is_sound(node: NodeView, promised: Resources) -> bool:
    has = node.allocatable
    return all(
        has.get(name, 0) >= amount if is_extended(name) else 2 * has.get(name, 0) >= amount
        for name, amount in promised.items()
    )


def _lesson(pool: Pool, nodes: Sequence[NodeView], now: datetime, *, lasting: bool) -> Learnt:
    labels, expected = _common_labels(pool, nodes), assumed_labels(pool)
    promised = {POOL_LABEL, *pool.labels}
    odd = sorted((key, value) for key, value in labels.items() if expected.get(key) != value)
    return Learnt(
        declared=promise(pool),
        newest=max(node.created_at for node in nodes),
        allocatable=_room(nodes, lasting=lasting),
        labels=_few(odd),
        lacking=tuple(sorted(key for key in promised if key in expected and not _anywhere(key, nodes))),
        taints=_common_taints(nodes),
        lasting=lasting,
        seen=now,
    )


def _room(nodes: Sequence[NodeView], *, lasting: bool) -> dict[str, int]:
    """The least of all; of nodes that are not sound the most of an extended resource, for none may have got it yet."""
    every = sorted({name for node in nodes for name in node.allocatable})
    room = {}
    for name in every:
        amounts = [node.allocatable.get(name, 0) for node in nodes]
        room[name] = max(amounts) if not lasting and is_extended(name) else min(amounts)
    kept = [name for name in every if room[name] > 0 or name in _VITAL]
    return {name: room[name] for name in sorted(kept, key=lambda name: (is_extended(name), name))[:_MOST_RESOURCES]}


def _common_labels(pool: Pool, nodes: Sequence[NodeView]) -> dict[str, str]:
    """Labels that all of them have, less those that tell one node from another."""
    labels = dict(nodes[0].labels)
    for node in nodes[1:]:
        labels = {key: value for key, value in labels.items() if node.labels.get(key) == value}
    return {key: value for key, value in labels.items() if not _is_own(key, value, pool, nodes)}


def _is_own(key: str, value: str, pool: Pool, nodes: Sequence[NodeView]) -> bool:
    if key in _OWN_LABELS or (value and any(value in {node.name, node.uid} for node in nodes)):
        return True
    if key not in _ZONE_LABELS or len(pool.zones) == 1:
        return False
    # Where Azure chooses the zone, one node says nothing; a bare number is a fault domain, which it always chooses.
    return bool(pool.zones) or len(nodes) < 2 or value.isdigit()


def _few(labels: Iterable[tuple[str, str]]) -> Pairs:
    return tuple((key, value) for key, value in labels if len(key) + len(value) <= _LONGEST_LABEL)[:_MOST_LABELS]


def _anywhere(key: str, nodes: Iterable[NodeView]) -> bool:
    return any(key in node.labels for node in nodes)


def _common_taints(nodes: Sequence[NodeView]) -> tuple[Taint, ...]:
    """Taints that all of them have, less those that speak of a node's condition."""
    return tuple(
        taint
        for taint in nodes[0].taints
        if not taint.key.startswith(_CONDITION_TAINTS) and all(taint in node.taints for node in nodes[1:])
    )
