"""How full a cluster gets under each placement before nothing fits any more: the experiment of FGD (ATC'23,
section 6).

Tasks drawn with replacement from Alibaba's "openb" trace arrive one by one at its 1,213 GPU nodes (6,212 GPUs), until the tasks
so far have requested 130 percent of its GPUs. A task that does not fit is rejected and never retried; no task ends. The result
is the allocated percentage of all GPUs at the moment when 100 percent has been requested, and at the end. Each arrival is one
decision of Laneway's scheduler, with all of its checks.

    python -m tests.performance.fragmentation --traces ../shared/traces -o fragmentation.json

Three workloads:

- ``recorded``: the tasks with GPUs as they are; CPUs and memory of nodes are not counted, because Laneway divides them among
  the jobs of a node and none has to wait for them.
- ``several-gpus``: the same, but tasks of two, four and eight GPUs are drawn so often that they ask for half of all GPUs.
- ``with-cpus``: all tasks, and those without GPUs too, hold the CPUs and the memory that they ask for, as in the paper. The policies
  here see GPUs only: nodes that lack CPUs are nodes to avoid, as they are in the operator when kube-scheduler refuses a pod.
  Tasks without GPUs go to the node with the fewest CPUs left that are enough.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean

from laneway.scheduling import Demand, Job, JobState, Node, Policies, policies
from laneway.scheduling.scheduler import Scheduler
from laneway.simulator.nodes_file import read_nodes

from tests.performance.packing_bound import most_percent

WORKLOADS = ("recorded", "several-gpus", "with-cpus")
PLACEMENTS = ("best-fit", "fgd", "spread", "count")
UNTIL_RATIO = 1.3
"""Arrivals end when they have requested this ratio of the cluster's GPUs, as in the paper's published experiments."""

MARKS = (0.9, 1.0, UNTIL_RATIO)
"""The requested percentages at which the allocation is recorded."""


@dataclass(frozen=True, slots=True)
class Task:
    """A line of the trace."""

    gpus: int
    share_percent: int
    cpu_millis: int
    memory_bytes: int

    @property
    def percent(self) -> int:
        """Percent of GPUs that it asks for, together."""
        return self.gpus * self.share_percent

    @property
    def demand(self) -> Demand:
        """Its demand in Laneway."""
        return Demand(gpus_per_worker=self.gpus, share_percent=self.share_percent)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one placement on one workload: means over the seeds, in percent of all GPUs."""

    workload: str
    placement: str
    seeds: int
    allocated_percent: Mapping[str, float]
    """By what had been asked for by then, in percent of all GPUs."""

    bound_percent: float
    """An upper bound at 100 percent requested, for any packing; it ignores CPUs and treats each GPU separately."""


