"""The order of things: who is asked, and what is not asked because something before it failed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from local.doctor import judging_clocks
from local.doctor.clocks import Clocks
from local.doctor.entering import Wallet
from local.doctor.findings import Check, Finding
from local.doctor.part_app import ask_app, judge_clusters, shaken
from local.doctor.part_azure import AzurePart
from local.doctor.part_cluster import judge_said, look_into
from local.doctor.probing_azure import Arm
from local.doctor.target import Target
from shared.model import Config
from shared.settings.config import ConfigError, parse_config

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Keys:
    """`wallet` for the app's functions, `webhook` is the key of its Event Grid webhook; none where none is known."""

    wallet: Wallet | None = None
    webhook: str = ""


def examine(target: Target, arm: Arm | None, clocks: Clocks, keys: Keys) -> Iterator[Finding]:
    """All findings, as they are made. `arm` None: nobody asks Azure."""
    answer = yield from ask_app(target, clocks, keys.wallet)
    if answer is not None:
        yield shaken(target, arm, keys.webhook)
    said = answer or {}
    yield from judge_clusters(said)
    configs = _configs(target, said)
    azure = AzurePart(arm, target, configs) if arm is not None else None
    yield from azure.findings() if azure is not None else _without("arm", "--installation or --pools")
    yield from judge_said(said, azure)
    yield from _clusters(target, configs, azure, clocks)
    yield from judging_clocks.judge(clocks.offsets)


def _configs(target: Target, said: Mapping[str, Json]) -> dict[str, Config]:
    """The file that was given, else those of the app, as far as they are valid: the app has told of the others."""
    if target.config is not None:
        return {target.config.cluster: target.config}
    configs = {}
    for cluster, word in said.items():
        try:
            configs[cluster] = parse_config(word["pools_file"])
        except ConfigError:
            continue
    return configs


def _clusters(
    target: Target, configs: Mapping[str, Config], azure: AzurePart | None, clocks: Clocks
) -> Iterator[Finding]:
    if not target.kubeconfig:
        yield from _without("cluster", "--kubeconfig")
    elif not configs:
        remedy = "give --pools, or an app that has a valid pools file"
        yield Check("cluster").skipped("no pools file says what should be there", remedy)
    elif len(configs) > 1:
        remedy = f"name one of {', '.join(sorted(configs))} with --cluster"
        yield Check("cluster").skipped("there are several clusters, and one kubeconfig", remedy)
    for config in configs.values() if target.kubeconfig and len(configs) == 1 else ():
        yield from look_into(target, config, azure, clocks)


def _without(check: str, flag: str) -> Iterator[Finding]:
    yield Check(check).skipped("not looked at", f"give {flag} to have it examined, too")
