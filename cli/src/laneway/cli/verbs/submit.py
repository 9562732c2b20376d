"""``submit``: create TrainingJobs, and say how to follow them."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from laneway.cli.exit_codes import OK, USAGE, CommandError
from laneway.cli.manifests import read_manifests
from laneway.cli.output import write_object
from laneway.cli.verbs.session import add_cluster_options, add_output_option, open_cluster

HELP = "create the TrainingJobs of a file"


def add(parser: ArgumentParser) -> None:
    """Describe the verb."""
    parser.add_argument("-f", "--file", required=True, help="YAML or JSON; - for standard input")
    add_output_option(parser, "json", "yaml", "name")
    add_cluster_options(parser)


def run(arguments: Namespace) -> int:
    """Create them all; the first that is refused ends it."""
    manifests = read_manifests(arguments.file)
    cluster, default_namespace = open_cluster(arguments)
    for manifest in manifests:
        own = manifest["metadata"].get("namespace")
        if own and arguments.namespace and own != arguments.namespace:
            raise CommandError(
                f"TrainingJob {manifest['metadata'].get('name')} is of namespace {own}, and -n says "
                f"{arguments.namespace}: leave one out",
                USAGE,
            )
        namespace = own or default_namespace
        job = cluster.create(namespace, manifest)
        _say(job, namespace, arguments)
    return OK


def _say(job: dict[str, object], namespace: str, arguments: Namespace) -> None:
    metadata = job["metadata"]
    assert isinstance(metadata, dict)
    name = metadata["name"]
    if arguments.output == "name":
        print(f"trainingjob.laneway.dev/{name}")
    elif arguments.output:
        write_object(job, arguments.output)
    else:
        program = arguments.program
        print(f"TrainingJob {name} created in namespace {namespace}. Next:")
        for verb, why in (
            ("explain", "why it waits"),
            ("logs -f", "what it writes"),
            ("wait", "until it has ended"),
        ):
            print(f"  {f'{program} {verb} {name} -n {namespace}':<60} {why}")
