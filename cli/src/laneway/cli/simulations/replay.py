"""``replay``: simulates the recorded jobs of a cluster, and compares the prediction with the records."""

from __future__ import annotations

import sys
from argparse import Namespace
from dataclasses import fields, replace

from laneway.cli.exit_codes import INTERRUPTED, OK, USAGE, CommandError
from laneway.cli.interrupt import InterruptFlag
from laneway.cli.output import table, write_object
from laneway.cli.simulations.running import (
    check_report_path,
    operator_config,
    run_simulation,
    topology_levels,
    write_report,
)
from laneway.simulator import (
    Comparison,
    Sharing,
    Simulation,
    compare,
    comparison_as_json,
    costs_as_recorded,
    make_setup,
    operator_as_recorded,
    outcome_of,
    read_nodes,
    read_records,
    report,
)

AS_RECORDED = "model=alone"
"""The recorded running time of a job contains what other jobs on its GPUs cost it."""

SHARING = {field.name for field in fields(Sharing)}
"""Without one of these options, the GPUs are shared as in the cluster."""


def replay(arguments: Namespace) -> int:
    """Simulate the recorded jobs and print the comparison."""
    try:
        configured = operator_config(arguments)
        levels = topology_levels(configured)
        records = read_records(arguments.records, levels)
        setup = make_setup(
            arguments.policy, arguments.placement, [AS_RECORDED, *arguments.option], configured
        )
        nodes = read_nodes(arguments.nodes, levels) if arguments.nodes else records.nodes
    except ValueError as error:
        raise CommandError(str(error), USAGE) from error
    if not nodes:
        raise CommandError(
            f"{arguments.records} has no GPUNodes with GPUs: describe the cluster with --nodes", USAGE
        )
    check_report_path(arguments)
    for reason, count in sorted(records.skipped.items()):
        print(f"{arguments.records}: skipped: {count} ({reason})", file=sys.stderr)
    chosen = {option.partition("=")[0] for option in arguments.option}
    costs = costs_as_recorded(records, setup.costs, chosen)
    simulation = Simulation(
        [record.job for record in records.jobs],
        setup.nodes(nodes) if chosen & SHARING else replace(setup, sharing=None).nodes(nodes),
        setup.policies,
        costs,
        model=setup.model,
        knowledge=setup.knowledge,
        operator=operator_as_recorded(setup.operator, chosen),
    )
    with InterruptFlag() as interrupt:
        run_simulation(simulation, setup.policy, interrupt)
    try:
        comparison = compare(records, simulation, policy=setup.policy, placement=setup.placement, costs=costs)
    except ValueError as error:
        raise CommandError(str(error), USAGE) from error
    if arguments.output:
        write_object(comparison_as_json(comparison), arguments.output)
    else:
        print(_text(comparison))
    figures = report(simulation, policy=setup.policy, placement=setup.placement)
    write_report(
        arguments,
        [outcome_of(simulation, figures)],
        trace=arguments.records.name,
        cluster=arguments.nodes or "the recorded nodes",
        parameters=[
            setup.parameters
            | {f"{field.name} of the costs": getattr(costs, field.name) for field in fields(costs)}
        ],
        interrupted=interrupt.is_set,
    )
    return INTERRUPTED if interrupt.is_set else OK


def _text(comparison: Comparison) -> str:
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
        [
            "LARGEST ERRORS",
            "RECORDED JCT",
            "PREDICTED JCT",
            "RECORDED START",
            "PREDICTED START",
            "PREEMPTIONS",
        ],
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
    summary = (
        f"{comparison.jobs} jobs under {comparison.policy} and {comparison.placement}; "
        f"a start takes {comparison.start_seconds:.1f} s, a restart {comparison.restart_seconds:.1f} s; "
        f"the mean error of a job is {comparison.mean_absolute_jct_error_percent:.1f} %"
    )
    if comparison.unfinished_jobs:
        summary += (
            f"\n{comparison.unfinished_jobs} jobs did not finish in the simulation; the figures exclude them"
        )
    return f"{summary}\n\n{figures}\n\n{worst}"
