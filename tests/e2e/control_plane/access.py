"""What a control plane needs before it starts: ports, a signing key, a kubeconfig."""

import base64
import random
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.e2e.control_plane.commands import Ports

PORTS = range(20000, 32000)
"""Below Linux's ephemeral range, so that no outgoing connection takes a port just chosen."""


def free_ports() -> Ports:
    """Hold all candidates open at once, so that no port is handed out twice."""
    with ExitStack() as held:
        return Ports(*(_bind_any(held) for _ in Ports.__dataclass_fields__))


def _bind_any(held: ExitStack) -> int:
    while True:
        port = random.choice(PORTS)
        listener = held.enter_context(socket.socket())
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            continue
        return port


def new_private_key() -> bytes:
    """An elliptic key: made in a millisecond, where RSA takes up to a second."""
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def kubeconfig(url: str, token: str, ca: Path) -> Mapping[str, object]:
    """JSON is YAML, and every client reads it."""
    authority = base64.b64encode(ca.read_bytes()).decode()
    cluster = {"server": url, "certificate-authority-data": authority}
    name = "control-plane"
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
