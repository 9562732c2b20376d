"""What ``simulate`` and ``replay`` share: the operator's file, the run with its progress bar, and the report's page."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence

from laneway.api.config_file import ConfigError, parse_config
from laneway.cli.exit_codes import USAGE, CommandError
from laneway.cli.interrupt import InterruptFlag
from laneway.cli.progress_bar import ProgressBar
from laneway.scheduling.config.operator_config import OperatorConfig
from laneway.scheduling.model.topology_levels import DEFAULT_LEVELS
from laneway.simulator import Outcome, Simulation, html_page


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
