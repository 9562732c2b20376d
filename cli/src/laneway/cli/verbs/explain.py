"""``explain``: why a TrainingJob waits, and what would let it run."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace

from laneway.cli import job_text
from laneway.cli.exit_codes import OK
from laneway.cli.output import write_object
from laneway.cli.verbs.session import add_cluster_options, add_output_option, open_cluster

HELP = "say why a TrainingJob waits and what would let it run"


def add(parser: ArgumentParser) -> None:
    """Describe the verb."""
    parser.add_argument("name")
    add_output_option(parser, "json", "yaml")
    add_cluster_options(parser)


def run(arguments: Namespace) -> int:
    """Explain it."""
    cluster, namespace = open_cluster(arguments)
    job = cluster.read(namespace, arguments.name)
    if arguments.output:
        reason = dict(job_text.waiting(job) or {})
        write_object(
            {"name": arguments.name, "state": job_text.state(job), "waiting": reason or None},
            arguments.output,
        )
    else:
        print("\n".join(job_text.explained(job, time.time())))
    return OK
