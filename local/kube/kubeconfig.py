"""A kubeconfig for the stand-in."""

from __future__ import annotations

from pathlib import Path

import yaml

from local.kube.stand_in import TOKEN_PATH

NAME = "sluice"


def write_kubeconfig(path: Path, url: str, token: str = "") -> Path:
    """Write a kubeconfig whose only context reaches the API server at `url`; readable by its owner alone.

    The token stands in the address too, since kubectl sends none over plain HTTP.
    """
    user = {"token": token} if token else {}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": NAME,
        "clusters": [{"name": NAME, "cluster": {"server": f"{url}/{TOKEN_PATH}/{token}" if token else url}}],
        "users": [{"name": NAME, "user": user}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME, "namespace": "default"}}],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path
