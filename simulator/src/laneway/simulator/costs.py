"""What starting and preempting cost in time."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Costs:
    """Times in which a job holds its GPUs and does not train.

    Leaving and restarting together are 50 s by default: Lucid and Tiresias measured 40 to 62 s for a preemption, of which
    the 30 s for a restart are those of Pollux's simulator. 0 for all gives the free preemption of Tiresias' simulator.
    """

    start_seconds: float = 0.0
    """A first start. 0: the durations of a trace contain it."""

    leave_seconds: float = 20.0
    """From the decision to preempt a job to the end of its workers: the iteration ends, a checkpoint is saved."""

    restart_seconds: float = 30.0
    """A start after a preemption: the checkpoint is loaded, data and processes are set up again."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < 0:
                raise ValueError(f"{field.name} is {getattr(self, field.name)}: write 0 or more")
