"""Orchestrators made at random: whatever they combine, every result is the right one and no replay differs."""

from __future__ import annotations

import contextlib
import random
from datetime import timedelta
from typing import Any

import azure.durable_functions as df
import pytest

from local.durable.model import Faults, Latencies
from local.durable.replay import replay_prefixes
from local.functions_host import FunctionsHost, HostOptions
from local.timeline import EPOCH, VirtualTimeline
from tests.durable_backend.apps import Calls, Context, Steps, sample_app

Program = list[Any]


def leaf(draw: random.Random) -> Program:
    kind = draw.choice(["activity", "activity", "failure", "timer", "entity", "sub"])
    return [kind, draw.randrange(1, 50)]


def program(draw: random.Random, length: int) -> Program:
    steps: Program = []
    for _ in range(length):
        shape = draw.random()
        if shape < 0.4:
            steps.append(leaf(draw))
        elif shape < 0.65:
            steps.append(["all", [leaf(draw) for _ in range(draw.randrange(1, 5))]])
        elif shape < 0.9:
            steps.append(["any", [leaf(draw) for _ in range(draw.randrange(1, 4))]])
        else:
            steps.append(["signal", draw.randrange(1, 9)])
    return steps


def make_task(context: Context, step: Program) -> Any:
    kind, number = step
    match kind:
        case "activity":
            return context.call_activity("double", number)
        case "failure":
            return context.call_activity("fail", f"failure {number}")
        case "timer":
            return context.create_timer(context.current_utc_datetime + timedelta(seconds=number / 25))
        case "entity":
            return context.call_entity(df.EntityId("Echo", "e"), "echo", number)
        case _:
            return context.call_sub_orchestrator("doubling", number)


def right(step: Program, result: Any) -> bool:
    kind, number = step
    match kind:
        case "activity" | "sub":
            return bool(result == number * 2)
        case "failure":
            return f"failure {number}" in str(result)
        case "entity":
            return bool(result == number)
        case _:
            return result is None


def interpreter_app() -> df.DFApp:
    app = sample_app(Calls())

    @app.entity_trigger(context_name="context")
    def echo(context: df.DurableEntityContext) -> None:
        context.set_state(context.get_state(lambda: 0) + 1)
        context.set_result(context.get_input())

    @app.orchestration_trigger(context_name="context")
    def interpreter(context: Context) -> Steps:
        wrong = []
        for step in context.get_input():
            match step:
                case ["signal", number]:
                    context.signal_entity(df.EntityId("Echo", "e"), "echo", number)
                case ["all", steps]:
                    wrong += yield from all_of(context, steps)
                case ["any", steps]:
                    wrong += yield from one_of(context, steps)
                case _:
                    wrong += yield from all_of(context, [step])
        return wrong

    return app


def all_of(context: Context, steps: list[Program]) -> Steps:
    tasks = [make_task(context, step) for step in steps]
    with contextlib.suppress(Exception):  # the first failure is among the results looked at below
        yield context.task_all(tasks)
    return [step for step, task in zip(steps, tasks, strict=True) if task.is_completed and not right(step, task.result)]


def one_of(context: Context, steps: list[Program]) -> Steps:
    tasks = [make_task(context, step) for step in steps]
    winner = yield context.task_any(tasks)
    for step, task in zip(steps, tasks, strict=True):
        if step[0] == "timer" and not task.is_completed:
            task.cancel()
    step = steps[tasks.index(winner)]
    return [] if right(step, winner.result) else [step]


def run_programs(seed: int, extended_sessions: float = 0.0) -> FunctionsHost:
    draw = random.Random(seed)
    timeline = VirtualTimeline()
    faults = Faults(rerun_activity_rate=0.2)
    options = HostOptions(
        seed=seed, latencies=Latencies(timer=(0.0, 0.1)), faults=faults, extended_sessions=extended_sessions
    )
    host = FunctionsHost(interpreter_app(), timeline, options)
    for number in range(3):
        host.client_start("interpreter", program(draw, 6), f"p{number}")
    timeline.run(EPOCH + timedelta(hours=1))
    return host


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_have_the_same_histories_when_they_stay_in_memory(seed: int):
    replayed, stayed = run_programs(seed), run_programs(seed, extended_sessions=1.0)
    for name, instance in replayed.engine.instances.items():
        assert stayed.engine.instances[name].history == instance.history


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_end_with_right_results_and_replay_alike(seed: int):
    host = run_programs(seed)
    for number in range(3):
        view = host.instance(f"p{number}")
        assert (view.status, view.output) == ("Completed", []), view
        replay_prefixes(host, view.id)
    assert {violation.kind for violation in host.violations} <= {"history-length"}
