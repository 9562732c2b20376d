"""What nodes publish about their GPUs and sessions, and commands that run on a node."""

from __future__ import annotations

import json
from typing import Any

from laneway.api.gpu_sharing import OFFERED_PERCENT
from laneway.api.names import SIMULATED_FAULTS_FILE

from hack.cluster.probes import wait_until
from hack.cluster.progress import ClusterError
from hack.demo.install import SYSTEM_NAMESPACE, laneway_pods
from hack.demo.jobs import JobView
from tests.e2e.conftest import Bench, Laneway

AGENT = "/opt/venv/bin/laneway-node-agent"
_WRITE = (
    f'printf %s "$1" > {SIMULATED_FAULTS_FILE}.new && mv {SIMULATED_FAULTS_FILE}.new {SIMULATED_FAULTS_FILE}'
)


def set_simulated_faults(laneway: Laneway, node: str, *faults: dict[str, Any]) -> None:
    """Replaces a node's file of simulated faults."""
    command = ["/bin/sh", "-ec", _WRITE, "sh", json.dumps({"gpus": faults})]
    laneway.cluster.node(node).run(command)


def gpu_status(laneway: Laneway, node: str, uuid: str) -> dict[str, Any]:
    """Returns the published status of one GPU."""
    gpus = laneway.kubectl.get("gpunode", node)["status"]["gpus"]
    return dict(next(gpu for gpu in gpus if gpu["uuid"] == uuid))


def wait_until_offered(laneway: Laneway, gpus: int, sharing: str) -> None:
    """Waits until each node offers the shares of so many GPUs, and its GPUNode shows the operator the same.

    A worker for a GPU that its node no longer has would be refused.
    """
    percent = OFFERED_PERCENT[sharing]
    laneway.installation.wait_until_advertised(gpus * percent)

    def all_show() -> bool:
        nodes = laneway.kubectl.get("gpunodes")["items"]
        shown = [
            [gpu["allocatablePercent"] for gpu in node.get("status", {}).get("gpus", ())] for node in nodes
        ]
        return shown == [[percent] * gpus] * len(laneway.cluster.nodes)

    wait_until(all_show, f"every GPUNode shows {gpus} GPUs with {percent} percent", 120)


def on_node(laneway: Laneway, node: str, *command: str) -> str:
    """Runs a command in the agent's container, as an administrator does."""
    return laneway.kubectl.run("exec", *_agent(laneway, node), "--", *command)


def agent_log(laneway: Laneway, node: str) -> str:
    """Returns the last lines of the log of a node's agent."""
    return laneway.kubectl.run("logs", *_agent(laneway, node), "--tail=200")


def _agent(laneway: Laneway, node: str) -> tuple[str, ...]:
    """Returns kubectl's arguments for the agent's container of a node."""
    for pod in laneway_pods(laneway.installation.target, "node"):
        if pod["spec"]["nodeName"] == node:
            name = pod["metadata"]["name"]
            return (name, "--namespace", SYSTEM_NAMESPACE, "--container", "node-agent")
    raise AssertionError(f"no node pod on {node}")


def session_of(bench: Bench, pod: str) -> dict[str, Any]:
    """Returns a pod's published session with its node's name; empty while there is none."""
    for node in bench.laneway.kubectl.get("gpunodes")["items"]:
        for gpu in node["status"]["gpus"]:
            for session in gpu["sessions"]:
                if (session["namespace"], session["pod"]) == (bench.namespace, pod):
                    return dict(session) | {"node": node["metadata"]["name"]}
    return {}


def wait_for_state(bench: Bench, pod: str, *states: str) -> dict[str, Any]:
    """Returns the session once it has one of the states. One that does not get there is printed, with what its node's agent said."""
    expected = f"{pod} is {' or '.join(states)}"
    try:
        wait_until(lambda: session_of(bench, pod).get("state") in states, expected, 180)
    except ClusterError:
        session = session_of(bench, pod)
        print(session)
        if session:
            print(agent_log(bench.laneway, session["node"]))
        raise
    return session_of(bench, pod)


def wait_until_further(bench: Bench, pod: str, iterations: int) -> None:
    wait_until(lambda: session_of(bench, pod).get("iterations", 0) > iterations, f"{pod} goes on", 180)


def running(job: JobView) -> bool:
    return job.has("Running")


def connected(bench: Bench) -> dict[str, dict[str, Any]]:
    """Returns the published sessions of the test's connected workers by pod."""
    return {
        session["pod"]: session | {"gpu": gpu["uuid"]}
        for node in bench.laneway.kubectl.get("gpunodes")["items"]
        for gpu in node["status"]["gpus"]
        for session in gpu["sessions"]
        if session["namespace"] == bench.namespace and session["state"] in ("Waiting", "Holding")
    }


def containers(bench: Bench) -> dict[str, str]:
    """Returns container ids by pod: a new id means a new start."""
    return {
        pod["metadata"]["name"]: pod["status"]["containerStatuses"][0]["containerID"]
        for pod in bench.jobs.pods()
    }
