"""What is examined, and how each part of it is reached."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from local.doctor.installation import Installation
from local.system.endpoints import STATE, Endpoints, functions_url
from shared.model import Config


@dataclass(frozen=True, slots=True)
class Target:
    """Empty is what is not known. `stand_ins`: no login is needed, and a topic's keys are as they should be.

    `kubeconfig` is the caller's own way into the cluster, `config` a pools file that was given beside the app's.
    """

    installation: Installation | None = None
    app_url: str = ""
    arm_endpoint: str = ""
    kubeconfig: str = ""
    context: str = ""
    config: Config | None = None
    cluster: str = ""
    stand_ins: bool = False


def embedded(out: Path) -> Target:
    """The embedded system in a folder. Raises OSError or ValueError when none runs there."""
    endpoints, url = Endpoints.read(out / STATE / "endpoints.json"), functions_url(out)
    kubeconfig = out / "kubeconfig"
    return Target(
        installation=Installation(app_url=url, **endpoints.installation) if endpoints.installation else None,
        app_url=url,
        arm_endpoint=endpoints.arm,
        kubeconfig=str(kubeconfig) if kubeconfig.exists() else "",
        stand_ins=True,
    )
