"""A training that follows commands: one JSON object a line on standard input, one answer a line on standard
output.

    {"do": "train", "iterations": 10}          trains; with "until": a file's name, until that file is there; with "seconds": so long,
                                               of which those of "skip_seconds" are not counted
    {"do": "hold", "size_bytes": 1000000}      takes memory and keeps it
    {"do": "outgrow", "size_bytes": 1000000}   takes as much as often as it is given, then gives it back
    {"do": "gpu_memory"}                       what CUDA and NVML say of the GPU's memory
    {"do": "fresh"}                            starts over, with the weights of the beginning
    {"do": "state"}                            a hash of all state, exact to the bit
    {"do": "outcome"}                          the last step's loss and its gradients' norms
    {"do": "fitted"}                           what the client has done to make iterations fit
    {"do": "watch_turns"}                      from now on notes turns; an iteration waits for the device before it ends
    {"do": "turns"}                            those: number, begin, end (CLOCK_MONOTONIC, ns), iterations
    {"do": "rest"}                             gives back what the allocator has cached

Its first line says that it is there. It ends with its standard input.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import itertools
import json
import math
import os
import sys
import time
from contextlib import nullcontext
from typing import Any

import torch
from networks import Task, make_task


class Worker:
    """The training."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.cuda = options.device == "cuda"
        self.held: list[torch.Tensor] = []
        self.noted_turns: list[list[int]] = []
        self.fresh()

    def fresh(self) -> dict[str, Any]:
        """Start over."""
        options = self.options
        self.task: Task = make_task(
            options.network, options.size, options.batch, options.device, options.seed
        )
        self.optimizer = torch.optim.SGD(self.task.network.parameters(), lr=0.01, momentum=0.9)
        self.step = 0
        self.loss = torch.zeros(())
        return {}

    def train(
        self,
        iterations: int | None = None,
        until: str = "",
        gap_seconds: float = 0.0,
        grow_bytes: int = 0,
        seconds: float = math.inf,
        skip_seconds: float = 0.0,
    ) -> dict[str, Any]:
        """Train for a number of iterations, until a file exists, or for a time."""
        reserved = []
        self.reset_peak()
        self.wait()
        began_ns = counted_from_ns = time.monotonic_ns()
        done = skipped = 0
        for done in itertools.count():
            passed_seconds = (time.monotonic_ns() - began_ns) / 1e9
            if done == iterations or (until and os.path.exists(until)) or passed_seconds >= seconds:
                break
            if counted_from_ns == began_ns and passed_seconds > skip_seconds > 0:
                self.wait()
                counted_from_ns, skipped = time.monotonic_ns(), done
            if gap_seconds:
                time.sleep(gap_seconds)
            self.iterate(grow_bytes)
            if self.cuda and until:
                reserved.append(torch.cuda.memory_reserved())
        self.wait()
        return {
            "began_ns": began_ns,
            "ended_ns": time.monotonic_ns(),
            "iterations": done,
            "counted_from_ns": counted_from_ns,
            "counted_iterations": done - skipped,
            # The first iterations differ from the others: the allocator takes the memory that it caches from then on.
            "least_reserved_bytes": min(reserved[len(reserved) // 2 :], default=0),
            "most_reserved_bytes": max(reserved[len(reserved) // 2 :], default=0),
            **self.memory(),
        }

    def iterate(self, grow_bytes: int) -> None:
        """One step."""
        self.optimizer.zero_grad()
        precision = (
            torch.autocast("cuda", dtype=torch.bfloat16)
            if self.options.precision == "bf16" and self.cuda
            else nullcontext()
        )
        with precision:
            loss = self.task.loss(self.step)
        loss.backward()
        self.loss = loss.detach()
        if grow_bytes:
            self.hold(grow_bytes)
        self.optimizer.step()
        self.step += 1

    def hold(self, size_bytes: int) -> dict[str, Any]:
        """Take memory and keep it."""
        self.held.append(torch.zeros(size_bytes, dtype=torch.uint8, device=self.options.device))
        return self.memory()

    def outgrow(self, size_bytes: int) -> dict[str, Any]:
        """Take memory until PyTorch raises OutOfMemoryError, then give it back."""
        before, reserved_bytes = len(self.held), self.memory()["reserved_bytes"]
        try:
            while True:
                self.hold(size_bytes)
                reserved_bytes = self.memory()["reserved_bytes"]
        except torch.cuda.OutOfMemoryError as error:
            message = str(error)
        taken = len(self.held) - before
        del self.held[before:]
        self.rest()
        return {"taken": taken, "reserved_bytes": reserved_bytes, "message": message}

    def gpu_memory(self) -> dict[str, Any]:
        """What a program is told of the GPU's memory, by CUDA and by NVML."""
        import pynvml

        free, total = torch.cuda.mem_get_info()
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByUUID(os.environ["CUDA_VISIBLE_DEVICES"])
        nvml = pynvml.nvmlDeviceGetMemoryInfo(handle)
        return {"free_bytes": free, "total_bytes": total, "nvml_total_bytes": nvml.total, **self.memory()}

    def memory(self) -> dict[str, Any]:
        """What PyTorch's allocator says; on a CPU, what the training keeps."""
        if not self.cuda:
            kept = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage() for tensor in self.kept()}
            size = sum(storage.nbytes() for storage in kept.values())
            return {"allocated_bytes": size, "reserved_bytes": size, "peak_bytes": size}
        return {
            "allocated_bytes": torch.cuda.memory_allocated(),
            "reserved_bytes": torch.cuda.memory_reserved(),
            "peak_bytes": torch.cuda.max_memory_reserved(),
        }

    def kept(self) -> list[torch.Tensor]:
        """All that lasts over iterations."""
        states = [value for state in self.optimizer.state.values() for value in state.values()]
        tensors = [*self.task.network.parameters(), *self.task.network.buffers(), *self.held]
        tensors += [
            parameter.grad for parameter in self.task.network.parameters() if parameter.grad is not None
        ]
        tensors += [value for value in states if torch.is_tensor(value)]
        return [*tensors, *itertools.chain(*self.task.batches)]

    def state(self) -> dict[str, Any]:
        """A hash of all state."""
        digest = hashlib.sha256()
        for tensor in self.kept():
            digest.update(tensor.detach().cpu().numpy().tobytes())
        return {"state": digest.hexdigest(), "step": self.step}

    def outcome(self) -> dict[str, Any]:
        """The loss of the last step, and the norm of each gradient."""
        gradients = [parameter.grad for parameter in self.task.network.parameters()]
        return {"loss": self.loss.item(), "norms": [gradient.norm().item() for gradient in gradients]}

    def fitted(self) -> dict[str, Any]:
        """The counts of `laneway.client.fit`."""
        from laneway.client.fit.memory_fit import MemoryFit

        (fit,) = [each for each in gc.get_objects() if type(each) is MemoryFit]
        return {"computed_again": fit.recompute_runs, "fetched_ahead": fit.prefetched}

    def watch_turns(self) -> dict[str, Any]:
        """Note the turns from now on, as this process has them: the begin of the first iteration and the end of the last."""
        from laneway.client.runtime import client
        from laneway.client.session.shared_page import TAKEN, TURN

        guard = client().guard
        begin, end = guard.begin, guard.end

        def noted_begin() -> None:
            begin()
            now_ns = time.monotonic_ns()
            turn = guard.session.words[TURN] or guard.session.words[TAKEN]
            if not self.noted_turns or self.noted_turns[-1][0] != turn:
                self.noted_turns.append([turn, now_ns, now_ns, 0])

        def noted_end(trained: bool = True) -> None:
            self.wait()
            if self.noted_turns:
                self.noted_turns[-1][2] = time.monotonic_ns()
                self.noted_turns[-1][3] += 1
            end(trained)

        guard.begin, guard.end = noted_begin, noted_end
        return {}

    def turns(self) -> dict[str, Any]:
        """The turns since `watch_turns`."""
        return {"turns": self.noted_turns}

    def rest(self) -> dict[str, Any]:
        """Return unused memory."""
        if self.cuda:
            torch.cuda.empty_cache()
        return self.memory()

    def reset_peak(self) -> None:
        if self.cuda:
            torch.cuda.reset_peak_memory_stats()

    def wait(self) -> None:
        """For the device's work."""
        if self.cuda:
            torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--network", choices=["resnet50", "transformer", "small", "deep"], default="small")
    parser.add_argument("--size", choices=["full", "tiny"], default="tiny")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--deterministic", action="store_true")
    options = parser.parse_args()
    if options.deterministic:
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        torch.use_deterministic_algorithms(True)
    else:
        torch.backends.cudnn.benchmark = True
    if options.device == "cpu":
        torch.set_num_threads(1)
    worker = Worker(options)
    verbs = {
        "train": worker.train,
        "hold": worker.hold,
        "outgrow": worker.outgrow,
        "gpu_memory": worker.gpu_memory,
        "fresh": worker.fresh,
        "state": worker.state,
        "outcome": worker.outcome,
        "fitted": worker.fitted,
        "watch_turns": worker.watch_turns,
        "turns": worker.turns,
        "rest": worker.rest,
    }
    print(
        json.dumps({"pid": os.getpid(), "torch": torch.__version__, "cuda": torch.version.cuda or ""}),
        flush=True,
    )
    for line in sys.stdin:
        command = json.loads(line)
        print(json.dumps(verbs[command.pop("do")](**command)), flush=True)


if __name__ == "__main__":
    main()
