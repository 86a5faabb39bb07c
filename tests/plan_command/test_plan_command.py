"""`sluice plan` from outside: files in, JSON or text out, an exit code, and one line for each thing that is wrong."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from local import cli, cli_plan, cluster_dump
from shared.adapters import errors
from shared.adapters.kubernetes import KubernetesClusterApi
from tests.reading import storage

POOLS = """
cluster: training
pools:
  - {name: general, max: 10, price: 0.2, shape: {cpu: 4, memory: 16Gi}}
  - {name: gpu, max: 10, price: 0.9, shape: {cpu: 8, memory: 64Gi, nvidia.com/gpu: 1}, taints: ["sku=gpu:NoSchedule"]}
"""


def pod(name, cpu="1", node="", **spec):
    requests = {"cpu": cpu, **spec.pop("requests", {})}
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": name,
            "ownerReferences": [{"kind": "ReplicaSet", "name": "r", "controller": True}],
        },
        "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}], "nodeName": node, **spec},
        "status": {"phase": "Running" if node else "Pending"},
    }


def node(name, cpu="4"):
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {},
        "status": {
            "allocatable": {"cpu": cpu, "memory": "16Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


@pytest.fixture
def files(tmp_path):
    """Writes a dump and a pools file; returns the arguments that name them."""

    def write(items=(), pools=POOLS, kind="List"):
        (tmp_path / "dump.json").write_text(json.dumps({"apiVersion": "v1", "kind": kind, "items": list(items)}))
        (tmp_path / "pools.yaml").write_text(pools)
        return ["plan", "--cluster", str(tmp_path / "dump.json"), "--pools", str(tmp_path / "pools.yaml")]

    return write


@pytest.fixture
def plan_json(files, capsysbinary):
    """Runs `sluice plan -o json` over these objects and returns what it printed."""

    def run(*items, **more):
        assert cli.main([*files(items, **more), "-o", "json"]) == 0
        printed = capsysbinary.readouterr()
        assert printed.err == b""
        return json.loads(printed.out)

    return run


def test_pending_pods_become_nodes_of_the_cheapest_pool(plan_json):
    made = plan_json(*(pod(f"p{n}", cpu="2") for n in range(4)))
    del made["served"]
    assert made == {
        "deltas": [
            {
                "pool": "general",
                "add": 2,
                "nodes": [{"pods": ["default/p0", "default/p1"]}, {"pods": ["default/p2", "default/p3"]}],
            }
        ],
        "fits_existing": [],
        "unserved": [],
        "cost_per_hour": 0.4,
    }


def test_beside_the_plan_stands_why_each_class_goes_where_it_goes(plan_json):
    made = plan_json(*(pod(f"p{n}", cpu="2") for n in range(4)))
    assert made["served"] == [
        {
            "pod": "default/p0",
            "pods": 4,
            "supply": "new",
            "target": "general",
            "nodes": 2,
            "why": "OnlyPool: no other pool takes such pods",
            "cost_per_hour": 0.4,
            "share_per_hour": 0.1,
            "runner_up": "",
            "runner_up_share_per_hour": None,
        }
    ]


def test_every_pending_pod_appears_once_and_every_pool_has_its_reason(plan_json):
    made = plan_json(
        node("n1", cpu="2"),
        pod("fits"),
        pod("large", cpu="3"),
        pod("too-large", cpu="300"),
        pod("wants-gpu", requests={"nvidia.com/gpu": "1"}),
        pod("running", node="n1"),
    )
    assert made["fits_existing"] == [{"node": "n1", "pods": ["default/fits"]}]
    assert [each["pods"] for delta in made["deltas"] for each in delta["nodes"]] == [["default/large"]]
    assert {each["pod"]: each["reasons"] for each in made["unserved"]} == {
        "default/too-large": {
            "general": "NodeResourcesFit: needs 300 cpu, a new node has 4",
            "gpu": "TaintToleration: does not tolerate sku=gpu:NoSchedule",
        },
        "default/wants-gpu": {
            "general": "NodeResourcesFit: needs 1 nvidia.com/gpu, a new node has 0",
            "gpu": "TaintToleration: does not tolerate sku=gpu:NoSchedule",
        },
    }


def test_pods_that_are_gated_going_or_done_are_not_planned_for(plan_json):
    gated = pod("gated", schedulingGates=[{"name": "quota"}])
    going = pod("going")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    done = pod("done")
    done["status"]["phase"] = "Succeeded"
    assert plan_json(gated, going, done)["deltas"] == []


def test_daemon_sets_of_the_dump_take_room_on_new_nodes(plan_json):
    agent = {
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "system"},
        "spec": {"template": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}},
    }
    assert plan_json(agent, *(pod(f"p{n}", cpu="2") for n in range(2)))["deltas"][0]["add"] == 2


def test_a_list_of_pods_alone_will_do_and_other_kinds_are_passed_over(plan_json):
    bare = pod("p0")
    del bare["kind"]
    assert plan_json(bare, {"kind": "Service", "metadata": {"name": "s"}}, kind="PodList")["deltas"][0]["add"] == 1


def test_an_empty_cluster_needs_nothing(plan_json):
    assert plan_json() == {"deltas": [], "fits_existing": [], "unserved": [], "cost_per_hour": 0, "served": []}


def test_text_says_what_is_bought_at_which_price_and_why_others_are_not_served(files, capsys):
    items = [node("n1", cpu="1"), pod("fits"), *(pod(f"p{n}", cpu="4") for n in range(6)), pod("too-large", cpu="300")]
    assert cli.main(files(items)) == 0
    text = capsys.readouterr().out
    assert "general      6       6       1.200" in text
    assert "default/p0 and 5 more: on 6 new of general, 1.2 per hour" in text
    assert "OnlyPool: no other pool takes such pods (0.2 for each pod)" in text
    assert "fits on n1: default/fits" in text
    assert "not served: default/too-large" in text
    assert "general  NodeResourcesFit: needs 300 cpu, a new node has 4" in text


def test_text_names_nodes_below_the_minimum_and_unknown_prices(files, capsys):
    pools = "{cluster: c, pools: [{name: general, min: 2, max: 4, shape: {cpu: 4, memory: 16Gi}}]}"
    assert cli.main(files([pod("p0")], pools=pools)) == 0
    text = capsys.readouterr().out
    assert "to reach its minimum, pool general gets 1 more" in text
    assert "unknown" in text
    assert "note: pool general: price unknown" in text


def test_many_nodes_are_summed_up_in_text(files, capsys):
    items = [each for n in range(30) for each in (node(f"n{n}", cpu="1"), pod(f"p{n}"))]
    assert cli.main(files(items)) == 0
    text = capsys.readouterr().out
    assert "nothing to add" in text
    assert "fits on 10 more nodes: 10 pods" in text


def test_the_dump_can_come_from_standard_input(files, capsysbinary, monkeypatch):
    arguments = files([pod("p0")])
    dump = io.BytesIO(Path(arguments[2]).read_bytes())
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=dump))
    arguments[2] = "-"
    assert cli.main([*arguments, "-o", "json"]) == 0
    assert json.loads(capsysbinary.readouterr().out)["deltas"][0]["add"] == 1


@pytest.mark.parametrize(
    ("dump", "line"),
    [
        ("{not json", "not JSON (line 1, column"),
        ("[1, 2]", "not a List of objects but list"),
        ('{"kind": "Deployment", "spec": {}}', "not a List of objects but Deployment"),
        ('{"kind": "List", "items": [3]}', "items[0]: must be an object, found int"),
        ('{"kind": "List", "items": [{"kind": "Pod", "spec": {}}]}', "pod"),
        ('{"kind": "List", "items": [{"kind": "Node", "metadata": {}}]}', "node"),
    ],
)
def test_a_dump_that_is_none_is_refused_in_one_line(files, capsys, dump, line):
    arguments = files()
    Path(arguments[2]).write_text(dump)
    assert cli.main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert line in printed.err
    assert "dump.json" in printed.err


def test_a_pod_with_a_quantity_that_is_none_is_refused_by_its_name(files, capsys):
    assert cli.main(files([pod("broken", cpu="lots")])) == 2
    error = capsys.readouterr().err
    assert "default/broken" in error
    assert "lots" in error


def test_every_problem_of_the_pools_file_gets_its_line(files, capsys):
    pools = "{cluster: c, pools: [{name: a, max: -1, shape: {cpu: 4, memory: 16Gi}}, {name: b, max: 1, colour: red}]}"
    assert cli.main(files(pools=pools)) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) >= 2
    assert all("pools.yaml: pools[" in line for line in lines)


def test_a_file_that_is_not_there_is_named(files, capsys, tmp_path):
    arguments = files()
    arguments[2] = str(tmp_path / "absent.json")
    assert cli.main(arguments) == 2
    assert "absent.json: there is no such file" in capsys.readouterr().err


def test_a_folder_in_place_of_a_file_is_named(files, capsys, tmp_path):
    arguments = files()
    arguments[4] = str(tmp_path)
    assert cli.main(arguments) == 2
    assert f"{tmp_path}: cannot read the pools file" in capsys.readouterr().err


def test_both_inputs_from_standard_input_are_refused(capsys):
    assert cli.main(["plan", "--cluster", "-", "--pools", "-"]) == 2
    assert "cannot both be read from standard input" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [[], ["dance"], ["plan"], ["plan", "--pools", "p", "--cluster", "a", "--kubeconfig", "b"]]
)
def test_wrong_usage_is_bad_input(words, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(words)
    assert end.value.code == 2
    assert "usage: sluice" in capsys.readouterr().err


CLAIMING = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}


def of_kind(kind, item):
    return {"kind": kind, **item}


def disk_of(zone):
    """What a dump holds of a pod's bound disk in that zone."""
    return [
        of_kind("PersistentVolumeClaim", storage.claim("data", "pv-1")),
        of_kind("PersistentVolume", storage.volume("pv-1", zone=zone)),
        of_kind("StorageClass", storage.storage_class()),
        of_kind("CSINode", storage.csi_node("n1")),
    ]


