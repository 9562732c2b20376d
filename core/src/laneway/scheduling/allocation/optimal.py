"""The division of CPUs and memory with the largest throughput (Synergy-Opt, OSDI'22, section 4.2).

This is the paper's first program. It chooses one option for every gang and maximises the sum of throughputs; no node exceeds
its capacity, and no gang falls below the throughput of its proportional share. GPUs are placed already, so capacity is a
constraint of each node, and the paper's second program, which divides one large machine into nodes, is not needed. HiGHS
solves it. In the paper it is the bound for Synergy-Tune, too slow for every cycle of a large cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from laneway.scheduling.allocation.load import Load
from laneway.scheduling.allocation.options import GrainParameters, nodes_of, options
from laneway.scheduling.allocation.parts import Divided, Part, independent_parts, remembered
from laneway.scheduling.allocation.policy import MEBIBYTE, NodeCapacity, PlacedGang
from laneway.scheduling.allocation.tune import Choices, held, tuned, worth
from laneway.scheduling.model.plan import WorkerAllotment


@dataclass(frozen=True, slots=True)
class Optimal(GrainParameters):
    """Maximises the sum of throughputs; no gang falls below its proportional share."""

    gap_ratio: float = 1e-6
    """The relative gap to the optimum at which the solver may stop."""

    node_limit: int = 10_000
    """The most nodes of the search tree that the solver visits for one part of the cluster. It then returns the best solution
    so far. A time limit would make the result depend on the machine."""

    def __post_init__(self) -> None:
        GrainParameters.__post_init__(self)
        if not 0 <= self.gap_ratio < 1:
            raise ValueError(f"gap_ratio is {self.gap_ratio}: write 0 or more, less than 1")
        if self.node_limit < 1:
            raise ValueError(f"node_limit is {self.node_limit}: write 1 or more")

    def allot(
        self, nodes: Sequence[NodeCapacity], gangs: Sequence[PlacedGang]
    ) -> Mapping[str, tuple[WorkerAllotment, ...]]:
        """Return each worker's CPUs and memory. The total throughput is at least that of ``Tune`` with the same
        parameters."""
        worker_counts: dict[str, tuple[WorkerAllotment, ...]] = {}
        for keys, part in independent_parts(nodes, gangs):
            worker_counts.update(zip(keys, _divided(part, self), strict=True))
        return worker_counts

    def best(self, part: Part, choices: Choices) -> Sequence[int]:
        """Return which option each gang of a part gets."""
        start = tuned(part, choices)
        if not any(start):  # every gang has its best demand
            return start
        solved = self._solve(part, choices)
        if solved is None or worth(choices, solved) <= worth(choices, start):
            return start
        load = Load(part)
        for gang, option in enumerate(solved):
            load.take(gang, choices[gang][option])
        fits = not any(
            load.is_overfull(node) for node in part.nodes
        )  # the solver has tolerances, these are whole numbers
        return solved if fits else start

    def _solve(self, part: Part, choices: Choices) -> Sequence[int] | None:
        """Solve the program over one binary variable for each option; None if the solver found no solution."""
        import numpy as np
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import coo_array

        flat = [(gang, option) for gang, options_of in enumerate(choices) for option in options_of]
        names = sorted(part.nodes)
        row_of = {name: 2 * row for row, name in enumerate(names)}  # of its CPUs; its memory's is the next
        entries: list[tuple[int, int, int]] = []
        for column, (gang, option) in enumerate(flat):
            entries.append((2 * len(names) + gang, column, 1))
            for node, need in zip(nodes_of(part.gangs[gang]), option.needs, strict=True):
                entries.append((row_of[node], column, need.cpu_millis))
                entries.append((row_of[node] + 1, column, need.memory_bytes // MEBIBYTE))
        rows, columns, values = np.array(entries).T
        capacity = np.array(
            [(part.nodes[name].cpu_millis, part.nodes[name].memory_bytes // MEBIBYTE) for name in names]
        ).ravel()
        one_each = np.ones(len(choices))
        result = milp(
            c=np.array([-option.worth for _, option in flat]),
            integrality=np.ones(len(flat), dtype=np.int64),
            bounds=Bounds(0, 1),
            constraints=LinearConstraint(
                coo_array((values.astype(float), (rows, columns))).tocsr(),
                np.concatenate([np.zeros(len(capacity)), one_each]),
                np.concatenate([capacity, one_each]),
            ),
            options={"mip_rel_gap": self.gap_ratio, "node_limit": self.node_limit},
        )
        if result.x is None:
            return None
        ends = np.cumsum([len(options_of) for options_of in choices])[:-1]
        return [int(np.argmax(of_gang)) for of_gang in np.split(result.x, ends)]


@remembered
def _divided(part: Part, policy: Optimal) -> Divided:
    """Return what the workers of each gang of a part get."""
    choices = [options(gang, part.nodes, policy.grain) for gang in part.gangs]
    return held(choices, policy.best(part, choices))
