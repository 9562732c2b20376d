"""What holds for every workload: all jobs end, GPUs do not idle beside jobs that could use them, and evictions cost little."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from laneway.scheduling import JobState
from laneway.scheduling.fairness.claims import LONGEST_QUANTUM_SECONDS
from laneway.scheduling.model.plan import WaitingCode
from laneway.simulator import Simulation, TraceJob

from tests.support.workloads import HOUR, MINUTE, a_job, simulated

EVICTION_SECONDS = 50.0
MIN_RUN_SECONDS = 500.0
NODES = ("n0000", "n0001")


@st.composite
def workloads(draw: st.DrawFn) -> list[TraceJob]:
    """Jobs of all widths and lengths for two nodes of four GPUs; a few are pinned, or may not be preempted, or are urgent."""
    return [
        a_job(
            f"job-{number:02}",
            draw(st.sampled_from([MINUTE, 5 * MINUTE, 20 * MINUTE, HOUR, 10 * HOUR])),
            gpus=draw(st.sampled_from([1, 1, 1, 2, 3, 4])),
            submit=draw(st.integers(0, 40)) * 5 * MINUTE,
            preemptible=draw(st.sampled_from([True, True, True, False])),
            only_on=draw(st.sampled_from(["", "", "", *NODES])),
            nodes=NODES,
            priority=draw(st.sampled_from([0, 0, 0, 0, 10])),
        )
        for number in range(draw(st.integers(3, 25)))
    ] + [
        a_job(
            "gang", draw(st.sampled_from([HOUR, 5 * HOUR])), gpus=8, submit=draw(st.integers(0, 100)) * MINUTE
        )
    ]


class IdleBesideWaiting:
    """The longest time for which a GPU was idle while a one-GPU job waited that could run anywhere and be preempted."""

    def __init__(self) -> None:
        self.longest_seconds = 0.0
        self.longest_for_first_seconds = 0.0
        """Of jobs that are owed time themselves, and would not make room in time for a job that has reserved the GPUs."""

        self._since: dict[str, float] = {}
        self._first: set[str] = set()

    def __call__(self, simulation: Simulation) -> None:
        """See where the simulation stands after a step."""
        runs = simulation.runs.values()
        held = sum(len(worker.gpus) for run in runs for worker in run.placement)
        waits = [
            run.job.key
            for run in runs
            if run.state is JobState.WAITING
            and run.job.demand.gpus == 1
            and run.job.preemptible
            and not run.job.avoided_nodes
            and held < 8
        ]
        now = simulation.now_seconds
        self._since = {key: self._since.get(key, now) for key in waits}
        self._first &= self._since.keys()
        if self._since.keys() - self._first:
            self._first |= {
                key
                for key, reason in simulation.waiting.items()
                if key in self._since and reason.code is WaitingCode.BEHIND_OTHERS
            }
        late = {key for key, since in self._since.items() if now - since > MIN_RUN_SECONDS}
        for key in late:
            waited = now - self._since[key]
            if key in self._first:
                self.longest_for_first_seconds = max(self.longest_for_first_seconds, waited)
            else:
                self.longest_seconds = max(self.longest_seconds, waited)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(workloads())
def test_every_workload(jobs: list[TraceJob]) -> None:
    idle = IdleBesideWaiting()
    simulation = simulated(*jobs, nodes="2x4", watch=idle)

    assert all(run.finish_seconds is not None for run in simulation.runs.values()), "every job ends"
    assert len(simulation.runs) == len(jobs)
    # A start time moves back where a gang starts that goes before it; so once for each of them.
    gangs = sum(job.demand.gpus > 1 for job in jobs)
    assert idle.longest_seconds <= gangs * (MIN_RUN_SECONDS + 2 * EVICTION_SECONDS)
    assert idle.longest_for_first_seconds <= LONGEST_QUANTUM_SECONDS + MIN_RUN_SECONDS
    for run in simulation.runs.values():
        assert run.evictions * EVICTION_SECONDS <= 0.1 * run.executed_seconds + EVICTION_SECONDS
        assert run.job.preemptible or not run.evictions
