"""Peak and time of one network's training step: plain, with a checkpoint around every block, and fitted to
budgets."""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from fit_models import MODELS, batch, blocks
from laneway.client.fit.fit_meter import FitMeter
from laneway.client.fit.memory_fit import MemoryFit, Mode, Stage
from laneway.client.memory.cpu_meter import CpuMeter
from laneway.client.session.settings import SessionSettings
from laneway.client.session.shared_page import PAGE_BYTES
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

MOST_STEPS_TO_SETTLE = 20
NO_LIMIT = 1 << 40
RECOMPUTE_PERCENT = 75


@dataclass
class Limit:
    """What a meter needs of a session: a quota that is not reported."""

    settings: SessionSettings
    words: list[int] = field(default_factory=lambda: [0] * (PAGE_BYTES // 8))

    def send_message(self, kind: str, **fields: Any) -> None:
        """Does nothing: there is no agent."""


@dataclass(frozen=True)
class Measured:
    """The measured steps: the most memory, and the time of the least disturbed step."""

    held_bytes: int
    peak_bytes: int
    seconds: float
    away: int = 0
    recomputed: int = 0


def train(
    model_name: str, steps: int, quota_bytes: int, mode: Mode, prepare: Callable[[nn.Module], None]
) -> Measured:
    """Trains a fresh network until a plan is followed, and then the steps that count."""
    torch.manual_seed(1)
    model = MODELS[model_name][0]()
    prepare(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    inputs, classes = batch(model_name, 0, 2 * MODELS[model_name][2])
    meter = CpuMeter(torch)
    fit = MemoryFit(torch, mode, meter.sample, meter.trace)
    around = FitMeter(meter, fit)
    found = []
    with ExitStack() as stack:
        stack.callback(around.forget)
        around.attach(Limit(SessionSettings("bench", "a GPU", quota_bytes, 0, simulated=True)))
        settled_after = 3
        for step in range(MOST_STEPS_TO_SETTLE + steps):
            settled_after = (
                step + 3 if fit.stage in (Stage.OBSERVE, Stage.WARM_UP, Stage.LEARN) else settled_after
            )
            optimizer.zero_grad()
            began = time.process_time()  # of all threads: the machine may be busy with other things
            around.begin()
            meter.trace()
            cross_entropy(model(inputs), classes).backward()
            optimizer.step()
            memory = around.end()
            if step >= settled_after:
                found.append((memory, time.process_time() - began))
            if len(found) == steps:
                break
        plan = fit.known[0].plan if fit.stage is Stage.PLANNED else None
    return Measured(
        held_bytes=max(held for (held, _), _ in found),
        peak_bytes=max(peak for (_, peak), _ in found),
        seconds=min(seconds for _, seconds in found),
        away=len(plan.offloaded) if plan is not None else 0,
        recomputed=len(fit.recomputed),
    )


def leave(model: nn.Module) -> None:
    """Leaves the model unchanged."""


def checkpoint_every_block(model: nn.Module) -> None:
    """Wraps blocks by hand."""
    for block in blocks(model):
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=sorted(MODELS))
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--percents", default="100,75,50,35")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    measure = partial(train, arguments.model, arguments.steps)
    plain = measure(NO_LIMIT, Mode.OFF, leave)
    ephemeral_bytes = plain.peak_bytes - plain.held_bytes

    def line(what: str, budget_bytes: int | None, run: Callable[[], Measured]) -> None:
        gc.collect()
        # Before and after each way, because the machine's speed varies.
        beside = [measure(NO_LIMIT, Mode.OFF, leave).seconds]
        gc.collect()
        result: dict[str, Any] = {"what": what, "budget_bytes": budget_bytes, "plain_bytes": ephemeral_bytes}
        try:
            found = run()
        except torch.OutOfMemoryError as error:
            print(json.dumps({**result, "fits": False, "message": str(error)}), flush=True)
            return
        gc.collect()
        beside.append(measure(NO_LIMIT, Mode.OFF, leave).seconds)
        result.update(
            fits=True,
            peak_bytes=found.peak_bytes - plain.held_bytes,
            seconds=found.seconds,
            plain_seconds=min(beside),
            away=found.offloaded,
            recomputed=found.recomputed,
        )
        print(json.dumps(result), flush=True)

    line("checkpoint", None, lambda: measure(NO_LIMIT, Mode.OFF, checkpoint_every_block))
    for percent in map(int, arguments.percents.split(",")):
        budget_bytes = ephemeral_bytes * percent // 100
        quota_bytes = plain.held_bytes + budget_bytes
        line(f"{percent} %", budget_bytes, lambda quota=quota_bytes: measure(quota, Mode.AUTO, leave))
    budget_bytes = ephemeral_bytes * RECOMPUTE_PERCENT // 100
    quota_bytes = plain.held_bytes + budget_bytes
    line(
        f"{RECOMPUTE_PERCENT} %, Recompute",
        budget_bytes,
        lambda: measure(quota_bytes, Mode.RECOMPUTE, leave),
    )


if __name__ == "__main__":
    main()
