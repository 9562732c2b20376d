"""The Grafana dashboard: six rows, from the users' questions (which job has which GPU) to the administrators' (is the operator healthy)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Json = dict[str, Any]

COLUMNS = 24
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
NODES = 'node=~"$node"'


@dataclass(frozen=True)
class Query:
    """One PromQL expression; `legend` may name labels as `{{label}}`."""

    expression: str
    legend: str = ""


@dataclass(frozen=True)
class Panel:
    """One panel. `unit` is Grafana's name of a unit; `width` counts Grafana's 24 columns."""

    title: str
    description: str
    queries: tuple[Query, ...]
    kind: Literal["timeseries", "stat", "table", "bargauge", "state-timeline"] = "timeseries"
    unit: str = "short"
    width: int = 12
    height: int = 8
    stacked: bool = False
    maximum: float | None = None


def _quantiles(histogram: str, by: str = "") -> tuple[Query, ...]:
    labels = f"le, {by}" if by else "le"
    legend = f" {{{{{by}}}}}" if by else ""
    return tuple(
        Query(
            f"histogram_quantile({q}, sum by ({labels}) (rate({histogram}_bucket[$__rate_interval])))",
            f"p{int(float(q) * 100)}{legend}",
        )
        for q in ("0.5", "0.99")
    )


ROWS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    (
        "GPU allocation",
        (
            Panel(
                "GPU shares by job",
                "The part of each GPU that a job's workers hold; 1 is a whole GPU.",
                (
                    Query(
                        f"sum by (gpu_uuid, node, namespace, training_job) (laneway_job_gpu_share_ratio{{{NODES}}})",
                        "{{namespace}}/{{training_job}} on {{node}} {{gpu_uuid}}",
                    ),
                ),
                kind="bargauge",
                unit="percentunit",
                maximum=1,
            ),
            Panel(
                "Allocated GPUs",
                "Sum of the shares that jobs hold, beside the number of healthy GPUs.",
                (
                    Query("sum(laneway_job_gpu_share_ratio) or vector(0)", "allocated"),
                    Query("sum(laneway_gpu_healthy)", "healthy GPUs"),
                ),
                unit="none",
                width=6,
            ),
            Panel(
                "GPU utilisation",
                "As reported by the driver. On a simulated GPU: the fraction of time in iterations.",
                (Query(f"laneway_gpu_utilization_ratio{{{NODES}}}", "{{node}} {{gpu_uuid}}"),),
                unit="percentunit",
                width=6,
                maximum=1,
            ),
            Panel(
                "GPU time by worker",
                "GPU-seconds in iterations per second.",
                (
                    Query(
                        f"sum by (namespace, pod) (rate(laneway_used_gpu_seconds_total{{{NODES}}}[$__rate_interval]))",
                        "{{namespace}}/{{pod}}",
                    ),
                ),
                unit="none",
                stacked=True,
            ),
            Panel(
                "Iterations by worker",
                "Training iterations completed per second.",
                (
                    Query(
                        f"sum by (namespace, pod) (rate(laneway_iterations_total{{{NODES}}}[$__rate_interval]))",
                        "{{namespace}}/{{pod}}",
                    ),
                ),
                unit="ops",
            ),
        ),
    ),
    (
        "Training",
        (
            Panel(
                "Progress by job",
                "Completed steps over all steps, for jobs that report them (laneway.client.report).",
                (Query("laneway_job_progress_ratio", "{{namespace}}/{{training_job}}"),),
                kind="bargauge",
                unit="percentunit",
                width=8,
                maximum=1,
            ),
            Panel(
                "Remaining time by job",
                "Estimated from the remaining steps and the recent pace, including waits for turns.",
                (Query("laneway_job_remaining_seconds", "{{namespace}}/{{training_job}}"),),
                unit="s",
                width=8,
            ),
            Panel(
                "Loss by job",
                "As reported by the training scripts.",
                (Query("laneway_job_loss", "{{namespace}}/{{training_job}}"),),
                unit="none",
                width=8,
            ),
            Panel(
                "Iteration time by job",
                "Mean iteration time of the slowest worker, and its mean time between iterations without waiting for a turn (mostly data loading).",
                (
                    Query("laneway_job_iteration_seconds", "{{namespace}}/{{training_job}} iteration"),
                    Query("laneway_job_data_seconds", "{{namespace}}/{{training_job}} data"),
                ),
                unit="s",
            ),
            Panel(
                "Data time by worker",
                "Fraction of time between iterations without waiting for a turn. A high value means that other jobs gain from sharing the GPU.",
                (
                    Query(
                        f"sum by (namespace, pod) (rate(laneway_data_seconds_total{{{NODES}}}[$__rate_interval]))",
                        "{{namespace}}/{{pod}}",
                    ),
                ),
                unit="percentunit",
            ),
        ),
    ),
    (
        "Lanes and memory",
        (
            Panel(
                "GPU memory",
                "Memory by use: persistent (weights, optimizer state), lanes (ephemeral), frameworks and free.",
                (Query(f"sum by (kind) (laneway_gpu_memory_bytes{{{NODES}}})", "{{kind}}"),),
                unit="bytes",
                stacked=True,
            ),
            Panel(
                "Free memory by GPU",
                "Memory that the safety condition leaves for further jobs.",
                (Query(f'laneway_gpu_memory_bytes{{{NODES}, kind="free"}}', "{{node}} {{gpu_uuid}}"),),
                unit="bytes",
            ),
            Panel(
                "Lanes by GPU",
                "Number of lanes, and therefore of jobs that compute at the same time.",
                (Query(f"laneway_gpu_lanes{{{NODES}}}", "{{node}} {{gpu_uuid}}"),),
                width=8,
            ),
            Panel(
                "Lane memory",
                "Ephemeral bytes of each lane: the need of its largest job.",
                (Query(f"laneway_lane_ephemeral_bytes{{{NODES}}}", "{{node}} {{gpu_uuid}} lane {{lane}}"),),
                unit="bytes",
                width=8,
            ),
            Panel(
                "Measured memory by worker",
                "Persistent and ephemeral bytes measured by each worker's client.",
                (
                    Query(
                        f"sum by (namespace, pod) (laneway_session_persistent_bytes{{{NODES}}})",
                        "{{namespace}}/{{pod}} persistent",
                    ),
                    Query(
                        f"sum by (namespace, pod) (laneway_session_ephemeral_bytes{{{NODES}}})",
                        "{{namespace}}/{{pod}} ephemeral",
                    ),
                ),
                unit="bytes",
                width=8,
            ),
            Panel(
                "Quota use by worker",
                "Measured bytes over the worker's quota. At 1 the worker fails with an out-of-memory error.",
                (
                    Query(
                        f"sum by (namespace, pod) (laneway_session_persistent_bytes{{{NODES}}} + laneway_session_ephemeral_bytes{{{NODES}}})"
                        f" / sum by (namespace, pod) (laneway_session_quota_bytes{{{NODES}}})",
                        "{{namespace}}/{{pod}}",
                    ),
                ),
                unit="percentunit",
                width=24,
                height=7,
            ),
        ),
    ),
    (
        "Queues and waiting",
        (
            Panel(
                "Jobs by state",
                "All TrainingJobs of the cluster.",
                (Query("sum by (state) (laneway_jobs)", "{{state}}"),),
                stacked=True,
                width=8,
            ),
            Panel(
                "Jobs by queue",
                "Unfinished jobs by queue, which follows from attained service. Queue 0 is first.",
                (Query("laneway_queue_jobs", "queue {{queue}}"),),
                stacked=True,
                width=8,
            ),
            Panel(
                "Waiting jobs",
                "How long each waiting job has waited so far.",
                (Query("laneway_job_waiting_seconds or vector(0)", "{{namespace}}/{{training_job}}"),),
                kind="bargauge",
                unit="s",
                width=8,
            ),
            Panel(
                "Waiting time",
                "Time from waiting to running: median and 99th percentile of started jobs.",
                (
                    Query(
                        "histogram_quantile(0.5, sum by (le) (laneway_job_wait_duration_seconds_bucket))",
                        "p50",
                    ),
                    Query(
                        "histogram_quantile(0.99, sum by (le) (laneway_job_wait_duration_seconds_bucket))",
                        "p99",
                    ),
                ),
                unit="s",
                width=8,
            ),
            Panel(
                "Attained service",
                "GPU-seconds of each unfinished job, by which Tiresias orders jobs.",
                (Query("laneway_job_attained_service_gpu_seconds", "{{namespace}}/{{training_job}}"),),
                unit="s",
                width=8,
            ),
            Panel(
                "Preemptions and rollbacks",
                "Jobs preempted, by reason, and gangs rolled back because some workers did not start.",
                (
                    Query("sum by (reason) (laneway_preemptions_total)", "preempted: {{reason}}"),
                    Query("sum(laneway_gang_rollbacks_total)", "gang rollbacks"),
                ),
                width=8,
            ),
        ),
    ),
    (
        "Turns",
        (
            Panel(
                "Turns by worker",
                "Turns granted per second.",
                (
                    Query(
                        f"sum by (namespace, pod) (rate(laneway_turns_total{{{NODES}}}[$__rate_interval]))",
                        "{{namespace}}/{{pod}}",
                    ),
                ),
                unit="ops",
                width=6,
            ),
            Panel(
                "Turn duration",
                "From grant to release.",
                _quantiles("laneway_turn_duration_seconds"),
                unit="s",
                width=6,
            ),
            Panel(
                "Turn wait",
                "From request to grant: the cost of sharing a lane.",
                _quantiles("laneway_turn_wait_seconds"),
                unit="s",
                width=6,
            ),
            Panel(
                "Revoked turns",
                "Turns that the agent revoked, by reason.",
                (Query("sum by (reason) (laneway_turns_revoked_total) or vector(0)", "{{reason}}"),),
                width=6,
            ),
        ),
    ),
    (
        "Health",
        (
            Panel(
                "Unhealthy GPUs",
                "GPUs out of use; nodes offer none of their shares.",
                (Query("count(laneway_gpu_healthy == 0) or vector(0)", "unhealthy"),),
                kind="stat",
                width=4,
            ),
            Panel(
                "Leading operators",
                "Should be 1. The other replicas stand by.",
                (Query("sum(laneway_leader)", "leaders"),),
                kind="stat",
                width=4,
            ),
            Panel(
                "Cycle duration",
                "Duration of the operator's scheduling cycle.",
                _quantiles("laneway_cycle_duration_seconds"),
                unit="s",
                width=8,
            ),
            Panel(
                "Writes to the API server",
                "Writes per second by verb, resource and result.",
                (
                    Query(
                        "sum by (verb, resource, result) (rate(laneway_api_writes_total[$__rate_interval]))",
                        "{{verb}} {{resource}} {{result}}",
                    ),
                ),
                unit="ops",
                width=8,
            ),
            Panel(
                "Device plugin allocations",
                "Containers for which the kubelet requested devices, by result.",
                (Query("sum by (result) (laneway_device_allocations_total)", "{{result}}"),),
                width=12,
            ),
            Panel(
                "Registered device plugins",
                "Nodes whose kubelet offers the resource laneway.dev/gpu-percent.",
                (
                    Query("sum(laneway_device_plugin_registered)", "registered"),
                    Query("count(laneway_device_plugin_registered)", "nodes"),
                ),
                width=12,
            ),
        ),
    ),
)


def dashboard() -> Json:
    """Returns the dashboard in Grafana's import format."""
    return {
        "uid": "laneway",
        "title": "Laneway",
        "description": "GPU allocation, training progress, lanes and memory, queues and waiting, turns, health.",
        "tags": ["laneway", "gpu"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "timezone": "browser",
        "annotations": {"list": []},
        "templating": {"list": [_datasource_variable(), _node_variable()]},
        "panels": list(_panels(ROWS)),
    }


def _datasource_variable() -> Json:
    return {
        "name": "datasource",
        "label": "Prometheus",
        "type": "datasource",
        "query": "prometheus",
        "current": {},
        "hide": 0,
    }


def _node_variable() -> Json:
    return {
        "name": "node",
        "label": "Node",
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": "label_values(laneway_gpu_healthy, node)", "refId": "node"},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _panels(rows: Sequence[tuple[str, tuple[Panel, ...]]]) -> Iterator[Json]:
    """Yields rows and panels with their positions: left to right, then on the next line."""
    identity = top = 0
    for title, panels in rows:
        identity += 1
        yield {
            "id": identity,
            "type": "row",
            "title": title,
            "collapsed": False,
            "panels": [],
            "gridPos": _place(0, top, COLUMNS, 1),
        }
        top += 1
        left = line_height = 0
        for panel in panels:
            if left + panel.width > COLUMNS:
                top, left, line_height = top + line_height, 0, 0
            identity += 1
            yield _panel(panel, identity, _place(left, top, panel.width, panel.height))
            left, line_height = left + panel.width, max(line_height, panel.height)
        top += line_height


def _place(left: int, top: int, width: int, height: int) -> Json:
    return {"x": left, "y": top, "w": width, "h": height}


def _panel(panel: Panel, identity: int, place: Json) -> Json:
    defaults: Json = {"unit": panel.unit, "min": 0}
    if panel.maximum is not None:
        defaults["max"] = panel.maximum
    if panel.kind == "timeseries":
        defaults["custom"] = {
            "fillOpacity": 25 if panel.stacked else 8,
            "showPoints": "never",
            "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
        }
    return {
        "id": identity,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": DATASOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": _options(panel.kind),
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": DATASOURCE,
                "expr": query.expression,
                "legendFormat": query.legend,
                "instant": panel.kind != "timeseries",
                "range": panel.kind == "timeseries",
            }
            for index, query in enumerate(panel.queries)
        ],
    }


def _options(kind: str) -> Json:
    if kind == "timeseries":
        return {
            "legend": {"displayMode": "list", "placement": "bottom"},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
    return {"orientation": "horizontal", "reduceOptions": {"calcs": ["lastNotNull"], "values": False}}
