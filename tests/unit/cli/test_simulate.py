"""The command line of the simulator, which needs no cluster."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from laneway.cli import exit_codes
from laneway.cli.main import main

TRACE = "job,submit_seconds,duration_seconds,workers\na,0,100,1\nb,5,20,1\nhuge,0,1,9\n"
TIRESIAS_NODES = "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n1,1,2,64,256\n"
NODES = "sn,cpu_milli,memory_mib,gpu,model\nn1,64000,262144,2,P100\nn2,96000,393216,0,\n"
FREE = ["--option", "min_run_seconds=0", "--option", "leave_seconds=0", "--option", "restart_seconds=0"]
JOBS = 10_000
"""More than can be simulated between the first sign of progress and a signal."""

DEADLINE_SECONDS = 60


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "trace.csv"
    path.write_text(TRACE, encoding="utf-8")
    return str(path)


def test_it_writes_a_table(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["simulate", "--trace", trace, "--policy", "fifo,tiresias-las", "--nodes", "1x1"]
    assert main(command) == exit_codes.OK
    out = capsys.readouterr().out.splitlines()
    assert out[0].split() == ["policy", "fifo", "tiresias-las"]
    (makespan,) = [line.split() for line in out if line.startswith("makespan")]
    assert makespan == ["makespan", "2", "min", "2", "min"]
    assert out[-2].startswith("fifo: unfinished: default/huge: It needs 9 GPUs")


def test_a_table_of_many_policies_is_no_wider_than_100_columns(
    trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    policies = ",".join(["fifo", "tiresias-las", "srtf"] * 5)
    assert main(["simulate", "--trace", trace, "--policy", policies, "--nodes", "1x1"]) == exit_codes.OK
    table = [line for line in capsys.readouterr().out.splitlines() if "unfinished:" not in line]
    assert max(len(line) for line in table) <= 100
    assert sum(len(line.split()) - 1 for line in table if line.startswith("policy")) == 15


def test_policies_of_repeated_flags_all_run(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["simulate", "--trace", trace, "--nodes", "1x1", "-o", "json"]
    assert main([*command, "--policy", "fifo", "--policy", "srtf,fair"]) == exit_codes.OK
    assert [row["policy"] for row in json.loads(capsys.readouterr().out)] == ["fifo", "srtf", "fair"]


def test_it_writes_json_with_the_options_given(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = [
        "simulate",
        "--trace",
        trace,
        "--policy",
        "tiresias-las",
        "--nodes",
        "1x1",
        "-o",
        "json",
        *FREE,
    ]
    assert main([*command, "--option", "thresholds_gpu_seconds=30,90"]) == exit_codes.OK
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["policy"], row["placement"], row["jobs"]) == ("tiresias-las", "best-fit", 2)
    assert row["makespan_seconds"] == 120
    assert row["preemptions"] == 1
    assert row["average_jct_seconds"] == (120 + 45) / 2


def test_costs_are_charged(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = [
        "simulate",
        "--trace",
        trace,
        "--policy",
        "tiresias-las",
        "--nodes",
        "1x1",
        "-o",
        "json",
        *FREE,
    ]
    command += ["--option", "thresholds_gpu_seconds=30,90", "--option", "leave_seconds=3"]
    assert main([*command, "--option", "restart_seconds=4"]) == exit_codes.OK
    (row,) = json.loads(capsys.readouterr().out)
    assert row["makespan_seconds"] == 127


def test_an_operator_takes_its_time(trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its file gives the policy and the thresholds; the options, the latencies."""
    config = tmp_path / "operator.yaml"
    order = "{policy: tiresias-las, options: {thresholdsGpuSeconds: [30, 90]}}"
    config.write_text(
        f"sharing: off\nscheduling: {{order: {order}}}\ncycle: {{debounceMilliseconds: 500}}\n",
        encoding="utf-8",
    )
    command = ["simulate", "--trace", trace, "--nodes", "1x1", "-o", "json", "--operator", str(config), *FREE]
    for option in ("observe_seconds=1", "request_seconds=0", "pods_seconds=2", "notice_seconds=4"):
        command += ["--option", option]
    assert main(command) == exit_codes.OK
    (row,) = json.loads(capsys.readouterr().out)
    assert row["policy"] == "tiresias-las"
    assert row["preemptions"] == 1
    starts_seconds, notice_seconds = 3 * (1.5 + 2), 4
    assert row["makespan_seconds"] == pytest.approx(120 + starts_seconds + notice_seconds)


