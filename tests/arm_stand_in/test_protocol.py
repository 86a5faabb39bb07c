import orjson

from local.arm import ArmLatencies, ArmStandIn
from local.timeline import VirtualTimeline
from local.web import Request
from tests.arm_stand_in.conftest import COMPUTE, GROUP, Bare
from tests.builders import config, pool

SET = f"{COMPUTE}/virtualMachineScaleSets/gpu"


def test_a_request_without_api_version_is_refused(bare: Bare) -> None:
    answer = bare.arm.handle(Request.of("GET", SET))
    assert (answer.status, orjson.loads(answer.body)["error"]["code"]) == (400, "MissingApiVersionParameter")


def test_errors_have_arms_form(bare: Bare) -> None:
    status, body, _ = bare.ask("GET", SET)
    assert (status, body["error"]["code"]) == (404, "ResourceNotFound")
    assert "'Microsoft.Compute/virtualMachineScaleSets/gpu' under resource group 'group'" in body["error"]["message"]


def test_paths_that_mean_nothing_are_not_found(bare: Bare) -> None:
    for path in ("/", "/subscriptions/s", f"{GROUP}/Microsoft.Sql/servers", "/health/a/b"):
        assert bare.ask("GET", path)[0] == 404


def test_names_and_kinds_are_compared_without_regard_to_case(bare: Bare) -> None:
    bare.pools(pool("gpu"))
    assert bare.ask("GET", SET.upper().replace("API-VERSION", "api-version"))[0] == 200


def test_a_body_that_is_no_json_is_refused(bare: Bare) -> None:
    bare.pools(pool("gpu"))
    answer = bare.arm.handle(Request.of("PATCH", f"{SET}?api-version=1", {}, b"{"))
    assert (answer.status, orjson.loads(answer.body)["error"]["code"]) == (400, "InvalidRequestContent")


def test_an_operation_is_asked_after_by_either_of_its_urls(bare: Bare) -> None:
    bare.pools(pool("gpu"))
    headers = bare.resize("gpu", 1)
    assert bare.status(headers)["status"] == "InProgress"
    assert bare.ask("GET", headers["location"])[0] == 202
    bare.advance()
    assert bare.status(headers)["status"] == "Succeeded"
    assert bare.ask("GET", headers["location"])[0] == 204


def test_operation_urls_lead_back_to_the_host_that_was_asked(bare: Bare) -> None:
    bare.pools(pool("gpu"))
    headers = bare.ask("PATCH", SET, {"sku": {"capacity": 1}}, host="127.0.0.1:1234")[2]
    assert headers["azure-asyncoperation"].startswith("http://127.0.0.1:1234/subscriptions/")


def test_retry_after_is_sent_while_the_operation_runs() -> None:
    arm = ArmStandIn(VirtualTimeline(), latencies=ArmLatencies(retry_after=7))
    arm.add_pools(config(pool("gpu")))
    answer = arm.handle(Request.of("PATCH", f"{SET}?api-version=1", {}, b'{"sku": {"capacity": 1}}'))
    assert answer.headers["retry-after"] == "7"
    poll = arm.handle(Request.of("GET", answer.headers["azure-asyncoperation"]))
    assert poll.headers["retry-after"] == "7"


def test_lists_come_in_pages(bare: Bare) -> None:
    bare.pools(*(pool(f"p{number}") for number in range(5)))
    bare.arm.cloud.page_size = 2
    names, link = [], f"{COMPUTE}/virtualMachineScaleSets"
    while link:
        body = bare.ask("GET", link)[1]
        names += [one["name"] for one in body["value"]]
        link = body.get("nextLink")
    assert names == ["p0", "p1", "p2", "p3", "p4"]


def test_the_throttle_answers_429_until_its_bucket_fills_again(bare: Bare) -> None:
    bare.pools(pool("gpu"))
    throttle = bare.arm.set_throttle(reads=(2, 0.5), writes=(1, 0.1))
    assert [bare.ask("GET", SET)[0] for _ in range(3)] == [200, 200, 429]
    _, body, headers = bare.ask("GET", SET)
    assert (body["error"]["code"], headers["retry-after"]) == ("TooManyRequests", "2")
    bare.advance(2.0)
    assert bare.ask("GET", SET)[0] == 200
    assert throttle.refused == 2


def test_the_same_seed_makes_the_same_names_and_durations() -> None:
    def run() -> list[object]:
        timeline = VirtualTimeline()
        arm = ArmStandIn(timeline, seed=11)
        arm.add_pools(config(pool("gpu", zones=("1", "2", "3"))))
        arm.handle(Request.of("PATCH", f"{SET}?api-version=1", {}, b'{"sku": {"capacity": 9}}'))
        while timeline.step():
            pass
        return [(vm.id, vm.zone, vm.ready_at, vm.os_disk and vm.os_disk.name) for vm in arm.truth.vms]

    assert run() == run()
