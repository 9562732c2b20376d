"""Jobs are paused and offloaded on real nodes, by command and at a node's shell, and resume in place."""

from __future__ import annotations

from laneway.cli.exit_codes import OK
from laneway.cli.main import main as laneway_command

from tests.e2e.conftest import Bench
from tests.e2e.kills import kill, restart_counts, wait_until_restarted
from tests.e2e.manifests import training_job
from tests.e2e.node_view import (
    AGENT,
    containers,
    on_node,
    running,
    session_of,
    wait_for_state,
    wait_until_further,
)

WORKERS = 2


def command(bench: Bench, *arguments: str) -> None:
    kubeconfig = str(bench.laneway.installation.target.kubeconfig)
    assert laneway_command([*arguments, "-n", bench.namespace, "--kubeconfig", kubeconfig]) == OK


def start(bench: Bench, name: str, workers: int = 1) -> dict[str, str]:
    """A job that trains; return its containers."""
    spec = {"workers": workers, "gpus": {"type": "Share", "sharePercent": 30}}
    bench.jobs.apply([training_job(name, spec=spec, steps=100_000, pace_seconds=0.02)])
    bench.jobs.wait([name], running, "running", 180)
    for rank in range(workers):
        wait_until_further(bench, f"{name}-{rank}", 5)
    return containers(bench)


def test_a_job_is_offloaded_and_restored_by_command(bench: Bench) -> None:
    before = start(bench, "moved", WORKERS)
    command(bench, "offload", "moved", "--reason", "an end-to-end test")
    held = [wait_for_state(bench, f"moved-{rank}", "Offloaded") for rank in range(WORKERS)]
    for session in held:
        assert session["offloadedBytes"] > 0
        assert "offloaded by order (an end-to-end test)" in session["message"]
        assert session.get("lane") is None
    bench.jobs.wait(["moved"], lambda job: job.status.reason == "PausedByOrder", "seen as paused", 120)

    # The memory and the turns are others'.
    bench.jobs.apply([training_job("between", steps=5)])
    bench.jobs.wait(["between"], lambda job: job.has("Complete"), "running meanwhile", 240)
    for rank, session in enumerate(held):
        assert session_of(bench, f"moved-{rank}")["iterations"] == session["iterations"]

    command(bench, "restore", "moved")
    for rank, session in enumerate(held):
        wait_until_further(bench, f"moved-{rank}", session["iterations"])
    bench.jobs.wait(["moved"], running, "running again", 120)
    assert containers(bench).items() >= before.items(), "the same processes went on"


def test_an_order_at_the_nodes_shell_outlives_the_agent(bench: Bench) -> None:
    before = start(bench, "held")
    node = session_of(bench, "held-0")["node"]
    pod = f"{bench.namespace}/held-0"
    on_node(bench.laneway, node, AGENT, "order", "pause", pod)
    paused = wait_for_state(bench, "held-0", "Paused")

    restarts = restart_counts(bench.laneway, "node-agent")
    kill(bench.laneway, "node-agent")
    wait_until_restarted(bench.laneway, "node-agent", restarts)

    again = wait_for_state(bench, "held-0", "Paused")
    assert again["iterations"] == paused["iterations"]
    assert f"shell\tPause\t{pod}" in on_node(bench.laneway, node, AGENT, "order", "list")
    on_node(bench.laneway, node, AGENT, "order", "resume", pod)
    wait_until_further(bench, "held-0", paused["iterations"])
    assert containers(bench) == before
