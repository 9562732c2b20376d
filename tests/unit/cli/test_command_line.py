"""The command line: exit codes and wrong input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kubernetes.config import incluster_config
from laneway.cli import exit_codes
from laneway.cli.cluster import Cluster
from laneway.cli.durations import parse_duration
from laneway.cli.exit_codes import CommandError
from laneway.cli.main import main
from laneway.cli.verbs.logs import container_of, has_started
from laneway.cli.verbs.wait import exit_code

from tests.support.training_jobs import a_condition, a_job


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty: write a TrainingJob"),
        ("- 1", "document 1: it is not an object"),
        ("{a: [", "is not valid YAML"),
        (
            "apiVersion: v1\nkind: Pod",
            "it is a Pod of v1; submit accepts TrainingJobs of laneway.dev/v1alpha1",
        ),
        ("apiVersion: laneway.dev/v1alpha1\nkind: TrainingJob", "it has no metadata.name"),
    ],
)
def test_errors_of_manifests_say_what_to_write(
    tmp_path: Path, text: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(text, encoding="utf-8")
    assert main(["submit", "-f", str(path)]) == exit_codes.USAGE
    assert says in capsys.readouterr().err


def test_a_missing_kubeconfig_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--kubeconfig", str(tmp_path / "none")]) == exit_codes.UNREACHABLE
    assert "no cluster is configured" in capsys.readouterr().err


def test_an_unreachable_cluster_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_in_a_pod_the_namespace_is_the_pods_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, content in (("token", "secret"), ("ca.crt", "certificate"), ("namespace", "team\n")):
        (tmp_path / name).write_text(content, encoding="utf-8")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "9")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert Cluster().namespace == "team"


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
        ("it succeeded", [a_condition("Complete")], "ended", exit_codes.OK),
        ("it failed", [a_condition("Failed")], "ended", exit_codes.FAILED),
        ("it runs, as wanted", [a_condition("Running")], "Running", exit_codes.OK),
        ("it failed, as wanted", [a_condition("Failed")], "Failed", exit_codes.OK),
        ("it ended and will never run", [a_condition("Failed")], "Running", exit_codes.FAILED),
        ("it is still there", [a_condition("Complete")], "deleted", None),
    ],
)
def test_when_a_wait_is_over(
    story: str, conditions: list[dict[str, str]], wanted: str, want: int | None
) -> None:
    assert exit_code(a_job(conditions=conditions), None, "digits", wanted) == want, story


def test_a_deletion_ends_the_wait() -> None:
    assert exit_code(None, a_job(), "digits", "deleted") == exit_codes.OK
    with pytest.raises(CommandError, match="was deleted during the wait"):
        exit_code(None, a_job(), "digits", "ended")
    with pytest.raises(CommandError, match="not found"):
        exit_code(None, None, "digits", "ended")


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
