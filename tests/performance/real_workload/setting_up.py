"""A speed model for workers that set up on shared CPUs before they train.

Importing PyTorch takes CPU time, and the nodes of the embedded cluster are one machine: workers that set up at the same time slow
one another down. How much so is measured; training itself waits for data and is not slowed. A job sets up each
time it gets GPUs, also after a preemption, and holds them meanwhile like a job that trains.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from laneway.scheduling import GPU
from laneway.simulator.models.alone import Alone
from laneway.simulator.models.speed_model import Changes, Occupancy, Running, Speed, SpeedModel

_SETUP_WORK_SECONDS = 1e-3
"""The simulator only knows work, so setup is modelled as a negligible amount of work, done so slowly that it takes the measured
setup time."""


@dataclass(frozen=True, slots=True)
class SetupTimes:
    """How long setting up takes, by how many workers do so at once on the whole machine."""

    seconds_by_workers: Mapping[int, float]

    def seconds(self, workers: int) -> float:
        """Return the time for a number of workers, interpolated and extrapolated linearly."""
        measured = sorted(self.seconds_by_workers.items())
        if len(measured) == 1 or workers <= measured[0][0]:
            return measured[0][1]
        upper = min(max(bisect_left(measured, (workers, 0.0)), 1), len(measured) - 1)
        (fewer, shorter), (more, longer) = measured[upper - 1], measured[upper]
        return shorter + (workers - fewer) * (longer - shorter) / (more - fewer)


@dataclass(frozen=True, slots=True)
class _SettingUp:
    workers: int
    gpu: str
    until_progress_seconds: float


class SettingUp:
    """Speeds of one simulation: it remembers who sets up. Jobs that train are as fast as another model says, which does not see the
    others."""

    def __init__(self, times: SetupTimes, training: SpeedModel | None = None) -> None:
        """Start with no job.

        Args:
            times: how long setting up takes.
            training: the speeds after that; None: as in the trace.
        """
        self._times = times
        self._training = training or Alone()
        self._jobs: dict[str, _SettingUp] = {}

    def speeds(self, changes: Changes, occupancy: Occupancy, now_seconds: float) -> dict[str, Speed]:
        """Return the speeds of the workers that arrived, finished setting up, or still set up, and of those that train beside them."""
        trains: list[str] = []
        gpus = dict.fromkeys(changes.gpus)
        for key in changes.runs:
            run = occupancy.run(key)
            progress_seconds = run.progress_seconds(now_seconds)
            known = self._jobs.pop(key, None)
            if known is not None and progress_seconds >= known.until_progress_seconds:
                trains.append(key)
                gpus |= {uuid: None for worker in run.placement for uuid in worker.gpus}
                continue
            until_seconds = progress_seconds + _SETUP_WORK_SECONDS
            self._jobs[key] = _SettingUp(len(run.placement), run.placement[0].gpus[0], until_seconds)
        self._jobs = {key: job for key, job in self._jobs.items() if key in occupancy.on_gpu(job.gpu)}
        workers = sum(job.workers for job in self._jobs.values())
        training = _Training(occupancy, self._jobs.keys())
        speeds = self._training.speeds(Changes(trains, tuple(gpus), changes.nodes), training, now_seconds)
        for key, job in self._jobs.items():
            ratio = _SETUP_WORK_SECONDS / self._times.seconds(workers)
            speeds[key] = Speed(ratio, until_progress_seconds=job.until_progress_seconds)
        return speeds


class _Training:
    """Which jobs train where."""

    def __init__(self, running: Occupancy, set_up: Collection[str]) -> None:
        self._running = running
        self._set_up = frozenset(set_up)

    def run(self, key: str) -> Running:
        return self._running.run(key)

    def on_gpu(self, uuid: str) -> Collection[str]:
        return [key for key in self._running.on_gpu(uuid) if key not in self._set_up]

    def on_node(self, name: str) -> Collection[str]:
        return [key for key in self._running.on_node(name) if key not in self._set_up]

    def gpu(self, uuid: str) -> GPU:
        return self._running.gpu(uuid)
