"""The doctor and a whole system: all is well; then one thing goes wrong, and that is what is found, with its remedy."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from local import cli
from local.doctor.clocks import Clocks
from local.doctor.examination import Keys, examine
from local.doctor.findings import Finding, Status, exit_code
from local.doctor.probing_azure import OperatorsArm
from local.doctor.target import Target
from local.web import Response
from shared.settings.config import parse_config
from tests.doctor.clinic import POOLS, Clinic, refused
from tests.doctor.conftest import Look

Fault = Callable[[Clinic], AbstractContextManager[None]]


def bad(document: dict[str, Any], status: str = "failed") -> list[dict[str, str]]:
    return [each for each in document["checks"] if each["status"] == status]


def test_a_system_as_it_should_be_is_well_in_every_check(look: Look) -> None:
    code, document = look()
    assert (code, document["ok"]) == (0, True)
    assert not bad(document)
    assert not bad(document, "warning")
    assert {each["check"] for each in document["checks"] if each["status"] == "ok"} == {
        "api-server", "app", "arm", "azure", "clock", "cluster", "cluster-rights", "exporter", "handshake", "pool",
        "pools-file", "quota", "rights", "scaler", "size", "subscription", "topic", "version",
    }  # fmt: skip


@contextmanager
def unsubscribed(clinic: Clinic) -> Iterator[None]:
    clinic.stand.topic.unsubscribe("ingest")
    yield
    clinic.outside._connect(clinic.app_url)


@contextmanager
def without_grant(clinic: Clinic, role: str) -> Iterator[None]:
    grants = clinic.outside.installation.grants
    taken = [grant for grant in grants if grant[0] == role]
    grants[:] = [grant for grant in grants if grant not in taken]
    yield
    grants += taken


@contextmanager
def scale_set(clinic: Clinic, **wrong: Any) -> Iterator[None]:
    group = clinic.stand.arm.cloud.estate.group("00000000-0000-0000-0000-000000000001", "nodes")
    found = group.scale_sets["spot"]
    before = {name: getattr(found, name) for name in wrong}
    for name, value in wrong.items():
        setattr(found, name, value)
    yield
    for name, value in before.items():
        setattr(found, name, value)


@contextmanager
def no_scale_set(clinic: Clinic) -> Iterator[None]:
    sets = clinic.stand.arm.cloud.estate.group("00000000-0000-0000-0000-000000000001", "nodes").scale_sets
    found = sets.pop("spot")
    yield
    sets["spot"] = found


def linked(clinic: Clinic) -> AbstractContextManager[None]:
    address = {"properties": {"subnet": {"id": "/subscriptions/x/net/subnets/a"}}}
    network = {"networkInterfaceConfigurations": [{"properties": {"ipConfigurations": [address]}}]}
    clinic.stand.arm.documents.show("/subscriptions/x/providers/Microsoft.Authorization/roleAssignments", list)
    return scale_set(clinic, profile={"priority": "Spot", "networkProfile": network})


@contextmanager
def no_size(clinic: Clinic) -> Iterator[None]:
    known = clinic.stand.arm.cloud.skus._known
    before = dict(known)
    known.clear()
    yield
    known.update(before)


@contextmanager
def denied(clinic: Clinic, *right: str) -> Iterator[None]:
    clinic.stand.cluster.access.denied.add((right[0], right[1]))
    yield
    clinic.stand.cluster.access.denied.clear()


@contextmanager
def autoscaled(clinic: Clinic) -> Iterator[None]:
    target = "/subscriptions/s/resourceGroups/nodes/providers/Microsoft.Compute/virtualMachineScaleSets/Spot"
    rules = clinic.outside.installation.autoscale
    rules.append({"name": "cpu", "properties": {"enabled": True, "targetResourceUri": target}})
    rules.append(
        {"name": "old", "properties": {"enabled": False, "targetResourceUri": target.replace("Spot", "regular")}}
    )
    yield
    rules.clear()


def no_webhook(clinic: Clinic) -> AbstractContextManager[None]:
    return clinic.app.answering(lambda request: Response(404) if request.method == "OPTIONS" else None)


def no_status(clinic: Clinic) -> AbstractContextManager[None]:
    return clinic.app.answering(lambda request: Response(401) if request.path == "/api/doctor" else None)


def lists_refused(clinic: Clinic) -> AbstractContextManager[None]:
    return clinic.app_arm.answering(lambda request: refused("Microsoft.Compute/virtualMachineScaleSets/read"))


FAULTS: dict[str, tuple[Fault, str, str, int]] = {
    "app is stopped": (lambda c: c.app.shut(), "app", "az functionapp start", 3),
    "app wants a key": (no_status, "app", "SLUICE_FUNCTION_KEY", 4),
    "storage is away": (lambda c: c.blobs.shut(), "app", "apply the stage base again", 5),
    "no function ingest": (no_webhook, "handshake", "func azure functionapp publish", 5),
    "pools file is broken": (lambda c: c.pools_file("cluster: demo\npools: 3\n"), "pools-file", "config/demo.yaml", 5),
    "ARM is out of reach": (lambda c: c.arm.shut(), "arm", "management.azure.com", 3),
    "nobody is logged in": (lambda c: c.arm.answering(lambda _: refused("x")), "arm", "az login", 4),
    "no topic": (lambda c: c.without_document(c.outside.installation.topic_id), "topic", "apply the stage base", 5),
    "no subscription": (unsubscribed, "subscription", "apply the stage wire", 5),
    "no role": (lambda c: without_grant(c, "scale-sets"), "rights", "assign it the role 'Sluice scale sets'", 4),
    "no right to a subnet": (linked, "rights", "'Sluice linked resources' on /subscriptions/x/net/subnets/a", 4),
    "no scale set": (no_scale_set, "pool", "make the scale set", 5),
    "another size": (lambda c: scale_set(c, sku="Standard_D8s_v5"), "pool", "set sku in the pools file", 5),
    "another zone": (lambda c: scale_set(c, zones=["2"]), "pool", "set zones in the pools file", 5),
    "cluster-autoscaler": (
        lambda c: scale_set(c, tags={"cluster-autoscaler-enabled": "true"}), "pool", "take it from that one", 5
    ),
    "autoscale setting": (autoscaled, "scaler", "az monitor autoscale delete --name cpu", 5),
    "size is not offered": (no_size, "size", "choose a size", 5),
    "ARM refuses the app": (lists_refused, "azure", "assign the app the role", 4),
    "ARM is out of the app's reach": (lambda c: c.app_arm.shut(), "azure", "AzureResourceManager", 3),
    "API server is out of the app's reach": (lambda c: c.app_cluster.shut(), "api-server", "API server runs", 3),
    "a right in the cluster": (lambda c: denied(c, "patch", "nodes"), "cluster-rights", "upgrade the release", 4),
    "API server is out of reach": (lambda c: c.cluster.shut(), "cluster", "where the API server can be reached", 3),
    "a label": (lambda c: c.node("spot", labels={"tier": "dear"}), "nodes", "correct `labels`", 5),
    "exporter is silent": (
        lambda c: c.lease(renewTime="2026-01-01T00:00:00.000000Z"), "exporter", "logs deployment/sluice-exporter", 5
    ),
    "exporter was stopped": (lambda c: c.lease(holderIdentity=""), "exporter", "logs deployment/sluice-exporter", 5),
    "a clock": (lambda c: c.skewed(timedelta(minutes=4)), "clock", "NTP", 5),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_one_fault_makes_its_own_check_fail_and_no_other(clinic: Clinic, look: Look, name: str) -> None:
    fault, check, remedy, expected = FAULTS[name]
    with fault(clinic):
        code, document = look()
    found = bad(document)
    assert {each["check"] for each in found} == {check}, found
    assert remedy in found[0]["remedy"]
    assert (code, document["ok"]) == (expected, False)


def test_after_all_of_them_the_system_is_well_again(look: Look) -> None:
    assert look()[0] == 0


@pytest.mark.parametrize(
    ("fault", "check", "remedy"),
    [
        (lambda c: denied(c, "list", "persistentvolumes"), "cluster-rights", "volumes: true"),
        (lambda c: scale_set(c, capacity=11), "pool", "raise max"),
    ],
)
def test_what_works_but_not_as_well_as_it_could_is_a_warning(
    clinic: Clinic, look: Look, fault: Fault, check: str, remedy: str
) -> None:
    with fault(clinic):
        code, document = look()
    assert code == 0
    assert [(each["check"], remedy in each["remedy"]) for each in bad(document, "warning")] == [(check, True)]


def test_a_quota_below_the_maximum_is_a_warning(clinic: Clinic, look: Look) -> None:
    clinic.stand.arm.cloud.quota.set_limit("lowPriorityCores", 20)
    code, document = look()
    clinic.stand.arm.cloud.quota._limits.clear()
    assert code == 0
    assert [each["message"] for each in bad(document, "warning")] == [
        "limits: max 10 takes 40 cores, the quota lowPriorityCores is 20"
    ]


def test_nothing_is_written_by_looking(clinic: Clinic, look: Look) -> None:
    before = (
        clinic.stand.arm.truth.methods["PATCH"],
        clinic.stand.arm.truth.methods["PUT"],
        len(clinic.stand.arm.truth.writes),
    )
    written = {name: blob.etag for name, blob in clinic.stand.blobs.containers["config"].items()}
    look()
    after = (
        clinic.stand.arm.truth.methods["PATCH"],
        clinic.stand.arm.truth.methods["PUT"],
        len(clinic.stand.arm.truth.writes),
    )
    assert after == before
    assert {name: blob.etag for name, blob in clinic.stand.blobs.containers["config"].items()} == written


def test_a_person_reads_a_line_for_each_check_and_one_for_its_remedy(
    clinic: Clinic, capsys: pytest.CaptureFixture[str]
) -> None:
    with clinic.lease(holderIdentity=""):
        assert cli.main(["doctor", "--out", str(clinic.out)]) == 5
    lines = capsys.readouterr().out.splitlines()
    place = lines.index(
        "FAIL  exporter demo: nobody holds the Lease kube-system/sluice-exporter: the exporter was stopped"
    )
    assert lines[place + 1].startswith("      -> kubectl -n kube-system logs deployment/sluice-exporter")
    assert lines[-1].endswith("1 failed, 1 not looked at")


def test_a_pools_file_that_is_given_is_judged_instead_of_the_apps(clinic: Clinic, look: Look, tmp_path: Path) -> None:
    file = tmp_path / "pools.yaml"
    file.write_text(POOLS.replace("name: regular", "name: other"))
    code, document = look("--pools", str(file))
    assert code == 5
    assert [(each["check"], each["subject"]) for each in bad(document)] == [("pool", "other")]


def before_rollout(clinic: Clinic) -> list[Finding]:
    clocks = Clocks(lambda: datetime.now(UTC))
    arm = OperatorsArm(clinic.arm.url, partial(clocks.header, "ARM"), login=False)
    return list(examine(Target(config=parse_config(POOLS)), arm, clocks, Keys()))


def test_before_rollout_the_pools_file_is_enough_to_look_at_azure(clinic: Clinic) -> None:
    found = before_rollout(clinic)
    assert {each.check for each in found if each.status is Status.OK} == {
        "arm", "clock", "pool", "quota", "rollout", "scaler", "size"
    }  # fmt: skip
    assert [each.check for each in found if each.status is not Status.OK] == ["app", "cluster"]
    assert exit_code(found) == 0


def test_who_may_not_give_roles_is_told_before_rollout(clinic: Clinic) -> None:
    installation = clinic.outside.installation
    installation.operator = [{"actions": ["*"], "notActions": ["Microsoft.Authorization/*/write"]}]
    (finding,) = [each for each in before_rollout(clinic) if each.check == "rollout"]
    installation.operator = [{"actions": ["*"], "notActions": []}]
    assert finding.status is Status.WARNING
    assert "Microsoft.Authorization/roleAssignments/write" in finding.message
    assert "an Owner" in finding.remedy


def test_the_page_names_every_check(look: Look, clinic: Clinic) -> None:
    page = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text()
    told = set(re.findall(r"^\| `([a-z-]+)` \| ", page.partition("## Checks")[2], re.MULTILINE))
    made = {each["check"] for each in look()[1]["checks"]} | {each.check for each in before_rollout(clinic)}
    assert told == made | {"nodes", "authorised-ranges"}
