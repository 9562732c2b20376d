"""How much of the GPUs is idle, and how much of that is in fragments."""

from __future__ import annotations

import pytest
from laneway.operator.cycle.gpu_figures import gpu_gauges
from laneway.operator.lifecycle.reconciled_job import ReconciledJob
from laneway.scheduling import GPU, JobState, WorkerPlacement

from tests.unit.operator.builders import a_job
from tests.unit.operator.builders.gauges import samples_of


def a_gpu(index: int) -> GPU:
    return GPU(f"g{index}", "n1", index, "A100", memory_bytes=80, allocatable_bytes=80)


def holding(state: JobState, percent: int, *gpus: int) -> ReconciledJob:
    placement = WorkerPlacement(0, "n1", tuple(f"g{index}" for index in gpus), percent)
    return ReconciledJob(a_job().record, state, holds=(placement,))


@pytest.mark.parametrize(
    ("jobs", "idle", "fragmented"),
    [
        pytest.param([], 2, 0, id="empty GPUs are no fragments"),
        pytest.param([holding(JobState.RUNNING, 30, 0)], 1.7, 0.7, id="the rest of a share"),
        pytest.param([holding(JobState.RUNNING, 400, 0)], 1, 0, id="an exclusive job holds one GPU"),
        pytest.param([holding(JobState.RUNNING, 80, 0)] * 2, 1, 0, id="jobs that share a GPU"),
        pytest.param(
            [holding(JobState.PAUSED, 100, 0, 1)], 2, 0, id="a paused job leaves its GPUs to others"
        ),
    ],
)
def test_idle_and_fragmented_gpus(jobs: list[ReconciledJob], idle: float, fragmented: float) -> None:
    samples = samples_of(gpu_gauges([a_gpu(0), a_gpu(1)], jobs))
    assert samples.pop(("laneway_usable_gpus", "A100")) == 2
    assert samples.pop(("laneway_idle_gpus", "A100")) == pytest.approx(idle)
    assert samples == ({("laneway_fragmented_gpus", "A100"): pytest.approx(fragmented)} if fragmented else {})
