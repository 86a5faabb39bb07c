"""One publisher at a time, and epochs that only grow."""

from __future__ import annotations

import pytest

from exporter.lease import LeaderLease, LeaseTerms
from shared.adapters.errors import Refused, Unreachable
from tests.exporter.fakes import FakeCluster, at

TERMS = LeaseTerms()
PATH = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/sluice-exporter"


def contender(cluster: FakeCluster, identity: str) -> LeaderLease:
    return LeaderLease(cluster, identity, TERMS)


def test_the_first_one_makes_the_lease_and_holds_it() -> None:
    cluster = FakeCluster()
    one = contender(cluster, "one")
    assert one.keep(at(0)) is True
    spec = cluster.get(PATH)["spec"]
    assert spec["holderIdentity"] == "one"
    assert spec["leaseTransitions"] == one.epoch > 0
    assert spec["renewTime"] == "2026-03-01T12:00:00.000000Z"


def test_a_second_one_waits_as_long_as_the_holder_renews() -> None:
    cluster = FakeCluster()
    one, two = contender(cluster, "one"), contender(cluster, "two")
    for second in range(0, 200, 5):
        assert one.keep(at(second)) is True
        assert two.keep(at(second)) is False
    assert two.epoch == 0


def test_a_silent_holder_is_taken_over_after_the_duration_with_a_higher_epoch() -> None:
    cluster = FakeCluster()
    one, two = contender(cluster, "one"), contender(cluster, "two")
    one.keep(at(0))
    first = one.epoch
    held = [two.keep(at(second)) for second in range(1, 40, 5)]
    assert held == [False] * 6 + [True, True]
    assert two.epoch == first + 1


def test_the_one_that_was_taken_over_notices_and_stops() -> None:
    cluster = FakeCluster()
    one, two = contender(cluster, "one"), contender(cluster, "two")
    one.keep(at(0))
    for second in range(1, 40, 5):
        two.keep(at(second))
    assert one.keep(at(41)) is False
    assert one.keep(at(43)) is False


def test_a_released_lease_is_free_at_once() -> None:
    cluster = FakeCluster()
    one, two = contender(cluster, "one"), contender(cluster, "two")
    one.keep(at(0))
    two.keep(at(0))
    one.release(at(1))
    assert two.keep(at(5)) is True
    assert two.epoch > 0
    assert one.epoch == 0


def test_a_restarted_holder_takes_its_own_lease_back_at_once_with_a_higher_epoch() -> None:
    cluster = FakeCluster()
    one = contender(cluster, "one")
    one.keep(at(0))
    again = contender(cluster, "one")
    assert again.keep(at(1)) is True
    assert again.epoch == one.epoch + 1


def test_renewing_does_not_change_the_epoch() -> None:
    cluster = FakeCluster()
    one = contender(cluster, "one")
    epochs = set()
    for second in range(0, 100, 10):
        one.keep(at(second))
        epochs.add(one.epoch)
    assert len(epochs) == 1


def test_a_lease_that_somebody_deleted_comes_back_with_a_higher_epoch() -> None:
    cluster = FakeCluster()
    one = contender(cluster, "one")
    one.keep(at(0))
    first = one.epoch
    cluster.remove(PATH)
    later = contender(cluster, "two")
    assert later.keep(at(3600)) is True
    assert later.epoch > first


def test_a_holder_survives_a_short_outage_and_gives_up_after_the_duration() -> None:
    cluster = FakeCluster()
    one = contender(cluster, "one")
    one.keep(at(0))
    held = []
    for second in range(10, 45, 5):
        cluster.fail = [Unreachable("down")]
        held.append(one.keep(at(second)))
    assert held == [True, True, True, True, False, False, False]
    assert "down" in one.problem


def test_nothing_is_asked_before_it_is_time() -> None:
    cluster = FakeCluster()
    one = contender(cluster, "one")
    one.keep(at(0))
    asked = len(cluster.requests)
    assert one.keep(at(9.9)) is True
    assert len(cluster.requests) == asked
    assert one.next_due() == at(10)


@pytest.mark.parametrize("error", [Refused("may not create leases"), Unreachable("down")])
def test_what_stands_in_the_way_is_said(error: Exception) -> None:
    cluster = FakeCluster()
    cluster.fail = [error]
    one = contender(cluster, "one")
    assert one.keep(at(0)) is False
    assert one.problem == str(error)
    assert one.keep(at(5)) is True
    assert one.problem == ""
