"""The ways in which jobs share a GPU, each with its own workers, which stay alive and wait while others are
measured.

| way | the jobs |
|---|---|
| one after the other | plain processes, each when the one before has ended |
| time-slicing | plain processes at once: the driver gives each its time |
| MPS | clients of NVIDIA's MPS server at once: their kernels run side by side |
| lanes | with Laneway as it is configured by default: a lane each where memory allows, so they run side by side within their quotas |
| one lane | with Laneway and one lane: they take turns at iteration boundaries |
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from laneway.node_agent.enforcement.mps_control import PROGRAM, MPSFolders
from laneway.node_agent.enforcement.mps_daemon import MPSDaemon

from tests.performance.gpu.plan import Plan
from tests.support.gpu.workstation import Worker, Workstation

Answers = list[dict[str, Any]]
ALL = ("one after the other", "time-slicing", "MPS", "lanes", "one lane")
MPS_SECONDS = 60.0


@dataclass(frozen=True)
class Way:
    """One of them."""

    name: str
    workers: Sequence[Worker]
    run: Callable[[Sequence[Worker], int], Answers]
    """Lets some workers train for a number of iterations each."""


@contextmanager
def all_ways(plan: Plan, network: str) -> Iterator[tuple[list[Way], dict[str, str]]]:
    """Start all workers and warm them up; yields the ways, and why others are left out."""
    options = ["--network", network, "--size", plan.size, "--batch", str(plan.batches[network])]
    options += ["--precision", "bf16"]
    with ExitStack() as stack:
        default = stack.enter_context(Workstation(plan.device))
        single = stack.enter_context(Workstation(plan.device, lanes={"maxPerGpu": 1}))
        share = 100 // plan.most_jobs
        numbers = range(plan.most_jobs)
        plain = [default.plain(f"plain-{number}", *options) for number in numbers]
        lanes = [default.job(f"lanes-{number}", share, *options) for number in numbers]
        one_lane = [single.job(f"one-lane-{number}", share, *options) for number in numbers]
        mps, why_no_mps = _mps_workers(stack, default, plan, options)
        for worker in (*plain, *lanes, *one_lane, *mps):
            assert worker.ready
        # One set at a time: the GPU need not hold the activations of all.
        for workers in filter(None, (plain, lanes, one_lane, mps)):
            together(workers, plan.warm_up)
        ways = [
            Way(ALL[0], plain, one_after_the_other),
            Way(ALL[1], plain, together),
            *([Way(ALL[2], mps, together)] if mps else []),
            Way(ALL[3], lanes, together),
            Way(ALL[4], one_lane, together),
        ]
        yield ways, {} if mps else {ALL[2]: why_no_mps}


def one_after_the_other(workers: Sequence[Worker], iterations: int) -> Answers:
    """Each trains after the previous one has ended and returned its cached memory."""
    answers = []
    for worker in workers:
        answers.append(worker.do("train", iterations=iterations))
        worker.do("rest")
    return answers


def together(workers: Sequence[Worker], iterations: int) -> Answers:
    """All train at once."""
    for worker in workers:
        worker.start("train", iterations=iterations)
    answers = [worker.answer() for worker in workers]
    for worker in workers:
        worker.do("rest")
    return answers


def _mps_workers(
    stack: ExitStack, workstation: Workstation, plan: Plan, options: Sequence[str]
) -> tuple[list[Worker], str]:
    if plan.device != "cuda":
        return [], "there is no real GPU"
    if shutil.which(PROGRAM) is None:
        return [], f"{PROGRAM} is not on the PATH"
    reported = threading.Event()
    daemon = MPSDaemon(MPSFolders(workstation.root / "mps"), [workstation.gpu["uuid"]], reported.set)
    daemon.start()
    stack.callback(daemon.stop)
    if not reported.wait(MPS_SECONDS) or daemon.problem:
        return [], daemon.problem
    pipe = {"CUDA_MPS_PIPE_DIRECTORY": str(workstation.root / "mps/pipe")}
    workers = [workstation.plain(f"mps-{number}", *options, **pipe) for number in range(plan.most_jobs)]
    # The daemon's clients must be gone before it quits.
    for worker in workers:
        stack.callback(worker.end)
    return workers, ""
