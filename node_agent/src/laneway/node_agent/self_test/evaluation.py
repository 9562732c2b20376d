"""Decides what the runs of the self-test mean, and which GPU they run on: pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from laneway.node_agent.gpus.monitor import GPUHealth
from laneway.node_agent.gpus.protocol import GPUInfo
from laneway.node_agent.self_test.program_runner import Found, Run

OUT_OF_MEMORY = 2
"""CUDA_ERROR_OUT_OF_MEMORY."""

FREE_BYTES = 2 << 30
"""What a GPU must have free: a CUDA context takes up to some 600 MiB, and the jobs there may grow meanwhile."""


@dataclass(frozen=True, slots=True)
class SelfTestResult:
    """Whether the library holds a quota on a driver."""

    passed: bool | None
    """None: not known."""

    reason: str = ""
    """Why it did not pass, as a clause."""


@dataclass(frozen=True, slots=True)
class AccountUse:
    """What the library asked of the program's memory account."""

    asked: bool
    refusals: int


def evaluate(
    plain: Run, interposed: Run, use: AccountUse, quota_bytes: int, plain_again: Run | None = None
) -> SelfTestResult:
    """Decide by the runs without and with the library.

    Args:
        plain: the run without the library.
        interposed: the run with it.
        use: the account of that run.
        quota_bytes: its quota.
        plain_again: another run without the library, after one with it that found nothing.
    """
    for run in (plain, plain_again):
        if run is not None and run.found is None:
            return SelfTestResult(None, f"it cannot run without the library either: {run.problem}")
    if interposed.interrupted:
        return SelfTestResult(None, f"with the library, {interposed.problem}")
    if interposed.found is None:
        return SelfTestResult(False, f"with the library, {interposed.problem}")
    problem = _quota_problem(interposed.found, use, quota_bytes)
    return SelfTestResult(not problem, problem)


def _quota_problem(found: Found, use: AccountUse, quota_bytes: int) -> str:
    if not use.asked:
        return "the library did not ask for the memory account"
    if found.total_bytes != quota_bytes:
        return f"cuMemGetInfo shows {found.total_bytes} bytes as the GPU's memory, not the quota of {quota_bytes}"
    for way, result in found.beyond.items():
        if result != OUT_OF_MEMORY:
            return f"{way} returned {result} beyond the quota, not {OUT_OF_MEMORY} (out of memory)"
    if use.refusals < len(found.beyond):
        return f"the account refused {use.refusals} of {len(found.beyond)} requests beyond the quota"
    return ""


def gpu_to_test(gpus: Sequence[tuple[GPUInfo, GPUHealth]]) -> tuple[GPUInfo | None, str]:
    """Return the GPU that the program disturbs least, the one with the most free memory; or None and why not.

    The program never runs on a GPU in MIG mode, nor on one that only one process may use.
    """
    problems, best, most_bytes = [], None, 0
    for gpu, health in gpus:
        reading = health.reading
        if not health.healthy or reading is None:
            problem = "is not healthy" if not health.healthy else "has not been read"
        elif reading.mig:
            problem = "is in MIG mode"
        elif reading.exclusive_process:
            problem = "is in the compute mode EXCLUSIVE_PROCESS"
        elif gpu.memory_bytes - reading.used_bytes < FREE_BYTES:
            problem = f"has less than {FREE_BYTES >> 20} MiB free"
        else:
            free_bytes = gpu.memory_bytes - reading.used_bytes
            if free_bytes > most_bytes:
                best, most_bytes = gpu, free_bytes
            continue
        problems.append(f"GPU {gpu.index} {problem}")
    return best, "" if best is not None else f"no GPU to run it on: {', '.join(problems)}"
