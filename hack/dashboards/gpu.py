"""The dashboard *GPU*: the GPUs of a node, their health, and who shares them."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard

from hack.dashboards.panels import (
    NEEDS_DCGM,
    Query,
    a_dashboard,
    choice,
    dcgm,
    job_link,
    lines,
    occurred,
    per_hour,
    quantiles,
    rate,
    rows,
    short_uuid,
    states,
)

_OF = '{node="$node", gpu_uuid=~"$gpu_uuid"}'


def gpu() -> dashboard.Dashboard:
    """Returns the dashboard."""
    built = a_dashboard(
        "GPU",
        "The GPUs of a node: health, load, memory, lanes and turns.",
        (
            choice("node", "Node", "label_values(laneway_gpu_info, node)", several=False),
            choice("gpu_uuid", "GPU", 'label_values(laneway_gpu_info{node="$node"}, gpu_uuid)'),
        ),
    )
    return _turns(_lanes(_sharers(_load(_health(built)))))


def _each(expression: str) -> Query:
    """Of each GPU, under the start of its UUID."""
    return short_uuid(expression), "{{gpu_uuid}}"


def _dcgm(metric: str) -> str:
    """Of the chosen GPUs."""
    return f"{dcgm(metric)} and on (gpu_uuid) laneway_gpu_info{_OF}"


def _health(built: dashboard.Dashboard) -> dashboard.Dashboard:
    last = f"max by (gpu_uuid, xid, class) (laneway_gpu_last_xid_timestamp_seconds{_OF})"
    return (
        built.with_row(dashboard.Row("Health"))
        .with_panel(
            states(
                "Health",
                "Unhealthy: the node offers no shares of the GPU.",
                _each(f"max by (gpu_uuid) (laneway_gpu_healthy{_OF})"),
                {"0": ("unhealthy", "red"), "1": ("healthy", "green")},
            )
        )
        .with_panel(
            lines(
                "XIDs",
                "1 for five minutes after an error of the driver. class: ignored, an application's error; quarantine and reset, the GPU is out of use.",
                ((f"time() - {last} < bool 300", "{{gpu_uuid}} XID {{xid}} ({{class}})"),),
                width=12,
                bars=True,
                empty="none",
            )
        )
    )


def _load(built: dashboard.Dashboard) -> dashboard.Dashboard:
    return (
        built.with_row(dashboard.Row("Load"))
        .with_panel(
            lines(
                "Utilization",
                "As the driver reports it. Of a simulated GPU: the part of the time in iterations.",
                (_each(f"max by (gpu_uuid) (laneway_gpu_utilization_ratio{_OF})"),),
                unit="percentunit",
                maximum=1,
            )
        )
        .with_panel(
            lines(
                "Active SMs (DCGM)",
                "Needs dcgm-exporter with the profiling metrics.",
                (_each(_dcgm("DCGM_FI_PROF_SM_ACTIVE")),),
                unit="percentunit",
                maximum=1,
                empty=NEEDS_DCGM,
            )
        )
        .with_panel(
            lines(
                "Time in iterations",
                "Of all containers of a GPU. More than 1 where lanes compute in parallel.",
                (_each(rate("laneway_used_gpu_seconds_total", _OF, "gpu_uuid")),),
            )
        )
        .with_panel(
            lines(
                "Power (DCGM)",
                "Needs dcgm-exporter.",
                (_each(_dcgm("DCGM_FI_DEV_POWER_USAGE")),),
                unit="watt",
                empty=NEEDS_DCGM,
            )
        )
        .with_panel(
            lines(
                "Temperature (DCGM)",
                "Needs dcgm-exporter.",
                (_each(_dcgm("DCGM_FI_DEV_GPU_TEMP")),),
                unit="celsius",
                empty=NEEDS_DCGM,
            )
        )
        .with_panel(
            lines(
                "Memory in use (DCGM)",
                "As the driver counts it, framework buffers of every process included. Needs dcgm-exporter.",
                (_each(f"({_dcgm('DCGM_FI_DEV_FB_USED')}) * 1048576"),),
                unit="bytes",
                empty=NEEDS_DCGM,
            )
        )
    )


def _sharers(built: dashboard.Dashboard) -> dashboard.Dashboard:
    def of_job(metric: str) -> str:
        return f"sum by (namespace, training_job, gpu_uuid) ({metric}{_OF})"

    return (
        built.with_row(dashboard.Row("Who shares them"))
        .with_panel(
            rows(
                "Jobs",
                "Shares of a GPU add up to more than 1 where jobs take turns on it. Held: the part of the GPU that a running job has then.",
                (
                    ("Share", of_job("laneway_job_gpu_share_ratio"), "percentunit"),
                    ("Held", of_job("laneway_job_held_gpus"), "percentunit"),
                ),
                width=12,
                height=8,
                links=[job_link()],
            )
        )
        .with_panel(
            lines(
                "Containers by state",
                "Holding: it has its lane's turn. Lost: its client disconnected without notice.",
                ((f"sum by (state) (laneway_sessions{_OF})", "{{state}}"),),
                width=12,
                stacked=True,
            )
        )
    )


def _lanes(built: dashboard.Dashboard) -> dashboard.Dashboard:
    return (
        built.with_panel(
            lines(
                "GPU memory",
                "Persistent (weights, optimizer state), ephemeral (lanes), reserve and free.",
                ((f"sum by (kind) (laneway_gpu_memory_bytes{_OF})", "{{kind}}"),),
                unit="bytes",
                stacked=True,
            )
        )
        .with_panel(
            lines(
                "Lanes",
                "Lanes of each GPU, and therefore the jobs that compute at the same time.",
                (_each(f"max by (gpu_uuid) (laneway_gpu_lanes{_OF})"),),
            )
        )
        .with_panel(
            lines(
                "Memory of lanes",
                "Ephemeral memory of all lanes of a GPU; each is as large as its largest job needs.",
                (_each(f"sum by (gpu_uuid) (laneway_lane_ephemeral_bytes{_OF})"),),
                unit="bytes",
            )
        )
        .with_panel(
            lines(
                "Foreign processes",
                "Processes without a share of the GPU, in a pod or of the host.",
                ((f"sum by (kind) (laneway_gpu_foreign_processes{_OF})", "{{kind}}"),),
                width=12,
            )
        )
        .with_panel(
            lines(
                "Enforcement lower than requested",
                "GPUs whose shares are held less than the node's configuration requests.",
                ((f"sum(laneway_gpu_enforcement_lowered{_OF})", "GPUs"),),
                width=12,
            )
        )
    )


def _turns(built: dashboard.Dashboard) -> dashboard.Dashboard:
    return (
        built.with_row(dashboard.Row("Turns"))
        .with_panel(
            lines(
                "Duration",
                "Of turns, from grant to release.",
                quantiles("laneway_turn_duration_seconds", _OF),
                unit="s",
            )
        )
        .with_panel(
            lines(
                "Waits",
                "From request to grant: what sharing a lane costs.",
                quantiles("laneway_turn_wait_seconds", _OF),
                unit="s",
            )
        )
        .with_panel(
            lines(
                "Revoked turns and evictions",
                "Turns that the agent revoked, and containers that its watchdog stopped, in an hour.",
                (
                    (
                        occurred(per_hour("laneway_turns_revoked_total", _OF, "reason")),
                        "revoked: {{reason}}",
                    ),
                    (
                        occurred(per_hour("laneway_watchdog_evictions_total", _OF, "reason")),
                        "stopped: {{reason}}",
                    ),
                ),
                empty="none",
            )
        )
    )
