"""Arguments that several verbs share, and the client that they choose."""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from laneway.cli.exit_codes import OK, CommandError
from laneway.cli.output import report
from laneway.sdk import (
    ForbiddenError,
    LanewayError,
    TrainingJobClient,
    UnauthorizedError,
    UnreachableError,
)
from laneway.sdk.cluster import Object, gpu_nodes_path
from laneway.sdk.watch import ObjectWatch

_GPU_NODES = "GPUNodes"
"""As errors name them."""


def add_job_arguments(parser: ArgumentParser, *, several: bool = False) -> None:
    """Add the arguments of a verb on one TrainingJob, or on several: the names, and the cluster."""
    kind = (
        "names of the TrainingJobs; one that fails does not stop the others"
        if several
        else "name of the TrainingJob"
    )
    name = parser.add_argument("name", nargs="+" if several else None, help=kind)
    name.completer = _job_names  # type: ignore[attr-defined]  # argcomplete's hook
    add_cluster_options(parser)


def add_cluster_options(parser: ArgumentParser, *, default: str | None = SUPPRESS) -> None:
    """Add the options that choose the cluster and the namespace; a verb's own leave those before the verb in force."""
    parser.add_argument(
        "-n",
        "--namespace",
        default=default,
        help="namespace of the request (default: the context's; with a pod's service account, the pod's)",
    )
    parser.add_argument("--context", default=default, help="name of the kubeconfig context to use")
    parser.add_argument(
        "--kubeconfig",
        default=default,
        help="path to the kubeconfig file (default: $KUBECONFIG, else ~/.kube/config, else the pod's service account)",
    )


def add_output_option(parser: ArgumentParser, *more: str) -> None:
    """Add ``-o``, with formats beyond JSON and YAML if a verb has them."""
    parser.add_argument("-o", "--output", choices=["json", "yaml", *more], help="output format")


def add_watch_option(parser: ArgumentParser, help_text: str) -> None:
    """Add ``-w``, which goes on after the first answer."""
    parser.add_argument("-w", "--watch", action="store_true", help=help_text)


def add_selection_options(parser: ArgumentParser) -> None:
    """Add the options of a verb on many TrainingJobs: which of them, and the cluster."""
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="TrainingJobs of all namespaces")
    parser.add_argument(
        "-l", "--selector", metavar="LABELS", help="label selector, such as team=a or 'stage in (x, y)'"
    )
    add_cluster_options(parser)


def open_client(arguments: Namespace) -> TrainingJobClient:
    """Return the client of a command line's cluster and namespace."""
    return TrainingJobClient(
        namespace=arguments.namespace, kubeconfig=arguments.kubeconfig, context=arguments.context
    )


def for_each_job(arguments: Namespace, act: Callable[[TrainingJobClient, str], None]) -> int:
    """Act on each TrainingJob of the command line, in its order. As kubectl does, go on after a failure, and report all at the end.

    What no other job can escape ends it: a cluster that does not answer, or that refuses the credentials.

    Returns:
        The exit code: that of the first failure.
    """
    client = open_client(arguments)
    failures: list[CommandError | LanewayError] = []
    try:
        for name in arguments.name:
            try:
                act(client, name)
            except (CommandError, LanewayError) as error:
                failures.append(error)
                if isinstance(error, (UnauthorizedError, UnreachableError)):
                    break
    finally:  # also where the user interrupts it
        codes = [report(arguments.program, error) for error in failures]
    return codes[0] if codes else OK


def _job_names(parsed_args: Namespace, **_: object) -> Sequence[str]:
    """Return the names that a shell may complete; none where the cluster cannot be asked."""
    try:
        return [job.name for job in open_client(parsed_args).list_jobs()]
    except LanewayError:
        return ()


def gpu_nodes(client: TrainingJobClient) -> list[Object]:
    """Return the GPUNodes, by name.

    Raises:
        ForbiddenError: the user may not read them, and the message says which role allows it.
    """
    with _advice_on_rights():
        return _by_name(client.cluster.get(gpu_nodes_path(), what=_GPU_NODES)["items"])


def watch_gpu_nodes(client: TrainingJobClient) -> Iterator[list[Object]]:
    """Yield the GPUNodes, by name, now and after each change.

    Raises:
        ForbiddenError: as ``gpu_nodes``.
    """
    with _advice_on_rights():
        yield from map(_by_name, ObjectWatch(client.cluster, gpu_nodes_path(), _GPU_NODES).snapshots())


def _by_name(objects: Iterable[Object]) -> list[Object]:
    return sorted(objects, key=lambda each: str(each["metadata"]["name"]))


@contextmanager
def _advice_on_rights() -> Iterator[None]:
    try:
        yield
    except UnauthorizedError:
        raise
    except ForbiddenError as error:
        raise ForbiddenError(
            f"{error}. GPUNodes show the pods of all tenants: an administrator may bind you to the ClusterRole "
            "that ends with gpunodes-view"
        ) from error
