"""``exec``: runs a command in a worker. kubectl does it: it knows terminals and signals."""

from __future__ import annotations

import os
import shutil
import sys
from argparse import ArgumentParser, Namespace

from laneway.cli.exit_codes import FAILED, CommandError
from laneway.cli.verbs.options import add_job_arguments, open_client
from laneway.sdk.cluster import pods_path
from laneway.sdk.logs import container_of

HELP = "Run a command in a worker, or a shell"
TAKES_COMMAND = True


def add_arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.usage = "%(prog)s NAME [options] [-- COMMAND...]"
    parser.epilog = "Without a command it runs sh."
    parser.add_argument(
        "-w",
        "--worker",
        type=int,
        default=0,
        help="rank of the worker (default: %(default)s); -w is not --watch here",
    )
    parser.add_argument("-c", "--container", help="name of the container (default: trainer, else the first)")
    add_job_arguments(parser)


def run(arguments: Namespace) -> int:
    """Replace this process by kubectl's."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        raise CommandError("exec needs kubectl, and the PATH has none", FAILED)
    client, name = open_client(arguments), f"{arguments.name}-{arguments.worker}"
    pod = client.cluster.get(pods_path(client.namespace, name), what=f"worker {name}")
    terminal = ["-it"] if sys.stdin.isatty() and sys.stdout.isatty() else ["-i"]
    chosen = {"kubeconfig": arguments.kubeconfig, "context": client.cluster.context}
    cluster = [f"--{flag}={os.path.expanduser(value)}" for flag, value in chosen.items() if value]
    sys.stdout.flush()
    os.execv(
        kubectl,
        [
            *("kubectl", *cluster, "exec", *terminal, "-n", client.namespace, name),
            *("-c", container_of(pod, arguments.container), "--", *(arguments.command or ["sh"])),
        ],
    )
