"""What an attempt ran: its template, GPU models and image, for which its measurements hold."""

from __future__ import annotations

from laneway.api.job_conditions import ConditionType
from laneway.api.training_job_status import ExecutionStatus, TrainingJobStatus, WorkerPlacementStatus
from laneway.operator.lifecycle import transitions
from laneway.operator.state.cluster_state import ClusterState
from laneway.operator.state.records.worker_pod import WorkerPod


def executed(
    status: TrainingJobStatus, mine: tuple[WorkerPod, ...], state: ClusterState, *, profiled: bool
) -> ExecutionStatus | None:
    """Return what the current attempt runs, once it was measured or has ended; until then what is known of an earlier one.

    It is written together with a profile or a result, and costs no write of its own.

    Args:
        status: before this reconciliation.
        mine: the attempt's pods.
        state: the nodes' GPUs.
        profiled: whether the attempt's sessions were measured.
    """
    before = status.execution
    if not (profiled or any(pod.ended for pod in mine)):
        return before
    known = before if before is not None and before.attempt == status.attempt else None
    if known is None:
        placed = transitions.condition(status, ConditionType.PLACED)
        if placed is None or placed.status != "True":
            return before  # its start is no longer known
        known = ExecutionStatus(
            attempt=status.attempt,
            started_at=placed.last_transition_time,
            template_hash=mine[0].template_hash,
        )
    models = _models(status.placement, state) | set(known.gpu_models)
    images = {pod.image_id for pod in mine if pod.image_id} | set(known.image_ids)
    after = known.model_copy(
        update={
            "gpu_models": tuple(sorted(models)),
            "image_ids": tuple(sorted(images)),
            "profiled": known.profiled or profiled,
        }
    )
    return before if after == before else after


def _models(placement: tuple[WorkerPlacementStatus, ...], state: ClusterState) -> set[str]:
    nodes = {worker.node: state.gpu_nodes.get(worker.node) for worker in placement}
    held = {gpu for worker in placement for gpu in worker.gpus}
    return {gpu.model for node in nodes.values() if node for gpu in node.gpus if gpu.uuid in held}
