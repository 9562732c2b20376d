"""``suspend`` and ``resume``: stop TrainingJobs, and let them go on, by ``spec.suspend``; a user's own rights suffice."""

from __future__ import annotations

import sys
import warnings
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from dataclasses import dataclass

from laneway.cli.exit_codes import OK, CommandError
from laneway.cli.verbs.options import add_job_arguments, open_client
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
        """Change them, in the order of the command line."""
        client = open_client(arguments)
        for name in arguments.name:
            job = client.get_job(name).object
            if not self.suspends and not job["spec"].get("suspend"):
                by_order = (
                    f": {arguments.program} unpause resumes paused workers" if state(job) == "Paused" else ""
                )
                raise CommandError(f"TrainingJob {name} is not suspended{by_order}")
            if self.suspends:
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
            else:
                client.resume_job(name)
                print(f"TrainingJob {name} resumed; it is scheduled again.")
        return OK


VERBS: Mapping[str, Verb] = {
    "suspend": Verb(
        "Suspend TrainingJobs: their workers have their grace period to save a checkpoint, and end",
        suspends=True,
    ),
    "resume": Verb("Resume suspended TrainingJobs from their checkpoints", suspends=False),
}
