"""What a script reports reaches the agent: while it trains, and its last report after its end."""

from __future__ import annotations

import math
from collections.abc import Callable

from tests.support.client.jobs import Job, end_of
from tests.support.node_agent.node import Node, eventually

MakeNode = Callable[..., Node]
Run = Callable[..., Job]
STEPS, WIDTH, BATCH, DATA_SECONDS = 10**6, 64, 32, 0.002
"""The script's."""


def test_progress_loss_and_the_time_for_data_reach_the_agent(make_node: MakeNode, run: Run) -> None:
    node = make_node()
    job = run("reporting.py", container=node.container("job", 50))
    first = eventually("it is heard", lambda: node.session("job")["report"], seconds=200)
    assert first["steps"] == STEPS

    def paced() -> bool:
        report = node.session("job")["report"]
        return bool(report["step"] > first["step"] and report["remaining_seconds"])

    eventually("it goes on, and knows its pace", paced, seconds=200)
    session = node.session("job")
    assert math.isfinite(float(session["report"]["loss"]))
    sizes = eventually("it is measured", lambda: node.session("job")["sizes"])
    assert (sizes["model_bytes"], sizes["largest_tensor_bytes"]) == (4 * 10 * (WIDTH + 1), 4 * 10 * WIDTH)
    batch = eventually("its batch is known", lambda: node.session("job")["batch"], seconds=200)
    assert (batch["ranks"], batch["local_batch"], batch["passes"]) == (1, BATCH, 1)
    job.enough()
    (last,) = job.results()
    assert last["graph"]
    session = end_of(node, "job")
    report = session["report"]
    assert (report["step"], report["loss"], report["epoch"]) == (last["step"], "NaN", last["step"] // 1000)
    assert "without a goodbye" not in session["message"]
    assert session["data_seconds"] >= (session["iterations"] - 1) * DATA_SECONDS
    pages = node.get("/metrics").splitlines()
    assert any(line.startswith("laneway_session_loss{") and line.endswith(" NaN") for line in pages)
