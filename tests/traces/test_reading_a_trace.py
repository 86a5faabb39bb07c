import re
from pathlib import Path

import pytest

from local.errors import UserError
from local.system.trace import COLUMNS, manifest, read_trace

HEADER = ",".join(COLUMNS)
OPENB = Path(__file__).parents[3] / "shared" / "data" / "openb-gpu-2023" / "openb_pod_list_default.csv"


def write(path: Path, *rows: str) -> Path:
    path.write_text("\n".join([HEADER, *rows]) + "\n")
    return path


def test_a_lifetime_counts_from_when_the_pod_was_scheduled(tmp_path: Path) -> None:
    trace = write(tmp_path / "t.csv", "a,1000,512,1,460,10,100,40")
    assert read_trace(trace, start=0)[0].lifetime == 60


def test_a_pod_that_was_never_scheduled_lives_from_its_creation(tmp_path: Path) -> None:
    trace = write(tmp_path / "t.csv", "a,1000,512,1,460,10,100,")
    assert read_trace(trace, start=0)[0].lifetime == 90


def test_pods_outside_the_window_are_left_out(tmp_path: Path) -> None:
    trace = write(tmp_path / "t.csv", "early,1,1,0,0,5,9,5", "in,1,1,0,0,10,20,10", "late,1,1,0,0,86410,86420,86410")
    assert [pod.name for pod in read_trace(trace, start=10, days=1)] == ["in"]


def test_a_share_of_a_gpu_becomes_a_whole_one_and_the_rest_counts_as_waste(tmp_path: Path) -> None:
    pod = read_trace(write(tmp_path / "t.csv", "a,1000,512,1,460,10,100,40"), start=0)[0]
    limits = manifest(pod)["spec"]["containers"][0]["resources"]["limits"]
    assert limits["nvidia.com/gpu"] == "1"
    assert pod.wasted_gpus == pytest.approx(0.54)


def test_every_bad_row_is_listed_with_its_line(tmp_path: Path) -> None:
    trace = write(tmp_path / "t.csv", "a,x,512,1,460,10,100,40", "b,1,1,0,0,10,20,10", "c,1,1,0,0,50,20,40")
    with pytest.raises(UserError) as caught:
        read_trace(trace, start=0)
    assert [line.split(":")[1] for line in str(caught.value).split("\n")] == ["2", "4"]


def test_a_file_of_another_form_is_refused_by_its_missing_columns(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(UserError, match="no column name, cpu_milli"):
        read_trace(path)


@pytest.mark.skipif(not OPENB.exists(), reason="the openb trace lies beside the checkout, not in it")
def test_the_dense_days_of_the_openb_trace_hold_7890_pods() -> None:
    assert len(read_trace(OPENB)) == 7890


def test_a_trace_of_another_time_begins_with_its_first_pod(tmp_path: Path) -> None:
    trace = write(tmp_path / "t.csv", "b,1,1,0,0,500,600,500", "a,1,1,0,0,440,500,440")
    assert [(pod.name, pod.arrives) for pod in read_trace(trace)] == [("a", 0.0), ("b", 60.0)]


def test_the_dense_days_of_openb_are_the_default(tmp_path: Path) -> None:
    trace = write(tmp_path / "t.csv", "early,1,1,0,0,5,9,5", "in,1,1,0,0,10000060,10000099,")
    assert [(pod.name, pod.arrives) for pod in read_trace(trace)] == [("in", 60.0)]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("A_b,1,1,0,0,1,2,1", "name: 'A_b' is no name"),
        ("a,1.5,1,0,0,1,2,1", "cpu_milli: '1.5' is no whole number"),
        ("a,1,-1,0,0,1,2,1", "memory_mib: '-1' is no whole number"),
        ("a,1,1,0,0,nan,2,1", "creation_time: 'nan' is no time"),
    ],
)
def test_what_cannot_be_a_pod_is_refused_by_column_and_value(tmp_path: Path, row: str, said: str) -> None:
    with pytest.raises(UserError, match=re.escape(said)):
        read_trace(write(tmp_path / "t.csv", row))


def test_a_name_that_appears_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="3: name: 'a' appears twice"):
        read_trace(write(tmp_path / "t.csv", "a,1,1,0,0,1,2,1", "a,1,1,0,0,3,4,3"))


def test_only_pods_that_need_whole_machines_may_go_there(tmp_path: Path) -> None:
    rows = ("none,1,1,0,0,1,2,1", "one,1,1,1,1000,1,2,1", "all,1,1,8,1000,1,2,1")
    kept_for = {
        pod.name: {(one["key"], one["value"]) for one in manifest(pod)["spec"]["tolerations"]}
        for pod in read_trace(write(tmp_path / "t.csv", *rows))
    }
    assert kept_for == {"none": set(), "one": {("sku", "gpu")}, "all": {("sku", "gpu"), ("gpus", "many")}}
