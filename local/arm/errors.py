"""ARM's error form."""

from __future__ import annotations

from collections.abc import Mapping

from local.web import Response


class ArmError(Exception):
    """An answer that is a refusal; becomes `{"error": {"code", "message"}}`."""

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.headers = status, code, message, dict(headers or {})

    def response(self) -> Response:
        """The HTTP answer."""
        return Response.of_json(self.status, {"error": {"code": self.code, "message": self.message}}, self.headers)


def not_found(kind: str, name: str, group: str) -> ArmError:
    """404 as the resource manager words it."""
    return ArmError(
        404, "ResourceNotFound", f"The Resource '{kind}/{name}' under resource group '{group}' was not found."
    )


def invalid(message: str, target: str = "InvalidParameter") -> ArmError:
    """400."""
    return ArmError(400, target, message)
