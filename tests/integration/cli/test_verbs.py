"""The verbs against a real API server. The test writes the status that the operator would write; nobody else does."""

from __future__ import annotations

import json
import threading
from typing import Any

from laneway.cli import exit_codes

from tests.integration.cli.conftest import JOB, Shell


def condition(type_: str, reason: str, message: str) -> dict[str, Any]:
    return {
        "type": type_,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-01-31T12:00:00Z",
    }


def test_a_job_from_its_submission_to_its_end(shell: Shell) -> None:
    assert shell.submit(JOB) == exit_codes.OK
    assert f"laneway wait digits -n {shell.namespace}" in shell.out
    shell.set_status(
        "digits",
        queue=1,
        conditions=[condition("Admitted", "Admitted", "It is considered.")],
        waiting={"reason": "GPUsBusy", "message": "It needs a GPU.", "unblock": "Wait.", "position": 3},
    )
    assert shell.run("list") == exit_codes.OK
    assert "GPUsBusy (#3)" in shell.out
    assert shell.run("explain", "digits") == exit_codes.OK
    assert "What would let it run: Wait." in shell.out
    assert shell.run("logs", "digits") == exit_codes.NOT_FOUND
    assert "nothing is written yet: digits waits: It needs a GPU." in shell.err
    assert shell.run("get", "digits", "-o", "json") == exit_codes.OK
    assert json.loads(shell.out)["status"]["queue"] == 1
    shell.set_status("digits", waiting=None, conditions=[condition("Succeeded", "Completed", "All is well.")])
    assert shell.run("wait", "digits") == exit_codes.OK
    assert shell.run("delete", "digits", "--wait") == exit_codes.OK
    assert shell.run("get", "digits") == exit_codes.NOT_FOUND
    assert shell.run("delete", "digits", "--ignore-not-found") == exit_codes.OK


def test_wait_sees_a_change_that_comes_while_it_waits(shell: Shell) -> None:
    shell.submit(JOB)
    failed = condition("Failed", "BackoffLimitExceeded", "Worker 0 failed 4 times.")
    later = threading.Timer(1.0, shell.set_status, args=("digits",), kwargs={"conditions": [failed]})
    later.start()
    assert shell.run("wait", "digits", "--timeout", "60s") == exit_codes.FAILED
    later.join()
    assert "Worker 0 failed 4 times." in shell.out


def test_wait_gives_up_in_time_and_says_why_the_job_waits(shell: Shell) -> None:
    shell.submit(JOB)
    assert shell.run("wait", "digits", "--for", "Running", "--timeout", "2s") == exit_codes.TIMED_OUT
    assert "gave up after 2s: digits has not been looked at yet." in shell.err


def test_wait_sees_that_a_job_is_deleted(shell: Shell) -> None:
    shell.submit(JOB)
    later = threading.Timer(
        1.0, shell.kubectl, args=("delete", "trainingjob", "digits", "-n", shell.namespace)
    )
    later.start()
    assert shell.run("wait", "digits", "--for", "deleted", "--timeout", "60s") == exit_codes.OK
    later.join()
    assert shell.run("wait", "digits") == exit_codes.NOT_FOUND


def test_refusals_of_the_api_server_are_passed_on(shell: Shell) -> None:
    wrong = {**JOB, "spec": {**JOB["spec"], "gpus": {"share": 200}}}  # type: ignore[dict-item]
    assert shell.submit(wrong) == exit_codes.FAILED
    assert "share is a percentage of one GPU: write a number from 1 to 100" in shell.err
    assert shell.submit(JOB, "-o", "name") == exit_codes.OK
    assert shell.out.strip() == "trainingjob.laneway.dev/digits"
    assert shell.submit(JOB) == exit_codes.FAILED
    assert "is there already: delete it first, or choose another name" in shell.err
    other = {**JOB, "metadata": {"name": "digits", "namespace": "elsewhere"}}
    assert shell.submit(other) == exit_codes.USAGE
    assert "leave one out" in shell.err


def test_events_of_a_job_and_its_workers_in_order(shell: Shell) -> None:
    shell.submit(JOB)
    for number, (kind, name, reason) in enumerate(
        [("Pod", "digits-0", "Pulled"), ("TrainingJob", "digits", "Placed"), ("Pod", "other-0", "Pulled")]
    ):
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"e{number}", "namespace": shell.namespace},
            "involvedObject": {"kind": kind, "name": name, "namespace": shell.namespace},
            "type": "Normal",
            "reason": reason,
            "message": f"event {number}",
            "lastTimestamp": f"2026-01-31T12:00:0{9 - number}Z",
        }
        shell.kubectl("create", "-f", "-", standard_input=json.dumps(event))
    assert shell.run("events", "digits") == exit_codes.OK
    lines = shell.out.splitlines()[1:]
    assert [line.split()[1] for line in lines] == ["trainingjob/digits", "pod/digits-0"]
    assert shell.run("events", "nobody") == exit_codes.NOT_FOUND


def test_an_empty_namespace_and_a_job_that_is_not_there(shell: Shell) -> None:
    assert shell.run("list") == exit_codes.OK
    assert shell.out == f"There are no TrainingJobs in namespace {shell.namespace}.\n"
    assert shell.run("explain", "nobody") == exit_codes.NOT_FOUND
    assert f"there is no TrainingJob nobody in namespace {shell.namespace}" in shell.err
