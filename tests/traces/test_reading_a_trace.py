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
