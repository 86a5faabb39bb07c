"""What the API server refuses, in its own words: every error is a Status object, as k8s.io/apimachinery makes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from local.kube.kinds import Kind
from local.web import Response


class ApiProblem(Exception):
    """A request that failed; becomes the response."""

    def __init__(self, code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.details = code, reason, message, details or {}

    @property
    def status(self) -> dict[str, Any]:
        """The Status object."""
        body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        body |= {"message": self.message, "reason": self.reason, "code": self.code}
        return body | ({"details": self.details} if self.details else {})

    def response(self) -> Response:
        """With a Retry-After header where the details have one."""
        wait = self.details.get("retryAfterSeconds")
        return Response.of_json(self.code, self.status, {"retry-after": str(wait)} if wait else None)


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """What is wrong with one field of an object."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"


def _about(kind: Kind, name: str) -> dict[str, Any]:
    return {"name": name} | ({"group": kind.group} if kind.group else {}) | {"kind": kind.plural}


def not_found(kind: Kind, name: str) -> ApiProblem:
    """404 for an object."""
    return ApiProblem(404, "NotFound", f'{kind.qualified} "{name}" not found', _about(kind, name))


def already_exists(kind: Kind, name: str) -> ApiProblem:
    """409 on creation."""
    return ApiProblem(409, "AlreadyExists", f'{kind.qualified} "{name}" already exists', _about(kind, name))


def conflict(kind: Kind, name: str, why: str) -> ApiProblem:
    """409 on a write."""
    message = f'Operation cannot be fulfilled on {kind.qualified} "{name}": {why}'
    return ApiProblem(409, "Conflict", message, _about(kind, name))


def modified(kind: Kind, name: str) -> ApiProblem:
    """409: somebody wrote in between."""
    return conflict(
        kind, name, "the object has been modified; please apply your changes to the latest version and try again"
    )


def wrong_uid(kind: Kind, name: str, wanted: str, found: str) -> ApiProblem:
    """409: another object has the name by now."""
    why = (
        f"the UID in the precondition ({wanted}) does not match the UID in record ({found}). "
        "The object might have been deleted and then recreated"
    )
    return conflict(kind, name, why)


def invalid(kind: Kind, name: str, problems: list[FieldProblem]) -> ApiProblem:
    """422 with its causes."""
    texts = [f"{problem.field}: {problem.message}" for problem in problems]
    listed = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    causes = [{"reason": one.reason, "message": one.message, "field": one.field} for one in problems]
    details = _about(kind, name) | {"kind": kind.kind, "causes": causes}
    qualified = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    return ApiProblem(422, "Invalid", f'{qualified} "{name}" is invalid: {listed}', details)


def bad_request(message: str) -> ApiProblem:
    """400."""
    return ApiProblem(400, "BadRequest", message)


def forbidden(kind: Kind, name: str, why: str) -> ApiProblem:
    """403."""
    return ApiProblem(403, "Forbidden", f'{kind.qualified} "{name}" is forbidden: {why}', _about(kind, name))


def too_old(wanted: int, oldest: int) -> ApiProblem:
    """410 for a watch."""
    return ApiProblem(410, "Expired", f"too old resource version: {wanted} ({oldest})")


def page_expired() -> ApiProblem:
    """410 for a list that is continued too late."""
    message = (
        "The provided continue parameter is too old to display a consistent list result. You can start a new list "
        "without the continue parameter."
    )
    return ApiProblem(410, "Expired", message)


def unknown_path() -> ApiProblem:
    """404 for a path that means nothing."""
    return ApiProblem(404, "NotFound", "the server could not find the requested resource")


def not_allowed() -> ApiProblem:
    """405."""
    return ApiProblem(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def unsupported_media_type(given: str, supported: tuple[str, ...]) -> ApiProblem:
    """415."""
    accepted = ", ".join(supported)
    message = f"the body of the request was in an unknown format ({given}) - accepted media types include: {accepted}"
    return ApiProblem(415, "UnsupportedMediaType", message)
