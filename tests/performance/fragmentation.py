"""How full a cluster gets under each placement before nothing fits any more: the experiment of FGD (ATC'23,
section 6).

Tasks drawn with replacement from Alibaba's "openb" trace arrive one by one at its 1,213 GPU nodes (6,212 GPUs), until the tasks
so far have requested 130 percent of its GPUs. A task that does not fit is rejected and never retried; no task ends. The result
is the allocated percentage of all GPUs at the moment when 100 percent has been requested, and at the end. Each arrival is one
decision of Laneway's scheduler, with all of its checks.

    python -m tests.performance.fragmentation --traces ../shared/traces -o fragmentation.json

Five workloads:

- ``recorded``: the tasks with GPUs as they are; CPUs and memory of nodes are not counted, as where Laneway divides them among the
  jobs of a node and none has to wait for them.
- ``several-gpus``: the same, but tasks of two, four and eight GPUs are drawn so often that they ask for half of all GPUs.
- ``gpu-tasks-with-cpus``: the tasks with GPUs request CPUs and memory too. Tasks without GPUs run on nodes without GPUs.
- ``with-cpus``: all tasks, as in the paper. There, tasks without GPUs are placed by the same policy: under ``fgd`` each goes where
  fragmentation grows least. Laneway does not place such pods, so this experiment does. Under the other policies, it puts them on the
  node with the fewest CPUs left that are enough.
- ``with-cpus-spread``: all tasks; those without GPUs go to the node with the most CPUs left, about as kube-scheduler's default
  has it.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean

from laneway.scheduling import Demand, HostResources, Job, JobState, Node, Policies, policies
from laneway.scheduling.model.host_resources import CPU, MEMORY, NOTHING, add
from laneway.scheduling.placement.fgd import FGD
from laneway.scheduling.placement.fragmentation import Fragmentation
from laneway.scheduling.scheduler import Scheduler
from laneway.simulator.nodes_file import read_nodes

from tests.performance.packing_bound import most_percent

WORKLOADS = ("recorded", "several-gpus", "gpu-tasks-with-cpus", "with-cpus", "with-cpus-spread")
WITHOUT_GPUS = ("with-cpus", "with-cpus-spread")
"""The workloads with tasks that need no GPU."""

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
    def requests(self) -> HostResources:
        """What it needs of its node beside GPUs."""
        return HostResources.of({CPU: self.cpu_millis, MEMORY: self.memory_bytes})


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one placement on one workload: means over the seeds, in percent of all GPUs."""

    workload: str
    placement: str
    seeds: int
    allocated_percent: Mapping[str, float]
    """By what had been asked for by then, in percent of all GPUs."""

    allocated_at_end_percent: Sequence[float]
    """Of each seed, when the last task has come."""

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
    if workload not in WITHOUT_GPUS:
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


Rule = Callable[["Filling", str, Task], tuple[float, ...]]
"""The sort key of a node for a task without GPUs; the smallest is taken."""


def tightest(filling: Filling, node: str, _: Task) -> tuple[float, ...]:
    """Prefer nodes with few CPUs left."""
    return tuple(filling.left(node))


def roomiest(filling: Filling, node: str, _: Task) -> tuple[float, ...]:
    """Prefer nodes with many CPUs left."""
    return tuple(-left for left in filling.left(node))


def least_growth(measure: Fragmentation) -> Rule:
    """Return the rule that prefers nodes whose fragmentation grows least."""

    def growth(filling: Filling, node: str, task: Task) -> tuple[float, ...]:
        state, (cpus, _) = filling.state(node), filling.left(node)
        before = measure.expected_percent(state, measure.cpu_tier(cpus))
        after = measure.expected_percent(state, measure.cpu_tier(cpus - task.cpu_millis))
        return round((after - before) / FGD().step_percent), sum(state), cpus

    return growth


