"""Checkpoints for PyTorch scripts: saved atomically, also on SIGTERM, and resumed without a trace
(docs/checkpoints.md).

    from laneway.client import checkpoint

    state = checkpoint.Checkpoint("/checkpoints/job", model=model, optimizer=optimizer, scheduler=scheduler, scaler=scaler)
    state.resume()
    for epoch in state.epochs(10):
        for batch in state.batches(loader):
            ...

Modules: `training_state` has the loops, `store` the generations of all ranks, `folder` and `checkpoint_file`
the files. `parts`, `position`, `random_state` and `data_loader` capture and restore what a checkpoint holds.
"""

from __future__ import annotations

from laneway.client.checkpoint.errors import CheckpointError
from laneway.client.checkpoint.training_state import Checkpoint

__all__ = ["Checkpoint", "CheckpointError"]
