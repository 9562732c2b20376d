"""What ``simulate`` and ``replay`` share: policy flags, the run with its progress bar, and the report's page."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path

from laneway.api.config_file import ConfigError, parse_config
from laneway.cli.exit_codes import USAGE, CommandError
from laneway.cli.interrupt import InterruptFlag
from laneway.cli.progress_bar import ProgressBar
from laneway.cli.verbs.options import add_output_option
from laneway.scheduling.config.operator_config import OperatorConfig
from laneway.scheduling.config.registry import DEFAULTS, PLACEMENT
from laneway.scheduling.model.topology_levels import DEFAULT_LEVELS
from laneway.simulator import Outcome, Simulation, html_page

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


def operator_config(arguments: Namespace) -> OperatorConfig | None:
    """Return the configuration of ``--operator``, if it was given.

    Raises:
        CommandError: it cannot be read, or something in it is wrong.
    """
    path = arguments.operator
    if path is None:
        return None
    try:
        return parse_config(path.read_text(encoding="utf-8"), OperatorConfig, str(path))
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}", USAGE) from error
    except (ConfigError, ValueError) as error:
        raise CommandError(str(error), USAGE) from error


def topology_levels(configured: OperatorConfig | None) -> Sequence[str]:
    """Return the labels of racks and zones, from the widest level to the narrowest: the configured ones, or the default."""
    return DEFAULT_LEVELS if configured is None else configured.scheduling.topology.levels


def check_report_path(arguments: Namespace) -> None:
    """Refuse a ``--report`` that cannot be written, before a long simulation.

    Raises:
        CommandError: its folder does not exist, or it is a folder itself.
    """
    path = arguments.report
    if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
        raise CommandError(f"--report {path}: write the name of a file in an existing folder", USAGE)


def run_simulation(simulation: Simulation, policy: str, interrupt: InterruptFlag) -> None:
    """Run a simulation to its end or to Ctrl-C, with a progress bar.

    Raises:
        CommandError: the trace does not fit the chosen model.
    """
    bar = ProgressBar(policy, sys.stderr)
    try:
        while not interrupt.is_set and simulation.step():
            bar.show(simulation.finished, simulation.submitted)
    except ValueError as error:
        raise CommandError(str(error), USAGE) from error
    finally:
        bar.clear()


def write_report(
    arguments: Namespace,
    outcomes: Sequence[Outcome],
    *,
    trace: str,
    cluster: str,
    parameters: Sequence[Mapping[str, object]],
    interrupted: bool,
) -> None:
    """Write the page of ``--report``, if it was requested.

    Raises:
        CommandError: the file cannot be written.
    """
    if arguments.report is None:
        return
    page = html_page(outcomes, trace=trace, cluster=cluster, parameters=parameters, interrupted=interrupted)
    try:
        arguments.report.write_text(page, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"cannot write {arguments.report}: {error.strerror}") from error