def read_tasks(path: Path) -> tuple[Task, ...]:
    """Return the pods of an openb list."""
    with path.open(newline="") as lines:
        return tuple(
            Task(
                int(row["num_gpu"]),
                -(-int(row["gpu_milli"]) // 10),
                int(row["cpu_milli"]),
                int(row["memory_mib"]) * 2**20,
            )
            for row in csv.DictReader(lines)
        )


def drawn(workload: str, tasks: Sequence[Task], cluster_gpus: int, seed: int) -> Iterator[Task]:
    """Yield tasks until enough has been asked for; the same seed gives the same tasks."""
    if workload != "with-cpus":
        tasks = [task for task in tasks if task.gpus]
    weights = [1.0] * len(tasks)
    if workload == "several-gpus":
        several = sum(task.percent for task in tasks if task.gpus > 1)
        others = sum(task.percent for task in tasks) - several
        weights = [others / several if task.gpus > 1 else 1.0 for task in tasks]
    generator = random.Random(seed)
    asked_percent = 0
    while asked_percent < UNTIL_RATIO * 100 * cluster_gpus:
        task = generator.choices(tasks, weights)[0]
        asked_percent += task.percent
        yield task


class Filling:
    """One cluster that fills up."""

    def __init__(self, nodes: Sequence[Node], chosen: Policies, *, counts_cpus: bool) -> None:
        self._scheduler = Scheduler(nodes, chosen)
        self._left = (
            {node.name: (node.cpu_millis, node.memory_bytes) for node in nodes} if counts_cpus else {}
        )
        self._arrived = 0
        self.allocated_percent = 0

    def arrive(self, task: Task) -> None:
        """Let a task in, if it fits."""
        self._arrived += 1
        fitting = [
            node
            for node, (cpus, memory) in self._left.items()
            if cpus >= task.cpu_millis and memory >= task.memory_bytes
        ]
        if task.gpus == 0:
            if fitting:
                self._hold(min(fitting, key=lambda node: (self._left[node], node)), task)
            return
        job = Job(f"task-{self._arrived:06d}", task.demand, created_seconds=float(self._arrived))
        self._scheduler.observe(job)
        if self._left:
            self._scheduler.avoid(job.key, frozenset(self._left.keys() - fitting))
        starts = self._scheduler.decide(job.created_seconds).starts
        if job.key not in starts:
            self._scheduler.forget(job.key)
            return
        placement = starts[job.key]
        self._scheduler.observe(replace(job, state=JobState.RUNNING, placement=placement))
        self.allocated_percent += task.percent
        if self._left:
            self._hold(placement[0].node, task)

    def _hold(self, node: str, task: Task) -> None:
        cpus, memory = self._left[node]
        self._left[node] = (cpus - task.cpu_millis, memory - task.memory_bytes)


def allocated(
    nodes: Sequence[Node], arriving: Sequence[Task], chosen: Policies, *, counts_cpus: bool
) -> Mapping[str, float]:
    """Return the allocated percent of a cluster's GPUs at each of these requested percentages."""
    filling = Filling(nodes, chosen, counts_cpus=counts_cpus)
    cluster_gpus = sum(len(node.gpus) for node in nodes)
    asked_percent = 0
    found: dict[str, float] = {}
    for task in arriving:
        filling.arrive(task)
        asked_percent += task.percent
        for mark in MARKS:
            if asked_percent >= mark * 100 * cluster_gpus:
                found.setdefault(f"{100 * mark:.0f}", filling.allocated_percent / cluster_gpus)
    return found


def measured(
    workload: str, placements: Sequence[str], nodes: Sequence[Node], tasks: Sequence[Task], seeds: int
) -> Iterator[Outcome]:
    """Yield the result of each placement on the same arrivals."""
    cluster_gpus = sum(len(node.gpus) for node in nodes)
    arrivals = [tuple(drawn(workload, tasks, cluster_gpus, seed)) for seed in range(1, seeds + 1)]
    bound = mean(_bound(arriving, cluster_gpus) for arriving in arrivals)
    for placement in placements:
        chosen = policies(
            order="fifo",
            order_options={"strict": False},
            placement=placement,
            placement_options=typical(arrivals[0]) if placement == "fgd" else {},
        )
        runs = [
            allocated(nodes, arriving, chosen, counts_cpus=workload == "with-cpus") for arriving in arrivals
        ]
        means = {mark: round(mean(run[mark] for run in runs), 2) for mark in runs[0]}
        yield Outcome(workload, placement, seeds, means, round(bound, 2))


def typical(arriving: Sequence[Task]) -> Mapping[str, Sequence[float]]:
    """Return FGD's parameters for a workload whose distribution is known, as the paper has it."""
    kinds = Counter(task.percent for task in arriving if task.gpus)
    return {
        "task_percents": [float(percent) for percent in sorted(kinds)],
        "task_popularity": [float(kinds[percent]) for percent in sorted(kinds)],
    }


def _bound(arriving: Sequence[Task], cluster_gpus: int) -> float:
    supply: Counter[int] = Counter()
    asked_percent = 0
    for task in arriving:
        if asked_percent >= 100 * cluster_gpus:
            break
        asked_percent += task.percent
        if task.gpus:
            supply[task.share_percent] += task.gpus
    return most_percent(supply, cluster_gpus) / cluster_gpus


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the experiment, print a table, and write the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--traces", type=Path, required=True, help="folder that holds alibaba/openb_*.csv")
    parser.add_argument("-o", "--output", type=Path, help="where the figures go, as JSON")
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--placements", default=",".join(PLACEMENTS))
    parser.add_argument("--seeds", type=int, default=3, help="runs whose mean is taken")
    chosen = parser.parse_args(arguments)
    folder = chosen.traces / "alibaba"
    nodes = read_nodes(str(folder / "openb_node_list_gpu_node.csv"))
    tasks = read_tasks(folder / "openb_pod_list_default.csv")
    outcomes: list[Outcome] = []
    marks = "".join(f"{f'at {100 * mark:.0f} %':>10}" for mark in MARKS)
    print(f"{'workload':<14}{'placement':<14}{marks}{'bound':>10}")
    for workload in chosen.workloads.split(","):
        for outcome in measured(workload, chosen.placements.split(","), nodes, tasks, chosen.seeds):
            outcomes.append(outcome)
            found = "".join(f"{percent:>10.2f}" for percent in outcome.allocated_percent.values())
            print(f"{workload:<14}{outcome.placement:<14}{found}{outcome.bound_percent:>10.2f}", flush=True)
    if chosen.output is not None:
        chosen.output.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=2) + "\n")


if __name__ == "__main__":
    main()
