"""The time that starts, migrations and preemptions cost."""

from __future__ import annotations

from dataclasses import dataclass, fields

from laneway.scheduling import Profile

UNPROFILED_GIB = 4.0
"""Assumed persistent memory of an offloaded worker whose trace has no profile."""

_GIB = 2**30


@dataclass(frozen=True, slots=True)
class Costs:
    """Times in which a job holds its GPUs but does not train.

    An eviction (leaving and restarting) takes 50 s by default: Lucid and Tiresias measured 40 to 62 s for a preemption; the 30 s of it
    for a restart are those of Pollux' simulator. 0 everywhere gives the free preemption of Tiresias' simulator. The speed model
    counts what lanes cost running jobs (see ``models``).
    """

    start_seconds: float = 0.0
    """A first start. 0: the durations of a trace contain it."""

    leave_seconds: float = 20.0
    """From the decision to evict a job to the end of its workers: the iteration ends, a checkpoint is saved. The measurements of Lucid
    and Tiresias, minus the restart."""

    restart_seconds: float = 30.0
    """A start after an eviction or with a different number of workers: the checkpoint is loaded, data and processes are set up. The
    restart penalty of Pollux' simulator (OSDI'21, section 5.3)."""

    migration_seconds: float = 0.0
    """In addition, for a restart on a node that the job was not on before. 0: the checkpoint and the data are on shared storage, and the
    measured time of a restart contains loading them."""

    pause_seconds: float = 0.1
    """From the decision to pause a job until its GPUs are free for others: its iteration ends. Gandiva
    (OSDI'18, section 4.1): typically within 0.1 s, up to 1 s for large language models."""

    resume_seconds: float = 0.1
    """From the decision to resume a paused job to its next iteration. Gandiva, as above."""

    offload_seconds_per_gib: float = 0.1
    """Moving a paused worker's persistent memory to the host; all workers of a job copy at the same time. 10 GiB/s is an estimate
    between copies of pageable and of pinned memory over PCIe 3; Laneway has not measured it."""

    restore_seconds_per_gib: float = 0.1
    """Moving it back; as above."""

    end_seconds: float = 0.0
    """From the end of a job's work to the end of its workers. 0: the durations of a trace contain it."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) >= 0:
                raise ValueError(f"{field.name} is {getattr(self, field.name)}: write 0 or more")

    def offload_seconds(self, profile: Profile | None) -> float:
        """Return the time to move a job's memory to the host."""
        return self.pause_seconds + self.offload_seconds_per_gib * _persistent_gib(profile)

    def restore_seconds(self, profile: Profile | None) -> float:
        """Return the time until a job whose memory is on the host trains again."""
        return self.resume_seconds + self.restore_seconds_per_gib * _persistent_gib(profile)


def _persistent_gib(profile: Profile | None) -> float:
    return UNPROFILED_GIB if profile is None else profile.persistent_bytes / _GIB
