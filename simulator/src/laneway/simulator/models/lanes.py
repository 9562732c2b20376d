"""Jobs that share GPUs in lanes, by the stages of their iterations.

A job is as fast as the model of overlap says (``laneway.scheduling.interference``, which the placement ``lanes`` asks as well) of the
GPU where it is slowest, because the workers of a gang wait for one another. A job that has a GPU alone runs as in its trace; one
whose stages the trace does not say counts as computing all the time.
"""

from __future__ import annotations

from dataclasses import dataclass

from laneway.scheduling.interference import PARALLEL_PENALTY_RATIO, Interference, load_of
from laneway.simulator.models.speed_model import Changes, Occupancy, Speed


@dataclass(frozen=True, slots=True)
class Lanes:
    """Speeds by overlapping stages. Each job has a lane of its own, as gangs always have, and others have where memory is enough."""

    parallel_penalty_ratio: float = PARALLEL_PENALTY_RATIO
    """By so much each other lane of a GPU makes an iteration longer (see :class:`laneway.scheduling.interference.Interference`)."""

    def __post_init__(self) -> None:
        Interference(self.parallel_penalty_ratio)

    def speeds(self, changes: Changes, occupancy: Occupancy, now_seconds: float) -> dict[str, Speed]:
        """Return the speeds of all on the changed GPUs."""
        keys = dict.fromkeys(changes.runs)
        for uuid in changes.gpus:
            keys.update(dict.fromkeys(occupancy.on_gpu(uuid)))
        on_gpu: dict[str, dict[str, float]] = {}
        return {key: self._speed(key, occupancy, on_gpu) for key in keys}

    def _speed(self, key: str, occupancy: Occupancy, on_gpu: dict[str, dict[str, float]]) -> Speed:
        placement = occupancy.run(key).placement
        uuids = [uuid for worker in placement for uuid in worker.gpus]
        for uuid in uuids:
            if uuid not in on_gpu:
                on_gpu[uuid] = self._on_gpu(uuid, occupancy)
        slowest = min(on_gpu[uuid][key] for uuid in uuids)
        held_gpus = sum(worker.share_percent * len(worker.gpus) for worker in placement) / 100
        return Speed(slowest, held_gpus * slowest)

    def _on_gpu(self, uuid: str, occupancy: Occupancy) -> dict[str, float]:
        """Return how fast each of a GPU's jobs is there."""
        keys = list(occupancy.on_gpu(uuid))
        loads = [load_of(occupancy.run(key).job.profile) for key in keys]
        ratios = Interference(self.parallel_penalty_ratio).speed_ratios(loads)
        return dict(zip(keys, ratios, strict=True))
