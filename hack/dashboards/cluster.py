"""The dashboard *Cluster*: is the cluster used, do jobs wait, and do Laneway's parts work."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard

from hack.dashboards.job_panels import (
    CHOSEN,
    HELD_GPUS,
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
    NEEDS_DCGM,
    a_dashboard,
    choice,
    dcgm,
    job_link,
    lines,
    number,
    per_hour,
    quantiles,
    rate,
    rows,
)

_NODES = '{node=~"$node"}'
_WAITING = f"laneway_job_waiting_seconds{CHOSEN}"
_NO_SUCCESS = '{code=~"5..|429|<error>"}'
_FAILED = '{result=~"refused|error|unknown"}'


def cluster() -> dashboard.Dashboard:
    """Returns the dashboard."""
    built = a_dashboard(
        "Cluster",
        "GPUs, queues and the health of Laneway's parts.",
        (
            choice("namespace", "Namespace", "label_values(laneway_jobs, namespace)"),
            choice("node", "Node", "label_values(laneway_gpu_info, node)"),
        ),
    )
    return _processes(_nodes(_health(_queues(_gpus(_summary(built))))))


def _summary(built: dashboard.Dashboard) -> dashboard.Dashboard:
    for panel in (
        number("GPUs", "Healthy GPUs on nodes where jobs may start.", "sum(laneway_usable_gpus)"),
        number(
            "Idle GPUs",
            "The parts of them that are not allocated, or to paused jobs only.",
            "sum(laneway_idle_gpus)",
        ),
        number(
            "Unhealthy GPUs", "Nodes offer no shares of them.", "count(laneway_gpu_healthy == 0) or vector(0)"
        ),
        number("Running jobs", "In all namespaces.", _jobs_in("running")),
        number("Waiting jobs", "In all namespaces.", _jobs_in("waiting")),
        number("Leading operators", "Should be 1. The other replicas stand by.", "sum(laneway_leader)"),
    ):
        built = built.with_panel(panel)
    return built


def _jobs_in(state: str) -> str:
    return f'sum(laneway_jobs{{state="{state}"}}) or vector(0)'


def _gpus(built: dashboard.Dashboard) -> dashboard.Dashboard:
    return (
        built.with_row(dashboard.Row("GPUs"))
        .with_panel(
            lines(
                "GPUs in use",
                "Usable GPUs; what is allocated of them; what running jobs hold; what is computed on; idle parts of GPUs that are partly allocated.",
                (
                    ("sum(laneway_usable_gpus)", "usable"),
                    ("sum(laneway_usable_gpus) - sum(laneway_idle_gpus)", "allocated"),
                    ("sum(laneway_job_held_gpus)", "held"),
                    (rate("laneway_used_gpu_seconds_total"), "used"),
                    ("sum(laneway_fragmented_gpus)", "in fragments"),
                ),
            )
        )
        .with_panel(held_gpus())
        .with_panel(
            lines(
                "Utilization",
                "Of the chosen nodes' GPUs, as their driver reports it: a tenth is below p10, a tenth above p90.",
                tuple(
                    (f"quantile({q}, laneway_gpu_utilization_ratio{_NODES})", name)
                    for q, name in ((0.1, "p10"), (0.5, "median"), (0.9, "p90"))
                ),
                unit="percentunit",
                maximum=1,
            )
        )
        .with_panel(
            lines(
                "GPU memory",
                "Of the chosen nodes: persistent (weights, optimizer state), ephemeral (activations), reserve and free.",
                ((f"sum by (kind) (laneway_gpu_memory_bytes{_NODES})", "{{kind}}"),),
                unit="bytes",
                stacked=True,
            )
        )
        .with_panel(
            lines(
                "Power by namespace (DCGM)",
                f"Power of the GPUs that jobs hold, by the parts that they hold. {LARGEST} Needs dcgm-exporter.",
                by_namespace(
                    f"({HELD_GPUS} * on (gpu_uuid) group_left () {dcgm('DCGM_FI_DEV_POWER_USAGE')})"
                ),
                unit="watt",
                stacked=True,
                empty=NEEDS_DCGM,
            )
        )
        .with_panel(lost_gpu_time())
    )


def _queues(built: dashboard.Dashboard) -> dashboard.Dashboard:
    return (
        built.with_row(dashboard.Row("Jobs"))
        .with_panel(jobs_by_state())
        .with_panel(
            lines(
                "Jobs by queue",
                "Unfinished jobs by queue of the order policy, which follows from attained service. Queue 0 is first.",
                (("sum by (queue) (laneway_queue_jobs)", "queue {{queue}}"),),
                stacked=True,
            )
        )
        .with_panel(
            lines(
                "Ended jobs",
                "Jobs that ended in an hour.",
                (
                    (
                        per_hour("laneway_job_completion_duration_seconds_count", CHOSEN, "result"),
                        "{{result}}",
                    ),
                ),
                stacked=True,
            )
        )
        .with_panel(waiting_time())
        .with_panel(slow_down())
        .with_panel(preemptions())
        .with_panel(
            rows(
                "Longest waits",
                "The twenty jobs that have waited longest.",
                (("Waiting", f"topk(20, max by (namespace, training_job) ({_WAITING}))", "s"),),
                width=12,
                height=8,
                links=[job_link()],
            )
        )
        .with_panel(
            lines(
                "Restarts",
                "Attempts that ended before their job did, in an hour: a worker failed, a gang did not start, the number of workers changed.",
                (
                    (per_hour("laneway_restarts_total", CHOSEN), "worker failed"),
                    (per_hour("laneway_gang_rollbacks_total", CHOSEN), "gang rolled back"),
                    (per_hour("laneway_rescales_total", CHOSEN), "rescaled"),
                ),
                width=12,
            )
        )
    )


def _health(built: dashboard.Dashboard) -> dashboard.Dashboard:
    return (
        built.with_row(dashboard.Row("Laneway's parts"))
        .with_panel(
            lines(
                "Cycle",
                "Duration of the operator's cycle, and of a job's writes.",
                (
                    *quantiles("laneway_cycle_duration_seconds"),
                    *(
                        (e, f"writes {legend}")
                        for e, legend in quantiles("laneway_job_write_duration_seconds")
                    ),
                ),
                unit="s",
            )
        )
        .with_panel(
            lines(
                "API server",
                "The operator's requests by status code; <error>: no answer.",
                ((rate("laneway_api_requests_total", by="code"), "{{code}}"),),
                unit="reqps",
            )
        )
        .with_panel(
            lines(
                "Failures",
                "Requests to the API server without success, writes that were refused, and policies that failed, a second.",
                (
                    (f"{rate('laneway_api_requests_total', _NO_SUCCESS)} or vector(0)", "API server"),
                    (
                        f"{rate('laneway_api_writes_total', _FAILED)} or vector(0)",
                        "writes",
                    ),
                    (rate("laneway_policy_failures_total"), "policies"),
                ),
                unit="ops",
            )
        )
    )


def _nodes(built: dashboard.Dashboard) -> dashboard.Dashboard:
    return built.with_panel(
        lines(
            "Nodes",
            "Nodes with an agent and with a registered plugin; nodes whose agent is silent, and whose kubelet offers no shares.",
            (
                ("count(count by (node) (laneway_gpu_info))", "agents"),
                ("sum(laneway_device_plugin_registered)", "registered plugins"),
                ("sum(laneway_node_agent_silent)", "silent"),
                ("sum(laneway_node_shares_missing)", "without shares"),
            ),
            width=12,
        )
    ).with_panel(
        lines(
            "Device plugin",
            "Containers for which kubelets requested shares, in an hour.",
            ((per_hour("laneway_device_allocations_total", by="result"), "{{result}}"),),
            width=12,
        )
    )


def _processes(built: dashboard.Dashboard) -> dashboard.Dashboard:
    component = "* on (job, instance) group_left (component) laneway_build_info"
    return (
        built.with_panel(
            lines(
                "CPUs",
                "Of each component's busiest process.",
                (
                    (
                        f"max by (component) (rate(process_cpu_seconds_total[$__rate_interval]) {component})",
                        "{{component}}",
                    ),
                ),
            )
        )
        .with_panel(
            lines(
                "Memory",
                "Of each component's largest process.",
                ((f"max by (component) (process_resident_memory_bytes {component})", "{{component}}"),),
                unit="bytes",
            )
        )
        .with_panel(
            rows(
                "Versions",
                "How many processes run each version.",
                (("Processes", "count by (component, version) (laneway_build_info)", "short"),),
                width=8,
                height=8,
            )
        )
    )
