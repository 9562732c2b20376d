"""Shows what the result files hold in ``docs/measurements.md``, between two marks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PAGE = Path("docs/measurements.md")

Row = Sequence[object]


@dataclass(frozen=True, slots=True)
class Block:
    """A part of the page that one make target writes."""

    name: str
    target: str
    sections: Mapping[str, tuple[str, Callable[[Any], Iterator[str]]]]
    """Heading and table by the name of the result file, in the order of the page."""

    @property
    def begin(self) -> str:
        """Return the mark before it."""
        return f"<!-- {self.name}: written by `make {self.target}` from docs/measurements/*.json -->\n"

    @property
    def end(self) -> str:
        """Return the mark after it."""
        return f"<!-- end of {self.name} -->\n"


def write_page(results: Path, block: Block, page: Path = PAGE) -> None:
    """Replace what is between a block's marks.

    Args:
        results: the folder with the result files; of those that are not there, the page says nothing.
        block: which part of the page.
        page: has to hold the marks.

    Raises:
        ValueError: the page has no marks.
    """
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(block.begin)
    _, end, after = rest.partition(block.end)
    if not (begin and end):
        raise ValueError(f"{page} has to hold the lines {block.begin.strip()!r} and {block.end.strip()!r}")
    sections = "\n".join(
        _section(json.loads((results / f"{name}.json").read_text(encoding="utf-8")), heading, show)
        for name, (heading, show) in block.sections.items()
        if (results / f"{name}.json").exists()
    )
    page.write_text(before + begin + "\n" + sections + "\n" + end + after, encoding="utf-8")


def _section(found: dict[str, Any], heading: str, show: Callable[[Any], Iterator[str]]) -> str:
    machine = found["machine"]
    where = (
        f"{machine['date']}, {machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB, "
        f"Python {machine['python']}, load {machine['load_1_minute']} at the start"
    )
    return f"### {heading}\n\n`{found['command']}`: {where}.\n\n" + "".join(show(found["result"]))


def table(titles: Sequence[str], rows: Iterator[Row]) -> Iterator[str]:
    yield "| " + " | ".join(titles) + " |\n" + "|---" * len(titles) + "|\n"
    for row in rows:
        yield "| " + " | ".join(str(cell) for cell in row) + " |\n"


def _fidelity(found: Any) -> Iterator[str]:
    yield from table(
        [
            "reference",
            "trace",
            "policy",
            "average JCT, ours",
            "reference",
            "off",
            "makespan, ours",
            "reference",
            "",
        ],
        (
            [
                each["reference"]["simulator"],
                f"{each['reference']['trace']} on {each['reference']['nodes']}",
                each["reference"]["policy"],
                _seconds(each["average_jct_seconds"]),
                _seconds(each["reference"]["average_jct_seconds"]),
                f"{each['difference_percent']:+.1f} %",
                _seconds(each["makespan_seconds"]),
                _seconds(each["reference"]["makespan_seconds"]),
                "explained below" if each["steps"] else each["explanation"],
            ]
            for each in found
        ),
    )
    yield "\nWhere ours is more than 2 % off, what the reference does otherwise is switched on one after the other, until its figure comes out:\n\n"
    for each in found:
        for number, step in enumerate(each["steps"], start=1):
            of = each["reference"]
            first = step["first"]
            job = "" if first is None else f" First difference: {first['text']}."
            yield (
                f"- {of['simulator']}, {of['trace']} on {of['nodes']}, {of['policy']}, {number}: {step['what']}: "
                f"{_seconds(step['average_jct_seconds'])} ({step['difference_percent']:+.1f} %).{job}\n"
            )


def _better(found: Any) -> Iterator[str]:
    yield from table(
        [
            "trace",
            "sharing",
            "policy",
            "average JCT",
            "no schedule beats",
            "against",
            "times better",
            "p99",
            "of theirs",
        ],
        (
            [
                each["trace"],
                "lanes" if each["sharing"] else "none",
                each["policy"],
                _seconds(each["average_jct_seconds"]),
                _seconds(each["lower_bound_seconds"]),
                each["against"] or "nobody",
                "" if each["times_better"] is None else f"{each['times_better']:.2f}",
                _seconds(each["p99_jct_seconds"]),
                "" if each["p99_ratio"] is None else f"{each['p99_ratio']:.2f}",
            ]
            for each in found
        ),
    )


def _speed(found: Any) -> Iterator[str]:
    yield from table(
        ["jobs and GPUs", "policy", "p50", "p99", "largest", "cold", "started", "preempted", "decisions"],
        (
            [
                f"{each['gpus']:,}",
                each["policy"],
                *(f"{each[name]:.1f} ms" for name in ("p50_milliseconds", "p99_milliseconds")),
                *(f"{each[name]:.0f} ms" for name in ("largest_milliseconds", "cold_milliseconds")),
                each["started"],
                each["preempted"],
                each["decisions"],
            ]
            for each in found["speeds"]
        ),
    )
    if found["growth_exponent_p50"] is not None:
        yield (
            f"\nGrowth with the size: to the power of {found['growth_exponent_p50']:.2f} (p50), "
            f"{found['growth_exponent_cold']:.2f} (cold).\n"
        )


def _simulation(found: Any) -> Iterator[str]:
    yield from table(
        ["policy", "jobs", "processor time", "decisions", "Tiresias' simulator", "times faster"],
        (
            [
                each["policy"],
                f"{each['jobs']:,}",
                f"{each['processor_seconds']:.1f} s",
                f"{each['decisions']:,}",
                f"{each['reference_processor_seconds']:.0f} s",
                f"{each['times_faster']:.1f}",
            ]
            for each in found
        ),
    )


def _fragmentation(found: Any) -> Iterator[str]:
    yield from table(
        ["workload", "placement", "allocated at 100 % asked for", "at 130 %", "no packing beats, at 100 %"],
        (
            [
                each["workload"],
                each["placement"],
                f"{each['allocated_percent']['100']:.2f} %",
                f"{each['allocated_percent']['130']:.2f} %",
                f"{each['bound_percent']:.2f} %",
            ]
            for each in found
        ),
    )


def _elastic(found: Any) -> Iterator[str]:
    yield from table(
        [
            "workload",
            "policy",
            "average JCT",
            "published",
            "times better",
            "restarts with other workers",
            "simulated in",
        ],
        (
            [
                each["workload"],
                each["policy"],
                _seconds(each["average_jct_seconds"]),
                _seconds(each["published_jct_seconds"]),
                f"{each['times_better']:.2f}",
                each["rescales"],
                f"{each['simulation_seconds']:.0f} s",
            ]
            for each in found
        ),
    )


def _real_workload(found: Any) -> Iterator[str]:
    free = found["without_costs"]
    yield from table(
        ["", "real", "predicted", "off", "off, without costs"],
        (
            [
                title,
                f"{found[f'{name}_seconds']:.1f} s",
                f"{found[f'predicted_{name}_seconds']:.1f} s",
                f"{found[f'error_{name}_percent']:+.1f} %",
                f"{free[f'error_{name}_percent']:+.1f} %",
            ]
            for title, name in (("average JCT", "average_jct"), ("makespan", "makespan"))
        ),
    )
    yield (
        f"\n{len(found['jobs'])} jobs on {found['cluster']['nodes']} nodes with {found['cluster']['gpus']} GPUs; preemptions "
        f"{found['preemptions']}, predicted {found['predicted_preemptions']}; mean absolute error of a job's JCT "
        f"{found['mean_absolute_jct_error_percent']:.1f} %. Load while it ran: {found['load_average']['while_running']}. "
        f"{found['basis']}\n"
    )


def _estimates(found: Any) -> Iterator[str]:
    yield from table(
        [
            "trace",
            "policy",
            "knows",
            "estimates",
            "wait, median",
            "error, median",
            "error, mean",
            "bias, median",
            "within a factor of 2",
            "others' median wait instead",
        ],
        (
            [
                each["trace"],
                each["policy"],
                each["knows"],
                f"{each['estimates']:,}",
                _seconds(each["median_wait_seconds"]),
                _seconds(each["median_error_seconds"]),
                _seconds(each["mean_error_seconds"]),
                _seconds(each["median_bias_seconds"]),
                f"{each['within_factor_2_percent']:.0f} %",
                f"{_seconds(each['usual_median_error_seconds'])}, {each['usual_within_factor_2_percent']:.0f} %",
            ]
            for each in found
        ),
    )
    yield (
        "\nEstimates are too early (bias below zero) where durations are known: jobs that come later and pass are not known to them. Where "
        "nothing is known and queues are long, they are several times too late: then they say little more than the order. Rows with a median wait of "
        "20 s say nothing about estimates: newcomers start at once there, and waits below a minute count as a minute.\n"
    )


def _seconds(value: float) -> str:
    return f"{value:,.1f} s" if value < 10_000 else f"{value:,.0f} s"


_SECTIONS: dict[str, tuple[str, Callable[[Any], Iterator[str]]]] = {
    "fidelity": ("The simulator against the references' own", _fidelity),
    "better": ("The project's own policy against the best published", _better),
    "real-workload": ("Thirty real jobs against their prediction", _real_workload),
    "speed": ("One decision", _speed),
    "simulation": ("A trace of 10,000 jobs", _simulation),
    "estimates": ("When waiting jobs start, by their estimates", _estimates),
    "elastic": ("Malleable jobs, against the simulator of Pollux", _elastic),
    "fragmentation": ("How full Alibaba's cluster can be made", _fragmentation),
}

SCHEDULING = Block("scheduling", "bench-scheduling", _SECTIONS)
