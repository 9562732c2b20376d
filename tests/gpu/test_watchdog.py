"""The watchdog stops a process that bypasses the client and, according to the driver, exceeds its quota."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable

import pytest

from tests.support.gpu.driver import why_no_watchdog
from tests.support.gpu.workstation import Worker, Workstation


def test_a_job_without_a_client_is_stopped_when_it_holds_more_than_its_quota(
    workstation: Workstation, job: Callable[..., Worker]
) -> None:
    if why := why_no_watchdog(workstation):
        pytest.skip(f"no watchdog can be had on this machine: {why}")
    worker = job("sly", 5, without_client=True)
    assert worker.ready
    quota = workstation.node.session("sly")["quota_bytes"]
    if workstation.device == "cuda":
        worker.do("hold", size_bytes=quota + quota // 5)
    else:
        sees = {"gpus": [{"gpu": 0, "processes": {worker.pid: f"{quota + quota // 5}"}}]}
        path = workstation.root / "run/laneway/simulated-faults.yaml"
        path.with_suffix(".new").write_text(json.dumps(sees))
        path.with_suffix(".new").rename(path)
    assert worker.status() == 128 + signal.SIGTERM
    assert "sly" in workstation.node.log
    assert "of GPU memory as the driver reports, more than its quota" in workstation.node.log
