"""How the page of measurements shows what `make bench-scale` found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import itemgetter
from statistics import mean, median
from typing import Any

from tests.performance.page import Block, table

_PHASES = {
    "from_submission_to_bound": "all jobs are submitted at once, until all that fit run",
    "told": "those that wait are told why, events are written",
    "idle": "nothing happens",
    "idle_with_agents": "nothing happens, and each node's agent writes every 10 s",
    "jobs_come_and_go": "2 jobs a second end, and as many come",
}


def _scale(found: Any) -> Iterator[str]:
    submitted, bare = found["from_submission_to_bound"], found["bare_client"]
    memory = found["operator_memory_mib"]["largest"]
    requests = sum(sum(found[name]["api_requests"].values()) for name in ("from_submission_to_bound", "told"))
    writes, after = _writes_by_kind(found), submitted["after_submission"]
    busiest, busiest_cpu = (
        max(found[phase]["decisions"][name] for phase in _PHASES)
        for name in ("p99_milliseconds", "cpu_p99_milliseconds")
    )
    intro = f"{found['nodes']:,} nodes with {found['gpus']:,} GPUs, {found['jobs']:,} gang jobs of 1 to 8 workers.\n\n"
    yield intro
    yield from table(
        ["", "found", "goal"],
        iter(
            [
                [
                    "from submission to the last pod bound",
                    f"{submitted['all_bound_after_seconds']:.0f} s",
                    "",
                ],
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
                ["a cycle, p99 of the busiest part", f"{busiest:.0f} ms", "250 ms"],
                ["the same, of the processor", f"{busiest_cpu:.0f} ms", ""],
                ["operator's memory, largest", f"{memory:.0f} MiB", "400 MB"],
                ["writes to the API server a job", f"{sum(writes.values()) / found['jobs']:.1f}", ""],
                ["requests to the API server a job, reads too", f"{requests / found['jobs']:.1f}", ""],
            ]
        ),
    )
    yield "\n"
    yield from table(
        [
            "part of the run",
            "seconds",
            "cycles",
            "p50",
            "p99",
            "largest",
            "p50, of the processor",
            "p99",
            "operator, of a core",
            "writes a second",
        ],
        (_phase_row(title, found[name]) for name, title in _PHASES.items()),
    )
    yield "\nOf a core, while jobs are submitted and bound: "
    others = submitted["cpu_percent_of"]
    yield ", ".join(f"{name} {share:.0f} %" for name, share in others.items())
    yield f", operator {submitted['operator_cpu_percent']:.0f} %.\n"
    yield "Writes until all were bound, or told why not: "
    yield ", ".join(f"{name} {number:,}" for name, number in writes.items()) + ".\n"


def _watches(found: Any) -> Iterator[str]:
    yield f"{found['nodes']:,} nodes with {found['gpus']:,} GPUs, {found['jobs']:,} gang jobs of 1 to 8 workers. "
    yield f"Rounds in the order {', '.join(found['order'])}; a cell shows the median, least and most.\n\n"
    rows = (
        ("pods bound a second", "pods_bound_a_second", "{:.0f}"),
        ("operator's processor time until all are bound, s", "operator_cpu_seconds", "{:.1f}"),
        ("operator's memory, largest, MiB", "operator_peak_memory_mib", "{:.0f}"),
        ("from a change to the cache, p50, ms", "reaction_p50_milliseconds", "{:.1f}"),
        ("from a change to the cache, p99, ms", "reaction_p99_milliseconds", "{:.1f}"),
    )
    yield from table(
        ["", "raw stream", "kopf", "kopf over raw"],
        (
            _compared(title, text, *(_values(found, watch, name) for watch in ("raw", "kopf")))
            for title, name, text in rows
        ),
    )


def _values(found: Any, watch: str, name: str) -> list[float]:
    return sorted(each[name] for each in found["rounds"][watch])


def _compared(title: str, text: str, raw: list[float], kopf: list[float]) -> list[str]:
    cells = (
        f"{text.format(median(each))} ({text.format(each[0])} to {text.format(each[-1])})"
        for each in (raw, kopf)
    )
    return [title, *cells, f"{median(kopf) / median(raw) - 1:+.0%}"]


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
    ]


def _heartbeats(found: Any) -> Iterator[str]:
    yield f"{found['nodes']:,} nodes with 8 GPUs; each cell is the mean of two rounds of {found['seconds']:.0f} s. "
    yield "Of a core, less what they take while no agent does anything: "
    yield ", ".join(f"{name} {_mean(found, 'nothing', _cpu(name)):.1f} %" for name in _PAYING) + ".\n\n"
    titles = ["", "requests a second (wanted)", "p50", "p99", *_PAYING, "etcd to disk a second"]
    yield from table(titles, (_heartbeats_row(found, name, title) for name, title in _LOADS.items()))


_PAYING = ("kube-apiserver", "etcd", "operator")
_LOADS = {
    "idle_statuses": "idle nodes write their GPUNode every 10 s",
    "idle_leases": "idle nodes renew a Lease every 10 s",
    "training_statuses": "nodes that train write their GPUNode every 10 s",
    "training_leases": "nodes that train renew a Lease every 10 s and write every 60 s",
}


def _heartbeats_row(found: Any, load: str, title: str) -> list[object]:
    seconds = found["seconds"]
    sent, wanted = (_mean(found, load, itemgetter(name)) for name in ("requests", "requests_wanted"))
    more = (_mean(found, load, _cpu(name)) - _mean(found, "nothing", _cpu(name)) for name in _PAYING)
    return [
        title,
        f"{sent / seconds:.0f} ({wanted / seconds:.0f})",
        *(
            f"{_mean(found, load, itemgetter(f'request_{part}_milliseconds')):.1f} ms"
            for part in ("p50", "p99")
        ),
        *(f"{each:.1f} %" for each in more),
        f"{_mean(found, load, itemgetter('written_mib_of_etcd')) / seconds:.2f} MiB",
    ]


def _cpu(name: str) -> Callable[[Any], float]:
    """Return a function: the percentage of a core that a process took in a round."""
    if name == "operator":
        return lambda one: float(one["operator_cpu_percent"])
    return lambda one: float(one["cpu_percent_of"][name])


def _mean(found: Any, load: str, figure: Callable[[Any], float]) -> float:
    return mean(figure(one) for one in found["rounds"][load])


SCALE = Block(
    "scale",
    "bench-scale",
    {
        "operator-scale": ("The operator with a thousand nodes and thousands of jobs", _scale),
        "operator-watches": ("TrainingJobs on kopf and on the raw stream", _watches),
        "heartbeats": ("Signs of life of the nodes' agents", _heartbeats),
    },
)
