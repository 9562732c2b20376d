"""Arguments that several verbs share, and the cluster that they choose."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from laneway.cli.cluster import Cluster, Object


def add_job_arguments(parser: ArgumentParser, *, output: bool = False) -> None:
    """Add the arguments of a verb on one TrainingJob: its name, the cluster, and ``-o`` if the verb has it."""
    parser.add_argument("name", help="name of the TrainingJob")
    if output:
        add_output_option(parser)
    add_cluster_options(parser)


def add_cluster_options(parser: ArgumentParser) -> None:
    """Add the options that choose the cluster and the namespace."""
    parser.add_argument(
        "-n",
        "--namespace",
        help="namespace of the request (default: the kubeconfig context's namespace; in a pod, the pod's)",
    )
    parser.add_argument("--context", help="name of the kubeconfig context to use")
    parser.add_argument(
        "--kubeconfig", help="path to the kubeconfig file (default: $KUBECONFIG, else ~/.kube/config)"
    )


def add_output_option(parser: ArgumentParser, *more: str) -> None:
    """Add ``-o``, with formats beyond JSON and YAML if a verb has them."""
    parser.add_argument("-o", "--output", choices=["json", "yaml", *more], help="output format")


def open_cluster(arguments: Namespace) -> tuple[Cluster, str]:
    """Return the cluster of a command line, and its namespace."""
    cluster = Cluster(kubeconfig=arguments.kubeconfig, context=arguments.context)
    return cluster, arguments.namespace or cluster.namespace


def read_job(arguments: Namespace) -> Object:
    """Return the TrainingJob that a command line names."""
    cluster, namespace = open_cluster(arguments)
    return cluster.read(namespace, arguments.name)
