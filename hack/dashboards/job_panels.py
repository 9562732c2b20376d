"""Panels about the jobs of the chosen namespaces, which stand on more than one dashboard."""

from __future__ import annotations

from grafana_foundation_sdk.builders import timeseries

from hack.dashboards.panels import Query, event_quantiles, lines, occurred, per_hour, rate

CHOSEN = '{namespace=~"$namespace"}'
"""Selects the series of the chosen namespaces."""

HELD_GPUS = f"laneway_job_held_gpus{CHOSEN}"
_LARGEST = f"topk(20, sum by (namespace) (sum_over_time({HELD_GPUS}[$__range] @ end())))"
"""The same namespaces over the whole of the chosen time: those that held most in it."""

LARGEST = "A line for each of the twenty namespaces that held most GPU time in the chosen time."


def by_namespace(expression: str) -> tuple[Query, Query]:
    """Returns the sums of the largest namespaces, and that of the others, if there are any."""
    return (
        (f"sum by (namespace) ({expression}) and on (namespace) {_LARGEST}", "{{namespace}}"),
        (f"sum({expression} unless on (namespace) {_LARGEST})", "others"),
    )


def held_gpus() -> timeseries.Panel:
    """Returns what running jobs hold."""
    return lines(
        "Held GPUs",
        f"Of running jobs. A share of 30 % counts as 0.3 of a GPU. Jobs that take turns on a GPU hold it once together. {LARGEST}",
        by_namespace(HELD_GPUS),
        stacked=True,
    )


def jobs_by_state() -> timeseries.Panel:
    """Returns how many jobs are in each state."""
    return lines(
        "Jobs by state",
        "Jobs that have not ended.",
        (
            (
                'sum by (state) (laneway_jobs{namespace=~"$namespace", state!~"succeeded|failed"})',
                "{{state}}",
            ),
        ),
        stacked=True,
    )


def lost_gpu_time() -> timeseries.Panel:
    """Returns what was lost with attempts."""
    return lines(
        "GPU time lost",
        "GPUs' worth of work that no checkpoint held when attempts were stopped, over an hour.",
        ((occurred(rate("laneway_lost_gpu_seconds_total", CHOSEN, "reason", "1h")), "{{reason}}"),),
        stacked=True,
        empty="none",
    )


def preemptions() -> timeseries.Panel:
    """Returns how many jobs were preempted."""
    return lines(
        "Preemptions",
        "Jobs preempted in an hour, by how far and why.",
        (
            (
                occurred(per_hour("laneway_preemptions_total", CHOSEN, "action, reason")),
                "{{action}}: {{reason}}",
            ),
        ),
        stacked=True,
        empty="none",
    )


def slow_down() -> timeseries.Panel:
    """Returns how much later jobs ended than alone."""
    return lines(
        "Slow-down",
        "Completion time divided by the time that the job ran, of the jobs that succeeded within an hour.",
        event_quantiles("laneway_job_slowdown_ratio", CHOSEN),
    )


def waiting_time() -> timeseries.Panel:
    """Returns how long jobs waited."""
    return lines(
        "Waiting time",
        "From waiting to running, of the jobs that started within an hour.",
        event_quantiles("laneway_job_wait_duration_seconds", CHOSEN),
        unit="s",
    )
