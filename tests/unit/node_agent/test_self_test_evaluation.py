"""What the runs of the interposer's self-test mean, and on which GPU its program runs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from laneway.node_agent.gpus.monitor import GPUHealth
from laneway.node_agent.gpus.protocol import GPUInfo, GPUReading
from laneway.node_agent.self_test.evaluation import (
    FREE_BYTES,
    AccountUse,
    SelfTestResult,
    evaluate,
    gpu_to_test,
)
from laneway.node_agent.self_test.program_runner import Found, Run

QUOTA = 128 << 20
PLAIN = Run(Found(80 << 30, {}))
HELD = Found(QUOTA, {"cuMemAlloc": 2, "cuMemCreate": 2})
USED = AccountUse(asked=True, refusals=2)
CRASHED = Run(problem="it was ended by SIGSEGV in cuMemAlloc_v2")


@pytest.mark.parametrize(
    ("plain", "interposed", "use", "again", "want"),
    [
        (PLAIN, Run(HELD), USED, None, SelfTestResult(True)),
        (PLAIN, Run(HELD), replace(USED, refusals=5), None, SelfTestResult(True)),
        (
            Run(problem="libcuda.so.1: cannot open shared object file"),
            Run(),
            AccountUse(asked=False, refusals=0),
            None,
            SelfTestResult(
                None,
                "it cannot run without the library either: libcuda.so.1: cannot open shared object file",
            ),
        ),
        (
            PLAIN,
            CRASHED,
            USED,
            PLAIN,
            SelfTestResult(False, "with the library, it was ended by SIGSEGV in cuMemAlloc_v2"),
        ),
        (
            PLAIN,
            Run(problem="it was ended by SIGKILL in cuInit", interrupted=True),
            USED,
            PLAIN,
            SelfTestResult(None, "with the library, it was ended by SIGKILL in cuInit"),
        ),
        (
            PLAIN,
            Run(problem="cuMemAlloc_v2 returned 2"),
            USED,
            Run(problem="cuMemAlloc_v2 returned 2"),
            SelfTestResult(None, "it cannot run without the library either: cuMemAlloc_v2 returned 2"),
        ),
        (
            PLAIN,
            Run(HELD),
            AccountUse(asked=False, refusals=0),
            None,
            SelfTestResult(False, "the library did not ask for the memory account"),
        ),
        (
            PLAIN,
            Run(replace(HELD, total_bytes=QUOTA + 1)),
            USED,
            None,
            SelfTestResult(
                False,
                f"cuMemGetInfo shows {QUOTA + 1} bytes as the GPU's memory, not the quota of {QUOTA}",
            ),
        ),
        (
            PLAIN,
            Run(replace(HELD, beyond={"cuMemAlloc": 2, "cuMemCreate": 0})),
            USED,
            None,
            SelfTestResult(False, "cuMemCreate returned 0 beyond the quota, not 2 (out of memory)"),
        ),
        (
            PLAIN,
            Run(HELD),
            replace(USED, refusals=1),
            None,
            SelfTestResult(False, "the account refused 1 of 2 requests beyond the quota"),
        ),
    ],
)
def test_only_a_held_quota_passes_and_only_a_driver_that_works_alone_condemns(
    plain: Run, interposed: Run, use: AccountUse, again: Run | None, want: SelfTestResult
) -> None:
    assert evaluate(plain, interposed, use, QUOTA, again) == want


GPUS = [GPUInfo(f"GPU-{index}", index, "Test", 80 << 30) for index in range(3)]


def gpus(*used_gibibytes: int, **fields: bool) -> list[tuple[GPUInfo, GPUHealth]]:
    readings = [GPUReading(used_bytes=used << 30, **fields) for used in used_gibibytes]
    return [(gpu, GPUHealth(reading=reading)) for gpu, reading in zip(GPUS, readings, strict=False)]


def test_the_program_runs_on_the_gpu_with_the_most_free_memory() -> None:
    assert gpu_to_test(gpus(70, 10, 40)) == (GPUS[1], "")
    unhealthy = [(GPUS[1], GPUHealth(healthy=False, reason="XID 79", reading=GPUReading(used_bytes=0)))]
    assert gpu_to_test([*gpus(70), *unhealthy]) == (GPUS[0], "")


@pytest.mark.parametrize(
    ("candidates", "why"),
    [
        (gpus(0, mig=True), "GPU 0 is in MIG mode"),
        (gpus(0, exclusive_process=True), "GPU 0 is in the compute mode EXCLUSIVE_PROCESS"),
        (gpus(79, 79), f"GPU 0 has less than {FREE_BYTES >> 20} MiB free, GPU 1 has less than 2048 MiB free"),
        ([(GPUS[0], GPUHealth())], "GPU 0 has not been read"),
        ([(GPUS[0], GPUHealth(healthy=False))], "GPU 0 is not healthy"),
    ],
)
def test_it_runs_on_no_gpu_that_it_would_disturb(
    candidates: list[tuple[GPUInfo, GPUHealth]], why: str
) -> None:
    assert gpu_to_test(candidates) == (None, f"no GPU to run it on: {why}")
