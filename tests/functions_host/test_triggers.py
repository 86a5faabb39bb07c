from __future__ import annotations

from datetime import timedelta

import azure.functions as func
import orjson
import pytest

from local.functions_host import FunctionsHost, HostOptions
from local.timeline import EPOCH, VirtualTimeline
from local.web import Request, Response
from tests.functions_host.apps import Seen, trigger_app

WEBHOOK = "/runtime/webhooks/EventGrid?functionName=ingest"


def cloud_event(identity: str) -> dict[str, object]:
    return {"specversion": "1.0", "id": identity, "source": "/s", "type": "t", "data": {"n": identity}}


def send(host: FunctionsHost, *events: dict[str, object]) -> Response:
    headers = {"aeg-event-type": "Notification"}
    return host.handle(Request.of("POST", WEBHOOK, headers, orjson.dumps(list(events))))


def test_each_event_of_a_batch_is_one_call_with_a_cloud_event(
    host: FunctionsHost, timeline: VirtualTimeline, seen: Seen
):
    assert send(host, cloud_event("a"), cloud_event("b")).status == 202
    timeline.run(EPOCH + timedelta(minutes=1))
    assert [(type(event), event.id) for event in seen] == [(func.CloudEvent, "a"), (func.CloudEvent, "b")]
    assert host.instance("b").output == {"n": "b"}


def test_one_failing_event_makes_the_whole_batch_a_500_though_the_others_ran(host: FunctionsHost, seen: Seen):
    assert send(host, cloud_event(Seen.poison), cloud_event("b")).status == 500
    assert [event.id for event in seen] == [Seen.poison, "b"]


def test_function_errors_are_told_to_the_hook(seen: Seen, timeline: VirtualTimeline):
    told: list[tuple[str, str]] = []
    options = HostOptions(on_function_error=lambda name, error: told.append((name, str(error))))
    send(FunctionsHost(trigger_app(seen), timeline, options), cloud_event(Seen.poison))
    assert told == [("ingest", "this event is poison")]


def test_an_event_for_an_unknown_function_is_a_404(host: FunctionsHost):
    assert host.handle(Request.of("POST", "/runtime/webhooks/EventGrid?functionName=nobody")).status == 404


def test_the_cloud_events_handshake_allows_the_origin(host: FunctionsHost):
    answer = host.handle(Request.of("OPTIONS", WEBHOOK, {"WebHook-Request-Origin": "eventgrid.azure.net"}))
    assert (answer.status, answer.headers["webhook-allowed-origin"]) == (200, "eventgrid.azure.net")


def test_the_event_grid_handshake_returns_the_code(host: FunctionsHost):
    body = orjson.dumps(
        [{"eventType": "Microsoft.EventGrid.SubscriptionValidationEvent", "data": {"validationCode": "x"}}]
    )
    answer = host.handle(Request.of("POST", WEBHOOK, {"aeg-event-type": "SubscriptionValidation"}, body))
    assert orjson.loads(answer.body) == {"validationResponse": "x"}


def test_a_route_gets_its_parameters_headers_and_query(host: FunctionsHost):
    answer = host.handle(Request.of("GET", "/api/pods/kube-system/dns?q=1", {"X-Sent": "yes"}))
    assert (answer.status, answer.body, answer.headers["x-seen"]) == (203, b"kube-system/dns 1", "yes")


def test_an_optional_route_parameter_may_be_absent(host: FunctionsHost):
    assert host.handle(Request.of("GET", "/api/pods/kube-system", {"X-Sent": "yes"})).body == b"kube-system/* "


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("POST", "/api/pods/a/b", 405), ("GET", "/api/nothing", 404), ("POST", "/api/broken", 500), ("GET", "/", 404)],
)
def test_what_cannot_be_served_has_its_own_status(host: FunctionsHost, method: str, path: str, status: int):
    assert host.handle(Request.of(method, path)).status == status


def test_a_timer_fires_at_each_of_its_times_and_a_failure_does_not_stop_it(timeline: VirtualTimeline, seen: Seen):
    FunctionsHost(trigger_app(seen), timeline)
    timeline.run(EPOCH + timedelta(minutes=16))
    assert [timer.past_due for timer in seen] == [False, False, False]
    assert seen[0].schedule_status["Next"] == "2026-01-01T00:10:00.000000Z"


def test_a_timer_may_run_at_startup(timeline: VirtualTimeline, seen: Seen):
    FunctionsHost(trigger_app(seen, startup=True), timeline)
    timeline.run(EPOCH + timedelta(seconds=1))
    assert len(seen) == 1


def test_a_timer_can_be_called_by_hand(host: FunctionsHost, seen: Seen):
    assert host.handle(Request.of("POST", "/admin/functions/tick")).status == 202
    assert host.handle(Request.of("POST", "/admin/functions/nobody")).status == 404
    assert len(seen) == 1


def test_an_app_with_a_trigger_that_is_not_served_is_refused_by_name(timeline: VirtualTimeline):
    app = func.FunctionApp()

    @app.queue_trigger(arg_name="message", queue_name="q", connection="c")
    def from_queue(message: func.QueueMessage) -> None:
        raise AssertionError(message)

    with pytest.raises(ValueError, match="'from_queue' has a 'queueTrigger'"):
        FunctionsHost(app, timeline)
