"""An API server behind TLS, with a CA of its own, and the endpoint at which App Service hands out Entra tokens."""

from __future__ import annotations

import base64
import ipaddress
import json
import ssl
import tempfile
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Answer = Callable[[BaseHTTPRequestHandler], tuple[int, dict[str, Any]]]
HOST = "127.0.0.1"


class Authority:
    """A cluster's CA."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")])
        limits = x509.BasicConstraints(ca=True, path_length=None)
        self._certificate = self._signed(self._name, self._key, limits)

    @property
    def data(self) -> str:
        """As a kubeconfig has it."""
        return base64.b64encode(self._certificate.public_bytes(serialization.Encoding.PEM)).decode()

    def context(self, host: str) -> ssl.SSLContext:
        """For a server of that address."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))])
        certificate = self._signed(name, key, names)
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "server.pem"
            path.write_bytes(
                certificate.public_bytes(serialization.Encoding.PEM)
                + key.private_bytes(
                    serialization.Encoding.PEM,
                    serialization.PrivateFormat.PKCS8,
                    serialization.NoEncryption(),
                )
            )
            made.load_cert_chain(path)
        return made

    def _signed(self, name: x509.Name, key: ec.EllipticCurvePrivateKey, *extensions: x509.ExtensionType) -> Any:
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder().subject_name(name).issuer_name(self._name).public_key(key.public_key())
        builder = builder.serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(hours=1))
        for extension in extensions:
            builder = builder.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(issuer, critical=False)
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        return builder.add_extension(identifier, critical=False).sign(self._key, hashes.SHA256())


class Served:
    """Something that answers GET on the loopback until it is closed."""

    def __init__(self, answer: Answer, tls: ssl.SSLContext | None = None) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, document = answer(self)
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Silence."""

        class Quiet(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                """A client that turns away from a certificate is what some tests are about."""

        self._server = Quiet((HOST, 0), Handler)
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        scheme = "http" if tls is None else "https"
        self.url = f"{scheme}://{HOST}:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)


class ApiServer:
    """Knows the bearers of some tokens; `asked` are the tokens that came."""

    def __init__(self, authority: Authority) -> None:
        self.known = {"of-the-app"}
        self.asked: list[str] = []
        self._served = Served(self._answer, authority.context(HOST))
        self.url, self.close = self._served.url, self._served.close

    def _answer(self, request: BaseHTTPRequestHandler) -> tuple[int, dict[str, Any]]:
        token = (request.headers.get("Authorization") or "").removeprefix("Bearer ")
        self.asked.append(token)
        if token not in self.known:
            return 401, {"kind": "Status", "message": "Unauthorized", "reason": "Unauthorized", "code": 401}
        return 200, {"kind": "APIResourceList", "groupVersion": "v1", "resources": []}


class TokenEndpoint:
    """App Service's (IDENTITY_ENDPOINT, api-version 2019-08-01); `asked` are the queries that came."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []
        self.token = "of-the-app"
        self._served = Served(self._answer)
        self.url, self.close = self._served.url, self._served.close

    def _answer(self, request: BaseHTTPRequestHandler) -> tuple[int, dict[str, Any]]:
        query = {name: values[0] for name, values in parse_qs(urlsplit(request.path).query).items()}
        self.asked.append(query)
        if request.headers.get("X-IDENTITY-HEADER") != "the-platforms-own":
            return 401, {"error": "unauthorized"}
        ends = int(datetime.now(UTC).timestamp()) + 3600
        common = {"resource": query["resource"], "token_type": "Bearer", "client_id": query.get("client_id", "")}
        return 200, {"access_token": self.token, "expires_on": str(ends), **common}


def kubeconfig(server: dict[str, Any], user: dict[str, Any]) -> str:
    """The text, of one cluster and one user."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "training",
        "clusters": [{"name": "training", "cluster": server}],
        "users": [{"name": "app", "user": user}],
        "contexts": [{"name": "training", "context": {"cluster": "training", "user": "app"}}],
    }
    return yaml.safe_dump(document)


def kubelogin(*arguments: str, command: str = "kubelogin") -> dict[str, Any]:
    """The user that `az aks get-credentials` writes for a cluster with Entra."""
    given = ["get-token", "--environment", "AzurePublicCloud", *arguments, "--login", "devicecode"]
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": command, "args": given}}
