"""``simulate``: runs policies on a trace of jobs, with the operator's own code."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from laneway.cli.exit_codes import INTERRUPTED, OK, USAGE, CommandError
from laneway.cli.interrupt import InterruptFlag
from laneway.cli.output import write_object
from laneway.cli.verbs.simulation import (
    NODES_HELP,
    add_policy_arguments,
    check_report_path,
    operator_config,
    run_simulation,
    topology_levels,
    write_report,
)
from laneway.scheduling import Node
from laneway.scheduling.config.registry import policy_names
from laneway.simulator import (
    Outcome,
    Report,
    Setup,
    Simulation,
    TraceJob,
    as_json,
    as_table,
    load_trace,
    make_setup,
    outcome_of,
    read_nodes,
    report,
)

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
    """Simulate each policy in turn; Ctrl-C keeps the results so far."""
    try:
        configured = operator_config(arguments)
        given = ",".join(arguments.policy or ())
        names = [name.strip() for name in given.split(",")] if given else [None]
        setups = [make_setup(name, arguments.placement, arguments.option, configured) for name in names]
        nodes = read_nodes(arguments.nodes, topology_levels(configured))
        trace = load_trace(arguments.trace, setups[0].reading)
    except ValueError as error:
        raise CommandError(str(error), USAGE) from error
    if trace.skipped:
        print(f"{arguments.trace}: {trace.summary()}", file=sys.stderr)
    check_report_path(arguments)
    outcomes: list[Outcome] = []
    with InterruptFlag() as interrupt:
        for setup in setups:
            outcomes.append(_simulated(trace.jobs, nodes, setup, interrupt))
            if interrupt.is_set:
                break
    _write_figures([outcome.report for outcome in outcomes], arguments.output)
    write_report(
        arguments,
        outcomes,
        trace=arguments.trace.name,
        cluster=arguments.nodes,
        parameters=[setup.parameters for setup in setups[: len(outcomes)]],
        interrupted=interrupt.is_set,
    )
    if interrupt.is_set:
        print("interrupted: the last line shows the results so far", file=sys.stderr)
        return INTERRUPTED
    return OK


def _simulated(
    trace: Sequence[TraceJob], nodes: Sequence[Node], setup: Setup, interrupt: InterruptFlag
) -> Outcome:
    simulation = Simulation(
        setup.jobs(trace),
        setup.nodes(nodes),
        setup.policies,
        setup.costs,
        model=setup.model,
        knowledge=setup.knowledge,
        operator=setup.operator,
    )
    run_simulation(simulation, setup.policy, interrupt)
    return outcome_of(simulation, report(simulation, policy=setup.policy, placement=setup.placement))


def _write_figures(reports: Sequence[Report], output: str | None) -> None:
    if output:
        write_object(as_json(reports), output)
        return
    print(as_table(reports))
    for item in reports:
        for line in item.unfinished:
            print(f"{item.policy}: unfinished: {line}")
