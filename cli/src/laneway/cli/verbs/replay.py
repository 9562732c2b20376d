"""``replay``: simulates the recorded jobs of a cluster, and compares the prediction with the records."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from laneway.cli.verbs.simulation_options import NODES_HELP, add_policy_arguments, needing_the_simulator

HELP = "Simulate the recorded jobs of a cluster and compare"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument(
        "--records",
        required=True,
        type=Path,
        metavar="FILE",
        help="JSON of kubectl get trainingjobs,gpunodes,nodes,priorityclasses,events.events.k8s.io -A -o json",
    )
    parser.add_argument("--nodes", help=f"{NODES_HELP} (default: the GPUNodes of the records)")
    add_policy_arguments(parser, "order policy of the cluster's operator")


def run(arguments: Namespace) -> int:
    """Run it, if the simulator is installed."""
    with needing_the_simulator("replay"):
        from laneway.cli.simulations.replay import replay
    return replay(arguments)
