"""Checkpoints for PyTorch scripts: saved whole or not at all, on SIGTERM too, and resumed as if nothing had been (docs/checkpoints.md).

    from laneway.client import checkpoint

    state = checkpoint.Checkpoint("/checkpoints/job", model=model, optimizer=optimizer, scheduler=scheduler, scaler=scaler)
    state.resume()
    for epoch in state.epochs(10):
        for batch in state.batches(loader):
            ...

Checkpoint ─▶ store ─▶ folder, part_file        training_state: the loops; store: all ranks' generations; part_file: one file's format
     └─ parts, position, random_state, loader   what is in a checkpoint, and how it is put back
"""

from __future__ import annotations

from laneway.client.checkpoint.errors import CheckpointError
from laneway.client.checkpoint.training_state import Checkpoint

__all__ = ["Checkpoint", "CheckpointError"]
