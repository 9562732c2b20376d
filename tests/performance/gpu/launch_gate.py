"""What the launch gate costs a launch on a real driver, and whether kernels of two programs of one lane ever run at once.

Bursts of a program with the interposer and of the same program without Laneway follow one another, so that a change of the machine
affects both.
"""

from __future__ import annotations

import time
from typing import Any

from tests.performance.node.launch_gate import LAUNCH_NANOSECONDS, summary_of_pairs
from tests.support.gpu.workstation import Worker, Workstation
from tests.support.isolation.gated_program import overlapping_kernels

LAUNCHES = 500
"""Of a burst; a driver queues about a thousand before it waits."""

BURSTS = {"cuda": 100, "cpu": 5}
AT_ONCE_SECONDS = {"cuda": 2.0, "cpu": 0.2}
KERNEL_MICROSECONDS = 300


def measure(device: str) -> dict[str, Any]:
    """Return nanoseconds for a launch with the open gate and without Laneway.

    Args:
        device: `cuda`, or `cpu` for a fake driver.
    """
    with Workstation(device, lanes={"maxPerGpu": 1}, turns={"quantumMilliseconds": 20}) as workstation:
        gated, plain = workstation.launching("gated", 30), workstation.launching_plainly("plain")
        submit = _pairs(gated, plain, BURSTS[device], microseconds=0, until="launch_ns")
        run = _pairs(gated, plain, BURSTS[device], microseconds=10, until="done_ns")
        turns = workstation.node.session("gated")["turns"]
        other_gated, other_plain = workstation.launching("other", 30), workstation.launching_plainly("other")
        found = summary_of_pairs(submit)
        return {
            "bursts": BURSTS[device],
            "launches": LAUNCHES,
            "turns_of_the_bursts": turns,
            "submit": found,
            "ten_microsecond_kernels": summary_of_pairs(run),
            "percent_of_ten_microseconds": round(100 * found["cost_nanoseconds"] / LAUNCH_NANOSECONDS, 2),
            "kernels_at_once": {
                "with": _at_once([gated, other_gated], AT_ONCE_SECONDS[device]),
                "without": _at_once([plain, other_plain], AT_ONCE_SECONDS[device]),
            },
        }


def _pairs(
    gated: Worker, plain: Worker, bursts: int, microseconds: int, until: str
) -> list[tuple[float, float]]:
    pairs = []
    for number in range(bursts + 1):
        answers = [
            worker.do("burst", launches=LAUNCHES, microseconds=microseconds) for worker in (gated, plain)
        ]
        if number:  # the first waits for the turn, and warms up
            pairs.append((answers[0][until] / LAUNCHES, answers[1][until] / LAUNCHES))
    return pairs


def _at_once(programs: list[Worker], seconds: float) -> dict[str, int]:
    """Let two programs run kernels; return how many, and how many pairs of both ran at the same time."""
    before = [_last(program.do("kernels")["kernels"]) for program in programs]
    for program in programs:
        program.do("run", microseconds=KERNEL_MICROSECONDS)
    time.sleep(seconds)
    for program in programs:
        program.do("stop")
    kernels = [
        (program.pid, begin, end)
        for program, last in zip(programs, before, strict=True)
        for begin, end in program.do("kernels")["kernels"]
        if begin > last
    ]
    kernels.sort(key=lambda kernel: kernel[1])
    return {"kernels": len(kernels), "pairs": len(overlapping_kernels(kernels))}


def _last(kernels: list[tuple[int, int]]) -> int:
    """Return the begin of the last one. A program keeps its last kernels only, so their number tells nothing."""
    return max((begin for begin, _ in kernels), default=0)
