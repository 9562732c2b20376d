"""Trains one of four networks; prints each step's loss and gradients' norms, exact to the bit, and a hash of all gradients."""

from __future__ import annotations

import argparse
import hashlib
import json

import torch
from fit_models import MODELS, batch
from torch.nn.functional import cross_entropy


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=sorted(MODELS))
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--sizes", default="", help="sizes of the batches, in turn")
    arguments = parser.parse_args()
    sizes = [int(size) for size in arguments.sizes.split(",") if size] or [None]
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(1)
    model = MODELS[arguments.model][0]()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    digest = hashlib.sha256()
    for step in range(arguments.steps):
        inputs, classes = batch(arguments.model, step, sizes[step % len(sizes)])
        optimizer.zero_grad()
        loss = cross_entropy(model(inputs), classes)
        loss.backward()
        gradients = [parameter.grad for parameter in model.parameters()]
        for gradient in gradients:
            digest.update(gradient.numpy().tobytes())
        norms = [gradient.norm().item() for gradient in gradients]
        optimizer.step()
        print(json.dumps({"loss": loss.item(), "norms": norms}), flush=True)
    for kept in model.state_dict().values():
        digest.update(kept.numpy().tobytes())
    buffers = [buffer.double().norm().item() for buffer in model.buffers()]
    print(json.dumps({"digest": digest.hexdigest(), "buffers": buffers}), flush=True)


if __name__ == "__main__":
    main()
