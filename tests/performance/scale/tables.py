"""How the page of measurements shows what `make bench-scale` found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from statistics import mean, median
from typing import Any

from tests.performance.page import Block, table
from tests.performance.scale.operator_tables import operator_tables


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
    yield from _in_turns(found, {"raw": "raw stream", "kopf": "kopf"}, "kopf over raw", rows)


def _binding(found: Any) -> Iterator[str]:
    yield f"{found['nodes']:,} nodes with {found['gpus']:,} GPUs, {found['jobs']:,} gang jobs of 1 to 8 workers. "
    yield f"Rounds in the order {', '.join(found['order'])}; a cell shows the median, least and most.\n\n"
    rows = (
        ("pods bound a second", "pods_bound_a_second", "{:.0f}"),
        ("of the bare client, %", "of_the_bare_client_percent", "{:.0f}"),
        ("until all are bound, s", "all_bound_after_seconds", "{:.0f}"),
        ("until all run, s", "all_run_after_seconds", "{:.0f}"),
        ("the operator's writes until all run", "writes_until_all_run", "{:,.0f}"),
        ("and afterwards", "writes_afterwards", "{:,.0f}"),
        ("kube-apiserver's processor time until all run, s", "apiserver_cpu_seconds", "{:.1f}"),
        ("kube-scheduler's, s", "scheduler_cpu_seconds", "{:.1f}"),
    )
    titles = {"off": "kube-scheduler binds", "on": "the operator binds"}
    yield from _in_turns(found, titles, "change", rows)


def _in_turns(
    found: Any, titles: dict[str, str], change: str, rows: Iterable[tuple[str, str, str]]
) -> Iterator[str]:
    """Yield a table that compares two variants; ``titles`` by their names, ``rows``: title, figure and format."""
    cells = (
        _compared(title, text, *(_values(found, variant, name) for variant in titles))
        for title, name, text in rows
    )
    yield from table(["", *titles.values(), change], cells)


def _values(found: Any, variant: str, name: str) -> list[float]:
    return sorted(each[name] for each in found["rounds"][variant])


def _compared(title: str, text: str, raw: list[float], kopf: list[float]) -> list[str]:
    cells = (
        f"{text.format(median(each))} ({text.format(each[0])} to {text.format(each[-1])})"
        for each in (raw, kopf)
    )
    return [title, *cells, f"{median(kopf) / median(raw) - 1:+.0%}"]


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
        "operator-scale": ("The operator with a thousand nodes and thousands of jobs", operator_tables),
        "operator-watches": ("TrainingJobs on kopf and on the raw stream", _watches),
        "binding": ("Pods bound by kube-scheduler and by the operator", _binding),
        "heartbeats": ("Signs of life of the nodes' agents", _heartbeats),
    },
)
