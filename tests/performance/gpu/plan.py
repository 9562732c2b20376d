"""How much the sharing benchmark does: the sizes for a real GPU, and for a CPU that only shows that the code runs."""

from __future__ import annotations

from dataclasses import dataclass

GIB = 1 << 30


@dataclass(frozen=True)
class Plan:
    """What is measured."""

    device: str
    size: str
    """Of the networks."""
    batches: dict[str, int]
    """By network."""
    crowds: tuple[int, ...]
    """How many jobs at a time."""
    rounds: int
    """Each goes through all ways of sharing, so that they are measured beside one another."""
    job_seconds: float
    """About how long one job takes alone."""
    warm_up: int
    limit_seconds: float
    """After this no further round begins."""

    @property
    def most_jobs(self) -> int:
        """The largest crowd."""
        return max(self.crowds)


def plan_for(device: str, memory_bytes: int) -> Plan:
    """Return the plan for a GPU with this much memory: the jobs of all ways of sharing must fit at the same
    time."""
    if device == "cpu":
        return Plan("cpu", "tiny", {"resnet50": 4}, (1, 2), 1, 0.2, 4, 60.0)
    if memory_bytes < 60 * GIB:
        return Plan("cuda", "full", {"resnet50": 16, "transformer": 8}, (1, 2), 3, 3.0, 15, 420.0)
    return Plan("cuda", "full", {"resnet50": 64, "transformer": 16}, (1, 2, 4), 2, 2.5, 15, 420.0)
