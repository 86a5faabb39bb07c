"""Who may ask the function app what it does, and stop it: holders of an Entra token for its application, or nobody."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from shared.adapters.errors import Refused, Unreachable
from shared.adapters.protocols import Caller

if TYPE_CHECKING:
    from jwt import PyJWK

PUBLIC_AUTHORITY = "https://login.microsoftonline.com"
KEYS_KEPT = 86_400.0  # seconds; Entra changes its keys some times a year, and announces them a day ahead at least
KEYS_PAUSE = 60.0  # seconds between two readings of the keys, however many tokens name one that is not known
LEEWAY = 60  # seconds that clocks may be apart
FETCH_SECONDS = 5.0
UNAUTHORISED = 401


class ClosedDoor:
    """For an app that nobody has said who may ask."""

    def caller(self, authorization: str) -> Caller:  # noqa: ARG002 - whatever is sent
        """Raises Refused, always."""
        raise Refused(
            "nobody may ask this app: set SLUICE_ENTRA_APPLICATION and SLUICE_ENTRA_TENANT (in Terraform "
            "status_application_id), or SLUICE_FUNCTION_KEYS=1, see docs/secrets.md",
            status=403,
        )


class EntraDoor:
    """Takes access tokens that Entra signed for one application in one tenant. Safe to share between threads.

    What a token must be is Microsoft's own list: signature by a key of the tenant, issuer, audience, time
    (learn.microsoft.com/entra/identity-platform/access-tokens, "Validate tokens"). `now` in seconds, ever growing.
    """

    def __init__(
        self,
        tenant: str,
        application: str,
        authority: str = PUBLIC_AUTHORITY,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._application, self._now = application, now
        authority = authority.rstrip("/")
        self._keys_url = f"{authority}/{tenant}/discovery/v2.0/keys"
        self._issuers = [f"{authority}/{tenant}/v2.0", f"https://sts.windows.net/{tenant}/"]
        self._audiences = [application, f"api://{application}"]
        self._lock = threading.Lock()
        self._keys: dict[str, PyJWK] = {}
        self._read_at: float | None = None

    def caller(self, authorization: str) -> Caller:
        """Who sends this Authorization header. Raises Refused for one that proves nothing, Unreachable while Entra's
        keys cannot be read."""
        import jwt  # noqa: PLC0415 - a cold start pays for what it uses

        scheme, _, token = authorization.partition(" ")
        if scheme.casefold() != "bearer" or not token.strip():
            raise self._refused("no token was sent")
        try:
            key = self._key(str(jwt.get_unverified_header(token.strip()).get("kid")))
            claims: dict[str, Any] = jwt.decode(
                token.strip(),
                key,
                algorithms=["RS256"],
                audience=self._audiences,
                issuer=self._issuers,
                leeway=LEEWAY,
                options={"require": ["exp", "iss", "aud"]},
            )
        except jwt.PyJWTError as error:
            raise self._refused(f"the token is not taken: {' '.join(str(error).split())}") from error
        roles = claims.get("roles")
        return Caller(_name(claims), frozenset(map(str, roles)) if isinstance(roles, list) else frozenset())

    def _refused(self, why: str) -> Refused:
        how = f"az account get-access-token --scope api://{self._application}/.default --query accessToken -o tsv"
        return Refused(f"{why}: send one of Entra's, which this prints: {how}", status=UNAUTHORISED)

    def _key(self, name: str) -> PyJWK:
        with self._lock:
            age = KEYS_KEPT if self._read_at is None else self._now() - self._read_at
            if age >= KEYS_KEPT or (name not in self._keys and age >= KEYS_PAUSE):
                self._keys, self._read_at = self._read(), self._now()
            found = self._keys.get(name)
        if found is None:
            raise self._refused("the token is signed with a key that is not the tenant's")
        return found

    def _read(self) -> dict[str, PyJWK]:
        from jwt import PyJWKClient, PyJWKClientError  # noqa: PLC0415 - as above

        try:
            keys = PyJWKClient(self._keys_url, timeout=FETCH_SECONDS).get_signing_keys(refresh=True)
        except PyJWKClientError as error:
            raise Unreachable(f"Entra's keys cannot be read at {self._keys_url}: {error}") from error
        return {key.key_id: key for key in keys if key.key_id}


def _name(claims: dict[str, Any]) -> str:
    """A person's, or an application's."""
    known = ("preferred_username", "upn", "azp", "appid", "sub")
    return next((str(claims[name]) for name in known if claims.get(name)), "")
