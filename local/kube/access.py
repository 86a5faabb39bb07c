"""SelfSubjectAccessReview: who asks is told what it may do. The stand-in only answers: it lets everybody do everything,
and denies in its answers what a test has put into `denied`."""

from __future__ import annotations

from local.kube.kinds import Json
from local.web import Request, Response

PATH = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class Access:
    """`denied` are verbs on resources, such as ("patch", "nodes") and ("create", "pods/eviction")."""

    def __init__(self) -> None:
        self.denied: set[tuple[str, str]] = set()

    def review(self, request: Request) -> Response | None:
        """The answer; None when the request is no review."""
        if request.method != "POST" or request.path != PATH:
            return None
        body: Json = request.json()
        asked = body["spec"]["resourceAttributes"]
        resource = "/".join(filter(None, (asked.get("resource"), asked.get("subresource"))))
        allowed = (asked.get("verb"), resource) not in self.denied
        return Response.of_json(201, {**body, "status": {"allowed": allowed, "reason": "" if allowed else "denied"}})
