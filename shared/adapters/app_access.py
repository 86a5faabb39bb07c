"""How the function app gets at an API server: by a kubeconfig's text, verified against the cluster's own CA, with its
own Entra identity or a token.

What `az aks get-credentials` writes can be used as it is: where it would have `kubelogin` fetch a token for a person,
the app fetches one for itself. It runs no program, reads no file, and knows no way around the CA.
"""

from __future__ import annotations

import base64
import binascii
import ssl
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any

from azure.core.exceptions import AzureError

from shared.adapters.errors import Rejected, Unreachable
from shared.adapters.kubernetes_access import configuration_of, configured_client, entry_of, parsed

if TYPE_CHECKING:
    from azure.core.credentials import AccessToken, TokenCredential
    from kubernetes.client import ApiClient, Configuration

AKS_SERVER = "6dae42f8-4368-4678-94ff-3960e28e3630"
"""The Entra application of all AKS API servers, the same in every tenant (learn.microsoft.com, kubelogin)."""

RENEW_BEFORE = 300.0  # seconds before its end that a token is replaced, as azure-identity does
NO_TOKEN = "NoToken"  # noqa: S105 - a code of errors, no secret
PLUGIN = "kubelogin"
_HINT = "kubectl config view --raw --minify --flatten shows one that is whole"


class EntraTokens:
    """Bearer tokens for one API server, each used until shortly before it ends. Safe to share between threads.

    `now` in seconds since 1970.
    """

    def __init__(
        self, credential: Callable[[], TokenCredential], application: str, now: Callable[[], float] = time.time
    ) -> None:
        self._credential, self._now = credential, now
        self._scope = f"{application}/.default"
        self._lock = threading.Lock()
        self._token: AccessToken | None = None

    def refresh(self, configuration: Configuration) -> None:
        """The client's hook, called before every request. Raises Unreachable when there is no token to be had."""
        configuration.api_key["authorization"] = f"Bearer {self._current()}"

    def _current(self) -> str:
        with self._lock:
            token = self._token
            if token is None or self._now() >= token.expires_on - RENEW_BEFORE:
                token = self._token = self._renewed(token)
            return token.token

    def _renewed(self, old: AccessToken | None) -> AccessToken:
        """A new one; while there is none to be had, the old one serves to its end."""
        try:
            return self._credential().get_token(self._scope)
        except AzureError as error:
            if old is not None and self._now() < old.expires_on:
                return old
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise Unreachable(
                f"no token for the API server ({self._scope}): {why}: "
                "does the app have the managed identity that AZURE_CLIENT_ID names?",
                code=NO_TOKEN,
            ) from error


def client_for_app(text: str, credential: Callable[[], TokenCredential], place: str) -> ApiClient:
    """A client by the current context of a kubeconfig's `text`; `place` is what messages call it, `credential` the
    app's own, asked for once an Entra token is needed.

    Raises Rejected, in one line that says what to change: no https, no CA to verify the server against, a plugin other
    than kubelogin, or nobody to be.
    """
    document = parsed(text, place)
    context = entry_of(document, "contexts", str(document.get("current-context") or ""), "context", place)
    server = entry_of(document, "clusters", str(context.get("cluster")), "cluster", place)
    user = entry_of(document, "users", str(context.get("user")), "user", place)
    _refuse_unverified(server, place)
    application = _entra_application(user, place)
    users = [{"name": context["user"], "user": {name: user[name] for name in user if name != "exec"}}]
    configuration = configuration_of({**document, "users": users}, None, None, place)
    if application:
        configuration.api_key["authorization"] = ""  # without the key, the client would not call the hook
        refresh = EntraTokens(credential, application).refresh
        configuration.refresh_api_key_hook = refresh  # type: ignore[assignment] # its author annotated the default alone
    return configured_client(configuration)


def _refuse_unverified(server: dict[str, Any], place: str) -> None:
    address = str(server.get("server") or "")
    if not address.startswith("https://"):
        raise Rejected(f"{place}: server {address or '(none)'}: must begin with https://, or nobody is verified")
    data = server.get("certificate-authority-data")
    if not data:
        raise Rejected(
            f"{place}: certificate-authority-data: is missing, and the server is verified by nothing else; {_HINT}"
        )
    try:
        pem = base64.b64decode(str(data), validate=True).decode("ascii")
        ssl.create_default_context(cadata=pem)
    except (binascii.Error, UnicodeDecodeError, ssl.SSLError, ValueError) as error:
        raise Rejected(
            f"{place}: certificate-authority-data: is no certificate in PEM form, in base64 ({error}); {_HINT}"
        ) from error


def _entra_application(user: dict[str, Any], place: str) -> str:
    """The application that Entra tokens are to be for, or "" for one who brings a secret along."""
    plugin = user.get("exec")
    if plugin is None:
        if user.get("token") or (user.get("client-certificate-data") and user.get("client-key-data")):
            return ""
        raise Rejected(
            f"{place}: user: has neither a token nor {PLUGIN}; give a service account's token, or on AKS with Entra "
            f"what az aks get-credentials writes, as it is ({_HINT})"
        )
    command = str(plugin.get("command") or "")
    if PureWindowsPath(PurePosixPath(command).name).stem != PLUGIN:
        raise Rejected(f"{place}: user: would run {command or 'a program'}, and the app runs none but plays {PLUGIN}")
    arguments = pairwise(str(each) for each in plugin.get("args") or ())
    return next((value for name, value in arguments if name == "--server-id"), AKS_SERVER)
