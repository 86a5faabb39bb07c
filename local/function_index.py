"""What an app offers, read from azure-functions' own objects as the Functions worker reads them."""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import azure.functions as func

_CONTEXT = "context"
_PARAMETER = re.compile(r"\{(\*?)([A-Za-z_][A-Za-z0-9_]*)(?::[^}?]*)?(\??)\}")


@dataclass(frozen=True, slots=True)
class Indexed:
    """One function: how to call it. `client` is the name of its durable client parameter, or ""."""

    name: str
    function: Callable[..., Any]
    parameter: str
    client: str
    wants_context: bool


@dataclass(frozen=True, slots=True)
class Timer:
    """A timer trigger."""

    indexed: Indexed
    schedule: str
    run_on_startup: bool
    use_monitor: bool


@dataclass(frozen=True, slots=True)
class Route:
    """An HTTP trigger; `pattern` matches the path below /api/."""

    indexed: Indexed
    methods: frozenset[str]
    pattern: re.Pattern[str]
    auth_level: str


@dataclass(frozen=True, slots=True)
class Index:
    """All functions of an app, by what triggers them. Entities are known by their lower-case names."""

    orchestrators: dict[str, Callable[[str], str]] = field(default_factory=dict)
    entities: dict[str, Callable[[str], str]] = field(default_factory=dict)
    activities: dict[str, Indexed] = field(default_factory=dict)
    event_grid: dict[str, Indexed] = field(default_factory=dict)
    timers: dict[str, Timer] = field(default_factory=dict)
    routes: list[Route] = field(default_factory=list)

    def names(self) -> Iterator[str]:
        """Every function's name."""
        yield from self.orchestrators
        yield from self.entities
        yield from self.activities
        yield from self.event_grid
        yield from self.timers
        yield from (route.indexed.name for route in self.routes)


_known: WeakKeyDictionary[func.FunctionRegister, Index] = WeakKeyDictionary()


def index_of(app: func.FunctionRegister) -> Index:
    """Index an app, once: azure-functions refuses a second reading of the same app.

    Raises ValueError for a trigger that this host does not serve.
    """
    if app not in _known:
        index = Index()
        logging.getLogger().addFilter(_is_no_advice)
        try:
            functions = app.get_functions()
        finally:
            logging.getLogger().removeFilter(_is_no_advice)
        for function in functions:
            _add(index, function)
        _known[app] = index
    return _known[app]


def _is_no_advice(record: logging.LogRecord) -> bool:
    """azure-functions tells every app without HTTP triggers that its auth level is of no use."""
    return not record.getMessage().startswith("Auth level is not applied")


def _add(index: Index, function: Any) -> None:  # noqa: ANN401 - azure.functions.decorators.Function
    name, trigger, code = function.get_function_name(), function.get_trigger(), function.get_user_function()
    match trigger.type:
        case "orchestrationTrigger":
            index.orchestrators[trigger.orchestration or name] = code
        case "entityTrigger":
            index.entities[(trigger.entity_name or name).lower()] = code
        case "activityTrigger":
            index.activities[trigger.activity or name] = _indexed(function)
        case "eventGridTrigger":
            index.event_grid[name] = _indexed(function)
        case "timerTrigger":
            startup, monitor = bool(trigger.run_on_startup), trigger.use_monitor is not False
            index.timers[name] = Timer(_indexed(function), trigger.schedule, startup, monitor)
        case "httpTrigger":
            index.routes.append(_route(function, name, trigger))
        case other:
            raise ValueError(f"function {name!r} has a {other!r}, which the local host does not serve")


def _indexed(function: Any) -> Indexed:  # noqa: ANN401 - azure.functions.decorators.Function
    code, trigger = function.get_user_function(), function.get_trigger()
    clients = [binding.name for binding in function.get_bindings() if binding.type == "durableClient"]
    wants_context = _CONTEXT in inspect.signature(code).parameters and trigger.name != _CONTEXT
    return Indexed(function.get_function_name(), code, trigger.name, clients[0] if clients else "", wants_context)


def _route(function: Any, name: str, trigger: Any) -> Route:  # noqa: ANN401 - azure.functions' own objects
    methods = trigger.methods or ("GET", "POST")
    names = frozenset(str(getattr(method, "value", method)).upper() for method in methods)
    level = str(getattr(trigger.auth_level, "value", trigger.auth_level)).lower()
    return Route(_indexed(function), names, route_pattern(trigger.route or name), level)


def route_pattern(route: str) -> re.Pattern[str]:
    """A route template ({name}, {name:constraint}, {name?}, {*rest}) as a pattern; constraints are not checked."""
    pattern, position = "", 0
    for found in _PARAMETER.finditer(route):
        literal = re.escape(route[position : found.start()])
        rest, name, optional = found.groups()
        group = f"(?P<{name}>.*)" if rest else f"(?P<{name}>[^/]+)"
        if optional:
            pattern += f"(?:{literal}{group})?"
        else:
            pattern += literal + group
        position = found.end()
    return re.compile(f"{pattern}{re.escape(route[position:])}/?", re.IGNORECASE)


def arguments_of(indexed: Indexed, value: object, binding: str, context: object) -> Mapping[str, Any]:
    """The keyword arguments for one call."""
    arguments = {indexed.parameter: value}
    if indexed.client:
        arguments[indexed.client] = binding
    if indexed.wants_context:
        arguments[_CONTEXT] = context
    return arguments