def test_a_pod_with_a_disk_goes_where_its_disk_can(plan_json):
    labelled = node("n1")
    labelled["metadata"]["labels"][storage.DISK_ZONE] = "westeurope-1"
    found = plan_json(pod("p0", **CLAIMING), labelled, *disk_of("westeurope-1"))
    assert found["fits_existing"] == [{"node": "n1", "pods": ["default/p0"]}]
    found = plan_json(pod("p0", **CLAIMING), labelled, *disk_of("westeurope-2"))
    assert found["unserved"][0]["reasons"]["general"].startswith("VolumeBinding: a volume needs ")


def test_a_dump_of_a_cluster_that_has_no_nodes_yet_needs_no_csi_nodes(plan_json):
    disk = [item for item in disk_of("") if item["kind"] != "CSINode"]
    assert plan_json(pod("p0", **CLAIMING), *disk)["unserved"] == []


def test_a_dump_without_claims_is_told_what_it_lacks(plan_json):
    reasons = plan_json(pod("p0", **CLAIMING))["unserved"][0]["reasons"]
    assert reasons["general"].startswith("NotModelled: VolumeBinding (no persistentvolumeclaims in ")


class Api:
    """An API server that answers each list with these objects, or fails."""

    def __init__(self, answers):
        self.answers = answers

    def list(self, path):
        if isinstance(self.answers, Exception):
            raise self.answers
        return self.answers.get(path, []), "1"

    def close(self):
        """Nothing to give back."""


