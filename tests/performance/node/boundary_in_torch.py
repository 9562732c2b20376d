"""Times the hooks that the client has put into PyTorch, by calling them as PyTorch does; run where PyTorch is.

The arguments are the number of bursts and the number of iterations in each. The output is a JSON list with each burst's
nanoseconds per iteration. It leaves out the time in which PyTorch itself goes through its list of hooks.
"""

from __future__ import annotations

import json
import sys
import time

import torch
from torch import nn
from torch.nn.modules import module as modules


def main() -> None:
    """Train a little, so that hooks, session and profile are as in the middle of a training; then time."""
    bursts, times = map(int, sys.argv[1:])
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs = torch.ones(1, 4)
    for _ in range(20):
        optimizer.zero_grad()
        model(inputs).sum().backward()
        optimizer.step()
    nanoseconds = [_burst_ns(model, inputs, optimizer, times) / times for _ in range(bursts)]
    print(json.dumps(nanoseconds))


def _burst_ns(model: nn.Module, inputs: torch.Tensor, optimizer: torch.optim.Optimizer, times: int) -> int:
    from torch.optim import optimizer as optimizers

    before_forward = modules._global_forward_pre_hooks
    before_step = optimizers._global_optimizer_pre_hooks
    after_step = optimizers._global_optimizer_post_hooks
    assert before_forward, "the client has no hook in PyTorch"
    bare_ns = time.monotonic_ns()
    for _ in range(times):
        for _hook in tuple(before_forward.values()):
            pass
        for _hook in tuple(before_step.values()):
            pass
        for _hook in tuple(after_step.values()):
            pass
    began_ns = time.monotonic_ns()
    for _ in range(times):
        for hook in tuple(before_forward.values()):
            hook(model, (inputs,))
        for hook in tuple(before_step.values()):
            hook(optimizer, (), {})
        for hook in tuple(after_step.values()):
            hook(optimizer, (), {})
    return time.monotonic_ns() - began_ns - (began_ns - bare_ns)


if __name__ == "__main__":
    main()
