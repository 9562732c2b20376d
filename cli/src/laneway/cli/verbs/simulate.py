"""``simulate``: run policies on a trace of jobs, with the very code that the operator runs."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from laneway.cli.exit_codes import INTERRUPTED, OK, USAGE, CommandError
from laneway.cli.interruption import Interruption
from laneway.cli.output import write_object
from laneway.cli.progress_bar import ProgressBar
from laneway.scheduling import Node
from laneway.scheduling.registry import DEFAULTS, PLACEMENT, policy_names
from laneway.simulator import (
    Outcome,
    Report,
    Setup,
    Simulation,
    TraceJob,
    as_json,
    as_table,
    html_page,
    load_trace,
    make_setup,
    outcome_of,
    read_nodes,
    report,
)

HELP = "run policies on a trace of jobs"


def add(parser: ArgumentParser) -> None:
    """Describe the verb."""
    parser.add_argument(
        "--trace", required=True, type=Path, help="file of jobs, in one of the formats of docs/traces.md"
    )
    parser.add_argument(
        "--policy",
        default=DEFAULTS["order"].name,
        help=f"order policies or presets, separated by commas: {', '.join(policy_names())}; "
        "%(default)s by default",
    )
    parser.add_argument(
        "--nodes",
        required=True,
        help="such as 8x8, or 4x8:A100:80,2x4:T4:16 (model, memory in GiB); or a file: CSV of Alibaba's node lists, or "
        "the JSON of kubectl get gpunodes",
    )
    add_policies(parser)


def add_policies(parser: ArgumentParser) -> None:
    """Describe what chooses the policies but for their order, and what is written."""
    parser.add_argument(
        "--placement",
        metavar="POLICY",
        help=f"placement policy: {', '.join(PLACEMENT.names())}; "
        f"{DEFAULTS['placement'].name} by default, or as the preset has it",
    )
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a parameter of a policy, cost or model, such as promotion_factor=4, thresholds_gpu_seconds=3250,7200, "
        "weights=a:2,b:1, restart_seconds=30 or model=gavel; may be given again",
    )
    parser.add_argument("-o", "--output", choices=["json", "yaml"], help="write this instead of a table")
    parser.add_argument(
        "--report",
        type=Path,
        metavar="FILE",
        help="write a page with plots as well, which needs no other file",
    )


def run(arguments: Namespace) -> int:
    """Simulate each policy in turn; Ctrl-C leaves what is done so far."""
    try:
        names = [name.strip() for name in arguments.policy.split(",")]
        setups = [make_setup(name, arguments.placement, arguments.option) for name in names]
        nodes = read_nodes(arguments.nodes)
        trace = load_trace(arguments.trace, setups[0].reading)
    except ValueError as error:
        raise CommandError(str(error), USAGE) from error
    if trace.left_out:
        print(f"{arguments.trace}: {trace.summary()}", file=sys.stderr)
    if arguments.report is not None:
        check_writable(arguments.report)
    outcomes: list[Outcome] = []
    with Interruption() as interruption:
        for setup in setups:
            outcomes.append(simulated(trace.jobs, nodes, setup, interruption))
            if interruption.came:
                break
    write_reports([outcome.report for outcome in outcomes], arguments.output)
    if arguments.report is not None:
        page = html_page(
            outcomes,
            trace=arguments.trace.name,
            cluster=arguments.nodes,
            parameters=[setup.parameters for setup in setups[: len(outcomes)]],
            interrupted=interruption.came,
        )
        write_page(page, arguments.report)
    if interruption.came:
        print("interrupted: the last line is what was done so far", file=sys.stderr)
        return INTERRUPTED
    return OK


def simulated(
    trace: Sequence[TraceJob], nodes: Sequence[Node], setup: Setup, interruption: Interruption
) -> Outcome:
    """Return what comes of a setup, up to its end or to the interruption."""
    shared = nodes if setup.sharing is None else setup.sharing.shared(nodes)
    simulation = Simulation(
        trace, shared, setup.policies, setup.costs, model=setup.model, knowledge=setup.knowledge
    )
    bar = ProgressBar(setup.policy, sys.stderr)
    try:
        while not interruption.came and simulation.step():
            bar.show(simulation.finished, len(trace))
    except ValueError as error:
        raise CommandError(str(error), USAGE) from error
    finally:
        bar.clear()
    return outcome_of(simulation, report(simulation, policy=setup.policy, placement=setup.placement))


def write_reports(reports: Sequence[Report], form: str | None) -> None:
    """Write the figures as a table, or in the form that was asked for."""
    if form:
        write_object(as_json(reports), form)
        return
    print(as_table(reports))
    for item in reports:
        for line in item.unfinished:
            print(f"{item.policy}: unfinished: {line}")


def check_writable(path: Path) -> None:
    """Refuse a file that cannot be written before hours are spent on what it is to hold.

    Raises:
        CommandError: there is no folder for it, or it is a folder itself.
    """
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise CommandError(f"--report {path}: write the name of a file in a folder that is there", USAGE)


def write_page(page: str, path: Path) -> None:
    """Write the page.

    Raises:
        CommandError: the file cannot be written.
    """
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}") from error
