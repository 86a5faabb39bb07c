"""Orchestrations that each show one thing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from datetime import timedelta
from typing import Any

import azure.durable_functions as df

Steps = Generator[Any, Any, Any]
Context = df.DurableOrchestrationContext


class Calls(Counter[str]):
    """How often each activity ran, and what it may be told from outside."""

    mood: str = "steady"


def sample_app(calls: Calls) -> df.DFApp:
    app = df.DFApp()
    _add_activities(app, calls)
    _add_orchestrators(app, calls)
    _add_waiting(app)
    _add_entities(app)
    return app


def _add_activities(app: df.DFApp, calls: Calls) -> None:
    @app.activity_trigger(input_name="value")
    def double(value: int) -> int:
        calls["double"] += 1
        return value * 2

    @app.activity_trigger(input_name="text")
    def fail(text: str) -> None:
        calls["fail"] += 1
        raise ValueError(text)

    @app.activity_trigger(input_name="value")
    async def double_later(value: int) -> int:
        calls["double_later"] += 1
        return value * 2

    @app.activity_trigger(input_name="value")
    @app.durable_client_input(client_name="client")
    async def start_another(value: str, client: df.DurableOrchestrationClient) -> str:
        return str(await client.start_new("doubling", instance_id=value, client_input=21))


def _add_orchestrators(app: df.DFApp, calls: Calls) -> None:  # noqa: C901 - a list, no logic
    @app.orchestration_trigger(context_name="context")
    def doubling(context: Context) -> Steps:
        return (yield context.call_activity("double", context.get_input()))

    @app.orchestration_trigger(context_name="context")
    def chain(context: Context) -> Steps:
        value = 1
        for _ in range(context.get_input()):
            value = yield context.call_activity("double", value)
        return value

    @app.orchestration_trigger(context_name="context")
    def fan_out(context: Context) -> Steps:
        tasks = [context.call_activity("double", value) for value in range(context.get_input())]
        return sum((yield context.task_all(tasks)))

    @app.orchestration_trigger(context_name="context")
    def asynchronous(context: Context) -> Steps:
        return (yield context.call_activity("double_later", 4))

    @app.orchestration_trigger(context_name="context")
    def failing(context: Context) -> Steps:
        yield context.call_activity("fail", "no such thing")

    @app.orchestration_trigger(context_name="context")
    def catching(context: Context) -> Steps:
        try:
            yield context.call_activity("fail", "no such thing")
        except Exception as error:  # noqa: BLE001 - the SDK raises nothing finer
            return str(error)

    @app.orchestration_trigger(context_name="context")
    def detaching(context: Context) -> Steps:
        return (yield context.call_activity("start_another", "detached"))

    @app.orchestration_trigger(context_name="context")
    def parent(context: Context) -> Steps:
        return (yield context.call_sub_orchestrator("doubling", 5, instance_id="child"))

    @app.orchestration_trigger(context_name="context")
    def parent_of_failing(context: Context) -> Steps:
        try:
            yield context.call_sub_orchestrator("failing")
        except Exception as error:  # noqa: BLE001 - the SDK raises nothing finer
            return str(error)

    @app.orchestration_trigger(context_name="context")
    def counting_down(context: Context) -> Steps:
        left = context.get_input()
        yield context.call_activity("double", left)
        if left:
            context.continue_as_new(left - 1)
            return None
        return "done"

    @app.orchestration_trigger(context_name="context")
    def moody(context: Context) -> Steps:
        name = "double" if calls.mood == "steady" else "double_later"
        yield context.call_activity(name, 1)
        yield context.wait_for_external_event("go")

    @app.orchestration_trigger(context_name="context")
    def flipping(context: Context) -> Steps:
        calls["flips"] += 1
        yield context.call_activity("double", 1 if calls["flips"] < 4 else 2)

    @app.orchestration_trigger(context_name="context")
    def forgetful(context: Context) -> Steps:
        if calls.mood == "steady":
            yield context.call_activity("double", 1)
        yield context.wait_for_external_event("go")

    @app.orchestration_trigger(context_name="context")
    def retrying(context: Context) -> Steps:
        return (yield context.call_activity_with_retry("double", df.RetryOptions(1000, 2), 1))

    @app.orchestration_trigger(context_name="context")
    def echoing(context: Context) -> Any:
        return context.get_input()


def _add_waiting(app: df.DFApp) -> None:  # noqa: C901 - a list, no logic
    @app.orchestration_trigger(context_name="context")
    def sleeping(context: Context) -> Steps:
        yield context.create_timer(context.current_utc_datetime + timedelta(seconds=context.get_input()))
        return context.current_utc_datetime.isoformat()

    @app.orchestration_trigger(context_name="context")
    def racing(context: Context) -> Steps:
        timer = context.create_timer(context.current_utc_datetime + timedelta(hours=1))
        event = context.wait_for_external_event("go")
        winner = yield context.task_any([event, timer])
        if winner is event:
            timer.cancel()
            return event.result
        return "timed out"

    @app.orchestration_trigger(context_name="context")
    def racing_without_cancel(context: Context) -> Steps:
        timer = context.create_timer(context.current_utc_datetime + timedelta(hours=1))
        event = context.wait_for_external_event("go")
        yield context.task_any([event, timer])

    @app.orchestration_trigger(context_name="context")
    def waiting_late(context: Context) -> Steps:
        yield context.create_timer(context.current_utc_datetime + timedelta(minutes=1))
        return (yield context.wait_for_external_event("go"))

    @app.orchestration_trigger(context_name="context")
    def waiting_twice(context: Context) -> Steps:
        yield context.create_timer(context.current_utc_datetime + timedelta(minutes=1))
        yield context.wait_for_external_event("go")
        yield context.wait_for_external_event("go")

    @app.orchestration_trigger(context_name="context")
    def failing_fast(context: Context) -> Steps:
        slow = context.create_timer(context.current_utc_datetime + timedelta(minutes=1))
        try:
            yield context.task_all([context.call_activity("fail", "at once"), slow])
        except Exception:  # noqa: BLE001 - the SDK raises nothing finer
            yield context.call_activity("double", 1)

    @app.orchestration_trigger(context_name="context")
    def polling(context: Context) -> Steps:
        for attempt in range(5):
            answer = yield context.call_activity("double", attempt)
            if answer >= 6:
                return attempt
            yield context.create_timer(context.current_utc_datetime + timedelta(seconds=2 + attempt))
        return None

    @app.orchestration_trigger(context_name="context")
    def reporting(context: Context) -> Steps:
        context.set_custom_status({"step": 1})
        yield context.wait_for_external_event("go")
        context.set_custom_status({"step": 2})


def _add_entities(app: df.DFApp) -> None:  # noqa: C901 - a list, no logic
    @app.entity_trigger(context_name="context")
    def counter(context: df.DurableEntityContext) -> None:
        state = context.get_state(lambda: 0)
        match context.operation_name:
            case "add":
                context.set_state(state + context.get_input())
                context.set_result(state + context.get_input())
            case "get":
                context.set_result(state)
            case "fail":
                context.set_state(state + 100)
                raise ValueError("the counter is stuck")
            case "reset":
                context.destruct_on_exit()
            case "grow":
                context.set_state("x" * context.get_input())

    @app.orchestration_trigger(context_name="context")
    def adding(context: Context) -> Steps:
        entity = df.EntityId("Counter", "c")
        for _ in range(context.get_input()):
            value = yield context.call_entity(entity, "add", 2)
        return value

    @app.orchestration_trigger(context_name="context")
    def signalling(context: Context) -> Steps:
        entity = df.EntityId("Counter", "c")
        context.signal_entity(entity, "add", 3)
        context.signal_entity(entity, "add", 4)
        return (yield context.call_entity(entity, "get"))

    @app.orchestration_trigger(context_name="context")
    def entity_failing(context: Context) -> Steps:
        try:
            yield context.call_entity(df.EntityId("Counter", "c"), "fail")
        except Exception as error:  # noqa: BLE001 - the SDK raises nothing finer
            return str(error)
