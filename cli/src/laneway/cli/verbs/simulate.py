"""``simulate``: runs policies on a trace of jobs, with the operator's own code."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from laneway.cli.verbs.simulation_options import NODES_HELP, add_policy_arguments, needing_the_simulator
from laneway.scheduling.config.registry import policy_names

HELP = "Run scheduling policies on a trace of jobs"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument(
        "--trace", required=True, type=Path, help="file of jobs, in one of the formats of docs/traces.md"
    )
    parser.add_argument("--nodes", required=True, help=NODES_HELP)
    add_policy_arguments(
        parser,
        f"order policies or presets, separated by commas: {', '.join(policy_names())}; may be repeated",
        several=True,
    )


def run(arguments: Namespace) -> int:
    """Run it, if the simulator is installed."""
    with needing_the_simulator("simulate"):
        from laneway.cli.simulations.simulate import simulate
    return simulate(arguments)
