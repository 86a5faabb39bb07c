"""ARM's error form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from local.web import Response


class ArmError(Exception):
    """An answer that is a refusal; becomes `{"error": {"code", "message", "details"}}`."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        headers: Mapping[str, str] | None = None,
        details: Sequence[Mapping[str, str]] = (),
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.headers = status, code, message, dict(headers or {})
        self.details = [dict(detail) for detail in details]

    def response(self) -> Response:
        """The HTTP answer."""
        error: dict[str, object] = {"code": self.code, "message": self.message}
        if self.details:
            error["details"] = self.details
        return Response.of_json(self.status, {"error": error}, self.headers)


def not_found(kind: str, name: str, group: str) -> ArmError:
    """404 as the resource manager words it."""
    return ArmError(
        404, "ResourceNotFound", f"The Resource '{kind}/{name}' under resource group '{group}' was not found."
    )


def invalid(message: str, target: str = "InvalidParameter") -> ArmError:
    """400."""
    return ArmError(400, target, message)
