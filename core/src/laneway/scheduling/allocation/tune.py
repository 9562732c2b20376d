"""Best demands, tuned down where they don't fit (Synergy-Tune, OSDI'22, section 4.3).

Every gang starts with its best demand. While a node is over capacity, the gang that loses the least throughput for what it
frees is reduced by one step, at most to the throughput of its proportional share. With all gangs at that share everything
fits, so no gang waits for CPUs or does worse than with proportional shares. What remains goes to the gangs that gain most.

The paper reduces a job from its best demand to its proportional share at once, and picks any job that has more. Here the
profile gives steps in between. Single steps choose badly on a curve that is first flat and then steep, so the way up from the
proportional shares is tried as well, and the better result is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from laneway.scheduling.allocation.load import Load
from laneway.scheduling.allocation.options import Grain, GrainParameters, Option, options
from laneway.scheduling.allocation.parts import Divided, Part, independent_parts, remembered
from laneway.scheduling.allocation.policy import NodeCapacity, PlacedGang
from laneway.scheduling.model.plan import WorkerAllotment
from laneway.scheduling.model.sensitivity import SLACK


@dataclass(frozen=True, slots=True)
class Tune(GrainParameters):
    """Gives best demands where they fit, else reduces the gangs that lose least."""

    def allot(
        self, nodes: Sequence[NodeCapacity], gangs: Sequence[PlacedGang]
    ) -> Mapping[str, tuple[WorkerAllotment, ...]]:
        """Return each worker's CPUs and memory."""
        worker_counts: dict[str, tuple[WorkerAllotment, ...]] = {}
        for keys, part in independent_parts(nodes, gangs):
            worker_counts.update(zip(keys, _divided(part, self.grain), strict=True))
        return worker_counts


Choices = Sequence[tuple[Option, ...]]
"""The options of each gang of a part, best first."""


@remembered
def _divided(part: Part, grain: Grain) -> Divided:
    """Return what the workers of each gang of a part get."""
    choices = [options(gang, part.nodes, grain) for gang in part.gangs]
    return held(choices, tuned(part, choices))


def held(choices: Choices, chosen: Sequence[int]) -> tuple[tuple[WorkerAllotment, ...], ...]:
    """Return what the workers of each gang get."""
    return tuple(options_of[option].workers for options_of, option in zip(choices, chosen, strict=True))


def tuned(part: Part, choices: Choices) -> Sequence[int]:
    """Return which option each gang of a part gets."""
    best_demands = _Division(part, choices, [0] * len(choices))
    scarce = best_demands.step_down()
    if not scarce:
        return best_demands.chosen
    best_demands.step_up(scarce)
    shares = _Division(part, choices, [len(options_of) - 1 for options_of in choices])
    shares.step_up(sorted(part.nodes))
    return max((best_demands, shares), key=lambda division: worth(choices, division.chosen)).chosen


def worth(choices: Choices, chosen: Sequence[int]) -> float:
    """Return the throughput of all gangs together, in GPUs."""
    return sum(options_of[option].worth for options_of, option in zip(choices, chosen, strict=True))


class _Division:
    """The current option of each gang, while the policy searches for a division that fits."""

    def __init__(self, part: Part, choices: Choices, chosen: list[int]) -> None:
        self.chosen = chosen
        self._part = part
        self._choices = choices
        self._load = Load(part)
        for gang, option in enumerate(chosen):
            self._load.take(gang, choices[gang][option])

    def step_down(self) -> Sequence[str]:
        """Reduce gangs until everything fits; return the nodes on which something was scarce."""
        scarce = [node for node in sorted(self._part.nodes) if self._load.is_overfull(node)]
        for node in scarce:  # grows where less of one thing here means more of another elsewhere
            while self._load.is_overfull(node):
                gang, option = self._least_loss(node)
                self._change(gang, option)
                scarce += [
                    other
                    for other in self._load.nodes_of(gang)
                    if other != node and self._load.is_overfull(other)
                ]
        return sorted(set(scarce))

    def step_up(self, nodes: Sequence[str]) -> None:
        """Give the rest of these nodes to the gangs that gain most."""
        for node in nodes:
            while (gain := self._most_gain(node)) is not None:
                self._change(*gain)

    def _least_loss(self, node: str) -> tuple[int, int]:
        """Return the step down that loses the least for what it frees: a gang, and the option that it gets.

        If no step frees anything, because each trades one resource for another, a gang goes to its last option, which is
        within its proportional share. Steps only lead down, so the search ends, and a node is never over capacity with all
        its gangs at their last options.
        """
        best: tuple[float, int, int] | None = None
        for gang in reversed(self._load.gangs_on(node)):  # of equals, the last in order
            held = self._held(gang)
            for option in range(self.chosen[gang] + 1, len(self._choices[gang])):
                wanted = self._choices[gang][option]
                relief = self._load.relief(gang, held, wanted)
                if relief > 0 and (best is None or (held.worth - wanted.worth) / relief < best[0]):
                    best = ((held.worth - wanted.worth) / relief, gang, option)
        if best is not None:
            return best[1], best[2]
        movable = [
            gang for gang in self._load.gangs_on(node) if self.chosen[gang] + 1 < len(self._choices[gang])
        ]
        gang = min(movable, key=lambda gang: self._held(gang).worth - self._choices[gang][-1].worth)
        return gang, len(self._choices[gang]) - 1

    def _most_gain(self, node: str) -> tuple[int, int] | None:
        """Return the step up that fits and gains the most for what it takes; None if there is none."""
        best: tuple[float, int, int] | None = None
        for gang in self._load.gangs_on(node):
            held = self._held(gang)
            for option in range(self.chosen[gang]):
                wanted = self._choices[gang][option]
                gain = wanted.worth - held.worth
                if gain > SLACK and self._load.fits(gang, held, wanted):
                    gain_ratio = gain / max(self._load.extra(gang, held, wanted), SLACK)
                    if best is None or gain_ratio > best[0]:
                        best = (gain_ratio, gang, option)
        return None if best is None else (best[1], best[2])

    def _held(self, gang: int) -> Option:
        return self._choices[gang][self.chosen[gang]]

    def _change(self, gang: int, option: int) -> None:
        self._load.exchange(gang, self._held(gang), self._choices[gang][option])
        self.chosen[gang] = option
