"""``suspend`` and ``resume``: stop TrainingJobs, and let them go on, by ``spec.suspend``; a user's own rights suffice."""

from __future__ import annotations

import sys
import warnings
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from laneway.cli.exit_codes import CommandError
from laneway.cli.verbs.options import add_job_arguments, for_each_job
from laneway.sdk import TrainingJobClient
from laneway.sdk.job_object import state, status


@dataclass(frozen=True)
class Verb:
    """One of the two verbs; it has the interface of a verb's module."""

    HELP: str
    suspends: bool

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the verb's arguments."""
        add_job_arguments(parser, several=True)

    def run(self, arguments: Namespace) -> int:
        """Change them."""
        return for_each_job(arguments, _suspend if self.suspends else partial(_resume, arguments.program))


def _suspend(client: TrainingJobClient, name: str) -> None:
    job = client.get_job(name).object
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", UserWarning)
        client.suspend_job(name)
    for each in found:
        print(f"laneway: {each.message}", file=sys.stderr)
    effect = (
        "its workers have their grace period to save a checkpoint, and end"
        if status(job).get("placement")
        else "it does not start until it is resumed"
    )
    print(f"TrainingJob {name} suspended; {effect}.")


def _resume(program: str, client: TrainingJobClient, name: str) -> None:
    job = client.get_job(name).object
    if not job["spec"].get("suspend"):
        by_order = f": {program} unpause resumes paused workers" if state(job) == "Paused" else ""
        raise CommandError(f"TrainingJob {name} is not suspended{by_order}")
    client.resume_job(name)
    print(f"TrainingJob {name} resumed; it is scheduled again.")


VERBS: Mapping[str, Verb] = {
    "suspend": Verb(
        "Suspend TrainingJobs: their workers have their grace period to save a checkpoint, and end",
        suspends=True,
    ),
    "resume": Verb("Resume suspended TrainingJobs from their checkpoints", suspends=False),
}
