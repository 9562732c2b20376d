"""``submit``: creates TrainingJobs and prints the next commands."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from laneway.cli.cluster import Object
from laneway.cli.exit_codes import OK, USAGE, CommandError
from laneway.cli.manifests import read_manifests
from laneway.cli.output import write_object
from laneway.cli.verbs.options import add_cluster_options, add_output_option, open_cluster

HELP = "Create the TrainingJobs of a file"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument(
        "-f", "--file", required=True, help="file of TrainingJobs in YAML or JSON; - reads standard input"
    )
    add_output_option(parser, "name")
    add_cluster_options(parser)


def run(arguments: Namespace) -> int:
    """Create them in the file's order, until one is refused."""
    manifests = read_manifests(arguments.file)
    cluster, default_namespace = open_cluster(arguments)
    for manifest in manifests:
        own = manifest["metadata"].get("namespace")
        if own and arguments.namespace and own != arguments.namespace:
            raise CommandError(
                f"TrainingJob {manifest['metadata'].get('name')} is in namespace {own}, but -n is "
                f"{arguments.namespace}: remove one of them",
                USAGE,
            )
        namespace = own or default_namespace
        _report(cluster.create(namespace, manifest), namespace, arguments)
    return OK


def _report(job: Object, namespace: str, arguments: Namespace) -> None:
    name = job["metadata"]["name"]
    if arguments.output == "name":
        print(f"trainingjob.laneway.dev/{name}")
    elif arguments.output:
        write_object(job, arguments.output)
    else:
        print(f"TrainingJob {name} created in namespace {namespace}. Next:")
        for verb, effect in (
            ("explain", "why it does not run yet"),
            ("logs -f", "its output"),
            ("wait", "until it has ended"),
        ):
            print(f"  {f'{arguments.program} {verb} {name} -n {namespace}':<60} {effect}")
