"""What 40 hostile pods cost the progress of honest ones, on an embedded cluster with real kubelets.

    python -m tests.performance.node.hostile_pods -o hostile-pods.json

Each of the eight simulated GPUs has one lane, an honest pod with 95 percent of the GPU, and five hostile pods with 1 percent
each. An honest pod trains without a pause. The hostile pods rest and attack in turns, all at the same time, so that other load
on the machine affects both. They are limited as in a cluster: 10 millicores of CPU each, 40 percent of one core together, and 128 MiB.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from laneway.api.names import GPU_PERCENT

from hack.cluster.kubectl import Kubectl
from hack.cluster.probes import wait_until
from hack.cluster.teardown import bring_down
from hack.demo.install import install
from hack.demo.target import bring_up_embedded
from tests.performance.result_file import write_measured

CLUSTER = "laneway-hostile"
NAMESPACE = "hostile"
NODES = 2
GPUS_PER_NODE = 4
HOSTILE = 40
HONEST_PERCENT = 95
PERIOD_SECONDS = 20.0
PERIODS = 4
"""Of each kind."""

SETTLING_SECONDS = 3.0
"""At the beginning of a period: its attacks begin, or those of the last one end."""

ATTACKS = (
    "flood",
    "garbage",
    "stray_releases",
    "turns_for_nothing",
    "connect_and_close",
    "reconnect_as_holder",
    "profiles_up_and_down",
)
"""Those that keep no turn. What keeping turns costs is bounded by `turns.timeoutSeconds`, the watchdog's times and the shares."""

IMAGE = "ghcr.io/laneway/client:0.1.0"
HERE = Path(__file__).parent
VALUES = HERE / "hostile-values.yaml"
ATTACKER = Path(__file__).parents[2] / "integration/node_agent"


def measure() -> dict[str, Any]:
    """Return the iterations per second of the honest pods, while the hostile ones rest and while they attack."""
    with _cluster() as kubectl:
        nodes = sorted(node["metadata"]["name"] for node in kubectl.get("nodes")["items"])
        honest = [
            _honest(f"honest-{node}-{number}", node) for node in nodes for number in range(GPUS_PER_NODE)
        ]
        _create(kubectl, honest)
        _wait_until_running(kubectl, len(honest))
        _create(
            kubectl, [_program(), *(_hostile(number, nodes[number % NODES]) for number in range(HOSTILE))]
        )
        _wait_until_running(kubectl, len(honest) + HOSTILE)
        begin_seconds = (int(time.time() / (2 * PERIOD_SECONDS)) + 1) * 2 * PERIOD_SECONDS
        end_seconds = begin_seconds + 2 * PERIODS * PERIOD_SECONDS
        time.sleep(end_seconds + SETTLING_SECONDS - time.time())
        logs = [_log(kubectl, pod["metadata"]["name"]) for pod in honest]
        restarts = _restarts(kubectl)
    return _figures(logs, begin_seconds, restarts)


def _figures(logs: Sequence[Sequence[Said]], begin_seconds: float, restarts: int) -> dict[str, Any]:
    """Compare each honest pod's progress in both kinds of periods."""
    per_second: tuple[list[float], list[float]] = ([], [])
    for log in logs:
        for attacked in (0, 1):
            rates = [
                _rate(log, start_seconds + SETTLING_SECONDS, start_seconds + PERIOD_SECONDS)
                for number in range(PERIODS)
                for start_seconds in [begin_seconds + (2 * number + attacked) * PERIOD_SECONDS]
            ]
            per_second[attacked].append(statistics.fmean(rates))
    resting, attacking = per_second
    kept = [100 * under / usual for usual, under in zip(resting, attacking, strict=True)]
    return {
        "hostile_pods": HOSTILE,
        "honest_pods": len(logs),
        "period_seconds": PERIOD_SECONDS,
        "periods": PERIODS,
        "attacks": list(ATTACKS),
        "hostile_restarts": restarts,
        "resting_per_second": round(sum(resting), 2),
        "attacking_per_second": round(sum(attacking), 2),
        "kept_percent": round(100 * sum(attacking) / sum(resting), 1),
        "least_kept_percent": round(min(kept), 1),
    }


