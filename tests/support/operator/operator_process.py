"""The operator as a process of its own, so that it can be killed."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import yaml
from laneway.operator.state.resources import LEASES
from laneway.operator.watch.apiserver import ApiServer

from tests.support.operator.waiting import until

_LEASE = "laneway-operator"

FAST: dict[str, Any] = {
    "metricsPort": 0,
    "logLevel": "debug",
    "sharing": "off",  # played nodes offer few shares beyond 100 %: those of paused jobs only
    "scheduling": {"preemption": {"policy": "lowest-first", "options": {"minRunSeconds": 0}}},
    "cycle": {"resyncSeconds": 1, "explainSeconds": 1, "estimateSeconds": 2},
    "timeouts": {
        "gangTimeoutSeconds": 60,  # no gang is given up that a slow machine plays
        "avoidNodeSeconds": 3,
        "restartBackoffSeconds": 0,
        "refusalBackoffSeconds": 2,
        "unschedulableSeconds": 0,
        "orphanSeconds": 1,
        "unhealthyGpuSeconds": 2,
        "silentNodeSeconds": 3600,  # a played agent writes when there is something to say
    },
    "lease": {"name": _LEASE, "durationSeconds": 30, "renewDeadlineSeconds": 20, "retrySeconds": 1},
}
"""A configuration with short waits, except for those in which a test itself simulates kubelets or agents. The lease is long: an operator
that is not scheduled for seconds still leads, and loses no event (:meth:`OperatorProcess.start_again` does not wait for its end)."""


class OperatorProcess:
    """One replica."""

    def __init__(
        self,
        folder: Path,
        kubeconfig: Path,
        namespace: str,
        config: dict[str, Any] | None = None,
        module: Sequence[str] = ("laneway.operator.main",),
    ) -> None:
        """Run ``module``, with its first arguments, as the operator."""
        folder.mkdir(parents=True, exist_ok=True)
        self._config = folder / "operator.yaml"
        self._config.write_text(yaml.safe_dump(FAST if config is None else config))
        self._log_path = folder / "operator.log"
        self._namespace = namespace
        self._command = [
            sys.executable,
            "-m",
            *module,
            "--config",
            str(self._config),
            "--kubeconfig",
            str(kubeconfig),
            "--namespace",
            namespace,
        ]
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.stop()

    def start(self) -> None:
        """Start it."""
        with self._log_path.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    async def start_again(self, api: ApiServer) -> None:
        """Start it after it was killed. It leads at once, because the lease of the killed one is deleted; tests/faults has leases run out."""
        await api.request("DELETE", LEASES.path(self._namespace, _LEASE))
        self.start()

    def kill(self) -> None:
        """kill -9."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Ask it to end, and return its exit status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(60)
        finally:
            self.process.kill()
            self.process = None

    @property
    def log(self) -> str:
        """All lines that it has logged, over all of its runs. The last one may be incomplete yet, and is left out then."""
        text = self._log_path.read_text()
        return text[: text.rfind("\n") + 1]

    @property
    def port(self) -> int | None:
        """Where it serves metrics, in its last run; None while it does not."""
        found = re.findall(r'"serving metrics and health".*?"port": (\d+)', self.log)
        return int(found[-1]) if found else None

    async def metrics_page(self) -> str:
        """Return where Prometheus finds its metrics, once it serves them."""

        async def port() -> int | None:
            return self.port

        return f"127.0.0.1:{await until('the operator serves', port)}/metrics"

    def get(self, path: str) -> str:
        """Return a page of its HTTP server."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=60) as answer:
            text: str = answer.read().decode()
            return text
