"""Recognizes a job that waits for data, and what would let its GPU compute instead: loader workers, threads, CPUs.

SALIENT++ (MLSys'23) removes such waits by preparing the next batches while the GPU computes. A PyTorch job gets that from the workers
of its DataLoader, as long as it has CPUs for them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from laneway.api.training_job_status import ProfileStatus
from laneway.scheduling.model.cpu_points import DATA_BOUND_RATIO

_FEWEST_ITERATIONS = 16
"""With fewer measured iterations nothing is suggested: the first ones load and compile."""


@dataclass(frozen=True, slots=True)
class DataWait:
    """A job's wait for data, and what would end it."""

    wait_ratio: float
    """Of the time from one iteration to the next."""

    wait_seconds: float
    iteration_seconds: float
    """From one iteration to the next, waiting included."""

    speedup: float
    """How many times as fast data must come for the GPU never to wait."""

    loader_workers: int
    """Workers of a DataLoader that suffice for a process that loads its data itself."""

    threads: int | None
    """Threads for the training process itself beside these workers; None: its CPUs are not known."""

    cpu_millis: int | None
    """CPUs of the trainer with which data would come fast enough, in proportion to what it has; None: not known."""


def data_wait(profile: ProfileStatus, cpu_millis: int, processes: int) -> DataWait | None:
    """Return how a job waits for data; None if it does not, or if too little was measured.

    Args:
        profile: of one worker.
        cpu_millis: the CPUs of its trainer, in thousandths; 0: not known.
        processes: of the trainer that train, one for each of its GPUs.
    """
    busy, waits = profile.iteration_microseconds, profile.data_microseconds
    if profile.iterations < _FEWEST_ITERATIONS or busy <= 0 or waits < DATA_BOUND_RATIO * busy:
        return None
    speedup = (busy + waits) / busy
    loader_workers = math.ceil(waits / busy)
    threads = max(1, cpu_millis // (1000 * processes) - loader_workers) if cpu_millis else None
    return DataWait(
        wait_ratio=waits / (busy + waits),
        wait_seconds=waits / 1e6,
        iteration_seconds=(busy + waits) / 1e6,
        speedup=speedup,
        loader_workers=loader_workers,
        threads=threads,
        cpu_millis=1000 * math.ceil(cpu_millis * speedup / 1000) if cpu_millis else None,
    )


def suggestion(wait: DataWait, cpu_millis: int) -> tuple[str, ...]:
    """Return what a user reads: the wait, what to change, and what else the figure may mean.

    Args:
        wait: of the job.
        cpu_millis: the CPUs of its trainer, in thousandths; 0: not known.
    """
    said = (
        f"It waits for data for {100 * wait.wait_ratio:.0f} % of each iteration ({1000 * wait.wait_seconds:.0f} of "
        f"{1000 * wait.iteration_seconds:.0f} ms). Its GPU would be busy if data came {wait.speedup:.1f} times as fast."
    )
    workers = f"Loader workers: DataLoader(num_workers={wait.loader_workers}) if it has none, else {wait.speedup:.1f} times as many."
    cpus = "CPUs: its trainer requests none and has no limit; if its node's CPUs are busy, request some."
    if wait.threads is not None and wait.cpu_millis is not None:
        workers = f"{workers} Beside them, OMP_NUM_THREADS={wait.threads} fits the CPUs of each process."
        cpus = f"CPUs: if its {cpu_millis / 1000:g} are busy, request {wait.cpu_millis / 1000:g}."
    caution = (
        "If the script reads its loss after step(), the wait for the GPU counts as a wait for data; "
        "read it inside `with laneway.client.iteration():`."
    )
    return said, workers, cpus, caution
