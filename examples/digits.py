"""A plain PyTorch script, without any knowledge of Laneway: trains on scikit-learn's digits.

Its memory on the GPU grows with `--batch`, `--width` and `--blocks`.
"""

from __future__ import annotations

import argparse
import json
import time

import torch
from digits_model import NoisyBatches, accuracy, build, load
from torch.nn.functional import cross_entropy


def main() -> None:
    """Trains, and prints the accuracy on test images."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=8192)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--input-seconds", type=float, default=0.0, help="how long each batch takes to load")
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    images, labels, test_images, test_labels = load()
    batches = NoisyBatches(images, labels, arguments.seed)
    model = build(arguments.width, arguments.blocks)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    for step in range(1, arguments.steps + 1):
        time.sleep(arguments.input_seconds)
        inputs, targets = batches.draw(arguments.batch)
        optimizer.zero_grad()
        loss = cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        if step % 10 == 0 or step == arguments.steps:
            print(f"step {step} loss {loss.item():.4f}", flush=True)

    reached = accuracy(model, test_images, test_labels)
    print(f"accuracy: {reached:.2f}")
    print(json.dumps({"accuracy": round(reached, 4), "steps": arguments.steps}), flush=True)


if __name__ == "__main__":
    main()
