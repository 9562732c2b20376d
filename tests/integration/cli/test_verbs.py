"""The verbs against a real API server. The tests write the status in place of the operator."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from laneway.api import rfc3339
from laneway.cli import exit_codes
from laneway.sdk.watch import JobWatch, ObjectWatch

from tests.integration.cli.conftest import JOB, Shell


def condition(type_: str, reason: str, message: str) -> dict[str, Any]:
    return {
        "type": type_,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-01-31T12:00:00Z",
    }


def after_the_first_look(monkeypatch: pytest.MonkeyPatch, change: Callable[[], None]) -> None:
    """Let something change between the first look at a job and the watch that follows."""
    states = JobWatch.states

    def states_and_change(watch: JobWatch) -> Iterator[dict[str, Any] | None]:
        found = states(watch)
        yield next(found)
        change()
        yield from found

    monkeypatch.setattr(JobWatch, "states", states_and_change)


def test_a_job_from_its_submission_to_its_end(shell: Shell) -> None:
    assert shell.submit(JOB) == exit_codes.OK
    assert f"laneway wait digits -n {shell.namespace}" in shell.out
    shell.set_status(
        "digits",
        state="Pending",
        reason="GPUsBusy",
        queue=1,
        conditions=[condition("Accepted", "Accepted", "It is considered.")],
        waiting={"reason": "GPUsBusy", "message": "It needs a GPU.", "unblock": "Wait.", "position": 3},
    )
    assert shell.run("list") == exit_codes.OK
    assert shell.out.splitlines()[1].split()[:3] == ["digits", "Pending", "GPUsBusy"]
    assert shell.run("explain", "digits") == exit_codes.OK
    assert "To run: Wait." in shell.out
    assert shell.run("logs", "digits") == exit_codes.NOT_FOUND
    assert "no logs yet: digits is pending: It needs a GPU." in shell.err
    assert shell.run("get", "digits", "-o", "json") == exit_codes.OK
    assert json.loads(shell.out)["status"]["queue"] == 1
    shell.set_status("digits", waiting=None, conditions=[condition("Complete", "Completed", "All is well.")])
    assert shell.run("wait", "digits") == exit_codes.OK
    assert shell.run("delete", "digits", "--wait") == exit_codes.OK
    assert shell.run("get", "digits") == exit_codes.NOT_FOUND
    assert shell.run("delete", "digits", "--ignore-not-found") == exit_codes.OK


def test_wait_sees_a_change_that_comes_while_it_waits(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.submit(JOB)
    failed = condition("Failed", "BackoffLimitExceeded", "Worker 0 failed 4 times.")
    after_the_first_look(monkeypatch, lambda: shell.set_status("digits", conditions=[failed]))
    assert shell.run("wait", "digits", "--timeout", "60s") == exit_codes.FAILED
    assert "Worker 0 failed 4 times." in shell.out


def test_wait_times_out_and_explains_why_the_job_waits(shell: Shell) -> None:
    shell.submit(JOB)
    assert shell.run("wait", "digits", "--for", "Running", "--timeout", "2s") == exit_codes.TIMED_OUT
    assert "timed out after 2s: The operator has not seen digits yet." in shell.err


def test_wait_sees_that_a_job_is_deleted(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.submit(JOB)
    after_the_first_look(
        monkeypatch, lambda: shell.kubectl("delete", "trainingjob", "digits", "-n", shell.namespace)
    )
    assert shell.run("wait", "digits", "--for", "deleted", "--timeout", "60s") == exit_codes.OK
    monkeypatch.undo()
    assert shell.run("wait", "digits") == exit_codes.NOT_FOUND


def test_refusals_of_the_api_server_are_passed_on(shell: Shell) -> None:
    wrong = {**JOB, "spec": {**JOB["spec"], "gpus": {"type": "Share", "sharePercent": 200}}}  # type: ignore[dict-item]
    assert shell.submit(wrong) == exit_codes.FAILED
    assert "spec.gpus.sharePercent in body should be less than or equal to 100" in shell.err
    assert shell.submit(JOB, "-o", "name") == exit_codes.OK
    assert shell.out.strip() == "trainingjob.laneway.dev/digits"
    assert shell.submit(JOB) == exit_codes.FAILED
    assert "already exists: delete it first, or choose another name" in shell.err
    other = {**JOB, "metadata": {"name": "digits", "namespace": "elsewhere"}}
    assert shell.submit(other) == exit_codes.USAGE
    assert "remove one of them" in shell.err


def test_events_of_a_job_and_its_workers_in_order(shell: Shell) -> None:
    shell.submit(JOB)
    job = json.loads(shell.ask("get", "tj", "digits", "-n", shell.namespace, "-o", "json"))["metadata"]
    created_seconds = rfc3339.parse_time(job["creationTimestamp"])
    for number, (kind, name, uid, seconds) in enumerate(
        [
            ("Pod", "digits-0", "new", 9),
            ("TrainingJob", "digits", job["uid"], 8),
            ("Pod", "other-0", "other", 7),
            ("TrainingJob", "digits", "of a deleted job of this name", 6),
        ]
    ):
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"e{number}", "namespace": shell.namespace},
            "involvedObject": {"kind": kind, "name": name, "namespace": shell.namespace, "uid": uid},
            "type": "Normal",
            "reason": "Pulled",
            "message": f"event {number}",
            "lastTimestamp": rfc3339.format_time(created_seconds + seconds),
        }
        shell.kubectl("create", "-f", "-", standard_input=json.dumps(event))
    assert shell.run("events", "digits") == exit_codes.OK
    lines = shell.out.splitlines()[1:]
    assert [line.split()[1] for line in lines] == ["trainingjob/digits", "pod/digits-0"]
    assert shell.run("events", "nobody") == exit_codes.NOT_FOUND


def test_an_empty_namespace_and_a_missing_job(shell: Shell) -> None:
    assert shell.run("list") == exit_codes.OK
    assert shell.out == f"No TrainingJobs found in namespace {shell.namespace}.\n"
    assert shell.run("explain", "nobody") == exit_codes.NOT_FOUND
    assert f"TrainingJob nobody in namespace {shell.namespace} not found" in shell.err
    assert shell.submit(JOB, "-n", "nowhere") == exit_codes.NOT_FOUND
    assert "namespace nowhere does not exist" in shell.err
    assert shell.run("queue") == exit_codes.OK
    assert shell.out == f"No TrainingJob waits in namespace {shell.namespace}.\n"


def test_jobs_are_selected_and_written_in_each_format(shell: Shell) -> None:
    for name, team in (("one", "a"), ("two", "b")):
        shell.submit({**JOB, "metadata": {"name": name, "labels": {"team": team}}})
    assert shell.run("list", "-l", "team=b", "-o", "name") == exit_codes.OK
    assert shell.out == "trainingjob.laneway.dev/two\n"
    assert shell.run("list", "-l", "team in (a, b)", "-o", "json") == exit_codes.OK
    assert [job["metadata"]["name"] for job in json.loads(shell.out)["items"]] == ["one", "two"]
    shell.set_status(
        "one",
        placement=[{"worker": 0, "node": "n7", "gpus": ["GPU-1"], "sharePercent": 50}],
        preemptions=2,
    )
    assert shell.run("get", "one", "-o", "wide") == exit_codes.OK
    header, row = shell.out.splitlines()
    assert header.split()[-4:] == ["NODES", "ATTEMPTS", "PREEMPTIONS", "RESTARTS"]
    assert row.split()[-4:] == ["n7", "0", "2", "0"]
    assert shell.run("list", "-l", "team=(") == exit_codes.FAILED
    assert "unable to parse requirement" in shell.err


def test_a_dry_run_at_the_server_stores_nothing(shell: Shell) -> None:
    assert shell.submit(JOB, "--dry-run", "server") == exit_codes.OK
    assert "would be created" in shell.out
    assert shell.run("get", "digits") == exit_codes.NOT_FOUND
    unknown = {**JOB, "spec": {**JOB["spec"], "worker": 2}}  # type: ignore[dict-item]
    assert shell.submit(unknown, "--dry-run", "server") == exit_codes.FAILED
    assert 'unknown field "spec.worker"' in shell.err


def test_kubectl_creates_what_a_dry_run_prints_in_the_same_namespace(shell: Shell) -> None:
    assert shell.submit(JOB, "--dry-run", "client") == exit_codes.OK
    shell.kubectl("create", "-f", "-", standard_input=shell.out)
    assert shell.run("get", "digits") == exit_codes.OK
    generated = {**JOB, "metadata": {"generateName": "digits-"}}
    assert shell.submit(generated, "-o", "name") == exit_codes.OK
    assert shell.out.startswith("trainingjob.laneway.dev/digits-")


def test_a_missing_job_keeps_no_other_from_being_deleted(shell: Shell) -> None:
    for name in ("one", "two"):
        shell.submit({**JOB, "metadata": {"name": name}})
    assert shell.run("delete", "one", "nox", "two", "--wait") == exit_codes.NOT_FOUND
    assert shell.out == "TrainingJob one deleted.\nTrainingJob two deleted.\n"
    assert shell.err == f"laneway: TrainingJob nox in namespace {shell.namespace} not found\n"
    assert shell.run("list", "-o", "name") == exit_codes.OK
    assert shell.out == ""


def test_a_deleted_job_is_shown_once_more_by_a_list_that_is_watched(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshots = ObjectWatch.snapshots

    def snapshots_of_a_deletion(watch: ObjectWatch) -> Iterator[list[dict[str, Any]]]:
        found = snapshots(watch)
        yield next(found)
        shell.kubectl("delete", "trainingjob", "digits", "-n", shell.namespace)
        for objects in found:
            yield objects
            if not objects:
                raise KeyboardInterrupt

    shell.submit(JOB)
    monkeypatch.setattr(ObjectWatch, "snapshots", snapshots_of_a_deletion)
    assert shell.run("list", "-w") == exit_codes.INTERRUPTED
    lines = [line.split()[:2] for line in shell.out.splitlines()]
    assert (lines[1], lines[-1]) == (["digits", "Pending"], ["digits", "Deleted"])


def test_a_script_is_submitted(shell: Shell, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("print('hello')\n", encoding="utf-8")
    words = ("--name", "sent", "--gpus", "0.25", "--", "python", str(script), "--epochs", "3")
    assert shell.run("submit", *words) == exit_codes.OK, shell.err
    assert shell.run("get", "sent", "-o", "json") == exit_codes.OK
    spec = json.loads(shell.out)["spec"]
    assert (spec["gpus"]["type"], spec["gpus"]["sharePercent"]) == ("Share", 25)
    assert spec["template"]["metadata"]["annotations"] == {"laneway.dev/script.train.py": "print('hello')\n"}


def test_a_job_is_suspended_and_resumed_with_the_rights_of_its_namespace(shell: Shell) -> None:
    shell.submit(JOB)
    shell.allow("editor", "trainingjobs", "get", "list", "watch", "create", "patch")
    assert shell.run("suspend", "digits", user="editor") == exit_codes.OK, shell.err
    assert json.loads(shell.ask("get", "tj", "digits", "-n", shell.namespace, "-o", "json"))["spec"][
        "suspend"
    ]
    assert shell.run("resume", "digits", user="editor") == exit_codes.OK, shell.err
    assert shell.run("resume", "digits", user="editor") == exit_codes.FAILED
    assert "digits is not suspended" in shell.err
    assert shell.run("nodes", user="editor") == exit_codes.FAILED
    assert "gpunodes-view" in shell.err


def test_containers_are_watched_until_the_user_ends_it(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    node = {
        "apiVersion": "laneway.dev/v1alpha1",
        "kind": "GPUNode",
        "metadata": {"name": f"n-{shell.namespace}"},
    }
    snapshots = ObjectWatch.snapshots

    def snapshots_and_change(watch: ObjectWatch) -> Iterator[list[dict[str, Any]]]:
        found = snapshots(watch)
        yield next(found)
        report(shell, node["metadata"], iterations=9)
        yield next(found)
        raise KeyboardInterrupt

    shell.kubectl("create", "-f", "-", standard_input=json.dumps(node))
    report(shell, node["metadata"], iterations=7)
    monkeypatch.setattr(ObjectWatch, "snapshots", snapshots_and_change)
    assert shell.run("top", "-w") == exit_codes.INTERRUPTED
    header, before, after = (line.split() for line in shell.out.splitlines())
    iterations = header.index("ITERATIONS") + 2  # two columns have units
    assert [(line[0], line[iterations]) for line in (before, after)] == [("a-0", "7"), ("a-0", "9")]
    shell.kubectl("delete", "gpunode", node["metadata"]["name"])


def report(shell: Shell, metadata: dict[str, str], **session: Any) -> None:
    """Write a GPU with a container, as the node agent does."""
    container = {
        "key": "k", "namespace": shell.namespace, "pod": "a-0", "container": "trainer", "sharePercent": 50,
        "quotaBytes": 512 << 20, "state": "Holding", **session,
    }  # fmt: skip
    gpu = {
        "uuid": "GPU-1", "index": 0, "model": "Test", "memoryBytes": 1 << 30, "allocatableBytes": 1 << 30,
        "allocatablePercent": 100, "healthy": True, "sessions": [container],
    }  # fmt: skip
    shell.kubectl(
        "patch", "gpunode", metadata["name"], "--subresource=status", "--type=merge",
        "-p", json.dumps({"status": {"deviceStrategy": "cdi", "gpus": [gpu]}}),
    )  # fmt: skip


def test_the_doctor_sees_mps_daemons_that_upgrades_have_left(shell: Shell) -> None:
    """A pod has the labels of the chart that made it, and the first charts gave these no label that all of Laneway's pods have."""
    component = {"app.kubernetes.io/component": "mps-daemon"}
    part_of = {"app.kubernetes.io/part-of": "laneway"}
    shell.kubectl("wait", "-n", shell.namespace, "--for=create", "serviceaccount/default", "--timeout=60s")
    for name, container, labels in (
        ("old", "mps-daemon", component),
        ("new", "mps-daemon", component | part_of),
        ("foreign", "theirs", component),
    ):
        image = {"name": container, "image": f"ghcr.io/laneway/node-agent:{name}"}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": shell.namespace, "labels": labels},
            "spec": {"containers": [image]},
        }
        shell.kubectl("create", "-f", "-", standard_input=json.dumps(pod))
    assert shell.run("doctor", "-o", "json") == exit_codes.FAILED, "there is no operator"
    found = json.loads(shell.out)
    assert sorted(each["subject"] for each in found if each["subject"].startswith("pod ")) == [
        "pod new",
        "pod old",
    ]
    (versions,) = (each["message"] for each in found if each["subject"] == "versions")
    assert versions.startswith("the cluster runs new (mps-daemon) and old (mps-daemon)")


def test_the_doctor_knows_what_a_user_may(shell: Shell) -> None:
    shell.allow("editor", "trainingjobs", "get", "list", "create", "patch", "delete")
    assert shell.run("doctor", "-o", "json", user="editor") == exit_codes.OK, shell.err
    found = {each["subject"]: each for each in json.loads(shell.out)}
    assert found["installation"]["level"] == "ok"
    assert found["rights"]["message"] == f"in namespace {shell.namespace} you may not get pods/log"
    assert (found["pods"]["level"], found["nodes"]["level"]) == ("unknown", "unknown")
    assert shell.run("doctor") == exit_codes.FAILED, "there is no operator"
    assert "no pod of the operator exists" in shell.out
