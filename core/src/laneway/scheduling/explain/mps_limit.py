"""Why a job waits where the limits of NVIDIA's MPS keep it from its neighbours."""

from __future__ import annotations

from collections.abc import Sequence

from laneway.api.job_names import JobSentence, Sentence, within
from laneway.scheduling.gpus.capacity import needs
from laneway.scheduling.gpus.fit import FreeCapacity
from laneway.scheduling.gpus.mps_clients import MOST_CLIENTS, MPSClient, demands_mps
from laneway.scheduling.model.plan import WaitingCode, WaitingReason
from laneway.scheduling.model.snapshot import Job


def awaiting_mps_limit(job: Job, capacity: FreeCapacity) -> WaitingReason | None:
    """Return the reason of a job that MPS keeps from GPUs with enough of them free."""
    found = capacity.mps_conflict(job)
    if found is None:
        return None
    share_percent, clients = found
    larger = [each for each in clients if each.share_percent > share_percent]
    smaller = [each for each in clients if each.demands_mps and each.share_percent < share_percent]
    rule = "MPS limits all processes on a GPU to the largest share there"
    if demands_mps(job.demand) and larger:
        largest = max(each.share_percent for each in larger)
        return _reason(
            job,
            _about(larger, f"{rule}: beside ", f" it would not be held to its own {share_percent} percent"),
            f"It starts when others of at most {share_percent} percent are there; with a share of {largest} percent, or with "
            "minimumEnforcement Interposer, it need not wait for that.",
            larger,
        )
    if smaller:
        smallest = min(each.share_percent for each in smaller)
        return _reason(
            job,
            _about(
                smaller, f"{rule}: beside its {share_percent} percent, ", " would not be held as demanded"
            ),
            f"It starts when they have ended; with a share of at most {smallest} percent it need not wait for that.",
            smaller,
        )
    return _reason(
        job,
        f"an MPS server takes {MOST_CLIENTS} clients of a GPU, and {len(clients)} containers are there",
        "It starts when one of them has ended.",
        clients,
    )


def _reason(job: Job, why: Sentence, unblock: str, blockers: Sequence[MPSClient]) -> WaitingReason:
    before = f"It needs {needs(job.demand)}, and enough of the shared GPUs is free, but "
    return WaitingReason(
        WaitingCode.AWAITING_MPS_LIMIT,
        within(before, why, "."),
        unblock,
        blockers=tuple(each.key for each in blockers),
    )


def _about(clients: Sequence[MPSClient], before: str, after: str) -> JobSentence:
    notes = tuple(f" ({each.share_percent} percent)" for each in clients)
    return JobSentence(before, tuple(each.key for each in clients), after, notes)
