"""The command line: exit codes, wrong input, and the simulator, which needs no cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from laneway.cli import exit_codes
from laneway.cli.durations import parse_duration
from laneway.cli.exit_codes import CommandError
from laneway.cli.main import main
from laneway.cli.verbs.logs import container_of, has_started
from laneway.cli.verbs.wait import judged
from laneway.simulator import Simulation

from tests.unit.cli.jobs import a_condition, a_job

TRACE = "job,submit_seconds,duration_seconds,workers\na,0,100,1\nb,5,20,1\nhuge,0,1,9\n"


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "trace.csv"
    path.write_text(TRACE, encoding="utf-8")
    return str(path)


def test_simulate_writes_a_table(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["simulate", "--trace", trace, "--policy", "fifo,tiresias-las", "--nodes", "1x1"])
        == exit_codes.OK
    )
    out = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in out[:3]] == ["POLICY", "fifo", "tiresias-las"]
    assert out[3].startswith("fifo: unfinished: default/huge: It needs 9 GPUs")


def test_simulate_writes_json_with_the_options_given(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["simulate", "--trace", trace, "--nodes", "1x1", "-o", "json"]
    for option in (
        "thresholds_gpu_seconds=30,90",
        "min_run_seconds=0",
        "leave_seconds=0",
        "restart_seconds=0",
    ):
        command += ["--option", option]
    assert main(command) == exit_codes.OK
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["policy"], row["placement"], row["jobs"]) == ("tiresias-las", "best-fit", 2)
    assert row["makespan_seconds"] == 120
    assert row["preemptions"] == 1
    assert row["average_jct_seconds"] == (120 + 45) / 2


def test_an_option_of_one_policy_is_no_error_for_another(
    trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["simulate", "--trace", trace, "--policy", "fifo,tiresias-las", "--nodes", "1x1"]
    assert main([*command, "--option", "promotion_factor=2", "--option", "strict=false"]) == exit_codes.OK
    assert capsys.readouterr().err == ""


def test_ctrl_c_leaves_what_is_done_so_far(
    trace: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = Simulation.step

    def interrupted_when_one_has_finished(simulation: Simulation) -> bool:
        if simulation.finished:
            raise KeyboardInterrupt
        return go_on(simulation)

    monkeypatch.setattr(Simulation, "step", interrupted_when_one_has_finished)
    code = main(
        ["simulate", "--trace", trace, "--policy", "fifo,tiresias-las", "--nodes", "1x1", "-o", "json"]
    )
    captured = capsys.readouterr()
    assert code == exit_codes.INTERRUPTED
    assert [(row["policy"], row["jobs"]) for row in json.loads(captured.out)] == [("fifo", 1)]
    assert "interrupted" in captured.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--policy", "lottery"], "no order policy 'lottery'; write one of fifo, tiresias-las"),
        (["--nodes", "eight"], "'eight' does not describe nodes: write <nodes>x<GPUs of each>"),
        (["--option", "speed"], "--option speed: write name=value"),
        (
            ["--option", "speed=1"],
            "nothing has a parameter 'speed'; there are leave_seconds, min_run_seconds",
        ),
        (["--option", "leave_seconds=soon"], "'soon' is not a number"),
        (["--option", "leave_seconds=-1"], "leave_seconds is -1"),
        (["--option", "strict=1", "--policy", "fifo"], "--option strict=1: write true or false"),
        (["--trace", "nowhere.csv"], "cannot read the trace nowhere.csv"),
    ],
)
def test_wrong_simulations_are_told_what_to_write(
    trace: str, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "--trace", trace, "--nodes", "1x1", *arguments]) == exit_codes.USAGE
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty: write a TrainingJob"),
        ("- 1", "document 1: it is no object"),
        ("{a: [", "is not valid YAML"),
        ("apiVersion: v1\nkind: Pod", "it is a Pod of v1; submit takes TrainingJobs of laneway.dev/v1alpha1"),
        ("apiVersion: laneway.dev/v1alpha1\nkind: TrainingJob", "it has no metadata.name"),
    ],
)
def test_wrong_manifests_are_told_what_to_write(
    tmp_path: Path, text: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(text, encoding="utf-8")
    assert main(["submit", "-f", str(path)]) == exit_codes.USAGE
    assert says in capsys.readouterr().err


def test_no_kubeconfig_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--kubeconfig", str(tmp_path / "none")]) == exit_codes.UNREACHABLE
    assert "no cluster to talk to" in capsys.readouterr().err


def test_a_cluster_that_does_not_answer_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "users": [{"name": "u", "user": {}}],
            }
        )
    )
    assert main(["list", "--kubeconfig", str(kubeconfig)]) == exit_codes.UNREACHABLE
    assert "cannot reach the cluster at http://127.0.0.1:9" in capsys.readouterr().err


def test_a_verb_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main([])
    assert exit_.value.code == exit_codes.USAGE
    assert "VERB" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "want"), [("90", 90), ("90s", 90), ("10m", 600), ("1h30m", 5400), ("1d", 86400)]
)
def test_durations(text: str, want: float) -> None:
    assert parse_duration(text) == want


@pytest.mark.parametrize("text", ["", "soon", "-5", "1.5h", "5w"])
def test_wrong_durations(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration: write 90s, 10m or 1h30m"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("story", "conditions", "wanted", "want"),
    [
        ("it still runs", [a_condition("Running")], "ended", None),
        ("it succeeded", [a_condition("Succeeded")], "ended", exit_codes.OK),
        ("it failed", [a_condition("Failed")], "ended", exit_codes.FAILED),
        ("it runs, as wanted", [a_condition("Running")], "Running", exit_codes.OK),
        ("it failed, as wanted", [a_condition("Failed")], "Failed", exit_codes.OK),
        ("it ended and will never run", [a_condition("Failed")], "Running", exit_codes.FAILED),
        ("it is still there", [a_condition("Succeeded")], "deleted", None),
    ],
)
def test_when_a_wait_is_over(
    story: str, conditions: list[dict[str, str]], wanted: str, want: int | None
) -> None:
    assert judged(a_job(conditions=conditions), None, "digits", wanted) == want, story


def test_a_job_that_goes_away_ends_the_wait() -> None:
    assert judged(None, a_job(), "digits", "deleted") == exit_codes.OK
    with pytest.raises(CommandError, match="was deleted while it was waited for"):
        judged(None, a_job(), "digits", "ended")
    with pytest.raises(CommandError, match="is not there"):
        judged(None, None, "digits", "ended")


def test_which_container_and_whether_it_has_a_log() -> None:
    pod = {
        "spec": {"containers": [{"name": "sidecar"}, {"name": "trainer"}]},
        "status": {
            "containerStatuses": [
                {"name": "sidecar", "state": {"waiting": {}}},
                {"name": "trainer", "state": {"running": {"startedAt": "x"}}},
            ]
        },
    }
    assert container_of(pod, None) == "trainer"
    assert has_started(pod, "trainer")
    assert not has_started(pod, "sidecar")
    with pytest.raises(CommandError, match="the pod has sidecar, trainer"):
        container_of(pod, "main")
