"""Which jobs run on which GPUs: the input of the speed models."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from laneway.scheduling import GPU, Node, WorkerPlacement
from laneway.simulator.models.speed_model import Changes
from laneway.simulator.run import Run


class Occupancy:
    """The GPUs with their runs, and the changes since :meth:`take_changes`."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        """Start with empty nodes."""
        self._gpus = {gpu.uuid: gpu for node in nodes for gpu in node.gpus}
        self._on_gpu: dict[str, dict[str, None]] = {uuid: {} for uuid in self._gpus}
        self._on_node: dict[str, dict[str, None]] = {gpu.node: {} for gpu in self._gpus.values()}
        self._runs: dict[str, Run] = {}
        self._changed_runs: dict[str, None] = {}
        self._changed_gpus: dict[str, None] = {}
        self._changed_nodes: dict[str, None] = {}

    @property
    def running(self) -> int:
        """The number of running jobs."""
        return len(self._runs)

    def run(self, key: str) -> Run:
        """Return the run of a running job."""
        return self._runs[key]

    def on_gpu(self, uuid: str) -> Collection[str]:
        """Return the jobs that run on a GPU, in order of arrival."""
        return self._on_gpu[uuid].keys()

    def on_node(self, name: str) -> Collection[str]:
        """Return the jobs that run on a node, in order of arrival."""
        return self._on_node[name].keys()

    def gpu(self, uuid: str) -> GPU:
        """Return a GPU."""
        return self._gpus[uuid]

    def enter(self, run: Run) -> None:
        """Record that a job has begun to run where it is placed."""
        self._runs[run.job.key] = run
        self._changed_runs[run.job.key] = None
        for worker in run.placement:
            self._on_node[worker.node][run.job.key] = None
            self._changed_nodes[worker.node] = None
            for uuid in worker.gpus:
                self._on_gpu[uuid][run.job.key] = None
                self._changed_gpus[uuid] = None

    def leave(self, run: Run) -> None:
        """Record that a job no longer runs where it is placed."""
        del self._runs[run.job.key]
        self._changed_runs.pop(run.job.key, None)
        for worker in run.placement:
            self._on_node[worker.node].pop(run.job.key, None)
            self._changed_nodes[worker.node] = None
            for uuid in worker.gpus:
                del self._on_gpu[uuid][run.job.key]
                self._changed_gpus[uuid] = None

    def sharers(self, run: Run) -> frozenset[str]:
        """Return the other jobs that run on any of a job's GPUs."""
        on = {key for uuid in uuids(run.placement) for key in self._on_gpu[uuid]}
        return frozenset(on - {run.job.key})

    def touch(self, run: Run) -> None:
        """Record that a running job needs a new speed."""
        self._changed_runs[run.job.key] = None

    def take_changes(self) -> Changes | None:
        """Return the changes since the last call; None: nothing has changed."""
        if not (self._changed_runs or self._changed_gpus):
            return None
        changes = Changes(tuple(self._changed_runs), tuple(self._changed_gpus), tuple(self._changed_nodes))
        self._changed_runs, self._changed_gpus, self._changed_nodes = {}, {}, {}
        return changes


def uuids(placement: Sequence[WorkerPlacement]) -> tuple[str, ...]:
    """Return all GPUs of a placement, in order of rank."""
    return tuple(uuid for worker in placement for uuid in worker.gpus)
