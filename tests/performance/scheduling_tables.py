"""How the page of measurements shows the results of `make bench-scheduling`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.performance.page import Block, column, seconds, table, table_of, unless_none


def _fidelity(found: Any) -> Iterator[str]:
    yield from table_of(
        found,
        column("reference", "reference.simulator"),
        ("trace", lambda each: f"{each['reference']['trace']} on {each['reference']['nodes']}"),
        column("policy", "reference.policy"),
        column("average JCT, ours", "average_jct_seconds", seconds),
        column("reference", "reference.average_jct_seconds", seconds),
        column("off", "difference_percent", "{:+.1f} %"),
        column("makespan, ours", "makespan_seconds", seconds),
        column("reference", "reference.makespan_seconds", seconds),
        ("", lambda each: "explained below" if each["steps"] else each["explanation"]),
    )
    yield "\nWhere ours is more than 2 % off, what the reference does otherwise is switched on one after the other, until its figure comes out:\n\n"
    for each in found:
        for number, step in enumerate(each["steps"], start=1):
            of = each["reference"]
            first = step["first"]
            job = "" if first is None else f" First difference: {first['text']}."
            yield (
                f"- {of['simulator']}, {of['trace']} on {of['nodes']}, {of['policy']}, {number}: {step['what']}: "
                f"{seconds(step['average_jct_seconds'])} ({step['difference_percent']:+.1f} %).{job}\n"
            )


def _better(found: Any) -> Iterator[str]:
    return table_of(
        found,
        column("trace", "trace"),
        ("sharing", lambda each: "lanes" if each["sharing"] else "none"),
        column("policy", "policy"),
        column("average JCT", "average_jct_seconds", seconds),
        column("no schedule beats", "lower_bound_seconds", seconds),
        ("against", lambda each: each["against"] or "nobody"),
        column("times better", "times_better", unless_none("{:.2f}")),
        column("p99", "p99_jct_seconds", seconds),
        column("of theirs", "p99_ratio", unless_none("{:.2f}")),
    )


def _gittins(found: Any) -> Iterator[str]:
    yield from table_of(
        found,
        column("trace", "trace"),
        column("jobs", "jobs", "{:,}"),
        column("services that it knows", "knows"),
        column("average JCT", "average_jct_seconds", seconds),
        column("p99", "p99_jct_seconds", seconds),
        column("makespan", "makespan_seconds", seconds),
        column("preemptions", "preemptions", "{:,}"),
    )
    average = {(each["trace"], each["knows"]): each["average_jct_seconds"] for each in found}
    yield "\nWhat learning costs is decided in the last queue, from 7,200 GPU-seconds on:\n\n"
    for trace in dict.fromkeys(each["trace"] for each in found):
        learnt, known = "those of ended jobs", "all services of the trace"
        by_index, by_arrival = (
            100 * (average[trace, learnt + order] / average[trace, known + order] - 1)
            for order in ("", ", last queue by arrival")
        )
        yield f"- {trace}: learnt instead of known, {by_index:+.1f} %; with the last queue by arrival, {by_arrival:+.1f} %.\n"
    yield (
        "\nThe index says little of its jobs. Few jobs end within the next 3,250 GPU-seconds of them, so by the exact services it is 0 for most "
        "of the service there. Learnt services lie in bins: the index is mostly above 0, and falls with the service. So the grain of the "
        "distribution decides which jobs that train for days preempt one another. If they keep their order of arrival (`lastQueueByArrival`), it "
        "makes no difference whether services are learnt, and the average is lower than by the index on each trace. It is not the default: it "
        "departs from the published policy, and p99 is higher on two of the traces. In the rows that learn, jobs that have not ended count as "
        "censored (Kaplan and Meier's estimate).\n"
    )


def _lanes(found: Any) -> Iterator[str]:
    return table_of(
        found,
        column("trace", "trace"),
        column("truth", "truth"),
        column("the scheduler knows", "knows"),
        column("average JCT", "average_jct_seconds", seconds),
        column("p99", "p99_jct_seconds", seconds),
        column("Muri-L", "muri_l_average_jct_seconds", seconds),
        column("its p99", "muri_l_p99_jct_seconds", seconds),
        column("if moves cost", "muri_l_moving_average_jct_seconds", seconds),
        column("times better than Muri-L", "times_muri_l", "{:.2f}"),
        column("than not sharing", "times_alone", "{:.2f}"),
        column("preemptions", "preemptions", "{:,}"),
    )


def _speed(found: Any) -> Iterator[str]:
    yield from table_of(
        found["speeds"],
        column("jobs and GPUs", "gpus", "{:,}"),
        ("shared memory", lambda each: "yes" if each["shared_memory"] else "no"),
        column("policy", "policy"),
        column("p50", "p50_milliseconds", "{:.1f} ms"),
        column("p99", "p99_milliseconds", "{:.1f} ms"),
        column("largest", "largest_milliseconds", "{:.0f} ms"),
        column("p99 without explanations", "decision_p99_milliseconds", "{:.1f} ms"),
        column("p99 without the collector", "uncollected_p99_milliseconds", "{:.1f} ms"),
        column("p99 on the processor's clock", "processor_p99_milliseconds", "{:.1f} ms"),
        column("cold", "cold_milliseconds", "{:.0f} ms"),
        column("p99 while filling", "filling_p99_milliseconds", "{:.0f} ms"),
        column("started", "started"),
        column("preempted", "preempted"),
        column("waiting", "waiting"),
        column("cycles", "cycles"),
    )
    if found["growth_exponent_p50"] is not None:
        yield (
            f"\nGrowth with the size: to the power of {found['growth_exponent_p50']:.2f} (p50), "
            f"{found['growth_exponent_cold']:.2f} (cold).\n"
        )


def _simulation(found: Any) -> Iterator[str]:
    return table_of(
        found,
        column("policy", "policy"),
        column("jobs", "jobs", "{:,}"),
        column("processor time", "processor_seconds", "{:.1f} s"),
        column("decisions", "decisions", "{:,}"),
    )


def _liveness(found: Any) -> Iterator[str]:
    return table_of(
        found,
        column("load", "load", "{:.1%}"),
        column("small jobs", "small_seconds", seconds),
        column("gang of", "width"),
        column("policy", "policy"),
        column("gang completes in", "completion_hours", unless_none("{:.1f} h")),
        column("bound", "bound_hours", "{:.1f} h"),
        column("evictions", "evictions"),
        column("lost by them", "lost_percent", "{:.1f} %"),
        column("small jobs, mean", "small_mean_seconds", seconds),
        column("longest", "small_longest_seconds", seconds),
    )


def _fragmentation(found: Any) -> Iterator[str]:
    return table_of(
        found,
        column("workload", "workload"),
        column("placement", "placement"),
        column("allocated at 100 % asked for", "allocated_percent.100", "{:.2f} %"),
        column("at 130 %", "allocated_percent.130", "{:.2f} %"),
        column(
            "each seed", "allocated_at_end_percent", lambda seeds: ", ".join(f"{each:.2f}" for each in seeds)
        ),
        column("no packing beats, at 100 %", "bound_percent", "{:.2f} %"),
    )


def _synergy(found: Any) -> Iterator[str]:
    yield from table_of(
        found,
        column("policy", "policy"),
        column("average JCT", "average_jct_hours", "{:.2f} h"),
        column("p99", "p99_jct_hours", "{:.2f} h"),
        column("reference", "reference_hours", "{:.2f} h"),
        column("off", "difference_percent", "{:+.1f} %"),
    )
    yield "\nFrom ours to the reference, what it does otherwise is switched on one after the other:\n\n"
    for each in found:
        for number, step in enumerate(each["steps"], start=1):
            yield (
                f"- {each['policy']}, {number}: {step['what']}: {step['average_jct_hours']:.2f} h "
                f"({step['difference_percent']:+.1f} %).\n"
            )


def _elastic(found: Any) -> Iterator[str]:
    return table_of(
        found,
        column("workload", "workload"),
        column("policy", "policy"),
        column("average JCT", "average_jct_seconds", seconds),
        column("published", "published_jct_seconds", seconds),
        column("times better", "times_better", "{:.2f}"),
        column("restarts with other workers", "rescales"),
        column("simulated in", "simulation_seconds", "{:.0f} s"),
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


def _real_cluster(found: Any) -> Iterator[str]:
    runs = [(name, run) for name, case in found["cases"].items() for run in case["runs"]]
    yield from table(
        [
            *("case", "seed", "load", "average JCT", "simulated", "off", "makespan", "simulated", "off"),
            *("off, ideal operator: average JCT", "makespan", "a job's JCT off", "same order of starts"),
            *("preemptions (simulated)", "rescales", "joins"),
        ],
        (
            [
                name,
                run["seed"],
                run["load_average"],
                seconds(run["average_jct_seconds"]),
                seconds(run["simulated_average_jct_seconds"]),
                f"{run['average_jct_error_percent']:+.1f} %",
                seconds(run["makespan_seconds"]),
                seconds(run["simulated_makespan_seconds"]),
                f"{run['makespan_error_percent']:+.1f} %",
                f"{run['ideal']['average_jct_error_percent']:+.1f} %",
                f"{run['ideal']['makespan_error_percent']:+.1f} %",
                f"{run['mean_absolute_jct_error_percent']:.1f} %",
                f"{run['same_order_of_starts_percent']:.0f} %",
                *(
                    f"{run[count]} ({run[f'simulated_{count}']})"
                    for count in ("preemptions", "rescales", "joins")
                ),
            ]
            for name, run in runs
        ),
    )
    times = {**found["latencies"], **found["costs"]}
    shown = ", ".join(f"`{name}` {value:.2f}" for name, value in times.items() if value)
    yield (
        f"\nA seed draws when jobs are submitted, and which. The simulation reads the operator's configuration and the times of submission. "
        f"Its times were measured before, on other jobs: {shown}.{_templates(found['measured_templates'])} An ideal operator decides at "
        "once, and nothing but the training takes time. Joins are jobs that were placed beside others on a GPU. The ratio of each job's "
        "JCT is in the JSON file.\n"
    )


def _templates(measured: Any) -> str:
    """Return what was measured of the templates of jobs that share GPUs, as a sentence."""
    if measured is None:
        return ""
    alone = ", ".join(
        f"{kind} {each['gpu_microseconds'] / 1000:.0f} ms of GPU and {each['data_microseconds'] / 1000:.0f} ms of data"
        for kind, each in measured["kinds"].items()
    )
    beside = ", ".join(
        f"{first} at {100 * ratios[0]:.0f} % and {second} at {100 * ratios[1]:.0f} %"
        for pair in measured["pairs"]
        for (first, second), ratios in [(pair["kinds"], pair["ratios"])]
    )
    return (
        f" Iterations of jobs that share GPUs, alone: {alone}. Two on a GPU, of their speed alone: {beside}; the simulation takes the "
        "speeds of others from the scheduler's model of shared speeds, which has learnt from these."
    )


def _estimates(found: Any) -> Iterator[str]:
    yield from table_of(
        found,
        column("trace", "trace"),
        column("policy", "policy"),
        column("knows", "knows"),
        column("estimates", "estimates", "{:,}"),
        column("wait, median", "median_wait_seconds", seconds),
        column("error, median", "median_error_seconds", seconds),
        column("error, mean", "mean_error_seconds", seconds),
        column("bias, median", "median_bias_seconds", seconds),
        column("within a factor of 2", "within_factor_2_percent", "{:.0f} %"),
        (
            "others' median wait instead",
            lambda each: (
                f"{seconds(each['usual_median_error_seconds'])}, {each['usual_within_factor_2_percent']:.0f} %"
            ),
        ),
    )
    yield (
        "\nEstimates are too early (bias below zero) where durations are known: jobs that come later and pass are not known to them. Where "
        "nothing is known and queues are long, they are several times too late: then they say little more than the order. Rows with a median wait of "
        "20 s say nothing about estimates: newcomers start at once there, and waits below a minute count as a minute.\n"
    )


def _gpu_speeds(found: Any) -> Iterator[str]:
    return table_of(
        found,
        column("data", "data"),
        column("from", "source"),
        column("to, and back", "model"),
        column("workloads", "workloads"),
        column("error, by other templates", "by_others_percent", unless_none("{:.0f} %")),
        column("by data sheets", "by_peaks_percent", "{:.0f} %"),
    )


def _mixed_gpus(found: Any) -> Iterator[str]:
    yield from table_of(
        found,
        column("policy", "policy"),
        column("setting", "setting"),
        column("average JCT", "average_jct_hours", "{:.2f} h"),
        column("reference", "reference_hours", unless_none("{:.2f} h")),
        column("off", "difference_percent", unless_none("{:+.1f} %")),
        column("makespan", "makespan_hours", "{:.1f} h"),
        column("evictions", "evictions"),
    )
    yield "\nWhat the reference does otherwise, switched on one after the other:\n\n"
    for each in found:
        for number, step in enumerate(each["steps"], start=1):
            yield (
                f"- {each['policy']}, {number}: {step['what']}: {step['average_jct_hours']:.2f} h "
                f"({step['difference_percent']:+.1f} %).\n"
            )
    yield (
        "\nThe reference's FIFO has a defect: it draws a model for each job, but then uses the last one of its list. So nearly all of the first "
        "jobs share the 8 V100s, and most K80s are idle. With that line mended, its own code gives 6.21 to 7.90 h for the seeds 0 to 4, 6.98 h on "
        "average; as it is, 7.53 to 10.49 h for the seeds 0 to 7. With all of its rules, which are in its code and not fitted, each of its three figures "
        "comes out within 4 % here, as does FIFO's mean over these seeds; single seeds of it are off by -8 to +5 %.\n"
    )


SCHEDULING = Block(
    "scheduling",
    "bench-scheduling",
    {
        "fidelity": ("The simulator against the references' own", _fidelity),
        "better": ("The project's own policy against the best published", _better),
        "gittins": ("What Gittins learns from ended jobs", _gittins),
        "lanes": ("Sharing, by truth and by knowledge", _lanes),
        "liveness": ("A gang of 10 hours among small jobs, on 64 GPUs", _liveness),
        "real-workload": ("Thirty real jobs against their prediction", _real_workload),
        "real-cluster": ("Real runs against their simulation, each", _real_cluster),
        "speed": ("One scheduling cycle", _speed),
        "simulation": ("A trace of 10,000 jobs", _simulation),
        "estimates": ("When waiting jobs start, by their estimates", _estimates),
        "gpu-speeds": ("Estimated speeds on other GPU models", _gpu_speeds),
        "mixed-gpus": ("Gavel's jobs on mixed GPUs", _mixed_gpus),
        "elastic": ("Elastic jobs, against the simulator of Pollux", _elastic),
        "synergy": ("CPUs and memory by sensitivity, against Synergy's own simulator", _synergy),
        "fragmentation": ("How full Alibaba's cluster can be made", _fragmentation),
    },
)
