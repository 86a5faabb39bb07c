"""What the kubelet and a scraper are told."""

from __future__ import annotations

import urllib.request

import pytest

from exporter.health import Health, HealthServer, metrics_text, respond

WELL = Health(alive=True, ready=True)


@pytest.mark.parametrize(
    ("path", "health", "status"),
    [
        ("/healthz", WELL, 200),
        ("/healthz", Health(alive=False, ready=True, problem="a watch thread ended"), 503),
        ("/readyz", WELL, 200),
        ("/readyz", Health(alive=True, ready=False), 503),
        ("/metrics?x=1", WELL, 200),
        ("/", WELL, 404),
    ],
)
def test_each_path_answers_with_its_own_status(path: str, health: Health, status: int) -> None:
    assert respond(path, health)[0] == status


def test_the_problem_is_the_body() -> None:
    assert "thread ended" in respond("/healthz", Health(alive=False, ready=False, problem="a watch thread ended"))[1]


def test_figures_of_one_name_share_a_type_line() -> None:
    figures = {'sluice_events_total{type="b"}': 2.0, 'sluice_events_total{type="a"}': 1.0, "sluice_lag_seconds": 0.5}
    assert metrics_text(figures).splitlines() == [
        "# TYPE sluice_events_total counter",
        'sluice_events_total{type="a"} 1',
        'sluice_events_total{type="b"} 2',
        "# TYPE sluice_lag_seconds gauge",
        "sluice_lag_seconds 0.5",
    ]


def test_it_is_served_over_http_on_a_free_port() -> None:
    server = HealthServer(0, lambda: WELL, "127.0.0.1")
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/readyz", timeout=5) as answer:
            assert answer.read() == b"ok\n"
    finally:
        server.close()


def test_a_port_in_use_is_an_error_at_the_start() -> None:
    server = HealthServer(0, lambda: WELL, "127.0.0.1")
    try:
        with pytest.raises(OSError, match="in use"):
            HealthServer(server.port, lambda: WELL, "127.0.0.1")
    finally:
        server.close()


def test_large_figures_keep_all_their_digits() -> None:
    assert "sluice_epoch 29920358\n" in metrics_text({"sluice_epoch": 29920358.0})
