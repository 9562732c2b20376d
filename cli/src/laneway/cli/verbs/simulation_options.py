"""The policy flags of ``simulate`` and ``replay``, and what they say where there is no simulator."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from laneway.cli.exit_codes import USAGE, CommandError
from laneway.cli.verbs.options import add_output_option
from laneway.scheduling.config.registry import DEFAULTS, PLACEMENT

NODES_HELP = (
    "nodes such as 8x8, or 4x8:A100:80,2x4:T4:16 with model and memory in GiB; or a file: the JSON of kubectl get "
    "gpunodes,nodes, or a CSV of Alibaba's nodes or of a Tiresias cluster"
)


def add_policy_arguments(parser: ArgumentParser, policy_help: str, *, several: bool = False) -> None:
    """Add the policy flags, ``-o`` and ``--report``; with several, ``--policy`` is a list and may be repeated."""
    parser.add_argument(
        "--policy",
        action="append" if several else "store",
        help=f"{policy_help} (default: the one of --operator's file, else {DEFAULTS['order'].name})",
    )
    parser.add_argument(
        "--placement",
        metavar="POLICY",
        help=f"placement policy: {', '.join(PLACEMENT.names())} (default: the preset's, else {DEFAULTS['placement'].name})",
    )
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="parameter of a policy, cost or model, such as promotion_factor=4, thresholds_gpu_seconds=3250,7200, "
        "weights=a:2,b:1, restart_seconds=30 or model=gavel; may be repeated",
    )
    parser.add_argument(
        "--operator",
        type=Path,
        metavar="FILE",
        help="model the operator with this operator.yaml: its policies, the pace of its decisions and writes, rollbacks and "
        "back-offs (default: an ideal operator, which takes no time)",
    )
    add_output_option(parser)
    parser.add_argument(
        "--report",
        type=Path,
        metavar="FILE",
        help="also write an HTML page with plots, which needs no network",
    )


@contextmanager
def needing_the_simulator(verb: str) -> Iterator[None]:
    """Say what to install where an import within finds no simulator.

    Raises:
        CommandError: it is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in ("laneway.simulator", "numpy", "scipy"):
            raise
        raise CommandError(
            f"{verb} needs the simulator: run pip install ./simulator in a clone of Laneway's repository",
            USAGE,
        ) from error
