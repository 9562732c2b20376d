"""The part that each running job holds of its GPUs: its share, at most its fraction of all running jobs' shares of the GPU.

So all jobs together never hold more than the GPUs that there are, also where jobs take turns. A job's part changes when another
starts or stops, which writes nothing to its own status. The parts since the last count are kept here until a status is written.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise

from laneway.api.rfc3339 import parse_time
from laneway.api.training_job_status import TrainingJobStatus, WorkerPlacementStatus

Place = tuple[str, str]
"""A node and a GPU."""


class HeldParts:
    """What running jobs hold, by uid."""

    def __init__(self) -> None:
        self._shares: dict[str, Mapping[Place, int]] = {}
        """In percent."""

        self._on: defaultdict[Place, dict[str, int]] = defaultdict(dict)
        """The same by GPU and job."""

        self._ratios: dict[str, list[tuple[float, float]]] = {}
        """Since when a job holds which ratio of its shares, oldest first. They stay after a run until that is counted."""

    def of(self, uid: str) -> Iterator[tuple[Place, float]]:
        """Yield the part that a job holds of each of its GPUs."""
        for place, percent in self._shares.get(uid, {}).items():
            yield place, self._part(uid, place, percent)

    def update(self, uid: str, status: TrainingJobStatus, now_seconds: float) -> None:
        """Note the status of a job: it holds GPUs while its service is counted."""
        counted_at = status.service_counted_at
        self._place(uid, {} if counted_at is None else _shares(status.placement), now_seconds)
        steps = self._ratios.get(uid, [])
        while counted_at is not None and len(steps) > 1 and steps[1][0] <= parse_time(counted_at):
            del steps[0]

    def forget(self, uid: str, now_seconds: float) -> None:
        """Note that a job has ended, and is counted, or is gone."""
        self._place(uid, {}, now_seconds)
        self._ratios.pop(uid, None)

    def counted(
        self, uid: str, before: TrainingJobStatus, after: TrainingJobStatus, now_seconds: float
    ) -> TrainingJobStatus:
        """Return a status with held GPU time for the service that it counts beyond the status before."""
        attained = after.attained_service_gpu_milliseconds - before.attained_service_gpu_milliseconds
        if not attained:
            return after
        steps = self._ratios.get(uid)
        if steps is None:
            ratio = self._ratio(uid, _shares(before.placement or after.placement))
        else:
            since = before.service_counted_at
            ratio = _mean(steps, steps[0][0] if since is None else parse_time(since), now_seconds)
        held = max(0, before.held_gpu_milliseconds + round(attained * ratio))
        return after.model_copy(update={"held_gpu_milliseconds": held})

    def _place(self, uid: str, shares: Mapping[Place, int], now_seconds: float) -> None:
        before = self._shares.pop(uid, {})
        if shares:
            self._shares[uid] = shares
        if shares == before:
            return
        for place in before:
            del self._on[place][uid]
        for place, percent in shares.items():
            self._on[place][uid] = percent
        places = before.keys() | shares.keys()
        for concerned in {each for place in places for each in self._on[place]}:
            steps, ratio = (
                self._ratios.setdefault(concerned, []),
                self._ratio(concerned, self._shares[concerned]),
            )
            if steps and steps[-1][0] == now_seconds:
                steps.pop()
            if not steps or steps[-1][1] != ratio:
                steps.append((now_seconds, ratio))
        for place in before:
            if not self._on[place]:
                del self._on[place]

    def _ratio(self, uid: str, shares: Mapping[Place, int]) -> float:
        held = sum(self._part(uid, place, percent) for place, percent in shares.items())
        total = sum(shares.values())
        return 100 * held / total if total else 1.0

    def _part(self, uid: str, place: Place, percent: int) -> float:
        others = sum(share for other, share in self._on.get(place, {}).items() if other != uid)
        return percent / max(100, others + percent)


def _shares(placement: tuple[WorkerPlacementStatus, ...]) -> Counter[Place]:
    shares: Counter[Place] = Counter()
    for worker in placement:
        for gpu in worker.gpus:
            shares[worker.node, gpu] += min(worker.share_percent, 100)
    return shares


def _mean(steps: list[tuple[float, float]], since_seconds: float, until_seconds: float) -> float:
    """Return the mean of a step function; before its first step it has that step's value."""
    ends = [since_seconds, *(at for at, _ in steps[1:]), until_seconds]
    ends = [min(max(each, since_seconds), until_seconds) for each in ends]
    lasted = [end - begin for begin, end in pairwise(ends)]
    if sum(lasted) <= 0:
        return steps[-1][1]
    return sum(length * ratio for length, (_, ratio) in zip(lasted, steps, strict=True)) / sum(lasted)
