"""Other scalers' marks on what carries a pool: two scalers on one pool undo each other."""

from __future__ import annotations

from collections.abc import Mapping

_ENABLED = "cluster-autoscaler-enabled"
_NAME = "cluster-autoscaler-name"
_OFF = frozenset({"", "false", "no", "disabled"})


def autoscaler_of(tags: Mapping[str, str]) -> str:
    """The tag by which cluster-autoscaler finds a scale set, as `name=value`; "" where there is none.

    Source: cluster-autoscaler, cloudprovider/azure README, auto-discovery: a scale set with the tags that the flag
    `--node-group-auto-discovery=label:...` names is its own; the README proposes these two. Its other tags only
    describe nodes, and are read as such.
    """
    lowered = {name.lower(): str(value) for name, value in tags.items()}
    for name in (_ENABLED, _NAME):
        if lowered.get(name, "").strip().lower() not in _OFF:
            return f"{name}={lowered[name]}"
    return ""
