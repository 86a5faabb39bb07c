"""Versions that must fit each other: the command line, the app, its Python, and the API server."""

from __future__ import annotations

import re
from collections.abc import Iterator

from local.doctor.findings import Check, Finding

PYTHON = "3.11"
"""What the package is built for; see requires-python."""
LEAST_KUBERNETES = 25
"""Minor version of 1: from there on policy/v1, pod scheduling readiness and what else Sluice relies on is in force."""
_MINOR = re.compile(r"v?1\.(\d+)")


def judge_app(here: str, app: str, python: str) -> Iterator[Finding]:
    """`app` is the version that runs in Azure."""
    check = Check("version", "app")
    if app != here:
        remedy = "publish the package of this checkout, or use the command line of the version that was published"
        yield check.warning(f"the app is version {app or '(before 0.1)'}, this command line {here}", remedy)
    else:
        yield check.ok(f"version {app}")
    if not python.startswith(f"{PYTHON}."):
        told = f"the app runs on Python {python}, its packages are built for {PYTHON}"
        yield Check("version", "python").failed(told, f"set runtime_version to {PYTHON} in the stage base, and publish")


def judge_cluster(cluster: str, said: str) -> Finding:
    """`said` is the API server's gitVersion."""
    check, found = Check("version", f"Kubernetes of {cluster}"), _MINOR.match(said)
    if found is None:
        return check.warning(f"{said!r} is no version of Kubernetes 1", "Sluice was never tried with it")
    if int(found[1]) < LEAST_KUBERNETES:
        told = f"{said} is older than 1.{LEAST_KUBERNETES}"
        return check.failed(told, f"upgrade the cluster to 1.{LEAST_KUBERNETES} or later")
    return check.ok(said)
