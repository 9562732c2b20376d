"""The dashboard *Job*: one TrainingJob, its workers, its training and its memory."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard

from hack.dashboards.panels import NEEDS_DCGM, a_dashboard, choice, dcgm, lines, number, rate, rows

_OF = '{namespace="$namespace", training_job="$training_job"}'
_PLACES = f"max by (gpu_uuid) (laneway_job_gpu_share_ratio{_OF} > 0)"


def job() -> dashboard.Dashboard:
    """Returns the dashboard."""
    service = "laneway_job_attained_service_gpu_seconds"
    jobs = f'label_values({service}{{namespace="$namespace"}}, training_job)'
    built = a_dashboard(
        "Job",
        "One TrainingJob: where it runs, how fast it trains, what it uses.",
        (
            choice("namespace", "Namespace", f"label_values({service}, namespace)", several=False),
            choice("training_job", "Job", jobs, several=False),
        ),
    )
    return _gpu_figures(_memory(_behaviour(_turns(_training(_summary(built))))))


def _of(metric: str) -> str:
    return f"max({metric}{_OF})"


def _by_pod(metric: str) -> str:
    return f"sum by (pod) ({metric}{_OF})"


def _summary(built: dashboard.Dashboard) -> dashboard.Dashboard:
    for panel in (
        number(
            "GPUs",
            "Its shares of GPUs; 30 % count as 0.3 of a GPU.",
            f"sum(laneway_job_gpu_share_ratio{_OF})",
        ),
        number(
            "Waiting",
            "For how long it has waited; none while it runs.",
            _of("laneway_job_waiting_seconds"),
            unit="s",
        ),
        number(
            "Progress",
            "Completed steps over all, as reported.",
            _of("laneway_job_progress_ratio"),
            unit="percentunit",
        ),
        number(
            "Remaining",
            "Estimated from the remaining steps and the pace.",
            _of("laneway_job_remaining_seconds"),
            unit="s",
        ),
        number(
            "GPU-hours",
            "Held while it ran.",
            f"{_of('laneway_job_held_gpu_seconds')} / 3600",
        ),
        number(
            "Skew",
            "Largest tensor over the model's size (Tiresias).",
            f"{_of('laneway_job_largest_tensor_bytes')} / {_of('laneway_job_model_bytes')}",
            unit="percentunit",
        ),
    ):
        built = built.with_panel(panel)
    return built


def _training(built: dashboard.Dashboard) -> dashboard.Dashboard:
    return (
        built.with_row(dashboard.Row("Training"))
        .with_panel(
            lines(
                "Loss",
                "As the script reports it.",
                ((_of("laneway_job_loss"), "loss"),),
                unit="none",
                minimum=None,
            )
        )
        .with_panel(
            lines(
                "Steps",
                "As the script reports them. They go back where it resumes from a checkpoint.",
                ((_of("laneway_job_step"), "step"),),
            )
        )
        .with_panel(
            lines(
                "Iteration time",
                "Of the slowest worker: the iteration, and the time before it without waits for a turn, mostly for data.",
                (
                    (_of("laneway_job_iteration_seconds"), "iteration"),
                    (_of("laneway_job_data_seconds"), "data"),
                ),
                unit="s",
            )
        )
        .with_panel(
            lines(
                "Goodput",
                "Samples a second, each worth what it is worth at the initial batch.",
                ((_of("laneway_job_goodput_samples_per_second"), "goodput"),),
                unit="cps",
            )
        )
        .with_panel(
            lines(
                "Statistical efficiency",
                "Progress of a sample, compared with the initial batch.",
                ((_of("laneway_job_statistical_efficiency_ratio"), "efficiency"),),
                unit="percentunit",
                maximum=1,
            )
        )
        .with_panel(
            lines(
                "Gradient noise scale",
                "Batch beyond which most of a larger one is wasted.",
                ((_of("laneway_job_gradient_noise_scale_samples"), "samples"),),
            )
        )
    )


def _turns(built: dashboard.Dashboard) -> dashboard.Dashboard:
    data = rate("laneway_data_seconds_total", _OF, "pod")
    return (
        built.with_row(dashboard.Row("Workers"))
        .with_panel(
            lines(
                "Time in iterations",
                "Of each worker, in GPUs.",
                ((rate("laneway_used_gpu_seconds_total", _OF, "pod"), "{{pod}}"),),
            )
        )
        .with_panel(
            lines(
                "Time for data",
                "Part of each worker's time between iterations; waits for a turn do not count. Where it is large, others gain from the GPU.",
                ((f"{data} / ({data} + {rate('laneway_used_gpu_seconds_total', _OF, 'pod')})", "{{pod}}"),),
                unit="percentunit",
                maximum=1,
            )
        )
        .with_panel(
            lines(
                "Iterations and turns",
                "Of all workers, a second.",
                (
                    (rate("laneway_iterations_total", _OF), "iterations"),
                    (rate("laneway_turns_total", _OF), "turns"),
                ),
                unit="ops",
            )
        )
    )


def _behaviour(built: dashboard.Dashboard) -> dashboard.Dashboard:
    return (
        built.with_panel(
            lines(
                "Progress beside others",
                "Recent progress of a worker that competes with other lanes, as a part of its progress alone.",
                ((f"min by (pod) (laneway_session_progress_ratio{_OF})", "{{pod}}"),),
                unit="percentunit",
                empty="none beside it",
            )
        )
        .with_panel(
            lines(
                "Computed without a turn",
                "Part of the time, on the GPU of a worker with most of it, as the driver samples it. The watchdog stops a worker that does so for long.",
                (
                    (
                        f"max by (pod) (rate(laneway_unscheduled_seconds_total{_OF}[$__rate_interval]))",
                        "{{pod}}",
                    ),
                ),
                unit="percentunit",
                maximum=1,
            )
        )
        .with_panel(
            lines(
                "Steps by worker",
                "As each worker reports them: done, and in all.",
                (
                    (f"max by (pod) (laneway_session_step{_OF})", "{{pod}}"),
                    (f"max(laneway_session_steps{_OF})", "all"),
                ),
            )
        )
    )


def _memory(built: dashboard.Dashboard) -> dashboard.Dashboard:
    needs = f"({_by_pod('laneway_session_persistent_bytes')} + {_by_pod('laneway_session_ephemeral_bytes')})"
    return (
        built.with_row(dashboard.Row("Memory"))
        .with_panel(
            lines(
                "Measured memory",
                "Of each worker: kept between iterations, and needed beyond that within one.",
                (
                    (_by_pod("laneway_session_persistent_bytes"), "{{pod}} persistent"),
                    (_by_pod("laneway_session_ephemeral_bytes"), "{{pod}} ephemeral"),
                ),
                unit="bytes",
            )
        )
        .with_panel(
            lines(
                "Use of the quota",
                "Measured memory over the quota. Above 1, allocations are refused.",
                ((f"{needs} / {_by_pod('laneway_session_quota_bytes')}", "{{pod}}"),),
                unit="percentunit",
            )
        )
        .with_panel(
            lines(
                "Held and offloaded memory",
                "What the workers report to hold, what the interposer counts, and what they moved to the host.",
                (
                    (f"sum(laneway_session_held_bytes{_OF})", "held"),
                    (f"sum(laneway_session_accounted_bytes{_OF})", "counted"),
                    (f"sum(laneway_session_offloaded_bytes{_OF})", "on the host"),
                ),
                unit="bytes",
            )
        )
    )


def _gpu_figures(built: dashboard.Dashboard) -> dashboard.Dashboard:
    on_its_gpus = f"and on (gpu_uuid) {_PLACES}"
    return (
        built.with_row(dashboard.Row("GPUs"))
        .with_panel(
            rows(
                "Where it runs",
                "Its share of each GPU, with the GPU's model.",
                (
                    (
                        "Share",
                        f"max by (node, gpu_uuid) (laneway_job_gpu_share_ratio{_OF})"
                        " * on (node, gpu_uuid) group_left (index, model) max by (node, gpu_uuid, index, model) (laneway_gpu_info)",
                        "percentunit",
                    ),
                ),
                width=12,
                height=8,
            )
        )
        .with_panel(
            lines(
                "Utilization of its GPUs",
                "The mean of what the driver reports, with the work of all jobs there; with dcgm-exporter also the part of the time in which SMs are active.",
                (
                    (f"avg(max by (gpu_uuid) (laneway_gpu_utilization_ratio) {on_its_gpus})", "utilization"),
                    (f"avg({dcgm('DCGM_FI_PROF_SM_ACTIVE')} {on_its_gpus})", "SMs active (DCGM)"),
                ),
                unit="percentunit",
                maximum=1,
                width=12,
            )
        )
        .with_panel(
            lines(
                "Power (DCGM)",
                "Of its GPUs, by the parts that it holds. Needs dcgm-exporter.",
                (
                    (
                        f"sum(laneway_job_held_gpus{_OF} * on (gpu_uuid) group_left () {dcgm('DCGM_FI_DEV_POWER_USAGE')})",
                        "power",
                    ),
                ),
                unit="watt",
                empty=NEEDS_DCGM,
                width=12,
            )
        )
        .with_panel(
            lines(
                "Refused allocations",
                "Allocations of a worker beyond its quota, a second: it fails, or does with less.",
                ((rate("laneway_refused_allocations_total", _OF, "pod"), "{{pod}}"),),
                unit="ops",
                width=12,
            )
        )
    )
