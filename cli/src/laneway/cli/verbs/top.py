"""``top``: what the containers on the GPUs hold and do now."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from laneway.cli.exit_codes import OK
from laneway.cli.gpu_node_format import node_report, session_table
from laneway.cli.verbs.options import add_cluster_options, gpu_nodes, open_client

HELP = "Show the memory and the turns of the containers on the GPUs"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="containers of all namespaces")
    add_cluster_options(parser)


def run(arguments: Namespace) -> int:
    """Show them; those with the most memory first."""
    client = open_client(arguments)
    reports = [node_report(each) for each in gpu_nodes(client)]
    lines = session_table(reports, None if arguments.all_namespaces else client.namespace)
    where = "" if arguments.all_namespaces else f" of namespace {client.namespace}"
    print(lines or f"No container{where} holds a share of a GPU.")
    return OK
