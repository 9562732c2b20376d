"""Best demands, tuned down where they don't fit (Synergy-Tune, OSDI'22, section 4.3).

Every gang is given its best demand. Where a node is over its capacity, the gang goes down a step that loses the least
throughput for what it frees, down to the throughput of its proportional share and no further; with everybody there it
fits, so nobody has to wait for CPUs, and nobody does worse than where only GPUs are looked at. What is left in the end goes
to those who gain most by it. The paper goes from the best demand to the proportional share at once, and takes from any
job that has more; the steps between come from the same profile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from laneway.scheduling.allocation.load import Load
from laneway.scheduling.allocation.options import Grain, Option, options
from laneway.scheduling.allocation.parts import Part, independent_parts
from laneway.scheduling.allocation.policy import NodeCapacity, PlacedGang, WorkerAllotment
from laneway.scheduling.allocation.sensitivity import SLACK


@dataclass(frozen=True, slots=True)
class Tune:
    """Best demand where it fits, else less for those that lose least."""

    tolerance_ratio: float = 0.01
    """Throughput this close to the best counts as the best: a measurement is no better."""

    cpu_step_millis: int = 1000
    """CPUs for a GPU in steps of this: data loaders are processes, and a part of a CPU is hardly noticed."""

    def __post_init__(self) -> None:
        self._grain()

    def allot(
        self, nodes: Sequence[NodeCapacity], gangs: Sequence[PlacedGang]
    ) -> Mapping[str, tuple[WorkerAllotment, ...]]:
        """Return what each worker gets."""
        allotted: dict[str, tuple[WorkerAllotment, ...]] = {}
        for part in independent_parts(nodes, gangs):
            choices = [options(gang, part.nodes, self._grain()) for gang in part.gangs]
            for gang, options_of, chosen in zip(part.gangs, choices, tuned(part, choices), strict=True):
                allotted[gang.key] = options_of[chosen].workers
        return allotted

    def _grain(self) -> Grain:
        return Grain(self.tolerance_ratio, self.cpu_step_millis)


Choices = Sequence[tuple[Option, ...]]
"""The options of each gang of a part, best first."""


def tuned(part: Part, choices: Choices) -> list[int]:
    """Return which option each gang of a part gets."""
    chosen = [0] * len(choices)
    load = Load(part)
    for gang, options_of in enumerate(choices):
        load.take(gang, options_of[0])

    def change(gang: int, option: int) -> None:
        load.exchange(gang, choices[gang][chosen[gang]], choices[gang][option])
        chosen[gang] = option

    scarce = [node for node in sorted(part.nodes) if load.is_overfull(node)]
    for node in scarce:  # grows where less of one thing on this node means more of another elsewhere
        while load.is_overfull(node):
            gang, option = _least_loss(choices, chosen, load, node)
            change(gang, option)
            scarce += [other for other in load.nodes_of(gang) if other != node and load.is_overfull(other)]
    for node in sorted(set(scarce)):
        while (gain := _most_gain(choices, chosen, load, node)) is not None:
            change(*gain)
    return chosen


def _least_loss(choices: Choices, chosen: Sequence[int], load: Load, node: str) -> tuple[int, int]:
    """Return the step down that loses the least for what it frees: a gang, and the option that it gets.

    Where no step frees anything, because each takes more of one thing for less of another, a gang goes to its last option,
    which is within its proportional share. Steps lead only down, so they come to an end, and with all gangs of a node
    at their last options the node is not overfull.
    """
    best: tuple[float, int, int] | None = None
    for gang in reversed(load.gangs_on(node)):  # of equals, the last in the order of jobs gives way
        held = choices[gang][chosen[gang]]
        for option in range(chosen[gang] + 1, len(choices[gang])):
            wanted = choices[gang][option]
            relief = load.relief(gang, held, wanted)
            if relief > 0 and (best is None or (held.worth - wanted.worth) / relief < best[0]):
                best = ((held.worth - wanted.worth) / relief, gang, option)
    if best is not None:
        return best[1], best[2]
    movable = [gang for gang in load.gangs_on(node) if chosen[gang] + 1 < len(choices[gang])]
    gang = min(movable, key=lambda gang: choices[gang][chosen[gang]].worth - choices[gang][-1].worth)
    return gang, len(choices[gang]) - 1


def _most_gain(choices: Choices, chosen: Sequence[int], load: Load, node: str) -> tuple[int, int] | None:
    """Return the step up that fits and gains the most for what it takes; None if there is none."""
    best: tuple[float, int, int] | None = None
    for gang in load.gangs_on(node):
        held = choices[gang][chosen[gang]]
        for option in range(chosen[gang]):
            wanted = choices[gang][option]
            gain = wanted.worth - held.worth
            if gain > SLACK and load.fits(gang, held, wanted):
                gain_ratio = gain / max(load.extra(gang, held, wanted), SLACK)
                if best is None or gain_ratio > best[0]:
                    best = (gain_ratio, gang, option)
    return None if best is None else (best[1], best[2])
