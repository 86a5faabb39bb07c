"""A door before the cluster's stand-in that lets through what a real kube-apiserver would authorise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from local.web import Handler, Request, Response
from tests.e2e.control_plane.cluster import ControlPlane
from tests.rights.chart import Right

Json = dict[str, Any]

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request wants to do, in the words of RBAC."""

    verb: str
    group: str
    version: str
    resource: str
    namespace: str = ""
    name: str = ""

    @classmethod
    def of(cls, request: Request) -> Asked:
        """As the API server reads a request (k8s.io/apiserver, RequestInfo)."""
        parts = request.path.strip("/").split("/")
        group, version, rest = ("", parts[1], parts[2:]) if parts[0] == "api" else (parts[1], parts[2], parts[3:])
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        resource, name, below = (*rest, "", "")[:3]
        reading = "get" if name else "watch" if request.query.get("watch") == "true" else "list"
        verb = _VERBS.get(request.method, reading)
        return cls(verb, group, version, f"{resource}/{below}" if below else resource, namespace, name)

    def is_a_case_of(self, right: Right) -> bool:
        """Whether it is this right that lets it through."""
        return (self.verb, self.group, self.resource) == (right.verb, right.group, right.resource)


@dataclass
class Authorizer:
    """The real API server, asked by SubjectAccessReview; each question once."""

    plane: ControlPlane
    known: dict[tuple[str, Asked], bool] = field(default_factory=dict)

    def allows(self, user: str, asked: Asked) -> bool:
        """Whether the user may."""
        key = (user, asked)
        if key not in self.known:
            resource, _, below = asked.resource.partition("/")
            attributes = {"verb": asked.verb, "group": asked.group, "resource": resource, "subresource": below}
            attributes |= {"version": asked.version, "namespace": asked.namespace, "name": asked.name}
            reply = self.plane.api.post(_REVIEWS, {"spec": {"user": user, "resourceAttributes": attributes}})
            assert reply.ok, reply.body
            self.known[key] = bool(reply.json()["status"]["allowed"])
        return self.known[key]

    def admit(self, user: str, rights: list[Right]) -> None:
        """Give a user these rights and no other: roles and bindings as the chart has them."""
        name = user.replace(":", "-")
        for namespace in sorted({right.namespace for right in rights}):
            where = f"{_RBAC}/namespaces/{namespace}/" if namespace else f"{_RBAC}/"
            kind = "Role" if namespace else "ClusterRole"
            rules = [right.rule() for right in rights if right.namespace == namespace]
            role: Json = {"metadata": {"name": name}, "rules": rules}
            subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}
            reference = {"kind": kind, "apiGroup": "rbac.authorization.k8s.io", "name": name}
            binding: Json = {"metadata": {"name": name}, "subjects": [subject], "roleRef": reference}
            for path, body in ((f"{kind.lower()}s", role), (f"{kind.lower()}bindings", binding)):
                reply = self.plane.api.post(where + path, body)
                assert reply.ok, reply.body


class GuardedCluster:
    """The stand-in for one user; `on_asked` hears of each request, with whether it may."""

    def __init__(
        self, inner: Handler, allows: Callable[[Asked], bool], user: str, on_asked: Callable[[Asked, bool], None]
    ) -> None:
        self._inner, self._allows, self._user, self._on_asked = inner, allows, user, on_asked

    def handle(self, request: Request) -> Response:
        """Refuse with 403, as the API server words it, or hand on."""
        asked = Asked.of(request)
        allowed = self._allows(asked)
        self._on_asked(asked, allowed)
        return self._inner.handle(request) if allowed else _forbidden(asked, self._user)


def _forbidden(asked: Asked, user: str) -> Response:
    kind = f"{asked.resource.partition('/')[0]}" + (f".{asked.group}" if asked.group else "")
    where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    named = f' "{asked.name}"' if asked.name else ""
    message = (
        f'{kind}{named} is forbidden: User "{user}" cannot {asked.verb} resource "{asked.resource}" in API group'
        f' "{asked.group}" {where}'
    )
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message}
    return Response.of_json(403, {**body, "reason": "Forbidden", "code": 403})
