"""The most throughput that CPUs and memory can give (Synergy-Opt, OSDI'22, section 4.2).

The paper's first program: choose for every gang one of its options, so that the sum of throughputs is the largest, no node
is over its capacity, and nobody is below the throughput of its proportional share. GPUs are placed already, so capacity holds
for every node, and the paper's second program, which cuts one large machine into nodes, is not needed. It is solved by HiGHS.
The paper has it as the bound against which Synergy-Tune is measured, too slow for every cycle of a large cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from laneway.scheduling.allocation.load import Load
from laneway.scheduling.allocation.options import Grain, nodes_of, options
from laneway.scheduling.allocation.parts import Part, independent_parts
from laneway.scheduling.allocation.policy import MEBIBYTE, NodeCapacity, PlacedGang
from laneway.scheduling.allocation.tune import Choices, held, tuned, worth
from laneway.scheduling.model.plan import WorkerAllotment


@dataclass(frozen=True, slots=True)
class Optimal:
    """The largest sum of throughputs, nobody below its proportional share."""

    tolerance_ratio: float = 0.01
    """Throughput this close to the best counts as the best: a measurement is no better."""

    cpu_step_millis: int = 1000
    """CPUs for a GPU in steps of this: data loaders are processes, and a part of a CPU is hardly noticed."""

    gap_ratio: float = 1e-6
    """The solver may stop this close to the optimum, as a part of it."""

    node_limit: int = 10_000
    """How many nodes of its search tree the solver visits for one part of the cluster. A bound in time would make the
    answer depend on the machine. Where it is reached, the best that is known by then is given."""

    def __post_init__(self) -> None:
        _ = self.grain
        if not 0 <= self.gap_ratio < 1:
            raise ValueError(f"gap_ratio is {self.gap_ratio}: write 0 or more, less than 1")
        if self.node_limit < 1:
            raise ValueError(f"node_limit is {self.node_limit}: write 1 or more")

    def allot(
        self, nodes: Sequence[NodeCapacity], gangs: Sequence[PlacedGang]
    ) -> Mapping[str, tuple[WorkerAllotment, ...]]:
        """Return what each worker gets: never less throughput together than with ``Tune`` of the same parameters."""
        worker_counts: dict[str, tuple[WorkerAllotment, ...]] = {}
        for keys, part in independent_parts(nodes, gangs):
            worker_counts.update(zip(keys, _divided(part, self), strict=True))
        return worker_counts

    def best(self, part: Part, choices: Choices) -> Sequence[int]:
        """Return which option each gang of a part gets."""
        start = tuned(part, choices)
        if not any(start):  # everybody has its best demand
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
        """Solve the program over one binary variable for each option; None if the solver has found nothing."""
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

    @property
    def grain(self) -> Grain:
        """How finely options are told apart."""
        return Grain(self.tolerance_ratio, self.cpu_step_millis)


@lru_cache(maxsize=8192)
def _divided(part: Part, policy: Optimal) -> tuple[tuple[WorkerAllotment, ...], ...]:
    """Return what the workers of each gang of a part get."""
    choices = [options(gang, part.nodes, policy.grain) for gang in part.gangs]
    return held(choices, policy.best(part, choices))
