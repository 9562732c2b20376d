"""How the page of measurements shows what the operator did in all parts of a run of ``scenario.py``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.performance.page import Row, table

_PHASES = {
    "from_submission_to_bound": "all jobs are submitted at once, until all that fit run",
    "told": "those that wait are told why, events are written",
    "idle": "nothing happens",
    "preempting": "agents report sessions and renew Leases from now on; jobs may be preempted",
    "idle_with_agents": "nothing happens; agents go on",
    "jobs_come_and_go": "2 jobs a second end, and as many come",
    "restart": "the operator was killed and begins again",
    "idle_none_waits": "nothing happens, and nothing waits",
    "reaction": "2 jobs of one worker a second come, and GPUs are free",
}
"""The parts of a run, in their order. Results before December 2026 lack some."""

_AGENTS_WROTE = "nothing happens, and each node's agent writes every 10 s"
"""``idle_with_agents`` in those results."""


def operator_tables(found: Any) -> Iterator[str]:
    """Yield the lines below the heading."""
    yield f"{found['nodes']:,} nodes with {found['gpus']:,} GPUs, {found['jobs']:,} gang jobs of 1 to 8 workers"
    yield f"; {found['ended_jobs']:,} jobs had ended before.\n\n" if "ended_jobs" in found else ".\n\n"
    yield from table(["", "found", "goal"], iter([*_binding(found), *_cycles(found), *_steps(found)]))
    yield "\n"
    yield from _parts(found)
    submitted, writes = found["from_submission_to_bound"], _writes_by_kind(found)
    yield "\nOf a core, while jobs are submitted and bound: "
    others = submitted["cpu_percent_of"]
    yield ", ".join(f"{name} {share:.0f} %" for name, share in others.items())
    yield f", operator {submitted['operator_cpu_percent']:.0f} %.\n"
    yield "Writes until all were bound, or told why not: "
    yield ", ".join(f"{name} {number:,}" for name, number in writes.items()) + ".\n"


def _binding(found: Any) -> list[Row]:
    submitted, bare = found["from_submission_to_bound"], found["bare_client"]
    after = submitted["after_submission"]
    return [
        ["from submission to the last pod bound", f"{submitted['all_bound_after_seconds']:.0f} s", ""],
        ["submission itself", f"{submitted['submission_seconds']:.0f} s", ""],
        ["pods bound", f"{submitted['bound_pods']:,}", ""],
        ["pods bound a second", f"{submitted['pods_bound_a_second']:.0f}", ""],
        ["a bare client creates and binds a second", f"{bare['pods_a_second']:.0f}", ""],
        [
            "a bare client creates and kube-scheduler binds a second",
            f"{found['bound_by_scheduler_pods_a_second']:.0f}",
            "",
        ],
        ["of the bare client", f"{submitted['of_the_bare_client_percent']:.0f} %", "70 %"],
        [
            f"of the bare client, once all jobs are submitted ({after['bound_pods']:,} pods)",
            f"{after['of_the_bare_client_percent']:.0f} %",
            "70 %",
        ],
    ]


def _cycles(found: Any) -> list[Row]:
    writes = _writes_by_kind(found)
    requests = sum(sum(found[name]["api_requests"].values()) for name in ("from_submission_to_bound", "told"))
    busiest, busiest_cpu = (
        max(found[phase]["decisions"][name] for phase in _PHASES if phase in found)
        for name in ("p99_milliseconds", "cpu_p99_milliseconds")
    )
    return [
        ["a cycle, p99 of the busiest part", f"{busiest:.0f} ms", "250 ms"],
        ["the same, of the processor", f"{busiest_cpu:.0f} ms", ""],
        ["operator's memory, largest", f"{found['operator_memory_mib']['largest']:.0f} MiB", "400 MB"],
        ["writes to the API server a job", f"{sum(writes.values()) / found['jobs']:.1f}", ""],
        ["requests to the API server a job, reads too", f"{requests / found['jobs']:.1f}", ""],
    ]


def _steps(found: Any) -> list[Row]:
    """Return the rows of the restart and of single jobs; none where the result lacks them."""
    if "restart" not in found:
        return []
    again, single = found["restart"], found["reaction"]
    placed = f"{single['placed_jobs']:,} of {single['submitted_jobs']:,} jobs"
    return [
        ["idle, of a core", f"{found['idle']['operator_cpu_percent']:.1f} %", "2 %"],
        ["after `kill -9`, until the new process serves metrics", f"{again['to_serving_seconds']:.1f} s", ""],
        ["until it leads; the old lease runs out after 15 s", f"{again['to_lead_seconds']:.1f} s", ""],
        ["from there to the first start", f"{again['from_lead_to_first_start_seconds']:.1f} s", "1 s"],
        [
            "from there to the end of the first cycle",
            f"{again['from_lead_to_end_of_first_cycle_seconds']:.1f} s",
            "",
        ],
        ["the new process' memory, largest", f"{again['operator_peak_memory_mib']:.0f} MiB", "400 MB"],
        [f"from submission to placement, p50 ({placed})", f"{single['placed_p50_milliseconds']:.0f} ms", ""],
        ["from submission to placement, p99", f"{single['placed_p99_milliseconds']:.0f} ms", ""],
    ]


def _parts(found: Any) -> Iterator[str]:
    titles = _PHASES if "restart" in found else {**_PHASES, "idle_with_agents": _AGENTS_WROTE}
    columns = [
        "part of the run",
        "seconds",
        "cycles",
        "p50",
        "p99",
        "largest",
        "p50, of the processor",
        "p99",
    ]
    columns += ["operator, of a core", "writes a second", *(["preemptions"] if "restart" in found else [])]
    yield from table(
        columns, (_phase_row(title, found[name]) for name, title in titles.items() if name in found)
    )


def _writes_by_kind(found: Any) -> dict[str, int]:
    """Return the writes until all jobs were bound or had a reason, by verb and kind."""
    reported = found["told"]["api_writes"]
    return {
        name: number + reported.get(name, 0)
        for name, number in found["from_submission_to_bound"]["api_writes"].items()
    }


def _phase_row(title: str, phase: Any) -> list[object]:
    decisions = phase["decisions"]
    return [
        title,
        f"{phase['seconds']:.0f}",
        f"{decisions['number']:,}",
        f"{decisions['p50_milliseconds']:.0f} ms",
        f"{decisions['p99_milliseconds']:.0f} ms",
        f"{decisions['largest_milliseconds']:.0f} ms",
        f"{decisions['cpu_p50_milliseconds']:.0f} ms",
        f"{decisions['cpu_p99_milliseconds']:.0f} ms",
        f"{phase['operator_cpu_percent']:.1f} %",
        f"{sum(phase['api_writes'].values()) / phase['seconds']:.1f}",
        *([f"{phase['preemptions']:,}"] if "preemptions" in phase else []),
    ]