@pytest.mark.parametrize(
    ("text", "says"), [("cycle: {startsPerCycle: 0}", "startsPerCycle"), (None, "cannot read")]
)
def test_a_wrong_operator_file_is_refused(
    trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, says: str
) -> None:
    config = tmp_path / "operator.yaml"
    if text is not None:
        config.write_text(text, encoding="utf-8")
    assert (
        main(["simulate", "--trace", trace, "--nodes", "1x1", "--operator", str(config)]) == exit_codes.USAGE
    )
    assert says in capsys.readouterr().err


def test_every_policy_and_placement_of_the_command_line_runs(
    trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    policies = "fifo,srtf,srsf,tiresias-las,tiresias-gittins,fair,finish-time-fair,pollux"
    for placement in ("count", "best-fit", "spread", "consolidate", "tiresias", "fgd", "lanes"):
        command = ["simulate", "--trace", trace, "--policy", policies, "--placement", placement]
        assert main([*command, "--nodes", "1x2", "-o", "json"]) == exit_codes.OK
        rows = json.loads(capsys.readouterr().out)
        assert [row["policy"] for row in rows] == policies.split(",")
        assert {(row["placement"], row["jobs"]) for row in rows} == {(placement, 2)}


def test_an_option_of_one_policy_is_no_error_for_another(
    trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["simulate", "--trace", trace, "--policy", "fifo,tiresias-las", "--nodes", "1x1"]
    assert main([*command, "--option", "promotion_factor=2", "--option", "strict=false"]) == exit_codes.OK
    assert capsys.readouterr().err == ""


def test_weights_of_namespaces_are_an_option(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["simulate", "--trace", trace, "--policy", "fair", "--nodes", "1x1"]
    assert main([*command, "--option", "weights=default:2,other:1"]) == exit_codes.OK
    assert main([*command, "--option", "weights=default"]) == exit_codes.USAGE
    assert "write name:number for each" in capsys.readouterr().err


def test_shared_gpus_take_several_jobs_whose_memory_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text(
        "job,submit_seconds,duration_seconds,persistent_bytes,ephemeral_bytes\na,0,100,5,5\nb,0,20,5,5\n",
        encoding="utf-8",
    )
    command = ["simulate", "--trace", str(trace), "--nodes", "1x1", "-o", "json", "--option", "model=alone"]
    assert main([*command, "--option", "profiled=true"]) == exit_codes.OK
    assert json.loads(capsys.readouterr().out)[0]["makespan_seconds"] == 120
    assert main([*command, "--option", "profiled=true", "--option", "overcommit=2"]) == exit_codes.OK
    assert json.loads(capsys.readouterr().out)[0]["makespan_seconds"] == 100
    assert main([*command, "--option", "overcommit=2"]) == exit_codes.OK
    (row,) = json.loads(capsys.readouterr().out)
    assert row["makespan_seconds"] == 120, (
        "a job that has never run counts with all of the memory that it may use"
    )


@pytest.mark.parametrize("content", [NODES, TIRESIAS_NODES], ids=["openb", "tiresias"])
def test_nodes_may_be_a_file(
    trace: str, content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = tmp_path / "nodes.csv"
    nodes.write_text(content, encoding="utf-8")
    command = ["simulate", "--trace", trace, "--policy", "fifo", "--option", "strict=false", "-o", "json"]
    assert main([*command, "--nodes", str(nodes)]) == exit_codes.OK
    (row,) = json.loads(capsys.readouterr().out)
    assert row["makespan_seconds"] == 100, (
        "both jobs ran at once, on the two GPUs of the one node that has any"
    )
    assert main([*command, "--nodes", trace]) == exit_codes.USAGE
    assert (
        "line 2: the columns are job, submit_seconds, duration_seconds, workers: write sn,cpu_milli"
        in capsys.readouterr().err
    )


def test_it_writes_a_page_with_plots(trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    command = ["simulate", "--trace", trace, "--policy", "fifo,srtf", "--nodes", "1x1", "--report", str(page)]
    assert main(command) == exit_codes.OK
    text = page.read_text(encoding="utf-8")
    assert "trace.csv" in text
    assert "restart_seconds of the costs" in text
    assert text.count('class="plotly-graph-div"') == 2 + 2 * 2


def test_a_page_that_cannot_be_written_is_refused_at_once(
    trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["simulate", "--trace", trace, "--nodes", "1x1", "--report", str(tmp_path / "no" / "page.html")]
    assert main(command) == exit_codes.USAGE
    captured = capsys.readouterr()
    assert "write the name of a file in an existing folder" in captured.err
    assert captured.out == ""


def test_ctrl_c_leaves_what_is_done_so_far(tmp_path: Path) -> None:
    trace = tmp_path / "long.csv"
    rows = (f"j{number},{number % 977},{1 + number % 31},{1 + number % 5}" for number in range(JOBS))
    trace.write_text("\n".join(["job,submit_seconds,duration_seconds,workers", *rows]), encoding="utf-8")
    page = tmp_path / "page.html"
    terminal, its_end = pty.openpty()
    command = [sys.executable, "-m", "laneway.cli.main", "simulate", "--trace", str(trace), "--nodes", "2x8"]
    command += ["--policy", "fifo,srtf", "--option", "strict=false", "-o", "json", "--report", str(page)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=its_end, start_new_session=True)
    os.close(its_end)
    try:
        said = _read_until(terminal, b"#")  # the bar: at least one job in thirty has finished
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=DEADLINE_SECONDS)
    finally:
        process.kill()
        process.wait()
    said += _rest(terminal)
    (row,) = json.loads(out)
    assert process.returncode == exit_codes.INTERRUPTED
    assert row["policy"] == "fifo", "the second policy was not begun"
    assert row["jobs"] > 0
    assert row["jobs"] + row["unfinished_jobs"] == JOBS
    assert b"interrupted: the last policy shows the results so far" in said
    text = page.read_text(encoding="utf-8")
    assert "Interrupted: the last policy is incomplete." in text
    assert text.rstrip().endswith("</html>")


def _read_until(terminal: int, wanted: bytes) -> bytes:
    said = b""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while wanted not in said:
        ready, _, _ = select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"no {wanted!r} in {said!r}"
        said += os.read(terminal, 4096)
    return said


def _rest(terminal: int) -> bytes:
    said = b""
    try:
        while part := os.read(terminal, 4096):
            said += part
    except OSError:  # on Linux: the other end is closed
        pass
    os.close(terminal)
    return said


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--policy", "lottery"], "there is no order policy 'lottery'; write one of fair, fifo"),
        (["--placement", "anywhere"], "there is no placement policy 'anywhere'; write one of best-fit"),
        (["--nodes", "eight"], "'eight' does not describe nodes: write <nodes>x<GPUs per node>"),
        (["--option", "speed"], "--option speed: write name=value"),
        (["--option", "speed=1"], "nothing has a parameter 'speed'; there are elastic, allocation"),
        (["--option", "leave_seconds=soon"], "--option leave_seconds='soon' is not a number"),
        (["--option", "leave_seconds=-1"], "leave_seconds is -1"),
        (["--option", "strict=1", "--policy", "fifo"], "--option strict='1': write true or false"),
        (["--option", "model=warp"], "there is no model 'warp'; write one of "),
        (["--option", "model=gavel"], "the model gavel needs a file of throughputs: write throughputs=FILE"),
        (["--option", "allocation=lottery"], "there is no allocation policy 'lottery'"),
        (["--option", "admission=lottery"], "there is no admission policy 'lottery'"),
        (["--option", "overcommit=0.5"], "overcommit is 0.5: write 1 or more"),
        (["--trace", "nowhere.csv"], "cannot read the trace nowhere.csv"),
    ],
)
def test_errors_of_simulations_say_what_to_write(
    trace: str, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "--trace", trace, "--nodes", "1x1", *arguments]) == exit_codes.USAGE
    assert says in capsys.readouterr().err