@pytest.fixture
def live(files, monkeypatch):
    """Arguments for a plan of a live cluster whose API server answers so."""

    def arguments(answers):
        monkeypatch.setattr(KubernetesClusterApi, "from_kubeconfig", lambda name: Api(answers))
        return ["plan", "--kubeconfig", "kube.conf", *files()[3:], "-o", "json"]

    return arguments


def test_a_live_cluster_is_planned_like_a_dump_of_it(live, capsysbinary):
    listed = {kind: [] for kind in ("/api/v1/nodes", "/apis/apps/v1/daemonsets")}
    assert cli.main(live({"/api/v1/pods": [pod("p0")], **listed})) == 0
    assert json.loads(capsysbinary.readouterr().out)["deltas"][0]["add"] == 1


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (errors.Unreachable("connection refused by 127.0.0.1:1"), 3, "is the API server up?"),
        (errors.NotFound("no such path"), 3, "no such path"),
        (errors.Refused("may not list pods"), 4, "needs to list pods, nodes and daemonsets"),
    ],
)
def test_a_cluster_that_does_not_answer_gives_one_line_and_its_code(live, capsys, error, code, words):
    assert cli.main(live(error)) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert words in printed.err


def test_a_live_cluster_that_hides_its_claims_is_planned_without_pods_that_have_some(live, capsysbinary, monkeypatch):
    listed = {"/api/v1/pods": [pod("p0"), pod("p1", **CLAIMING)]}
    arguments = live(listed)
    show = Api.list

    def hidden(self, path):
        if path == "/api/v1/persistentvolumes":
            raise errors.Refused("may not list persistentvolumes")
        return show(self, path)

    monkeypatch.setattr(Api, "list", hidden)
    assert cli.main(arguments) == 0
    printed = json.loads(capsysbinary.readouterr().out)
    assert printed["deltas"][0]["nodes"] == [{"pods": ["default/p0"]}]
    assert printed["unserved"][0]["reasons"]["general"] == (
        "NotModelled: VolumeBinding (no right to list persistentvolumes)"
    )


def test_a_kubeconfig_that_is_not_there_is_bad_input(files, capsys, tmp_path):
    assert cli.main(["plan", "--kubeconfig", str(tmp_path / "none"), *files()[3:]]) == 2
    assert "there is no such file" in capsys.readouterr().err


def test_an_interrupt_ends_without_a_trace(files, capsys, monkeypatch):
    def interrupted(name):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli_plan, "from_dump", interrupted)
    assert cli.main(files()) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_a_reader_that_has_seen_enough_is_no_error(files, monkeypatch):
    arguments = files([pod("p0")])
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as broken:
        monkeypatch.setattr(sys, "stdout", broken)
        assert cli.main(arguments) == 0


def test_starting_up_loads_neither_azure_nor_the_kubernetes_client():
    code = "import sys, local.cli, local.cli_plan; print([m for m in sys.modules if m in ('azure', 'kubernetes')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_dump_is_sorted_by_kind(files):
    objects = cluster_dump.from_dump(files([pod("p0"), node("n1"), {"kind": "Secret"}])[2])
    assert (len(objects.pods), len(objects.nodes), len(objects.daemon_sets)) == (1, 1, 0)


def test_where_nodes_are_not_as_the_pools_file_says_it_is_told(files, capsys):
    real = node("n1", cpu="3820m")
    real["metadata"]["labels"]["sluice.io/pool"] = "general"
    assert cli.main(files([real])) == 0
    said = capsys.readouterr().out
    assert "note: pool general: nodes have 3820m cpu allocatable, the pools file promises 4\n" in said
    assert said.count("note: ") == 1
