"""Orchestrators that stay in memory between their episodes, so that nothing old is replayed.

The .NET extension knows this as extended sessions; for Python there are none in Azure, where every episode replays the
whole history. Simulations of thousands of worlds keep most of their instances so, replay the rest as Azure does, and
lose all of them with their host: what replaying would bring to light still shows, at a fraction of the time.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from azure.durable_functions.models import DurableOrchestrationContext
from azure.durable_functions.models.history import HistoryEvent
from azure.durable_functions.models.TaskOrchestrationExecutor import TaskOrchestrationExecutor

from local.durable.history import Event
from local.durable.shim import ProtocolError, Shim

State = dict[str, Any]


class Session:
    """One execution of one instance: the SDK's executor and the extension's shim, both where they stood."""

    def __init__(self, run: Callable[[str], str], context: str, *, strict: bool = True) -> None:
        """`context` as the SDK's handler takes it, with the whole history so far; `strict` as the `Shim` has it."""
        self._strict = strict
        self._context: Any = DurableOrchestrationContext.from_json(context)
        self._context._input_expected_type = getattr(run, "_df_input_type", None)
        executor: Any = TaskOrchestrationExecutor
        self._executor: Any = executor()
        self._code: Callable[[Any], Any] = run.orchestrator_function  # type: ignore[attr-defined]  # set by the SDK
        self._told = self._fed = 0
        self.shim: Shim | None = None

    def begin(self, instance_id: str, execution: int, events: list[Event]) -> State:
        """The first episode in this process. Raises ProtocolError."""
        try:
            self._executor.execute(self._context, self._context.histories, self._code)
        except Exception as error:
            if self._executor.exception is None:
                raise _broken(error) from error
        self._fed = len(events)
        self.shim = Shim(instance_id, execution, self._news(), strict=self._strict)
        self.shim.run(events)
        return self._state()

    def resume(self, events: list[Event]) -> State:
        """A later one: of the whole history, only what is new. Raises ProtocolError."""
        events, self._fed = events[self._fed :], len(events)
        try:
            for event in events:
                if self._executor.has_execution_completed:
                    break
                self._executor.process_event(HistoryEvent(**event))
        except Exception as error:
            raise _broken(error) from error
        assert self.shim is not None  # noqa: S101 - it has begun
        self.shim.resume(self._news(), events)
        return self._state()

    def _news(self) -> list[Any]:
        asked = self._context._actions[0]
        news = [action.to_json() for action in asked[self._told :]]
        self._told = len(asked)
        return news

    def _state(self) -> State:
        executor = self._executor
        state: State = {"isDone": executor.orchestration_invocation_succeeded}
        try:
            json.dumps(executor.output)
        except (TypeError, ValueError) as error:
            executor.output, executor.exception = None, error
        if executor.exception is not None:
            state["error"] = str(executor.exception) or str(type(executor.exception))
        if executor.output is not None:
            state["output"] = executor.output
        if self._context.custom_status:
            state["customStatus"] = self._context.custom_status
        return state


def can_stay(run: Callable[[str], str]) -> bool:
    """Whether the SDK lets the user's code be reached behind its handler."""
    return hasattr(run, "orchestrator_function")


def _broken(error: Exception) -> ProtocolError:
    return ProtocolError("sdk-failure", f"the SDK could not go on: {type(error).__name__}: {error}")
