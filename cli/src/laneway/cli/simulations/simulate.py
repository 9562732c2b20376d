"""``simulate``: runs policies on a trace of jobs, with the operator's own code."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from laneway.cli.exit_codes import INTERRUPTED, OK, USAGE, CommandError
from laneway.cli.interrupt import InterruptFlag
from laneway.cli.output import write_object
from laneway.cli.simulations.running import (
    check_report_path,
    operator_config,
    run_simulation,
    topology_levels,
    write_report,
)
from laneway.scheduling import Node
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


def simulate(arguments: Namespace) -> int:
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
        print("interrupted: the last policy shows the results so far", file=sys.stderr)
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
