"""Elastic jobs that choose their batch size by goodput, as Pollux' agents do (OSDI'21, section 4.1).

A job's agent measures the step time of each configuration in which the job runs, fits the throughput model to its measurements,
estimates the gradient noise, and trains at the batch size with the highest goodput. It reports its goodput model to the scheduler. The
measurements come from the application's curves. Rigid jobs, and jobs without curves, run as in the trace.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from laneway.scheduling.elastic.fit import Measurement, fit
from laneway.scheduling.model.efficiency import Efficiency
from laneway.scheduling.model.goodput import GoodputModel, ReplicaLayout
from laneway.scheduling.model.throughput import ThroughputModel
from laneway.simulator.application import Application
from laneway.simulator.models.alone import as_in_trace
from laneway.simulator.models.speed_model import Changes, Occupancy, Running, Speed
from laneway.simulator.training import Training, replicas_by_node


class Agent:
    """What one job has measured."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._measured: dict[tuple[int, int, int], Measurement] = {}
        self._throughput: ThroughputModel | None = None
        self._efficiency: Efficiency | None = None

    @property
    def model(self) -> GoodputModel | None:
        """Its goodput model; None before it has run."""
        if self._throughput is None or self._efficiency is None:
            return None
        explored = max(replicas for _, replicas, _ in self._measured)
        return GoodputModel(self._throughput, self._efficiency, self._application.limits, explored)

    def batch_on(self, placement: tuple[int, ...]) -> tuple[int, int]:
        """Return the local batch and the accumulated passes for a placement."""
        app, model = self._application, self.model
        shape = ReplicaLayout(len(placement), sum(placement))
        if model is None:
            return app.batch_of(
                shape.replicas, max(app.initial_batch, app.limits.min_local_batch * shape.replicas)
            )
        best = model.best(shape)
        if best.goodput == 0:
            raise ValueError(
                f"{app.name} cannot train with {shape.replicas} workers: give such jobs a smaller max_workers"
            )
        return best.local_batch, best.accumulated_passes

    def measure(self, placement: tuple[int, ...], local_batch: int, passes: int, epoch: int) -> bool:
        """Measure a configuration. Return whether its step time is new."""
        replicas = sum(placement)
        gradients = self._application.gradients(replicas * local_batch * (passes + 1), epoch)
        self._efficiency = Efficiency.from_gradients(self._application.initial_batch, *gradients)
        configuration = (len(placement), replicas, local_batch)
        if configuration in self._measured:
            return False
        time = self._application.step_time(placement, local_batch)
        pass_seconds = time.step_seconds - time.network_seconds
        self._measured[configuration] = Measurement(*configuration, time.step_seconds, pass_seconds)
        self._throughput = fit(list(self._measured.values()), self._throughput)
        return True


@dataclass(frozen=True, slots=True)
class Adaptive:
    """Batch sizes by goodput. It keeps each job's measurements; otherwise speeds depend only on the occupancy."""

    tune_seconds: float = 60.0
    """After a new measurement, an agent chooses its batch size again after this training time; otherwise at the end of each epoch. The
    time step of Pollux' simulator."""

    _agents: dict[str, Agent] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        if not self.tune_seconds > 0:
            raise ValueError(f"tune_seconds is {self.tune_seconds}: write more than 0")

    def speeds(self, changes: Changes, occupancy: Occupancy, now_seconds: float) -> dict[str, Speed]:
        """Return the speeds of the changed runs, and of those whose agents are due to choose again."""
        speeds: dict[str, Speed] = {}
        for key in changes.runs:
            run = occupancy.run(key)
            if run.job.training is not None and run.job.demand.elastic:
                speeds[key] = self._speed(run, run.job.training, now_seconds)
            else:
                speeds[key] = as_in_trace(key, occupancy, now_seconds)
        return speeds

    def _speed(self, run: Running, training: Training, now_seconds: float) -> Speed:
        agent = self._agents.setdefault(run.job.key, Agent(training.application))
        placement = replicas_by_node(run.placement)
        done_seconds = run.progress_seconds(now_seconds)
        epoch = training.epoch(done_seconds)
        local_batch, passes = agent.batch_on(placement)
        is_new = agent.measure(placement, local_batch, passes, epoch)
        ratio = training.speed_ratio(placement, local_batch, passes, epoch)
        until_seconds = training.epoch_ends_seconds(epoch)
        if is_new:
            until_seconds = min(until_seconds, done_seconds + ratio * self.tune_seconds)
        return Speed(ratio, None, until_seconds, agent.model)
