"""get, list and watch."""

from __future__ import annotations

import base64
import itertools
from collections import OrderedDict
from collections.abc import Iterator

import orjson

from local.kube import tables
from local.kube.kinds import POD, Kind
from local.kube.problems import ApiProblem, bad_request, page_expired
from local.kube.registry import Registry
from local.kube.routes import Route
from local.kube.scaling import scale_of
from local.kube.selectors import Selection
from local.kube.store import Stored
from local.kube.watching import Render, Watch, bookmark, refusal
from local.web import Request, Response

_JSON = {"content-type": "application/json"}
_PAGES_KEPT = 64
_WATCH_SECONDS = 1800.0


class Reader:
    """Answers that change nothing."""

    def __init__(self, registry: Registry) -> None:
        self._registry, self._store = registry, registry.store
        self._pages: OrderedDict[int, tuple[int, list[Stored]]] = OrderedDict()
        self._page_ids = itertools.count(1)

    def forget_pages(self) -> None:
        """A compaction ends all lists that are under way."""
        self._pages.clear()

    def get(self, request: Request, where: Route) -> Response:
        """One object."""
        stored = self._registry.find(where.kind, where.namespace, where.name)
        if where.sub == "scale":
            return Response(200, _JSON, orjson.dumps(scale_of(stored)))
        if tables.wanted(request):
            return Response(200, _JSON, tables.table(where.kind, [stored], self._store, str(stored.version)))
        return Response(200, _JSON, stored.document)

    def collection(self, request: Request, where: Route) -> Response:
        """A list or, with `watch`, a watch."""
        query = request.query
        selection = Selection(
            where.kind, where.namespace, query.get("labelSelector", ""), query.get("fieldSelector", "")
        )
        if query.get("watch", "") in {"true", "1"}:
            return self._watch(request, where.kind, selection)
        return self._list(request, where.kind, selection)

    def select(self, kind: Kind, selection: Selection) -> list[Stored]:
        """Everything that matches, by index where there is one."""
        if kind is POD and (node := selection.exact.get("spec.nodeName")):
            candidates = sorted(self._store.pods_on(node), key=lambda pod: pod.key)
        elif (name := selection.exact.get("metadata.name")) and (selection.namespace or not kind.namespaced):
            found = self._store.get(kind, (selection.namespace, name))
            candidates = [found] if found else []
        else:
            candidates = self._store.all(kind, selection.namespace)
        return candidates if selection.everything else [one for one in candidates if selection.matches(one)]

    def _list(self, request: Request, kind: Kind, selection: Selection) -> Response:
        limit = _number(request, "limit", 0)
        version, items = self._store.version, None
        if token := request.query.get("continue"):
            version, items = self._continued(token)
        if items is None:
            items = self.select(kind, selection)
        page, rest = (items[:limit], items[limit:]) if limit else (items, [])
        metadata: dict[str, object] = {"resourceVersion": str(version)}
        if rest:
            metadata |= {"continue": self._keep(version, rest), "remainingItemCount": len(rest)}
        if tables.wanted(request):
            return Response(200, _JSON, tables.table(kind, page, self._store, str(version), metadata))
        opening = b'{"kind":"' + kind.kind.encode() + b'List","apiVersion":"' + kind.api_version.encode()
        body = opening + b'","metadata":' + orjson.dumps(metadata) + b',"items":['
        return Response(200, _JSON, body + b",".join([one.raw for one in page]) + b"]}")

    def _keep(self, version: int, rest: list[Stored]) -> str:
        number = next(self._page_ids)
        self._pages[number] = version, rest
        while len(self._pages) > _PAGES_KEPT:
            self._pages.popitem(last=False)
        token = {"v": "meta.k8s.io/v1", "rv": version, "start": "/".join(rest[0].key), "page": number}
        return base64.urlsafe_b64encode(orjson.dumps(token)).decode()

    def _continued(self, token: str) -> tuple[int, list[Stored]]:
        try:
            number = orjson.loads(base64.urlsafe_b64decode(token))["page"]
        except (ValueError, KeyError, TypeError) as error:
            raise bad_request("continue key is not valid") from error
        if number not in self._pages:
            raise page_expired()
        return self._pages[number]

    def _watch(self, request: Request, kind: Kind, selection: Selection) -> Response:
        render: Render = tables.rendering(kind, self._store) if tables.wanted(request) else _document
        watch = Watch(self._store, self._registry.timeline, kind, selection, render)
        watch.bookmarks = request.query.get("allowWatchBookmarks", "") in {"true", "1"}
        initial = request.query.get("sendInitialEvents", "") in {"true", "1"}
        try:
            pieces = watch.now(_version(request), initial=initial)
        except ApiProblem as problem:
            return Response(200, _JSON, refusal(problem))
        if request.stream:
            seconds = float(_number(request, "timeoutSeconds", 0) or _WATCH_SECONDS)
            chunks: Iterator[bytes] = watch.stream(pieces, seconds)
            return Response(200, _JSON, chunks=chunks)
        if watch.bookmarks:
            pieces.append(bookmark(kind, self._store.version))
        return Response(200, _JSON, b"".join(pieces))


def _document(stored: Stored) -> bytes:
    return stored.document


def _version(request: Request) -> str:
    version = request.query.get("resourceVersion", "")
    if version and not version.isdigit():
        raise bad_request(f'Invalid value: "{version}": strconv.ParseUint: parsing "{version}": invalid syntax')
    return version


def _number(request: Request, name: str, default: int) -> int:
    text = request.query.get(name, "")
    if text and not text.lstrip("-").isdigit():
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return max(int(text), 0) if text else default
