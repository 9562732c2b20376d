"""Finds names of other tenants in what the users of a job's namespace can read of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from laneway.api.job_names import namespace_of
from laneway.operator.lifecycle.reconciled_job import ReconciledJob


def foreign_names(reconciled: ReconciledJob, keys: Iterable[str]) -> set[str]:
    """The names and namespaces of jobs of other namespaces in a job's whole status and in its events.

    Args:
        reconciled: the job, as it is to be.
        keys: of all jobs and pods that there are or were. Each name and namespace is one word of letters and digits, and no word of ours.
    """
    job = reconciled.job
    visible = [json.dumps(job.status.to_json()), *(event.message for event in reconciled.events)]
    words = set(re.findall(r"[A-Za-z0-9]+", " ".join(visible)))
    return {
        word for key in keys if namespace_of(key) != job.namespace for word in key.split("/") if word in words
    }
