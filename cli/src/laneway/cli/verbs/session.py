"""What every verb that talks to a cluster has in common."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from laneway.cli.cluster import Cluster


def add_cluster_options(parser: ArgumentParser) -> None:
    """Add the options that choose the cluster and the namespace."""
    parser.add_argument("-n", "--namespace", help="namespace; the one of the kubeconfig's context by default")
    parser.add_argument("--context", help="context of the kubeconfig")
    parser.add_argument("--kubeconfig", help="kubeconfig file; KUBECONFIG or ~/.kube/config by default")


def add_output_option(parser: ArgumentParser, *forms: str) -> None:
    """Add ``-o`` with the forms that a verb knows beside its text for people."""
    parser.add_argument("-o", "--output", choices=forms, help="write this instead of text for people")


def open_cluster(arguments: Namespace) -> tuple[Cluster, str]:
    """Return the cluster of a command line, and its namespace."""
    cluster = Cluster(kubeconfig=arguments.kubeconfig, context=arguments.context)
    return cluster, arguments.namespace or cluster.namespace
