"""Jobs whose line gives the number of GPUs, the submission and the duration in one column each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from laneway.simulator.trace import TraceJob
from laneway.simulator.traces.fields import moment, name, seconds, whole
from laneway.simulator.traces.trace_format import NO_GPU, NO_TIME, JobRead, gang


@dataclass(frozen=True, slots=True)
class GangColumns:
    """Reads such a line; the fields name its columns. Each job is a gang of workers with one GPU each."""

    job: str
    gpus: str
    submitted: str
    duration: str
    """In seconds."""

    namespace: str = ""
    """Empty: every job is in ``default``."""

    model: str = ""
    user: str = ""
    recorded: bool = False
    """The file is the log of a real cluster: submissions are dates, and jobs without GPUs or running time are skipped."""

    def read(self, row: Mapping[str, str]) -> JobRead:
        """Return the job of a line, or why it is skipped.

        Raises:
            ValueError: a field is wrong; the message says which, and what to write.
        """
        gpus = whole(row, self.gpus)
        if self.recorded and gpus == 0:
            return NO_GPU
        duration_seconds = seconds(row, self.duration)
        if self.recorded and duration_seconds <= 0:
            return NO_TIME
        namespace = name(row, self.namespace) if self.namespace else "default"
        return TraceJob(
            f"{namespace}/{name(row, self.job)}",
            gang(gpus),
            (moment if self.recorded else seconds)(row, self.submitted),
            duration_seconds,
            model=row.get(self.model, ""),
            user=row.get(self.user, ""),
        )
