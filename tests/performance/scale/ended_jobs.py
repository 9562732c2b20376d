"""Jobs that ended before the run begins; their TrainingJobs are still there."""

from __future__ import annotations

from functools import partial

from laneway.operator.state.resources import TRAINING_JOBS

from tests.performance.scale import objects
from tests.performance.scale.client import for_each
from tests.performance.scale.job_mix import a_mixed_job, ended_status
from tests.performance.scale.run import ENDED, Run

ENDED_FOR_EACH_JOB = 4


async def make_ended_jobs(run: Run) -> int:
    """Create the TrainingJobs with their statuses; return how many."""
    number = ENDED_FOR_EACH_JOB * run.jobs
    run.say(f"{number} jobs ended in the last days")
    await for_each(
        partial(_make, run, each, workers) for each, workers in enumerate(objects.gang_sizes(number))
    )
    return number


async def _make(run: Run, number: int, workers: int) -> None:
    job = a_mixed_job(f"e{number:06d}", ENDED, workers)
    await run.api.request("POST", TRAINING_JOBS.path(ENDED), body=job)
    await run.api.request(
        "PATCH",
        TRAINING_JOBS.path(ENDED, job["metadata"]["name"], "status"),
        body={"status": ended_status(number, job)},
        content_type="application/merge-patch+json",
    )
