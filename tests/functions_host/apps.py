"""An app with one function for each kind of trigger, that notes what it was given."""

from __future__ import annotations

from typing import Any

import azure.durable_functions as df
import azure.functions as func

from tests.durable_backend.apps import Calls, sample_app


class Seen(list[Any]):
    """What the functions were called with; an event named `poison` makes its function fail."""

    poison = "poison"


def trigger_app(seen: Seen, schedule: str = "0 */5 * * * *", *, startup: bool = False) -> df.DFApp:
    app = sample_app(Calls())
    _add_events_and_timers(app, seen, schedule, startup=startup)
    _add_routes(app)
    return app


def _add_events_and_timers(app: df.DFApp, seen: Seen, schedule: str, *, startup: bool) -> None:
    @app.event_grid_trigger(arg_name="event")
    @app.durable_client_input(client_name="client")
    async def ingest(event: func.CloudEvent, client: df.DurableOrchestrationClient) -> None:
        seen.append(event)
        if event.id == Seen.poison:
            raise RuntimeError("this event is poison")
        await client.start_new("echoing", instance_id=event.id, client_input=event.get_json())

    @app.timer_trigger(arg_name="timer", schedule=schedule, run_on_startup=startup)
    def tick(timer: func.TimerRequest) -> None:
        seen.append(timer)
        if len(seen) == 2:
            raise RuntimeError("the second tick fails")


def _add_routes(app: df.DFApp) -> None:
    @app.route(route="pods/{namespace}/{name?}", methods=["GET"], auth_level=func.AuthLevel.FUNCTION)
    def pods(req: func.HttpRequest) -> func.HttpResponse:
        place = f"{req.route_params['namespace']}/{req.route_params.get('name', '*')} {req.params.get('q', '')}"
        return func.HttpResponse(place, status_code=203, headers={"x-seen": req.headers["x-sent"]})

    @app.route(route="broken", methods=["POST"])
    def broken(req: func.HttpRequest) -> str:
        raise RuntimeError("broken")

    @app.route(route="status/{id}", methods=["GET"])
    @app.durable_client_input(client_name="client")
    async def status(req: func.HttpRequest, client: df.DurableOrchestrationClient) -> func.HttpResponse:
        found = await client.get_status(req.route_params["id"])
        return func.HttpResponse(str(found.output if found else "nothing"))
