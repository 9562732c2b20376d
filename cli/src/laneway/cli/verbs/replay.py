"""``replay``: simulate what a cluster recorded, and say how far the prediction is from what happened."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from dataclasses import fields
from pathlib import Path

from laneway.cli.exit_codes import INTERRUPTED, OK, USAGE, CommandError
from laneway.cli.interruption import Interruption
from laneway.cli.output import table, write_object
from laneway.cli.progress_bar import ProgressBar
from laneway.cli.verbs.simulate import add_policies, check_writable, write_page
from laneway.scheduling.registry import DEFAULTS
from laneway.simulator import (
    Comparison,
    Sharing,
    Simulation,
    compared,
    comparison_as_json,
    costs_as_recorded,
    html_page,
    make_setup,
    outcome_of,
    read_nodes,
    read_records,
    report,
)

HELP = "simulate what a cluster recorded and compare"

AS_RECORDED = "model=alone"
"""The time that a job ran in the cluster contains what company on its GPUs cost it."""

SHARING = {field.name for field in fields(Sharing)}
"""Unless one of these is an option, the GPUs are shared as the cluster has them."""


def add(parser: ArgumentParser) -> None:
    """Describe the verb."""
    parser.add_argument(
        "--records",
        required=True,
        type=Path,
        metavar="FILE",
        help="the JSON of kubectl get trainingjobs,gpunodes,priorityclasses,events.events.k8s.io -A -o json",
    )
    parser.add_argument(
        "--nodes", help="instead of the GPUNodes of the records: such as 8x8, or a file as for simulate"
    )
    parser.add_argument(
        "--policy",
        default=DEFAULTS["order"].name,
        help="the order policy of the cluster's operator; %(default)s by default",
    )
    add_policies(parser)


def run(arguments: Namespace) -> int:
    """Simulate the recorded jobs as the cluster would have run them."""
    try:
        records = read_records(arguments.records)
        setup = make_setup(arguments.policy, arguments.placement, [AS_RECORDED, *arguments.option])
        nodes = read_nodes(arguments.nodes) if arguments.nodes else records.nodes
    except ValueError as error:
        raise CommandError(str(error), USAGE) from error
    if not nodes:
        raise CommandError(f"{arguments.records} has no GPUNodes: give the cluster with --nodes", USAGE)
    if arguments.report is not None:
        check_writable(arguments.report)
    for reason, count in sorted(records.left_out.items()):
        print(f"{arguments.records}: left out: {count} ({reason})", file=sys.stderr)
    chosen = {option.partition("=")[0] for option in arguments.option}
    costs = costs_as_recorded(records, setup.costs, chosen)
    jobs = [record.job for record in records.jobs]
    simulation = Simulation(
        jobs,
        nodes if setup.sharing is None or not chosen & SHARING else setup.sharing.shared(nodes),
        setup.policies,
        costs,
        model=setup.model,
        knowledge=setup.knowledge,
    )
    bar = ProgressBar(setup.policy, sys.stderr)
    with Interruption() as interruption:
        while not interruption.came and simulation.step():
            bar.show(simulation.finished, len(jobs))
    bar.clear()
    try:
        comparison = compared(
            records, simulation, policy=setup.policy, placement=setup.placement, costs=costs
        )
    except ValueError as error:
        raise CommandError(str(error), USAGE) from error
    if arguments.output:
        write_object(comparison_as_json(comparison), arguments.output)
    else:
        print(_text(comparison))
    if arguments.report is not None:
        figures = report(simulation, policy=setup.policy, placement=setup.placement)
        page = html_page(
            [outcome_of(simulation, figures)],
            trace=arguments.records.name,
            cluster=arguments.nodes or "the recorded nodes",
            parameters=[
                setup.parameters
                | {f"{field.name} of the costs": getattr(costs, field.name) for field in fields(costs)}
            ],
            interrupted=interruption.came,
        )
        write_page(page, arguments.report)
    return INTERRUPTED if interruption.came else OK


def _text(comparison: Comparison) -> str:
    """Return the comparison for people."""
    figures = table(
        ["", "RECORDED", "PREDICTED", "ERROR"],
        [
            [
                "average JCT",
                f"{comparison.recorded_average_jct_seconds:,.1f} s",
                f"{comparison.predicted_average_jct_seconds:,.1f} s",
                f"{comparison.average_jct_error_percent:+.1f} %",
            ],
            [
                "makespan",
                f"{comparison.recorded_makespan_seconds:,.1f} s",
                f"{comparison.predicted_makespan_seconds:,.1f} s",
                f"{comparison.makespan_error_percent:+.1f} %",
            ],
            ["preemptions", str(comparison.recorded_preemptions), str(comparison.predicted_preemptions), ""],
        ],
    )
    worst = table(
        ["FURTHEST OFF", "RECORDED JCT", "PREDICTED JCT", "RECORDED START", "PREDICTED START", "PREEMPTIONS"],
        [
            [
                job.job,
                f"{job.recorded_jct_seconds:,.1f} s",
                f"{job.predicted_jct_seconds:,.1f} s",
                f"{job.recorded_start_seconds:,.1f} s",
                f"{job.predicted_start_seconds:,.1f} s",
                f"{job.recorded_preemptions} / {job.predicted_preemptions}",
            ]
            for job in comparison.worst
        ],
    )
    said = (
        f"{comparison.jobs} jobs under {comparison.policy} and {comparison.placement}; "
        f"a start takes {comparison.start_seconds:.1f} s, a restart {comparison.restart_seconds:.1f} s; "
        f"single jobs are off by {comparison.mean_absolute_jct_error_percent:.1f} % on average"
    )
    unfinished = (
        f"\n{comparison.unfinished_jobs} jobs did not finish in the simulation: they are in no figure"
    )
    return f"{said}{unfinished if comparison.unfinished_jobs else ''}\n\n{figures}\n\n{worst}"
