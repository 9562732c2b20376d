"""``laneway-node-agent order``: orders given at the node's shell, without an API server."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from laneway.api.container_record import ContainerRecord
from laneway.api.names import RECORD_NAME
from laneway.api.orders import Order
from laneway.node_agent.host_folders import HostFolders
from laneway.node_agent.orders.orders_file import BadOrdersError, FileOrder, edited, read_orders
from pydantic import ValidationError

_STARTED = {"pause": Order.PAUSE, "offload": Order.OFFLOAD}
_ENDED = {"resume": Order.PAUSE, "restore": Order.OFFLOAD}
_HELP = {
    "pause": "pause a pod at its next iteration boundary; its memory stays on the GPU",
    "resume": "resume a paused pod",
    "offload": "pause a pod and move its memory to the host",
    "restore": "restore an offloaded pod's memory and resume it",
}


class CommandError(Exception):
    """The request cannot be carried out; the text says why, and what to write instead."""


def run(arguments: Sequence[str]) -> int:
    """Run the command. Return the exit status: 0, or 1 with a sentence on standard error."""
    options = _parser().parse_args(arguments)
    folders = HostFolders(options.root)
    try:
        if options.verb == "list":
            print("\n".join(_lines(folders)) or "no orders")
        elif options.verb in _STARTED:
            print(_start(folders, options.pod, _STARTED[options.verb], options.reason))
        else:
            print(_end(folders, options.pod, options.verb))
    except (CommandError, BadOrdersError) as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{folders.orders}: cannot write: {error.strerror}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="laneway-node-agent order", description="Pause and offload pods of this node."
    )
    parser.add_argument(
        "--root", type=Path, default=Path("/"), help="root of the host's folders (%(default)s)"
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for verb, text in _HELP.items():
        verb_parser = verbs.add_parser(verb, help=text)
        verb_parser.add_argument("pod", metavar="NAMESPACE/POD")
        if verb in _STARTED:
            verb_parser.add_argument(
                "--reason", default="at the node's shell", help="for people (%(default)s)"
            )
    verbs.add_parser("list", help="list the orders from this node's shell and from the cluster")
    return parser


def _start(folders: HostFolders, pod: str, order: Order, reason: str) -> str:
    namespace, name = _split(pod)
    records = [record for record in _records(folders) if (record.namespace, record.pod) == (namespace, name)]
    if not records:
        there = sorted({f"{record.namespace}/{record.pod}" for record in _records(folders)})
        raise CommandError(
            f"no container of {pod} holds a share of this node's GPUs; "
            + (f"pods that do: {', '.join(there)}" if there else "no pod does")
        )
    try:
        new = FileOrder(
            podUID=max(record.pod_uid for record in records),
            namespace=namespace,
            pod=name,
            order=order,
            reason=reason,
        )
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        raise CommandError(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}") from error
    with edited(folders.orders) as orders:
        orders[:] = [other for other in orders if not _is_to(other, namespace, name)] + [new]
    return f"{pod}: {order} ordered"


def _end(folders: HostFolders, pod: str, verb: str) -> str:
    namespace, name = _split(pod)
    with edited(folders.orders) as orders:
        found = [order for order in orders if _is_to(order, namespace, name)]
        if not found:
            raise CommandError(f"{folders.orders} has no order to {pod}; see `laneway-node-agent order list`")
        if found[0].order != _ENDED[verb]:
            other = next(other for other, order in _ENDED.items() if order == found[0].order)
            raise CommandError(f"the order to {pod} is {found[0].order}: write `order {other} {pod}`")
        orders[:] = [order for order in orders if order not in found]
    return f"{pod}: {_ENDED[verb]} order of this node's shell removed"


def _lines(folders: HostFolders) -> list[str]:
    sources = {"shell": read_orders(folders.orders), "cluster": read_orders(folders.saved_orders)}
    names = {record.pod_uid: f"{record.namespace}/{record.pod}" for record in _records(folders)}
    return [
        f"{source}\t{order.order}\t{_name_of(order, names)}\t{order.reason}"
        for source, orders in sources.items()
        for order in orders
    ]


def _name_of(order: FileOrder, names: dict[str, str]) -> str:
    if order.pod:
        return f"{order.namespace}/{order.pod}"
    return names.get(order.pod_uid, order.pod_uid)


def _is_to(order: FileOrder, namespace: str, pod: str) -> bool:
    return (order.namespace, order.pod) == (namespace, pod)


def _split(pod: str) -> tuple[str, str]:
    namespace, slash, name = pod.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise CommandError(f"{pod!r} is not a pod name: write NAMESPACE/POD")
    return namespace, name


def _records(folders: HostFolders) -> list[ContainerRecord]:
    """Return the container records of the node. Unreadable ones are skipped; the agent logs them."""
    records = []
    for path in sorted(folders.containers.glob(f"*/{RECORD_NAME}")):
        try:
            records.append(ContainerRecord.model_validate_json(path.read_bytes()))
        except (OSError, ValidationError):
            continue
    return records
