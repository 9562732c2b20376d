"""``pause``, ``unpause``, ``offload``, ``restore``: orders to the running workers of TrainingJobs."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from laneway.api.names import JOB_LABEL
from laneway.api.orders import Order
from laneway.cli.exit_codes import CommandError
from laneway.cli.gpu_node_orders import GPUNodeOrders
from laneway.cli.verbs.options import add_job_arguments, for_each_job
from laneway.sdk import ForbiddenError, TrainingJobClient, UnauthorizedError
from laneway.sdk.cluster import Object, pods_path


@dataclass(frozen=True)
class Verb:
    """One of the verbs; it has the interface of a verb's module."""

    HELP: str
    order: Order
    """The order that the verb gives or withdraws."""

    gives: bool
    """Whether it gives the order; False: it withdraws the order."""

    done: str
    """The past participle that is printed for a worker."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the verb's arguments."""
        if self.gives:
            parser.add_argument(
                "--reason", default="by hand", help="reason shown to the job's users (default: %(default)s)"
            )
        add_job_arguments(parser, several=True)

    def run(self, arguments: Namespace) -> int:
        """Give or withdraw the order, for each job and each of its running workers."""

        def order(client: TrainingJobClient, name: str) -> None:
            client.get_job(name)
            pods = _running(client, name)
            if not pods:
                raise CommandError(f"TrainingJob {name} has no running workers to {self._name}")
            for node, on_node in sorted(_by_node(pods).items()):
                change = (
                    partial(self._give, on_node, arguments.reason)
                    if self.gives
                    else partial(self._withdraw, on_node)
                )
                _change(GPUNodeOrders(client.cluster, node), change, name)
            for pod in pods:
                print(f"{pod['metadata']['name']} on {pod['spec']['nodeName']} {self.done}")

        return for_each_job(arguments, order)

    @property
    def _name(self) -> str:
        return next(name for name, verb in VERBS.items() if verb is self)

    def _give(self, pods: list[Object], reason: str, orders: dict[str, Object]) -> None:
        for pod in pods:
            uid = pod["metadata"]["uid"]
            orders[uid] = {"podUID": uid, "order": self.order.value, "reason": reason[:512]}

    def _withdraw(self, pods: list[Object], orders: dict[str, Object]) -> None:
        for pod in pods:
            name, given = pod["metadata"]["name"], orders.pop(pod["metadata"]["uid"], None)
            if given is None:
                raise CommandError(
                    f"{name} has no order from the command line; withdraw another order where it was given"
                )
            if given["order"] != self.order.value:
                other = next(
                    word for word, verb in VERBS.items() if verb.order == given["order"] and not verb.gives
                )
                raise CommandError(f"the order to {name} is {given['order']}: use {other}")


VERBS: Mapping[str, Verb] = {
    "pause": Verb(
        "Pause TrainingJobs at their next iteration; their memory stays on the GPUs",
        Order.PAUSE,
        True,
        "ordered to pause",
    ),
    "unpause": Verb("Let paused TrainingJobs run again", Order.PAUSE, False, "unpaused"),
    "offload": Verb(
        "Pause TrainingJobs and move their GPU memory to the hosts",
        Order.OFFLOAD,
        True,
        "ordered to offload",
    ),
    "restore": Verb(
        "Restore offloaded TrainingJobs; they run once their memory is back on the GPUs",
        Order.OFFLOAD,
        False,
        "restored",
    ),
}


def _change(orders: GPUNodeOrders, change: Callable[[dict[str, Object]], None], job: str) -> None:
    try:
        orders.change(change)
    except UnauthorizedError:
        raise
    except ForbiddenError as error:
        raise ForbiddenError(
            f"{error}. Orders to workers stand in GPUNodes, which administrators may change; with the rights of a user, "
            f"kubectl laneway suspend {job} ends them"
        ) from error


def _running(client: TrainingJobClient, job: str) -> list[Object]:
    path, what = pods_path(client.namespace), f"pods in namespace {client.namespace}"
    return [
        pod
        for pod in client.cluster.get(path, what=what, labelSelector=f"{JOB_LABEL}={job}")["items"]
        if pod.get("status", {}).get("phase") == "Running" and pod["spec"].get("nodeName")
    ]


def _by_node(pods: list[Object]) -> dict[str, list[Object]]:
    by_node: dict[str, list[Object]] = {}
    for pod in pods:
        by_node.setdefault(pod["spec"]["nodeName"], []).append(pod)
    return by_node
