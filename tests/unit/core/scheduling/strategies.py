"""Random clusters, jobs and snapshots for property tests."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st
from laneway.api.enforcement import Enforcement
from laneway.lanes import LaneRules
from laneway.scheduling import (
    GPU,
    ClusterSnapshot,
    Demand,
    HostResources,
    Job,
    JobState,
    Node,
    PlacementMode,
    Plan,
    Policies,
    Profile,
    policies,
)
from laneway.scheduling.config.registry import ORDER, PLACEMENT, PREEMPTION
from laneway.scheduling.model.snapshot import StageSeconds

from tests.unit.core.scheduling.builders import GIB, NOW
from tests.unit.core.scheduling.whole_plan import plan

MODELS = {"A100": 40 * GIB, "T4": 16 * GIB}


HOSTS = st.sampled_from(
    [
        None,
        None,
        HostResources.of({"cpu": 3000, "memory": 64 * GIB}),
        HostResources.of({"cpu": 8000, "memory": 8 * GIB}),
        HostResources.of({"cpu": -500, "memory": 64 * GIB}),
    ]
)
"""What nodes have for pods' requests; None: not known."""

REQUESTS = st.sampled_from(
    [
        HostResources(),
        HostResources.of({"cpu": 1000}),
        HostResources.of({"cpu": 2500, "memory": 3 * GIB}),
    ]
)

RARELY = st.integers(0, 11).map(lambda number: number != 0)
"""Mostly True."""


@st.composite
def nodes(draw: st.DrawFn) -> tuple[Node, ...]:
    made = []
    for number in range(draw(st.integers(1, 4))):
        name = f"n{number}"
        model = draw(st.sampled_from(sorted(MODELS)))
        percent = draw(st.sampled_from([100, 100, 200]))
        rules = LaneRules(max_lanes=draw(st.sampled_from([0, 0, 2])), padding_percent=5)
        made.append(
            Node(
                name,
                tuple(
                    GPU(
                        f"{name}/{index}",
                        name,
                        index,
                        model,
                        MODELS[model],
                        MODELS[model],
                        percent,
                        healthy=draw(RARELY),
                        lane_rules=rules,
                        enforcement=Enforcement.MPS if draw(RARELY) else Enforcement.WATCHDOG,
                    )
                    for index in range(draw(st.integers(1, 4)))
                ),
                schedulable=draw(RARELY),
                host=draw(HOSTS),
            )
        )
    return tuple(made)


@st.composite
def demands(draw: st.DrawFn) -> Demand:
    kind = draw(st.sampled_from(["whole", "share", "memory", "exclusive"]))
    return Demand(
        workers=draw(st.sampled_from([1, 1, 1, 2, 2, 3, 4])),
        gpus_per_worker=draw(st.sampled_from([1, 1, 2, 3])) if kind in ("whole", "exclusive") else 1,
        share_percent=draw(st.integers(1, 100)) if kind == "share" else 100,
        memory_bytes=draw(st.sampled_from([2, 8, 15, 20, 48])) * GIB if kind == "memory" else None,
        models=frozenset() if draw(RARELY) else frozenset({"T4"}),
        minimum_enforcement=Enforcement.NONE if draw(RARELY) else Enforcement.MPS,
        exclusive=kind == "exclusive",
        mode=draw(st.sampled_from(list(PlacementMode))),
        requests=draw(REQUESTS),
        preempts=draw(RARELY),
    )


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    """Of a job of its own: what it keeps and uses, its skew and its stages."""
    stages = StageSeconds(*(draw(st.sampled_from([0.0, 0.1, 0.5])) for _ in StageSeconds._fields))
    return Profile(
        persistent_bytes=draw(st.integers(0, 20 * GIB)),
        ephemeral_bytes=draw(st.integers(0, 20 * GIB)),
        iteration_seconds=draw(st.sampled_from([0.0, 1.0, 1.5])),
        model_bytes=draw(st.sampled_from([0, GIB])),
        largest_tensor_bytes=draw(st.integers(0, GIB)),
        stages=draw(st.sampled_from([None, stages])),
    )


@st.composite
def jobs(draw: st.DrawFn, name: str, most_executed: float = 200.0) -> Job:
    executed = draw(st.sampled_from([0.0, 10.0, most_executed]))
    return Job(
        name,
        draw(demands()),
        created_seconds=float(draw(st.integers(0, 900))),
        priority=0 if draw(RARELY) else 5,
        attained_service_gpu_seconds=executed * draw(st.sampled_from([1, 40])),
        executed_seconds=executed,
        profile=draw(
            st.sampled_from([None, Profile(1 * GIB, 2 * GIB), Profile(4 * GIB, 12 * GIB)]) | profiles()
        ),
        preemptible=draw(RARELY),
        suspended=not draw(RARELY),
        unsaved_seconds=draw(st.sampled_from([None, 0.0, 590.0, 900.0])),
        starts_over=not draw(RARELY),
    )


@st.composite
def choices(draw: st.DrawFn) -> Policies:
    """Any of Laneway's own policies in each stage, without a minimum run."""
    return policies(
        order=draw(st.sampled_from(sorted(ORDER))),
        placement=draw(st.sampled_from(sorted(PLACEMENT))),
        preemption=draw(st.sampled_from(sorted(PREEMPTION))),
        preemption_options={"min_run_seconds": 0},
    )


@st.composite
def snapshots(draw: st.DrawFn) -> tuple[ClusterSnapshot, Policies]:
    """A snapshot that the planner itself could have led to: jobs come in waves, and some of them end or leave."""
    chosen = draw(choices())
    snapshot = ClusterSnapshot(draw(nodes()), ())
    waves = draw(st.integers(1, 3))
    for wave in range(waves):
        newcomers = tuple(
            draw(jobs(f"tenant{number % 3}/w{wave}j{number}", most_executed=400.0 if wave == 0 else 10.0))
            for number in range(draw(st.integers(1, 6)))
        )
        snapshot = replace(snapshot, jobs=snapshot.jobs + newcomers)
        if wave < waves - 1:
            snapshot = carried_out(snapshot, plan(snapshot, NOW, chosen))
            ended = draw(st.sets(st.sampled_from([job.key for job in snapshot.jobs]), max_size=1))
            snapshot = replace(snapshot, jobs=tuple(job for job in snapshot.jobs if job.key not in ended))
    return snapshot, chosen


def carried_out(snapshot: ClusterSnapshot, decided: Plan) -> ClusterSnapshot:
    """The snapshot once the plan's starts run and its preemptions leave."""

    def after(job: Job) -> Job:
        if job.key in decided.starts:
            placement = decided.starts[job.key]
            return replace(job, state=JobState.RUNNING, placement=placement, started_seconds=NOW - 100)
        if job.key in decided.preemptions:
            return replace(job, state=JobState.TERMINATING)
        return job

    return replace(snapshot, jobs=tuple(after(job) for job in snapshot.jobs))
