"""Versions, compaction, pages and faults: what the API server does to a watcher who is slow or unlucky."""

from __future__ import annotations

import orjson
import pytest

from local.kube.faults import Fault
from shared.adapters.errors import Expired, NotFound, RetryLater, StaleWrite, Throttled, Unreachable
from tests.kubernetes_contract.targets import CONFIG_MAPS, PODS, pod
from tests.kubernetes_stand_in.world import World


def _config_map(world: World, name: str) -> None:
    world.api.create(CONFIG_MAPS, {"metadata": {"name": name}})


def test_a_watch_from_before_a_compaction_expires() -> None:
    world = World()
    _, version = world.api.list(CONFIG_MAPS)
    _config_map(world, "a")
    world.stand_in.compact()
    with pytest.raises(Expired, match="too old resource version"):
        list(world.api.watch(CONFIG_MAPS, version, timeout_seconds=1))


def test_a_watch_from_the_version_of_the_compaction_goes_on() -> None:
    world = World()
    world.stand_in.compact()
    _, version = world.api.list(CONFIG_MAPS)
    _config_map(world, "a")
    kinds = [event["type"] for event in world.api.watch(CONFIG_MAPS, version, timeout_seconds=1)]
    assert kinds == ["ADDED", "BOOKMARK"]


def test_history_is_bounded_per_kind() -> None:
    world = World(history=3)
    _, version = world.api.list(CONFIG_MAPS)
    for number in range(4):
        _config_map(world, f"c{number}")
    with pytest.raises(Expired):
        list(world.api.watch(CONFIG_MAPS, version, timeout_seconds=1))
    assert [event["type"] for event in world.api.watch(PODS, version, timeout_seconds=1)] == ["BOOKMARK"]


def test_a_list_under_way_shows_one_moment_only() -> None:
    world = World()
    for name in ("a", "b", "c"):
        _config_map(world, name)
    first = world.request("GET", f"{CONFIG_MAPS}?limit=2")
    world.api.delete(f"{CONFIG_MAPS}/c")
    token = orjson.loads(first.body)["metadata"]["continue"]
    rest = world.request("GET", f"{CONFIG_MAPS}?limit=2&continue={token}")
    assert b'"name":"c"' in rest.body


def test_a_list_that_expires_on_the_way_is_begun_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.adapters.kubernetes.PAGE_SIZE", 2)
    world = World()
    for name in ("a", "b", "c"):
        _config_map(world, name)
    inner = world.stand_in.handle

    def compact_after_the_first_page(request):
        response = inner(request)
        if "limit" in request.query and "continue" not in request.query:
            world.stand_in.compact()
        return response

    monkeypatch.setattr(world.stand_in, "handle", compact_after_the_first_page)
    assert [one["metadata"]["name"] for one in world.api.list(CONFIG_MAPS)[0]] == ["a", "b", "c"]


def test_a_watch_by_selector_sees_objects_come_and_go() -> None:
    world = World()
    _, version = world.api.list(PODS)
    world.api.create(PODS, pod("p", labels={"app": "a"}))
    world.api.patch(f"{PODS}/p", {"metadata": {"labels": {"app": "b"}}})
    world.api.patch(f"{PODS}/p", {"metadata": {"labels": {"app": "a"}}})
    answer = world.request("GET", f"{PODS}?watch=true&resourceVersion={version}&labelSelector=app%3Da")
    kinds = [line.split(b'"')[3] for line in answer.body.splitlines()]
    assert kinds == [b"ADDED", b"DELETED", b"ADDED"]


def test_a_watch_without_a_version_begins_with_what_is_there() -> None:
    world = World()
    _config_map(world, "a")
    answer = world.request("GET", f"{CONFIG_MAPS}?watch=1")
    assert answer.body.startswith(b'{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1"')


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault(code=500, times=9), RetryLater),
        (Fault(code=503, times=9), RetryLater),
        (Fault(code=429, retry_after=3), Throttled),
        (Fault(code=410), Expired),
        (Fault(code=404), NotFound),
        (Fault(code=409), StaleWrite),
    ],
)
def test_a_scripted_fault_becomes_the_error_that_its_code_means(fault: Fault, error: type[Exception]) -> None:
    world = World()
    world.stand_in.faults.add(fault)
    with pytest.raises(error, match="scripted fault") as raised:
        world.api.get(f"{PODS}/any")
    assert getattr(raised.value, "retry_after", None) == (3.0 if fault.code == 429 else None)


def test_a_get_survives_two_faults_in_a_row() -> None:
    world = World()
    _config_map(world, "a")
    fault = world.stand_in.faults.add(Fault(method="GET", code=503, times=2))
    assert world.api.get(f"{CONFIG_MAPS}/a")["metadata"]["name"] == "a"
    assert fault.hits == 2


def test_a_write_is_never_repeated() -> None:
    world = World()
    fault = world.stand_in.faults.add(Fault(method="POST", code=503, times=5, after=True))
    with pytest.raises(RetryLater):
        _config_map(world, "a")
    assert fault.hits == 1
    assert world.api.get(f"{CONFIG_MAPS}/a")["metadata"]["name"] == "a"  # carried out, though the answer was lost


def test_an_answer_slower_than_the_time_out_is_no_answer() -> None:
    world = World()
    _config_map(world, "a")
    world.stand_in.faults.add(Fault(delay=40.0, times=9))
    with pytest.raises(Unreachable, match="no answer from"):
        world.api.get(f"{CONFIG_MAPS}/a")


def test_callbacks_learn_of_every_write_and_of_nothing_else() -> None:
    world = World(controllers=False)
    calls: list[int] = []
    world.stand_in.on_change(lambda: calls.append(1))
    _config_map(world, "a")
    world.api.get(f"{CONFIG_MAPS}/a")
    world.api.patch(f"{CONFIG_MAPS}/a", {"data": {"x": "y"}})
    world.api.patch(f"{CONFIG_MAPS}/a", {"data": {"x": "y"}})
    assert len(calls) == 2


def test_the_same_seed_makes_the_same_cluster() -> None:
    def story(seed: int) -> list[dict]:
        world = World(seed=seed)
        world.node("n")
        world.api.create(PODS, {**pod("unused"), "metadata": {"generateName": "p-"}})
        world.run(30)
        return world.api.list(PODS)[0]

    assert story(3) == story(3)
    assert story(3) != story(4)
