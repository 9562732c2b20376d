"""Keeps the scheduler's picture of the jobs and nodes current."""

from __future__ import annotations

from laneway.scheduling import Scheduler
from laneway.simulator.lost_attempts import LostAttempts
from laneway.simulator.nodes import Nodes
from laneway.simulator.run import Run


class SchedulerSync:
    """Tells the scheduler what has changed since the last call of :meth:`sync`."""

    def __init__(self, scheduler: Scheduler, nodes: Nodes, lost: LostAttempts) -> None:
        self._scheduler = scheduler
        self._nodes = nodes
        self._lost = lost
        self._changed: dict[str, Run] = {}
        """Runs whose current state the scheduler has not observed yet."""

        self._hidden: set[str] = set()
        """Jobs that back off: the scheduler does not know of them."""

    def add_changed(self, run: Run) -> None:
        """Have the scheduler observe a job again."""
        self._changed[run.job.key] = run

    def show(self, run: Run) -> None:
        """Have the scheduler observe a job again, and what the job avoids."""
        if run.job.key not in self._hidden:
            self._avoid(run)
        self._changed[run.job.key] = run

    def forget(self, key: str) -> None:
        """Have the scheduler forget a job."""
        self._changed.pop(key)
        self._scheduler.forget(key)

    def sync(self) -> None:
        """Show the scheduler the current state of the changed jobs and nodes."""
        nodes = self._nodes.take_changed()
        if nodes is not None:
            self._scheduler.set_nodes(nodes)
        for key, run in self._changed.items():
            if run.competes or run.placement:
                if key in self._hidden:
                    self._hidden.remove(key)
                    self._avoid(run)
                self._scheduler.observe(run.as_job())
            elif key not in self._hidden:
                self._hidden.add(key)
                self._scheduler.forget(key)
        self._changed.clear()

    def _avoid(self, run: Run) -> None:
        key = run.job.key
        self._scheduler.avoid(key, run.job.avoided_nodes | self._lost.avoided(key))
