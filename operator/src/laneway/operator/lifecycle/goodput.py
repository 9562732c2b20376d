"""What a job's workers show of its goodput: from the batches that their clients report to ``status.goodput``, and to the model that the
elastic policies compare numbers of workers with."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from functools import lru_cache

from laneway.api.goodput_status import MAX_OBSERVATIONS, BatchStatus, GoodputStatus, StepObservation
from laneway.api.schema import MAX_COUNTER
from laneway.api.training_job_status import TrainingJobStatus
from laneway.operator.state.records.worker_pod import WorkerPod
from laneway.operator.state.sessions import SessionIndex
from laneway.scheduling import WorkerPlacement
from laneway.scheduling.elastic.fit import Measurement, fit
from laneway.scheduling.model.efficiency import Efficiency
from laneway.scheduling.model.goodput import BatchLimits, GoodputModel, ReplicaLayout
from laneway.scheduling.model.throughput import ThroughputModel

_NEWS_PERCENT = 5
"""A step time that differs by less from the one that is kept is no news: it varies with the neighbours' load."""

_MOST_SAMPLES = 2**40
"""No training has a larger batch: a language model's has some millions of tokens."""


def goodput_seen(
    before: GoodputStatus | None, pods: Iterable[WorkerPod], sessions: SessionIndex
) -> GoodputStatus | None:
    """Return the job's goodput with what its workers show; what was known before where they show nothing new.

    Args:
        before: of the same script, with any number of workers; None: nothing is known.
        pods: the workers.
        sessions: of their nodes.
    """
    workers = tuple(pods)
    found = [
        (pod.node, hold.session)
        for pod in workers
        for hold in sessions.of(pod)
        if hold.session.batch is not None
    ]
    if len({session.pod for _, session in found}) < len(workers) or not found:
        return before
    microseconds = max(
        (session.iteration_microseconds + session.data_microseconds for _, session in found), default=0
    )
    if not microseconds and before is not None and before.observations:
        return before  # the batch is that of the last observation
    batches = [session.batch for _, session in found if session.batch is not None]
    if not all(map(_is_possible, batches)):
        return before
    batch = batches[0]
    noise_scales = [each.noise_scale for each in batches if each.noise_scale is not None]
    if noise_scales:
        batch = batch.model_copy(update={"noise_scale": round(statistics.median(noise_scales))})
    elif before is not None:
        batch = batch.model_copy(update={"noise_scale": before.batch.noise_scale})
    pass_microseconds = microseconds // batch.passes
    observations = before.observations if before is not None else ()
    local_batch, uneven = divmod(batch.ranks * batch.local_batch, len(workers))
    if pass_microseconds and local_batch and not uneven:
        nodes = len({node for node, _ in found})
        seen = StepObservation(
            nodes=nodes, workers=len(workers), local_batch=local_batch, pass_microseconds=pass_microseconds
        )
        observations = _with(observations, seen)
    efficiency = _efficiency(batch)
    ratio = None if efficiency is None else efficiency.at(batch.batch)
    goodput = None if ratio is None or not microseconds else batch.batch * ratio / microseconds * 1e9
    seen_now = GoodputStatus(
        batch=batch,
        efficiency_percent=None if ratio is None else min(round(100 * ratio), MAX_COUNTER),
        milli_samples_per_second=None if goodput is None else min(round(goodput), MAX_COUNTER),
        observations=observations,
    )
    return before if before is not None and not _is_news(before, seen_now) else seen_now


def goodput_of(status: TrainingJobStatus) -> GoodputModel | None:
    """Return the model of a job's speed for the elastic policies; None: it has shown nothing that a model can be made of.

    A replica of the model is a worker. Where the noise scale is not known, a larger batch counts for nothing.
    """
    known = status.goodput
    if known is None or not known.observations:
        return None
    batch, last = known.batch, known.observations[-1]
    processes = max(1, round(batch.ranks / last.workers))  # of one worker
    largest = max(batch.max_batch, batch.initial_batch)
    try:
        return GoodputModel(
            _fitted(tuple(map(_measurement, known.observations))),
            _efficiency(batch) or Efficiency(batch.initial_batch, 0.0),
            BatchLimits(largest, min(largest, batch.max_local_batch * processes)),
            explored_replicas=max(each.workers for each in known.observations),
        )
    except ValueError:  # what a broken client reported contradicts itself
        return None


def chosen_batch(status: TrainingJobStatus, workers: Sequence[WorkerPlacement]) -> int:
    """Return the samples of a step with which a placement of a job has the highest goodput; 0: the script's batch does not grow, or too
    little is known.

    Args:
        status: of the job, before it is placed.
        workers: its placement.
    """
    known, model = status.goodput, goodput_of(status)
    if known is None or model is None or known.batch.noise_scale is None:
        return 0
    if known.batch.max_batch <= known.batch.initial_batch:
        return 0
    nodes = len({worker.node for worker in workers})
    return model.best(ReplicaLayout(nodes, len(workers))).batch(len(workers))


def _is_possible(batch: BatchStatus) -> bool:
    """Whether a training can have such a batch. Users' processes report it, and what cannot be stored would be written again for ever."""
    largest = max(batch.batch, batch.initial_batch, batch.max_batch, batch.max_local_batch)
    return largest <= _MOST_SAMPLES


def _efficiency(batch: BatchStatus) -> Efficiency | None:
    """Return the efficiency; None while it is not known. A batch that never grows needs no noise scale."""
    if batch.noise_scale is not None:
        return Efficiency(batch.initial_batch, float(batch.noise_scale))
    fixed = batch.batch == batch.initial_batch == batch.max_batch
    return Efficiency(batch.initial_batch, 0.0) if fixed else None


def _measurement(seen: StepObservation) -> Measurement:
    nodes = min(seen.nodes, seen.workers)
    return Measurement(nodes, seen.workers, seen.local_batch, seen.pass_microseconds / 1e6)


@lru_cache(maxsize=4096)
def _fitted(measurements: tuple[Measurement, ...]) -> ThroughputModel:
    return fit(measurements)


def _with(observations: tuple[StepObservation, ...], seen: StepObservation) -> tuple[StepObservation, ...]:
    """Return the observations with a new one last; an old one of the same layout is replaced if it differs."""
    same = [each for each in observations if _layout(each) == _layout(seen)]
    if same and _is_close(same[-1].pass_microseconds, seen.pass_microseconds):
        seen = same[-1]
    others = [each for each in observations if _layout(each) != _layout(seen)]
    return (*others, seen)[-MAX_OBSERVATIONS:]


def _layout(seen: StepObservation) -> tuple[int, int, int]:
    return seen.nodes, seen.workers, seen.local_batch


def _is_news(before: GoodputStatus, after: GoodputStatus) -> bool:
    known, now = before.milli_samples_per_second, after.milli_samples_per_second
    if known is None or now is None or not _is_close(known, now):
        return before != after
    return (before.batch, before.observations) != (after.batch, after.observations)


def _is_close(one: int, other: int) -> bool:
    return abs(one - other) * 100 <= _NEWS_PERCENT * max(one, other)