class Filling:
    """One cluster that fills up."""

    def __init__(
        self, nodes: Sequence[Node], chosen: Policies, rule: Rule = tightest, *, counts_cpus: bool
    ) -> None:
        self._nodes = {node.name: node if counts_cpus else replace(node, host=None) for node in nodes}
        self._scheduler = Scheduler(tuple(self._nodes.values()), chosen)
        self._rule = rule
        self._counts_cpus = counts_cpus
        self._held = {node.name: (0, 0) for node in nodes}
        self._free = {node.name: {gpu.uuid: gpu.allocatable_percent for gpu in node.gpus} for node in nodes}
        self._arrived = 0
        self.allocated_percent = 0

    def left(self, node: str) -> tuple[int, int]:
        """Return the CPUs (in thousandths) and the bytes of memory that no task with GPUs and no other task holds."""
        host = self._nodes[node].host or NOTHING
        cpus, memory = self._held[node]
        return host.of_resource(CPU) - cpus, host.of_resource(MEMORY) - memory

    def state(self, node: str) -> tuple[int, ...]:
        """Return the free percent of each GPU of a node, rising."""
        return tuple(sorted(self._free[node].values()))

    def arrive(self, task: Task) -> None:
        """Let a task in, if it fits."""
        self._arrived += 1
        if task.gpus == 0:
            self._run_without_gpus(task)
            return
        demand = Demand(
            gpus_per_worker=task.gpus,
            share_percent=task.share_percent,
            requests=task.requests if self._counts_cpus else NOTHING,
        )
        job = Job(f"task-{self._arrived:06d}", demand, created_seconds=float(self._arrived))
        self._scheduler.observe(job)
        starts = self._scheduler.decide(job.created_seconds).starts
        if job.key not in starts:
            self._scheduler.forget(job.key)
            return
        (worker,) = placement = starts[job.key]
        self._scheduler.observe(replace(job, state=JobState.RUNNING, placement=placement))
        self.allocated_percent += task.percent
        cpus, memory = self._held[worker.node]
        self._held[worker.node] = (cpus + task.cpu_millis, memory + task.memory_bytes)
        for uuid in worker.gpus:
            self._free[worker.node][uuid] -= worker.share_percent

    def _run_without_gpus(self, task: Task) -> None:
        """Run a task that Laneway knows nothing of, so its node has less for jobs."""
        fitting: list[str] = []
        for node in self._nodes:
            cpus, memory = self.left(node)
            if cpus >= task.cpu_millis and memory >= task.memory_bytes:
                fitting.append(node)
        if not fitting:
            return
        name = min(fitting, key=lambda node: (self._rule(self, node, task), node))
        node = self._nodes[name]
        host = dict((node.host or NOTHING).amounts)
        add(host, task.requests, -1)
        self._nodes[name] = replace(node, host=HostResources.of(host))
        self._scheduler.set_nodes(tuple(self._nodes.values()))


def allocated(filling: Filling, arriving: Iterable[Task], cluster_gpus: int) -> Mapping[str, float]:
    """Return the allocated percent of a cluster's GPUs at each of these requested percentages."""
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
    counts_cpus = "with-cpus" in workload
    kinds = typical(arrivals[0], counts_cpus=counts_cpus)
    for placement in placements:
        chosen = policies(
            order="fifo",
            order_options={"strict": False},
            placement=placement,
            placement_options=kinds if placement == "fgd" else {},
        )
        rule = roomiest if workload == "with-cpus-spread" else tightest
        if workload == "with-cpus" and placement == "fgd":
            rule = least_growth(FGD(**kinds).measure)
        runs = [
            allocated(Filling(nodes, chosen, rule, counts_cpus=counts_cpus), arriving, cluster_gpus)
            for arriving in arrivals
        ]
        means = {mark: round(mean(run[mark] for run in runs), 2) for mark in runs[0]}
        at_end = [round(run["130"], 2) for run in runs]
        yield Outcome(workload, placement, seeds, means, at_end, round(bound, 2))


def typical(arriving: Sequence[Task], *, counts_cpus: bool) -> dict[str, tuple[float, ...]]:
    """Return FGD's parameters for a workload whose distribution is known, as the paper has it."""
    kinds = Counter((task.percent, counts_cpus * task.cpu_millis) for task in arriving if task.gpus)
    rising = sorted(kinds)
    return {
        "task_percents": tuple(float(percent) for percent, _ in rising),
        "task_cpus": tuple(cpu_millis / 1000 for _, cpu_millis in rising) if counts_cpus else (),
        "task_popularity": tuple(float(kinds[kind]) for kind in rising),
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
    print(f"{'workload':<22}{'placement':<14}{marks}{'bound':>10}")
    for workload in chosen.workloads.split(","):
        for outcome in measured(workload, chosen.placements.split(","), nodes, tasks, chosen.seeds):
            outcomes.append(outcome)
            found = "".join(f"{percent:>10.2f}" for percent in outcome.allocated_percent.values())
            print(f"{workload:<22}{outcome.placement:<14}{found}{outcome.bound_percent:>10.2f}", flush=True)
    if chosen.output is not None:
        chosen.output.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=2) + "\n")


if __name__ == "__main__":
    main()
