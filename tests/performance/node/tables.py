"""How the page of measurements shows what `make bench-node` found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tests.performance.page import Block, table

MEBIBYTE = 1 << 20
_LATENCIES = ("p50_us", "p90_us", "p99_us", "largest_us", "count")
_LATENCY_TITLES = ("p50", "p90", "p99", "largest", "times")


def _boundary(found: Any) -> Iterator[str]:
    names = {
        "gate": "the gate: end of one iteration, begin of the next",
        "gate_and_profile": "with memory measured, for the profile",
        "iteration_block": "with `laneway.client.iteration()` around each",
        "torch_hooks": "with PyTorch's hooks, its tensors' memory measured (`LANEWAY_FIT=Off`)",
    }
    yield from table(
        ["a boundary without contention", "median", "fastest burst"],
        (
            [title, f"{found[name]['median_us']} µs", f"{found[name]['fastest_us']} µs"]
            for name, title in names.items()
        ),
    )


def _hand_off(found: Any) -> Iterator[str]:
    names = {
        "hand_off": "hand-off between two processes with the real client",
        "hand_off_without_client": "hand-off between two processes that write packets by hand",
        "round_trip_after_pause": "bare round trip, after a pause as before a hand-off",
        "round_trip": "bare round trip, one after the other",
    }
    yield from table(
        ["", *_LATENCY_TITLES], ([title, *_latencies(found[name])] for name, title in names.items())
    )
    yield (
        f"\nMedian hand-off over the median round trip: {found['times_round_trip']['after_pause']} after pauses, "
        f"{found['times_round_trip']['back_to_back']} one after the other; goal 3.\n"
    )


def _fairness(found: Any) -> Iterator[str]:
    yield from table(
        ["turns", "service of a session, mean", "farthest from it"],
        (
            [
                f"{each['turns']:,}",
                f"{1000 * each['mean_service_seconds']:.1f} ms",
                f"{each['deviation_percent']} %",
            ]
            for each in found["after"]
        ),
    )
    yield f"\n{found['sessions']} sessions in one lane, turns of {found['turn_milliseconds']} ms.\n"
    if "round_ends" in found:
        yield "\nAt the ends of FAIR's rounds:\n\n"
        yield from table(
            [
                "round",
                "turns",
                "charged time, farthest from the mean",
                "time inside iterations",
                "sessions that sit out the next round",
                "charged time without them",
            ],
            (
                [
                    f"{each['round']:,}",
                    f"{each['turns']:,}",
                    f"{each['charged_deviation_percent']} %",
                    f"{each['deviation_percent']} %",
                    each["sit_out"],
                    f"{each['others_deviation_percent']} %",
                ]
                for each in found["round_ends"]
            ),
        )


def _shares(found: Any) -> Iterator[str]:
    def listed(values: Sequence[float]) -> str:
        return " / ".join(f"{value:g}" for value in values)

    yield from table(
        [
            "shares, %",
            "progress, % of alone",
            "of the share, %",
            "in the worst ten turns, %",
            "in the worst second, %",
            "sum, %",
            "plain time slicing",
            "sum, %",
            "sum, times",
        ],
        (
            [
                listed(each["shares_percent"]),
                listed(each["fair"]["progress_percent"]),
                listed(each["fair"]["percent_of_share"]),
                listed(each["worst_turns_percent_of_share"]),
                listed(each["worst_second_percent_of_share"]),
                f"{each['fair']['sum_percent']:g}",
                listed(each["plain"]["progress_percent"]),
                f"{each['plain']['sum_percent']:g}",
                f"{each['sum_over_plain']:g}",
            ]
            for each in found["cases"]
        ),
    )
    yield (
        f"\nIterations of {1000 * found['iteration_seconds']:.0f} ms; {found['rounds']} rounds of "
        f"{found['seconds_of_a_round']:.0f} s each, in turns with plain time slicing.\n"
    )


def _launch_gate(found: Any) -> Iterator[str]:
    rows = {"bare": "launches only", "ten_microseconds": "launches with computing between them"}
    yield from table(
        ["a launch", "with the open gate", "without the library", "the gate", ""],
        (
            [
                title,
                f"{found[name]['gated_nanoseconds']:,.0f} ns",
                f"{found[name]['without_nanoseconds']:,.0f} ns",
                f"{found[name]['cost_nanoseconds']:g} ns",
                f"{found[name]['cost_percent']:g} %",
            ]
            for name, title in rows.items()
        ),
    )
    yield (
        f"\nThe gate's cost, as launches only show it, is {found['percent_of_ten_microseconds']:g} % of 10 µs; goal 1 %. "
        f"Medians of {found['bursts']} pairs of bursts of {found['launches']:,} launches.\n"
    )


def _agent_load(found: Any) -> Iterator[str]:
    yield from table(
        [
            "sessions",
            "lanes",
            "turns a second",
            "agent's CPU for a turn",
            "of a core at 1,000 turns a second",
        ],
        iter(
            [
                [
                    found["sessions"],
                    found["lanes"],
                    f"{found['turns_per_second']:,}",
                    f"{found['agent_cpu_us_per_turn']} µs",
                    f"{found['core_percent_at_1000_turns_per_second']} %",
                ]
            ]
        ),
    )
    yield "\n" + _hand_offs_in_a_line(found)


def _memory(found: Any) -> Iterator[str]:
    rows = [["0", f"{found['resident_bytes_at_start'] / MEBIBYTE:.1f} MiB"]]
    rows += [
        [f"{each['turns']:,}", f"{each['resident_bytes'] / MEBIBYTE:.1f} MiB"]
        for number, each in enumerate(found["samples"], start=1)
        if number % 4 == 0 or each["turns"] == found["growth_counted_from_turns"]
    ]
    yield from table(["turns", "agent's memory"], iter(rows))
    yield (
        f"\nGrowth since {found['growth_counted_from_turns']:,} turns: {found['growth_bytes'] / 1024:.0f} KiB. "
        f"{found['turns_per_second']:,} turns a second, {found['agent_cpu_us_per_turn']} µs of the agent's CPU for each.\n"
    )


def _makespan(found: Any) -> Iterator[str]:
    yield from table(
        ["an iteration, and the gap after it", "one after the other", "shared", "ratio", "published claim"],
        (
            [
                f"{1000 * each['iteration_seconds']:.0f} ms each",
                f"{each['one_after_the_other_seconds']:.2f} s",
                f"{each['shared_seconds']:.2f} s",
                f"{each['ratio']:.2f}",
                f"{found['published_ratio']:.2f}",
            ]
            for each in found["pairs"]
        ),
    )


def _scale(found: Any) -> Iterator[str]:
    yield from table(
        ["GPUs", "sessions", "turns a second", "agent, of a core", "for a turn", "memory", "a scrape takes"],
        iter(
            [
                [
                    found["gpus"],
                    found["sessions"],
                    f"{found['turns_per_second']:,}",
                    f"{found['agent_core_percent']} %",
                    f"{found['agent_cpu_us_per_turn']} µs",
                    f"{found['agent_resident_bytes'] / MEBIBYTE:.0f} MiB",
                    f"{found['scrape_milliseconds']:.0f} ms",
                ]
            ]
        ),
    )
    yield (
        f"\nAll sessions open and measured after {found['all_open_and_profiled_seconds']} s, for "
        f"{found['agent_cpu_ms_per_opening']} ms of the agent's CPU each; turns of a session: "
        f"{found['fewest_turns_of_a_session']} to {found['most_turns_of_a_session']}. "
        + _hand_offs_in_a_line(found)
    )


def _attacks(found: Any) -> Iterator[str]:
    yield from table(
        [
            "attack",
            "attempts",
            "p50 usual",
            "under attack",
            "times",
            "p99 usual",
            "under attack",
            "times",
            "agent, of a core",
            "under attack",
        ],
        (
            [
                each["attack"].replace("_", " "),
                f"{each['attempts']:,}",
                *(
                    text
                    for of in ("p50", "p99")
                    for text in (
                        f"{each['usual'][f'{of}_us']:,.0f} µs",
                        f"{each['under_attack'][f'{of}_us']:,.0f} µs",
                        str(each["times_usual"][of]),
                    )
                ),
                *(f"{percent} %" for percent in each["agent_core_percent"]),
            ]
            for each in found["attacks"]
        ),
    )
    yield (
        f"\n{found['attackers']} hostile containers; {found['seconds_under_attack']:.0f} s of each "
        "attack, and as long in which they only compute, in turns.\n"
    )


def _http_attacks(found: Any) -> Iterator[str]:
    yield from table(
        [
            "attack",
            "attempts",
            "hand-off p50 usual",
            "under attack",
            "times",
            "hand-off p99 usual",
            "under attack",
            "scrape p50 usual",
            "under attack",
            "longest",
            "agent, of a core",
            "under attack",
        ],
        (
            [
                each["attack"].replace("_", " "),
                f"{each['attempts']:,}",
                f"{each['usual']['p50_us']:,.0f} µs",
                f"{each['under_attack']['p50_us']:,.0f} µs",
                str(each["times_usual"]["p50"]),
                f"{each['usual']['p99_us']:,.0f} µs",
                f"{each['under_attack']['p99_us']:,.0f} µs",
                f"{each['scrapes_usual']['p50_ms']:,.0f} ms",
                f"{each['scrapes_under_attack']['p50_ms']:,.0f} ms",
                f"{each['scrapes_under_attack']['max_ms']:,.0f} ms",
                *(f"{percent} %" for percent in each["agent_core_percent"]),
            ]
            for each in found["attacks"]
        ),
    )
    yield (
        f"\nOne HTTP client from {found['addresses']} addresses; {found['seconds_under_attack']:.0f} s of each attack, and as long "
        f"in which a container only computes, in turns. Another address scrapes `/metrics` every {found['scrape_seconds']} s; a "
        "scrape whose connection is closed is repeated, and its time includes that.\n"
    )


def _hostile_pods(found: Any) -> Iterator[str]:
    yield from table(
        [
            "honest pods",
            "hostile pods",
            "iterations a second, they rest",
            "they attack",
            "kept",
            "least of a pod",
        ],
        [
            [
                str(found["honest_pods"]),
                str(found["hostile_pods"]),
                f"{found['resting_per_second']:.1f}",
                f"{found['attacking_per_second']:.1f}",
                f"{found['kept_percent']} %",
                f"{found['least_kept_percent']} %",
            ]
        ],
    )
    yield (
        f"\nReal kubelets; {found['periods']} periods of {found['period_seconds']:.0f} s of each kind, in turns. A hostile pod has 1 % "
        "of a GPU and is limited to 10 millicores, as a cluster would limit it, so that its CPU load is not counted as an attack. "
        f"Attacks: {', '.join(name.replace('_', ' ') for name in found['attacks'])}. Attacks that keep turns are not among them: they "
        "cost others what [the limits on turns](lanes.md#bounds) allow.\n"
    )


def _latencies(found: dict[str, Any]) -> list[str]:
    *times, count = (found[name] for name in _LATENCIES)
    return [*(f"{each:,.0f} µs" for each in times), f"{count:,}"]


def _hand_offs_in_a_line(found: Any) -> str:
    of = found["hand_off"]
    return f"Hand-offs: p50 {of['p50_us']:.0f} µs, p99 {of['p99_us']:.0f} µs ({of['count']:,}).\n"


def _interposer_start(found: Any) -> Iterator[str]:
    yield from table(
        ["start and end of", "without the library", "with it", "longer, adjacent runs", "its CPU time"],
        (
            [
                each["program"],
                f"{each['without']['wall_ms']} ms",
                f"{each['with']['wall_ms']} ms",
                f"{each['added']['wall_ms']} ms",
                f"{each['added']['processor_ms']} ms",
            ]
            for each in found["programs"]
        ),
    )
    yield f"\nMedians of {found['starts']} starts; goal: less than 1 ms longer.\n"


NODE = Block(
    "node",
    "bench-node",
    {
        "node-boundary": ("A turn boundary without contention", _boundary),
        "node-hand-off": ("Handing a turn over", _hand_off),
        "node-fairness": ("Service of 64 sessions with equal weights", _fairness),
        "node-shares": ("Shares of a contended GPU across lanes", _shares),
        "node-launch-gate": ("The launch gate while it is open", _launch_gate),
        "node-agent-load": ("What turns cost the agent", _agent_load),
        "node-memory": ("The agent's memory over a million turns", _memory),
        "node-makespan": ("Two jobs that use their GPU half of the time", _makespan),
        "node-scale": ("16 GPUs with 32 sessions each", _scale),
        "node-attacks": ("Hand-offs of others while the agent is attacked", _attacks),
        "node-hostile-pods": ("Honest pods beside 40 hostile ones", _hostile_pods),
        "node-http-attacks": ("Hand-offs and scrapes while the agent's port is attacked", _http_attacks),
        "node-interposer-start": ("What the interposer adds to a program without CUDA", _interposer_start),
    },
)
