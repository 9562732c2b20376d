"""``simulate``: run policies on a trace of jobs, with the very code that the operator runs."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from dataclasses import fields, replace
from pathlib import Path
from typing import TextIO

from laneway.cli.exit_codes import INTERRUPTED, OK, USAGE, CommandError
from laneway.cli.output import write_object
from laneway.scheduling import Policies
from laneway.scheduling.registry import ORDER, PLACEMENT, PREEMPTION, parameters, policies
from laneway.simulator import Costs, Report, Simulation, as_json, as_table, make_nodes, read_trace, report

HELP = "run policies on a trace of jobs"
_BAR_WIDTH = 30


def add(parser: ArgumentParser) -> None:
    """Describe the verb."""
    parser.add_argument(
        "--trace", required=True, type=Path, help="CSV of Laneway's own format or of Tiresias'"
    )
    parser.add_argument(
        "--policy",
        default="tiresias-las",
        help=f"order policies, separated by commas: {', '.join(sorted(ORDER))}",
    )
    parser.add_argument("--placement", default="best-fit", choices=sorted(PLACEMENT), help="placement policy")
    parser.add_argument(
        "--nodes", required=True, help="such as 8x8, or 4x8:A100:80,2x4:T4:16 (model, memory in GiB)"
    )
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a parameter of a policy or a cost, such as promotion_factor=4, thresholds_gpu_seconds=3250,7200, "
        "min_run_seconds=0 or restart_seconds=30; may be given again",
    )
    parser.add_argument("-o", "--output", choices=["json", "yaml"], help="write this instead of a table")


def run(arguments: Namespace) -> int:
    """Simulate each policy in turn; Ctrl-C leaves what is done so far."""
    try:
        trace = read_trace(arguments.trace)
        nodes = make_nodes(arguments.nodes)
        names = [name.strip() for name in arguments.policy.split(",")]
        chosen = [(name, *configured(name, arguments.placement, arguments.option)) for name in names]
    except ValueError as error:
        raise CommandError(str(error), USAGE) from error
    reports: list[Report] = []
    code = OK
    for name, policy, costs in chosen:
        simulation = Simulation(trace, nodes, policy, costs)
        bar = _Bar(name, sys.stderr)
        try:
            simulation.run(bar.show)
        except KeyboardInterrupt:
            code = INTERRUPTED
        bar.clear()
        reports.append(report(simulation, policy=name, placement=arguments.placement))
        if code == INTERRUPTED:
            break
    _write(reports, arguments.output)
    if code == INTERRUPTED:
        print("interrupted: the last line is what was done so far", file=sys.stderr)
    return code


def configured(order: str, placement: str, options: list[str]) -> tuple[Policies, Costs]:
    """Return the policies and costs of a command line; an option goes wherever a parameter has its name.

    Raises:
        ValueError: a policy is not known, an option is not of the form name=value, or nothing has such a parameter.
    """
    if order not in ORDER:
        raise ValueError(
            f"--policy: there is no order policy {order!r}; write one of {', '.join(sorted(ORDER))}"
        )
    stages = {
        "order": parameters(ORDER[order]),
        "placement": parameters(PLACEMENT[placement]),
        "preemption": parameters(PREEMPTION["lowest-first"]),
        "costs": {field.name: field.default for field in fields(Costs)},
    }
    values: dict[str, dict[str, object]] = {stage: {} for stage in stages}
    for option in options:
        name, equals, text = option.partition("=")
        if not equals:
            raise ValueError(f"--option {option}: write name=value")
        takers = [stage for stage, known in stages.items() if name in known]
        if not takers and not any(name in parameters(policy) for policy in ORDER.values()):
            there_are = sorted({known for stage in stages.values() for known in stage})
            raise ValueError(
                f"--option {option}: nothing has a parameter {name!r}; there are {', '.join(there_are)}"
            )
        for stage in takers:
            values[stage][name] = _value(stages[stage][name], text, option)
    costs = replace(Costs(), **values["costs"])  # type: ignore[arg-type]
    return (
        policies(
            order=order,
            placement=placement,
            order_options=values["order"],
            placement_options=values["placement"],
            preemption_options=values["preemption"],
        ),
        costs,
    )


def _value(default: object, text: str, option: str) -> object:
    if isinstance(default, bool):
        if text not in ("true", "false"):
            raise ValueError(f"--option {option}: write true or false")
        return text == "true"
    try:
        if isinstance(default, tuple):
            return [float(part) for part in text.split(",")]
        return float(text)
    except ValueError:
        raise ValueError(f"--option {option}: {text!r} is not a number") from None


def _write(reports: list[Report], form: str | None) -> None:
    if form:
        write_object(as_json(reports), form)
        return
    print(as_table(reports))
    for item in reports:
        for line in item.unfinished:
            print(f"{item.policy}: unfinished: {line}")


class _Bar:
    """A progress bar, where somebody looks."""

    def __init__(self, name: str, to: TextIO) -> None:
        self._name = name
        self._to = to if to.isatty() else None
        self._shown = ""

    def show(self, finished: int, jobs: int) -> None:
        """Show how many jobs have finished."""
        filled = _BAR_WIDTH * finished // max(1, jobs)
        line = f"{self._name} [{'#' * filled}{'.' * (_BAR_WIDTH - filled)}] {finished}/{jobs}"
        if self._to is not None and line != self._shown:
            self._to.write(f"\r{line}")
            self._to.flush()
            self._shown = line

    def clear(self) -> None:
        """Leave no trace."""
        if self._to is not None and self._shown:
            self._to.write("\r" + " " * len(self._shown) + "\r")
            self._to.flush()
