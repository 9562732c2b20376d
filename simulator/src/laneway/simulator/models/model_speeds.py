"""The speeds of a trace's jobs on the GPU models of a cluster, where the speed model knows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from laneway.scheduling import Node
from laneway.scheduling.model.gpu_speed import ModelSpeed
from laneway.simulator.models.speed_model import KnowsModels, SpeedModel
from laneway.simulator.trace import TraceJob


class ModelSpeeds:
    """Asks the speed model."""

    def __init__(self, model: SpeedModel, nodes: Sequence[Node]) -> None:
        self._model = model if isinstance(model, KnowsModels) else None
        self._models = {node.name: {gpu.model for gpu in node.gpus} for node in nodes}
        self._all = frozenset().union(*self._models.values())

    def of(self, job: TraceJob) -> tuple[ModelSpeed, ...]:
        """Return how fast a job runs on the cluster's models; empty where the speed model does not tell them apart."""
        return () if self._model is None else self._model.speeds_on(job, self._all)

    def on_able_nodes(self, job: TraceJob) -> TraceJob:
        """Return a job that avoids the nodes on whose GPUs it cannot run."""
        if self._model is None:
            return job
        able = {each.model for each in self.of(job)}
        unable = {name for name, models in self._models.items() if not models & able}
        return replace(job, avoided_nodes=job.avoided_nodes | unable) if unable else job
