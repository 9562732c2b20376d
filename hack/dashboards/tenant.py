"""The dashboard *Tenant*: what a namespace uses and loses, and how its jobs fare."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard

from hack.dashboards.job_panels import (
    CHOSEN,
    LARGEST,
    by_namespace,
    held_gpus,
    jobs_by_state,
    lost_gpu_time,
    preemptions,
    slow_down,
    waiting_time,
)
from hack.dashboards.panels import (
    a_dashboard,
    choice,
    event_quantiles,
    job_link,
    lines,
    number,
    occurred,
    per_hour,
    rows,
)

_JOB = "namespace, training_job"


def tenant() -> dashboard.Dashboard:
    """Returns the dashboard."""
    built = a_dashboard(
        "Tenant",
        "What the jobs of namespaces hold, use, wait for and lose.",
        (choice("namespace", "Namespace", "label_values(laneway_jobs, namespace)"),),
    )
    return _jobs(_waits(_use(_summary(built))))


def _hours(counter: str) -> str:
    return f"sum(increase({counter}{CHOSEN}[$__range])) / 3600"


def _summary(built: dashboard.Dashboard) -> dashboard.Dashboard:
    idle = f"sum(avg_over_time(namespace:laneway_idle_gpus:rate5m{CHOSEN}[$__range])) * $__range_s / 3600"
    for panel in (
        number(
            "GPU-hours", "Held by running jobs in the chosen time.", _hours("laneway_held_gpu_seconds_total")
        ),
        number("Idle GPU-hours", "Held and not computed on. Needs the chart's recording rules.", idle),
        number(
            "Lost GPU-hours",
            "Not in a checkpoint when attempts were stopped.",
            _hours("laneway_lost_gpu_seconds_total"),
        ),
        number("Running", "Jobs.", 'sum(laneway_jobs{namespace=~"$namespace", state="running"})'),
        number("Waiting", "Jobs.", 'sum(laneway_jobs{namespace=~"$namespace", state="waiting"})'),
        number(
            "Failed",
            "Jobs that ended in failure in the chosen time.",
            'round(sum(increase(laneway_job_completion_duration_seconds_count{namespace=~"$namespace", result="failed"}[$__range])))',
        ),
    ):
        built = built.with_panel(panel)
    return built


def _use(built: dashboard.Dashboard) -> dashboard.Dashboard:
    return (
        built.with_row(dashboard.Row("GPUs"))
        .with_panel(held_gpus())
        .with_panel(
            lines(
                "Used GPUs",
                f"GPUs' worth of time inside iterations. {LARGEST}",
                by_namespace(f"rate(laneway_used_gpu_seconds_total{CHOSEN}[$__rate_interval])"),
                stacked=True,
            )
        )
        .with_panel(lost_gpu_time())
    )


def _waits(built: dashboard.Dashboard) -> dashboard.Dashboard:
    return (
        built.with_row(dashboard.Row("Waits and preemptions"))
        .with_panel(waiting_time())
        .with_panel(
            lines(
                "Completion time (JCT)",
                "From creation to end, of the jobs that ended within an hour.",
                event_quantiles("laneway_job_completion_duration_seconds", CHOSEN),
                unit="s",
            )
        )
        .with_panel(slow_down())
        .with_panel(jobs_by_state())
        .with_panel(preemptions())
        .with_panel(
            lines(
                "Restarts and evictions",
                "In an hour: restarts after a worker failed, and containers that the watchdog stopped.",
                (
                    (occurred(per_hour("laneway_restarts_total", CHOSEN)), "worker failed"),
                    (
                        occurred(per_hour("laneway_watchdog_evictions_total", CHOSEN, "reason")),
                        "stopped: {{reason}}",
                    ),
                ),
                empty="none",
            )
        )
    )


def _jobs(built: dashboard.Dashboard) -> dashboard.Dashboard:
    def of_job(function: str, metric: str) -> str:
        return f"{function} by ({_JOB}) ({metric}{CHOSEN})"

    return (
        built.with_row(dashboard.Row("Jobs"))
        .with_panel(
            rows(
                "Unfinished jobs",
                "Shares: of GPUs, also while it starts or is paused. Held: of them, while it runs. Suspended jobs are not listed. A job's name leads to its dashboard.",
                (
                    ("Shares", of_job("sum", "laneway_job_gpu_share_ratio"), "short"),
                    ("Held", of_job("sum", "laneway_job_held_gpus"), "short"),
                    ("Waiting", of_job("max", "laneway_job_waiting_seconds"), "s"),
                    ("Progress", of_job("max", "laneway_job_progress_ratio"), "percentunit"),
                    ("Remaining", of_job("max", "laneway_job_remaining_seconds"), "s"),
                    ("Service", of_job("max", "laneway_job_attained_service_gpu_seconds"), "s"),
                ),
                links=[job_link()],
            )
        )
        .with_panel(
            rows(
                "GPU-hours by job",
                "Of the jobs of the last seven days, also of those that are gone. Needs the chart's recording rules.",
                (("GPU-hours", f"topk(100, training_job:laneway_gpu_hours:max7d{CHOSEN})", "short"),),
            )
        )
    )
