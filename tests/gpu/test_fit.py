"""Jobs with less memory than they need: they offload or recompute activations, with the same results."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.gpu.workstation import Worker, Workstation
from tests.support.node_agent.node import eventually

Job = Callable[..., Worker]
ITERATIONS = 9
"""Four at most are for learning."""
EPHEMERAL_RATIO = 0.06
"""Approximate ephemeral memory over GPU memory: several percent, because shares are whole percents, but little,
because the host gets as much."""
EXAMPLE_BYTES = 320_000
"""What an example of a batch needs beyond itself, about."""


class Training:
    """A finished training: its result and the memory that it needed."""

    def __init__(self, workstation: Workstation, worker: Worker, name: str) -> None:
        worker.do("train", iterations=ITERATIONS)
        self.state = worker.do("state")
        self.outcome = worker.do("outcome")
        session = dict(eventually(f"{name} is measured", lambda: _measured(workstation, name), seconds=60))
        self.quota_bytes: int = session["quota_bytes"]
        self.sizes: dict[str, Any] = session["sizes"]

    def needs_bytes(self, percent: float = 100) -> float:
        """Its persistent memory and a percentage of its ephemeral memory."""
        beside: int = self.sizes["persistent_bytes"] + self.sizes["framework_bytes"]
        return beside + self.sizes["ephemeral_bytes"] * percent / 100


def _measured(workstation: Workstation, name: str) -> dict[str, Any] | None:
    session = workstation.node.session(name)
    return session if session["sizes"] else None


@pytest.fixture(scope="module")
def options(workstation: Workstation) -> tuple[str, ...]:
    """Of all workers here."""
    batch = int(workstation.gpu["memory_bytes"] * EPHEMERAL_RATIO / EXAMPLE_BYTES)
    return "--network", "deep", "--deterministic", "--batch", str(batch)


@pytest.fixture(scope="module")
def plain(workstation: Workstation, options: tuple[str, ...]) -> Training:
    """With enough memory for everything."""
    worker = workstation.job("roomy", 60, *options, LANEWAY_FIT="Off")
    made = Training(workstation, worker, "roomy")
    worker.end()
    return made


@pytest.mark.parametrize(("mode", "percent"), [("Offload", 60), ("Recompute", 70)])
def test_a_job_trains_within_a_part_of_its_memory_and_comes_out_the_same(
    workstation: Workstation,
    job: Job,
    options: tuple[str, ...],
    plain: Training,
    mode: str,
    percent: int,
) -> None:
    share = math.ceil(100 * plain.needs_bytes(percent) / workstation.gpu["memory_bytes"])
    worker = job(mode.lower(), share, *options, LANEWAY_FIT=mode)
    fitted = Training(workstation, worker, mode.lower())
    counts = worker.do("fitted")
    print(f"{mode}: {plain.sizes}, with a share of {share} % {fitted.sizes}, {counts}")
    assert fitted.quota_bytes < plain.needs_bytes(), "it would not have fitted"
    assert fitted.needs_bytes() <= fitted.quota_bytes
    assert fitted.outcome["loss"] == pytest.approx(plain.outcome["loss"], rel=1e-5)
    assert fitted.outcome["norms"] == pytest.approx(plain.outcome["norms"], rel=1e-4, abs=1e-7)
    if mode == "Offload":
        assert fitted.state == plain.state, "copies are exact: every bit is the same"
        assert counts["fetched_ahead"] > 0
    else:
        assert counts["computed_again"] > 0
