"""``nodes``: the nodes with GPUs, as their agents report them."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from laneway.cli.exit_codes import OK
from laneway.cli.gpu_node_format import gpu_table, node_report, node_table
from laneway.cli.output import write_object
from laneway.cli.verbs.options import add_cluster_options, add_output_option, gpu_nodes, open_client

HELP = "List the nodes with GPUs; -o wide lists their GPUs"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    add_output_option(parser, "wide", "name")
    add_cluster_options(parser)


def run(arguments: Namespace) -> int:
    """List them by name."""
    found = gpu_nodes(open_client(arguments))
    if arguments.output in ("json", "yaml"):
        write_object({"apiVersion": "v1", "kind": "List", "items": found}, arguments.output)
    elif arguments.output == "name":
        for each in found:
            print(f"gpunode.laneway.dev/{each['metadata']['name']}")
    elif not found:
        print("No node has reported GPUs: laneway doctor says why.")
    else:
        reports = [node_report(each) for each in found]
        print(gpu_table(reports) if arguments.output == "wide" else node_table(reports))
    return OK
