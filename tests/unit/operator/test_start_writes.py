"""How often the status of a job is written from its submission on: what is no step in its life costs no write of its own."""

from __future__ import annotations

from itertools import pairwise

import pytest
from laneway.operator.cycle.cycle import Cycle
from laneway.operator.cycle.write_history import WriteHistory
from laneway.operator.pacing import figures_interval_seconds
from laneway.operator.state.records.job_record import JobRecord
from laneway.operator.state.records.worker_pod import WorkerPod
from laneway.scheduling.config.operator_config import OperatorConfig

from tests.unit.operator.builders import NOW, a_gpu_node, a_job, a_pod, a_session, a_view, condition_of


class Watched:
    """One job on a node, as the operator that was there before it sees and writes it."""

    def __init__(self, job: JobRecord) -> None:
        self.job = job
        self.state = a_view([job], gpu_nodes=[a_gpu_node("n1")])
        # Without queues: a job that goes down to the next takes a step.
        self.cycle = Cycle(OperatorConfig.model_validate({"scheduling": {"order": {"policy": "fifo"}}}))
        self.written: list[float] = []
        self.events: list[str] = []
        self._pods: dict[int, WorkerPod] = {}

    def see(self, pod: WorkerPod) -> None:
        """A watch shows a worker's pod."""
        self.state.note_pod(self._pods.get(pod.rank), pod)
        self._pods[pod.rank] = pod

    def report(self, at: float, **figures: int) -> None:
        """The agent reports figures of the first worker."""
        sessions = {0: [a_session(self._pods[0], lane=0, **figures)]}
        before = self.state.gpu_nodes["n1"]
        self.state.note_gpu_node(before, a_gpu_node("n1", sessions=sessions))
        self.run(at)

    def run(self, at: float) -> None:
        """Run a cycle; the API server takes what it writes."""
        now = NOW + at
        written = {self.job.uid: NOW + self.written[-1]} if self.written else {}
        history = WriteHistory({}, written, watched_since_seconds=NOW - 1000)
        for write in self.cycle.run(self.state, history, now).writes:
            after = write.job.with_status(write.status)
            self.state.note_job(self.job, after)
            self.job = after
            if write.writes_status:
                self.written.append(at)
            self.events += [each.reason for each in write.after.events]


@pytest.fixture
def gang() -> Watched:
    """A gang that runs 12 s after its placement: its first worker earlier than its second."""
    watched = Watched(a_job().gang(2).record)
    watched.run(0)
    for rank in (0, 1):
        watched.see(a_pod(watched.job, rank).bound().record)
    watched.run(1)
    watched.see(a_pod(watched.job, 0).running(since=NOW + 2).record)
    for at in range(2, 12):
        watched.run(at)
    watched.see(a_pod(watched.job, 1).running(since=NOW + 12).record)
    watched.run(12)
    return watched


def test_a_start_costs_one_write_of_its_placement_and_one_when_all_workers_run(gang: Watched) -> None:
    for at in range(13, 900, 5):
        gang.run(at)
    assert gang.written == [0, 12]
    assert condition_of(gang.job.status, "Running") == ("True", "AllWorkersRun")
    assert gang.events == ["Placed", "Started"], "an event each; that its spec is valid is in the condition"


def test_how_far_a_gang_has_come_is_told_if_it_does_not_start_soon() -> None:
    gang = Watched(a_job().gang(2).record)
    gang.run(0)
    gang.see(a_pod(gang.job, 0).held_up("ErrImagePull", "no such image").record)
    gang.see(a_pod(gang.job, 1).bound().record)
    for at in range(1, 30):
        gang.run(at)
    assert gang.written == [0, 15]
    assert gang.job.status.waiting is not None
    assert "ErrImagePull" in gang.job.status.waiting.message


def test_figures_are_written_less_often_the_longer_a_job_has_run(gang: Watched) -> None:
    for at in range(20, 6000, 5):
        gang.report(at, turns=at, iterations=at)
    of_figures = gang.written[2:]
    assert of_figures[0] == 20, "the first at once"
    assert 25 < len(of_figures) < 60, "instead of a thousand"
    for before, after in pairwise(of_figures):
        assert after - before == pytest.approx(max(5, min(0.1 * (after - 12), 300)), abs=5)


@pytest.mark.parametrize(("ran", "want"), [(0.0, 5.0), (100.0, 10.0), (1e6, 300.0)])
def test_the_interval_of_figures_is_a_tenth_of_the_running_time(ran: float, want: float) -> None:
    assert figures_interval_seconds(5.0, 20.0, ran, running=1) == want
    assert figures_interval_seconds(600.0, 20.0, ran, running=1) == 600.0, "the configured one is the least"


@pytest.mark.parametrize(("ran", "want"), [(3.0, 5.0), (60.0, 60.0), (1_000.0, 400.0), (1e6, 400.0)])
def test_figures_of_thousands_of_jobs_are_written_at_a_bounded_rate_but_soon_after_a_start(
    ran: float, want: float
) -> None:
    """2,000 jobs have 5 writes a second."""
    assert figures_interval_seconds(5.0, 20.0, ran, running=2_000) == want
