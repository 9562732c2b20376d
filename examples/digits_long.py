"""A long job that can be stopped at any time and goes on where it was: plain PyTorch with a checkpoint. It knows nothing of Laneway.

On SIGTERM it finishes the step that it is in, saves, and ends with status 143. `steps.log` beside the checkpoint gets one line for
each step trained.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch
from digits_model import NoisyBatches, accuracy, build, load
from torch import nn
from torch.nn.functional import cross_entropy


class Training:
    """Everything that a checkpoint holds."""

    def __init__(self, width: int, blocks: int) -> None:
        torch.manual_seed(0)
        images, labels, self.test_images, self.test_labels = load()
        self.batches = NoisyBatches(images, labels, seed=0)
        self.model: nn.Module = build(width, blocks)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.step = 0

    def advance(self, batch: int) -> float:
        """Trains one step; returns its loss."""
        inputs, targets = self.batches.draw(batch)
        self.optimizer.zero_grad()
        loss = cross_entropy(self.model(inputs), targets)
        loss.backward()
        self.optimizer.step()
        self.step += 1
        return float(loss.item())

    def save(self, path: Path) -> None:
        """Writes the checkpoint whole or not at all."""
        partial = path.with_suffix(".partial")
        with partial.open("wb") as file:
            torch.save(self._state(), file)
            file.flush()
            os.fsync(file.fileno())
        partial.rename(path)

    def restore(self, path: Path) -> None:
        """Goes on from a checkpoint, random numbers included."""
        state: dict[str, Any] = torch.load(path, weights_only=True)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.batches.set_state(state["batches"])
        torch.set_rng_state(state["random"])
        self.step = state["step"]

    def _state(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "batches": self.batches.state(),
            "random": torch.get_rng_state(),
        }


def main() -> int:
    """Trains up to the target, over as many lives as it takes; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000, help="the target, over all lives")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--checkpoint-dir", type=Path, required=True)
    parser.add_argument("--checkpoint-every", type=int, default=100)
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    arguments.checkpoint_dir.mkdir(parents=True, exist_ok=True)
    checkpoint = arguments.checkpoint_dir / "checkpoint.pt"
    training = Training(arguments.width, arguments.blocks)
    if checkpoint.exists():
        training.restore(checkpoint)
    resumed_at = training.step
    tell("start", step=resumed_at, target=arguments.steps)

    asked_to_stop = False

    def stop(signum: int, frame: object) -> None:
        nonlocal asked_to_stop
        asked_to_stop = True

    signal.signal(signal.SIGTERM, stop)

    with (arguments.checkpoint_dir / "steps.log").open("a", encoding="utf-8") as log:
        while training.step < arguments.steps:
            loss = training.advance(arguments.batch)
            log.write(json.dumps({"step": training.step, "loss": loss, "resumed_at": resumed_at}) + "\n")
            log.flush()
            if training.step % 50 == 0:
                print(f"step {training.step} loss {loss:.4f}", flush=True)
            if asked_to_stop or training.step % arguments.checkpoint_every == 0:
                training.save(checkpoint)
                tell("checkpoint", step=training.step)
            if asked_to_stop:
                return 128 + signal.SIGTERM

    training.save(checkpoint)
    reached = accuracy(training.model, training.test_images, training.test_labels)
    print(f"accuracy: {reached:.2f}")
    tell("end", step=training.step, accuracy=round(reached, 4), steps=training.step)
    return 0


def tell(event: str, **fields: float) -> None:
    """A line of JSON, for programs that follow the log."""
    print(json.dumps({"event": event, **fields}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
