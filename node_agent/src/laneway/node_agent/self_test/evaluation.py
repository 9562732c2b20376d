"""Decides what the runs of the self-test mean, and which GPU they run on: pure."""

from __future__ import annotations

from collections.abc import Container, Sequence
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

    perhaps_chance: bool = False
    """It failed, and a busy node can be the reason: only a second failure counts."""


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
    if interposed.found is None:
        problem = f"with the library, {interposed.problem}"
        # The kernel ends this program first when memory is short: that tells nothing of the library.
        return SelfTestResult(
            None if interposed.killed else False, problem, perhaps_chance=interposed.perhaps_chance
        )
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
    for call in found.own:
        return f"cuGetProcAddress returns the driver's own {call}, which the library does not hold"
    if use.refusals < len(found.beyond):
        return f"the account refused {use.refusals} of {len(found.beyond)} requests beyond the quota"
    return ""


def gpu_to_test(
    gpus: Sequence[tuple[GPUInfo, GPUHealth]], without_result: Container[str] = ()
) -> tuple[GPUInfo | None, str]:
    """Return the GPU that the program disturbs least, the one with the most free memory; or None and why not.

    The program never runs on a GPU in MIG mode, nor on one that only one process may use.

    Args:
        gpus: the node's GPUs.
        without_result: those on which the program ran in vain. They come last: one broken GPU, which is often the emptiest, tells
            nothing of the others.
    """
    problems, usable = [], []
    for gpu, health in gpus:
        problem, free_bytes = _unusable_reason(gpu, health)
        if problem:
            problems.append(f"GPU {gpu.index} {problem}")
        else:
            usable.append((gpu.uuid not in without_result, free_bytes, gpu))
    if not usable:
        return None, f"no GPU to run it on: {', '.join(problems)}"
    *_, best = max(usable, key=lambda each: each[:2])
    return best, ""


def _unusable_reason(gpu: GPUInfo, health: GPUHealth) -> tuple[str, int]:
    """Return why the program may not run on a GPU, as a clause, empty if it may; and the bytes that are free there."""
    reading = health.reading
    if not health.healthy or reading is None:
        return ("is not healthy" if not health.healthy else "has not been read"), 0
    free_bytes = gpu.memory_bytes - reading.used_bytes
    if reading.mig:
        return "is in MIG mode", free_bytes
    if reading.exclusive_process:
        return "is in the compute mode EXCLUSIVE_PROCESS", free_bytes
    if free_bytes < FREE_BYTES:
        return f"has less than {FREE_BYTES >> 20} MiB free", free_bytes
    return "", free_bytes
