"""``top``: what the containers on the GPUs hold and do now."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Hashable, Iterable, Iterator, Sequence

from laneway.cli.exit_codes import OK
from laneway.cli.gpu_node_format import (
    ContainerOnGPU,
    container_table,
    containers_on_gpus,
    ended,
    node_report,
)
from laneway.cli.listing import Change, Listing, changed_objects
from laneway.cli.verbs.options import (
    add_cluster_options,
    add_output_option,
    add_watch_option,
    gpu_nodes,
    open_client,
    watch_gpu_nodes,
)
from laneway.sdk.cluster import Object

HELP = "Show the memory and the turns of the containers on the GPUs"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.epilog = (
        "-o json and -o yaml print, for each container on a GPU, its entry of status.gpus[].sessions in the GPUNode, "
        "with the node and with the index and the uuid of the GPU."
    )
    add_watch_option(parser, "show them, then each that changes; the table shows one that is gone as Ended")
    add_output_option(parser, "wide")
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="containers of all namespaces")
    add_cluster_options(parser)


def run(arguments: Namespace) -> int:
    """Show them; those with the most memory first."""
    client = open_client(arguments)
    namespace = None if arguments.all_namespaces else client.namespace

    listing = Listing[ContainerOnGPU](
        table=lambda found, wide: container_table(found, namespaces=namespace is None, wide=wide),
        document=lambda each: each.document,
        envelope={},
        gone=ended,
    )
    if arguments.watch:
        listing.show_changes(changed_containers(watch_gpu_nodes(client), namespace), arguments.output)
        return OK
    where = f" of namespace {namespace}" if namespace else ""
    empty = f"No container{where} holds a share of a GPU."
    listing.show(_containers(gpu_nodes(client), namespace), arguments.output, empty=empty)
    return OK


def changed_containers(
    snapshots: Iterable[Sequence[Object]], namespace: str | None
) -> Iterator[Change[ContainerOnGPU]]:
    """Yield all containers, then what changes of them. Of a large cluster only the nodes that have changed are read."""
    known: dict[str, dict[Hashable, ContainerOnGPU]] = {}
    for nodes in changed_objects(snapshots, lambda node: node["metadata"]):
        before: dict[Hashable, ContainerOnGPU] = {}
        for node in (*nodes.items, *nodes.gone):
            before |= known.pop(node["metadata"]["name"], {})
        found = {each.identity: each for each in _containers(nodes.items, namespace)}
        for identity, each in found.items():
            known.setdefault(each.report.name, {})[identity] = each
        yield Change(
            [
                each
                for identity, each in found.items()
                if identity not in before or before[identity].document != each.document
            ],
            [each for identity, each in before.items() if identity not in found],
        )


def _containers(nodes: Iterable[Object], namespace: str | None) -> list[ContainerOnGPU]:
    return containers_on_gpus([node_report(each) for each in nodes], namespace)
