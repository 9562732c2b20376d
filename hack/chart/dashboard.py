"""The Grafana dashboard: six rows, from what a user asks first (who has which GPU) to what an operator asks last (is the cycle well)."""

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
    """One panel; `unit` is Grafana's name of a unit, `width` in its 24 columns."""

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
        "Who has which GPU",
        (
            Panel(
                "Shares of GPUs by job",
                "Percent of each GPU that a job's workers hold: 100 is a whole one.",
                (
                    Query(
                        f"sum by (gpu, node, namespace, job) (laneway_job_gpu_percent{{{NODES}}})",
                        "{{namespace}}/{{job}} on {{node}} {{gpu}}",
                    ),
                ),
                kind="bargauge",
                unit="percent",
                maximum=100,
            ),
            Panel(
                "GPUs promised",
                "Sum of the shares that jobs hold, over the GPUs that are healthy.",
                (
                    Query("(sum(laneway_job_gpu_percent) or vector(0)) / 100", "promised"),
                    Query("sum(laneway_gpu_healthy)", "healthy GPUs"),
                ),
                unit="none",
                width=6,
            ),
            Panel(
                "GPU utilisation",
                "As the node's driver reports it, or the share of time that iterations ran on a simulated GPU.",
                (Query(f"laneway_gpu_utilization_ratio{{{NODES}}}", "{{node}} {{gpu}}"),),
                unit="percentunit",
                width=6,
                maximum=1,
            ),
            Panel(
                "Time on GPUs by job",
                "GPU-seconds spent inside iterations, a second.",
                (
                    Query(
                        f"sum by (namespace, pod) (rate(laneway_gpu_seconds_total{{{NODES}}}[$__rate_interval]))",
                        "{{namespace}}/{{pod}}",
                    ),
                ),
                unit="none",
                stacked=True,
            ),
            Panel(
                "Iterations by job",
                "Training iterations completed, a second.",
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
                "Steps done of all, of the jobs whose scripts report them (laneway.client.report).",
                (Query("laneway_job_progress_ratio", "{{namespace}}/{{job}}"),),
                kind="bargauge",
                unit="percentunit",
                width=8,
                maximum=1,
            ),
            Panel(
                "Time left by job",
                "By the steps that are left and the pace of late, waits for turns included.",
                (Query("laneway_job_remaining_seconds", "{{namespace}}/{{job}}"),),
                unit="s",
                width=8,
            ),
            Panel(
                "Loss by job",
                "As the scripts report it.",
                (Query("laneway_job_loss", "{{namespace}}/{{job}}"),),
                unit="none",
                width=8,
            ),
            Panel(
                "Iteration time by job",
                "Mean time of an iteration of the slowest worker, and of what comes before it that is no wait for a turn: loading of data, mostly.",
                (
                    Query("laneway_job_iteration_seconds", "{{namespace}}/{{job}} iteration"),
                    Query("laneway_job_data_seconds", "{{namespace}}/{{job}} data"),
                ),
                unit="s",
            ),
            Panel(
                "Time for data by worker",
                "What part of its time a worker spends between iterations without waiting for a turn: where it is high, others gain from sharing its GPU.",
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
                "Each GPU's memory: what jobs keep (persistent), the lanes (ephemeral), the frameworks' reserve, and what is free.",
                (Query(f'sum by (kind) (laneway_gpu_memory_bytes{{{NODES}, kind!="total"}})', "{{kind}}"),),
                unit="bytes",
                stacked=True,
            ),
            Panel(
                "Free memory by GPU",
                "What the safety condition leaves for further jobs.",
                (Query(f'laneway_gpu_memory_bytes{{{NODES}, kind="free"}}', "{{node}} {{gpu}}"),),
                unit="bytes",
            ),
            Panel(
                "Lanes by GPU",
                "How many lanes each GPU is cut into: as many jobs can compute there at the same time.",
                (Query(f"laneway_gpu_lanes{{{NODES}}}", "{{node}} {{gpu}}"),),
                width=8,
            ),
            Panel(
                "Lanes' memory",
                "The ephemeral bytes of each lane: those of its largest job.",
                (Query(f"laneway_lane_ephemeral_bytes{{{NODES}}}", "{{node}} {{gpu}} lane {{lane}}"),),
                unit="bytes",
                width=8,
            ),
            Panel(
                "Memory by worker, measured",
                "Persistent and ephemeral bytes that each worker's client measured.",
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
                "Quota in use",
                "Measured bytes over the quota of each worker's share; at 1 the worker fails with an out-of-memory error.",
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
        "Queue and waiting",
        (
            Panel(
                "Jobs by state",
                "All TrainingJobs of the cluster.",
                (Query("laneway_jobs", "{{state}}"),),
                stacked=True,
                width=8,
            ),
            Panel(
                "Jobs by queue",
                "Unfinished jobs by the queue that their attained service puts them in; queue 0 goes first.",
                (Query("laneway_queue_jobs", "queue {{queue}}"),),
                stacked=True,
                width=8,
            ),
            Panel(
                "Waiting now",
                "How long each waiting job has waited.",
                (Query("laneway_job_waiting_seconds or vector(0)", "{{namespace}}/{{job}}"),),
                kind="bargauge",
                unit="s",
                width=8,
            ),
            Panel(
                "Waiting time",
                "From waiting to running: the median and the 99th percentile of the jobs that began to run.",
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
                "GPU-seconds that each unfinished job has attained, by which it is ordered (Tiresias).",
                (Query("laneway_job_attained_service_gpu_seconds", "{{namespace}}/{{job}}"),),
                unit="s",
                width=8,
            ),
            Panel(
                "Preemptions and rollbacks",
                "Jobs that made way for others, and gangs that were taken back because not all of their workers came up.",
                (
                    Query("laneway_preemptions_total", "preemptions"),
                    Query("laneway_gang_rollbacks_total", "gang rollbacks"),
                ),
                width=8,
            ),
        ),
    ),
    (
        "Turns",
        (
            Panel(
                "Turns taken",
                "Turns that began, a second, by worker.",
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
                "Length of a turn",
                "From its grant to its release.",
                _quantiles("laneway_turn_duration_seconds"),
                unit="s",
                width=6,
            ),
            Panel(
                "Wait for a turn",
                "From a session's request to its grant: what sharing a lane costs.",
                _quantiles("laneway_turn_wait_seconds"),
                unit="s",
                width=6,
            ),
            Panel(
                "Turns taken away",
                "Sessions that died, stalled or lied lose their turn within a bounded time.",
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
                "GPUs whose health was lost; none of their shares is on offer.",
                (Query("count(laneway_gpu_healthy == 0) or vector(0)", "unhealthy"),),
                kind="stat",
                width=4,
            ),
            Panel(
                "Operators that lead",
                "One acts; the others stand by.",
                (Query("sum(laneway_leader)", "leaders"),),
                kind="stat",
                width=4,
            ),
            Panel(
                "Cycle",
                "How long the operator takes to decide from the whole state.",
                _quantiles("laneway_cycle_duration_seconds"),
                unit="s",
                width=8,
            ),
            Panel(
                "Writes to the API server",
                "By verb, resource and result, a second.",
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
                "Allocations by the device plugin",
                "Containers that the kubelet asked devices for.",
                (Query("sum by (result) (laneway_device_allocations_total)", "{{result}}"),),
                width=12,
            ),
            Panel(
                "Device plugins registered",
                "Nodes whose kubelet knows the resource laneway.dev/gpu-percent.",
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
    """The whole dashboard, as Grafana imports it."""
    return {
        "uid": "laneway",
        "title": "Laneway",
        "description": "Who has which GPU, how far trainings are, lanes and their memory, queue and waiting times, turns, health.",
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
    """Rows and panels with their places: from left to right, on to the next line where the width is used up."""
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