@dataclass(frozen=True, slots=True)
class Said:
    """A line of an honest pod's log."""

    at_seconds: float
    iterations: int


def _rate(log: Sequence[Said], from_seconds: float, until_seconds: float) -> float:
    """Return iterations per second between the lines nearest within that time."""
    within = [said for said in log if from_seconds <= said.at_seconds <= until_seconds]
    if len(within) < 2:
        return 0.0
    first, last = within[0], within[-1]
    return (last.iterations - first.iterations) / (last.at_seconds - first.at_seconds)


@contextmanager
def _cluster() -> Iterator[Kubectl]:
    try:
        target = bring_up_embedded(CLUSTER, NODES)
        install(target, "--values", VALUES, advertised_percent=100 * GPUS_PER_NODE)
        kubectl = target.kubectl
        kubectl.run("create", "namespace", NAMESPACE)
        account = ("serviceaccount/default", "--namespace", NAMESPACE)
        kubectl.run("wait", "--for=create", *account, "--timeout=60s")
        yield kubectl
    finally:
        bring_down(CLUSTER)


def _create(kubectl: Kubectl, items: Sequence[dict[str, Any]]) -> None:
    document = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    kubectl.run("create", "--namespace", NAMESPACE, "-f", "-", stdin=document)


def _wait_until_running(kubectl: Kubectl, count: int) -> None:
    def all_run() -> bool:
        pods = kubectl.get("pods", "--namespace", NAMESPACE)["items"]
        return [pod["status"]["phase"] for pod in pods].count("Running") >= count

    wait_until(all_run, f"{count} pods run", 240)


def _log(kubectl: Kubectl, pod: str) -> list[Said]:
    text = kubectl.run("logs", pod, "--namespace", NAMESPACE)
    return [Said(**json.loads(line)) for line in text.splitlines() if line.startswith("{")]


def _restarts(kubectl: Kubectl) -> int:
    pods = kubectl.get("pods", "--namespace", NAMESPACE)["items"]
    return sum(
        status["restartCount"] for pod in pods for status in pod["status"].get("containerStatuses", ())
    )


def _honest(name: str, node: str) -> dict[str, Any]:
    command = ["python3", "-c", (HERE / "honest_pod.py").read_text(encoding="utf-8")]
    return _pod(name, node, command, {"requests": {"cpu": "10m"}}, HONEST_PERCENT)


def _hostile(number: int, node: str) -> dict[str, Any]:
    resources = {"requests": {"cpu": "10m"}, "limits": {"cpu": "10m", "memory": "128Mi"}}
    pod = _pod(f"hostile-{number}", node, ["python3", "/attack/hostile_pod.py"], resources, 1)
    (container,) = pod["spec"]["containers"]
    container["env"] = [
        {"name": "PERIOD_SECONDS", "value": str(PERIOD_SECONDS)},
        {"name": "ATTACKS", "value": ",".join(ATTACKS)},
        {"name": "NUMBER", "value": str(number)},
    ]
    container["volumeMounts"] = [{"name": "attack", "mountPath": "/attack"}]
    items = [{"key": key, "path": key.replace("--", "/")} for key in _program()["data"]]
    pod["spec"]["volumes"] = [{"name": "attack", "configMap": {"name": "attack", "items": items}}]
    return pod


def _program() -> dict[str, Any]:
    """The files of the attacks; `--` stands for a slash, which a key cannot have."""
    files = [HERE / "hostile_pod.py", *(ATTACKER / "hostile").glob("*.py")]
    named = {
        (path.name if path.parent.name != "hostile" else f"hostile--{path.name}"): path.read_text(
            encoding="utf-8"
        )
        for path in files
    }
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "attack"}, "data": named}


def _pod(
    name: str, node: str, command: Sequence[str], resources: dict[str, Any], percent: int
) -> dict[str, Any]:
    limits = {**resources.get("limits", {}), GPU_PERCENT: str(percent)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "containers": [
                {
                    "name": "trainer",
                    "image": IMAGE,
                    "imagePullPolicy": "Never",
                    "command": list(command),
                    "resources": {**resources, "limits": limits},
                }
            ],
        },
    }


if __name__ == "__main__":
    write_measured(measure)
