"""The speed of elastic jobs by construction, and what their workers report of it: the operator's policy plans with that report.

A job divides batches of one size among its workers, and each sample takes its time to arrive: the job's speed is proportional to its
workers. The operator knows of it only the layouts that the job has had. To these it fits a model, which takes half of a step for a fixed
cost until it has seen another batch of a worker (:mod:`laneway.scheduling.elastic.fit`).
"""

from __future__ import annotations

from laneway.scheduling.elastic.fit import Measurement, fit
from laneway.scheduling.model.efficiency import Efficiency
from laneway.scheduling.model.goodput import BatchLimits, GoodputModel
from laneway.simulator.models.alone import Alone
from laneway.simulator.models.speed_model import Changes, Occupancy, Running, Speed

from tests.performance.real_cluster.drawn_jobs import GLOBAL_BATCH
from tests.performance.real_workload.workload import BATCH_SECONDS


class ReportedGoodput:
    """Speeds of one simulation: it remembers the layouts of each job."""

    def __init__(self) -> None:
        self._seen: dict[str, dict[tuple[int, int], Measurement]] = {}

    def speeds(self, changes: Changes, occupancy: Occupancy, now_seconds: float) -> dict[str, Speed]:
        """Return each job's speed with its current workers; of an elastic job with the model of its goodput."""
        speeds = Alone().speeds(changes, occupancy, now_seconds)
        for key, speed in speeds.items():
            run = occupancy.run(key)
            if run.job.demand.elastic:
                speeds[key] = speed._replace(goodput=self._goodput(key, run))
        return speeds

    def _goodput(self, key: str, run: Running) -> GoodputModel:
        """Return what the operator makes of the reports so far."""
        workers, nodes = len(run.placement), len({worker.node for worker in run.placement})
        seen = self._seen.setdefault(key, {})
        seen[nodes, workers] = Measurement(nodes, workers, GLOBAL_BATCH // workers, BATCH_SECONDS / workers)
        return GoodputModel(
            fit(tuple(seen.values())),
            Efficiency(GLOBAL_BATCH, 0.0),
            BatchLimits(GLOBAL_BATCH, GLOBAL_BATCH),
            explored_replicas=max(each.replicas for each in seen.values()),
        )
