"""``pause``, ``resume``, ``offload``, ``restore``: orders to the running workers of TrainingJobs."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from laneway.api.names import JOB_LABEL
from laneway.api.orders import Order
from laneway.cli.cluster import Cluster, Object
from laneway.cli.exit_codes import FAILED, OK, CommandError
from laneway.cli.node_orders import NodeOrders
from laneway.cli.verbs.session import add_cluster_options, open_cluster


@dataclass(frozen=True)
class Verb:
    """One of the verbs: a module for the parser."""

    HELP: str
    order: Order
    """What it gives, or ends."""

    gives: bool
    done: str
    """What is said of a worker, after its name."""

    def add(self, parser: ArgumentParser) -> None:
        """Describe the verb."""
        parser.add_argument("name", nargs="+", help="TrainingJobs")
        if self.gives:
            parser.add_argument(
                "--reason", default="by hand", help="what its users are told (default: %(default)s)"
            )
        add_cluster_options(parser)

    def run(self, arguments: Namespace) -> int:
        """Give or end the order, for each job and each of its workers that runs."""
        cluster, namespace = open_cluster(arguments)
        for name in arguments.name:
            cluster.read(namespace, name)
            pods = _running(cluster, namespace, name)
            if not pods:
                raise CommandError(
                    f"TrainingJob {name} has no running workers: there is nothing to {self._word}", FAILED
                )
            for node, on_node in sorted(_by_node(pods).items()):
                change = (
                    partial(self._give, on_node, arguments.reason)
                    if self.gives
                    else partial(self._end, on_node)
                )
                NodeOrders(cluster, node).change(change)
            for pod in pods:
                print(f"{pod['metadata']['name']} on {pod['spec']['nodeName']} {self.done}")
        return OK

    @property
    def _word(self) -> str:
        return self.HELP.split()[0]

    def _give(self, pods: list[Object], reason: str, orders: dict[str, Object]) -> None:
        for pod in pods:
            uid = pod["metadata"]["uid"]
            orders[uid] = {"podUID": uid, "order": self.order.value, "reason": reason[:512]}

    def _end(self, pods: list[Object], orders: dict[str, Object]) -> None:
        for pod in pods:
            name, given = pod["metadata"]["name"], orders.pop(pod["metadata"]["uid"], None)
            if given is None:
                raise CommandError(
                    f"the command line gave no order to {name}; another's is ended where it was given"
                )
            if given["order"] != self.order.value:
                other = next(
                    word for word, verb in VERBS.items() if verb.order == given["order"] and not verb.gives
                )
                raise CommandError(f"the order to {name} is {given['order']}: write {other}")


VERBS: Mapping[str, Verb] = {
    "pause": Verb(
        "pause a job at its next iteration; its memory stays on the GPUs", Order.PAUSE, True, "is to pause"
    ),
    "resume": Verb("resume a paused job", Order.PAUSE, False, "may run"),
    "offload": Verb(
        "offload a job: pause it, and move its memory to the hosts of its workers",
        Order.OFFLOAD,
        True,
        "is to pause and to move its memory to the host",
    ),
    "restore": Verb(
        "restore an offloaded job: it runs again where there is room for its memory",
        Order.OFFLOAD,
        False,
        "may have its memory back and run",
    ),
}


def _running(cluster: Cluster, namespace: str, job: str) -> list[Object]:
    return [
        pod
        for pod in cluster.pods(namespace, f"{JOB_LABEL}={job}")
        if pod.get("status", {}).get("phase") == "Running" and pod["spec"].get("nodeName")
    ]


def _by_node(pods: list[Object]) -> dict[str, list[Object]]:
    by_node: dict[str, list[Object]] = {}
    for pod in pods:
        by_node.setdefault(pod["spec"]["nodeName"], []).append(pod)
    return by_node
