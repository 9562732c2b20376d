"""Models whose parameters are sharded over the ranks (FSDP), and their optimizers: saved and restored by
`torch.distributed.checkpoint`, which divides them again where the number of ranks has changed.

Each rank writes its own part, so no rank ever holds the whole model. The file of a rank lists the files that
it wrote, with their sizes and digests.
"""

from __future__ import annotations

import hashlib
import importlib
import os
from collections.abc import Mapping
from typing import Any, Final, Optional

from laneway.client.checkpoint.checkpoint_file import CHUNK_BYTES, flush_folder
from laneway.client.checkpoint.errors import CheckpointError
from laneway.client.checkpoint.parts import is_sharded

METADATA: Final = ".metadata"


class ShardedParts:
    """Sharded models with their optimizers. All ranks call each method at the same time."""

    def __init__(self, models: Mapping[str, Any], optimizers: Mapping[str, tuple[Any, Any]]) -> None:
        """Takes the models by name, and the optimizers by name, each with its model.

        Raises:
            CheckpointError: this PyTorch cannot save them.
        """
        self._models = models
        self._optimizers = optimizers
        try:
            self._files = importlib.import_module("torch.distributed.checkpoint")
            self._states = importlib.import_module("torch.distributed.checkpoint.state_dict")
        except ImportError as error:
            raise CheckpointError(
                f"{', '.join(models)} is sharded over the ranks (FSDP), which needs PyTorch 2.2 or newer: {error}"
            ) from error
        self._shapes = {
            name: {
                key: list(tensor.size())
                for key, tensor in self._states.get_model_state_dict(model).items()
                if hasattr(tensor, "size")
            }
            for name, model in models.items()
        }
        """Of the whole tensors, by model. Found by all ranks together, so not where a rank may be alone."""

    def save(self, folder: str, rank: int) -> dict[str, Any]:
        """Writes this rank's part, and returns its description for `mismatch` and `damaged_file`.

        Raises:
            OSError: it could not be written.
        """
        state = self._capture()
        try:
            self._files.save(state, checkpoint_id=folder)
        except BaseException as error:
            if type(error).__name__ != "CheckpointException":
                raise
            raise OSError(f"torch.distributed.checkpoint: {error}") from error
        flush_folder(folder)
        names = [name for name in os.listdir(folder) if name.startswith(f"__{rank}_")]
        files = {name: _describe(os.path.join(folder, name)) for name in [*names, *[METADATA] * (rank == 0)]}
        return {"parts": self._shapes, "files": files}

    def load(self, folder: str) -> None:
        """Restores the models and optimizers from a folder that `damaged_file` has verified."""
        state = self._capture()
        self._files.load(state, checkpoint_id=folder)
        for name, model in self._models.items():
            self._states.set_model_state_dict(model, state[name])
        for name, (optimizer, model) in self._optimizers.items():
            self._states.set_optimizer_state_dict(model, optimizer, optim_state_dict=state[name])

    def mismatch(self, saved: Mapping[str, Any]) -> Optional[str]:
        """Returns why saved parts do not belong to these; None if they do."""
        own = self._shapes
        for name in [*own, *saved]:
            if name not in saved:
                return f"its {name} is not sharded over the ranks (FSDP), or missing; the script's is"
            if name not in own:
                return f"its {name} is sharded over the ranks (FSDP); the script's is not, or is missing"
            for key in [*own[name], *saved[name]]:
                shapes = [described[name].get(key) for described in (saved, own)]
                if shapes[0] != shapes[1]:
                    return f"{key} of its {name} has shape {shapes[0]}; the script's has {shapes[1]}"
        return None

    def _capture(self) -> dict[str, Any]:
        state = {name: self._states.get_model_state_dict(model) for name, model in self._models.items()}
        for name, (optimizer, model) in self._optimizers.items():
            state[name] = self._states.get_optimizer_state_dict(model, optimizer)
        return state


def split_sharded(parts: Mapping[str, Any]) -> tuple[dict[str, Any], Optional[ShardedParts]]:
    """Returns the parts that are the same on all ranks, and those that are divided among them, if any.

    Raises:
        CheckpointError: an optimizer trains only in part what is sharded.
    """
    models = {name: part for name, part in parts.items() if is_sharded(part)}
    if not models:
        return dict(parts), None
    optimizers = {}
    for name, part in parts.items():
        model = (
            _model_of(name, part, models) if isinstance(getattr(part, "param_groups", None), list) else None
        )
        if model is not None:
            optimizers[name] = (part, model)
    whole = {name: part for name, part in parts.items() if name not in models and name not in optimizers}
    return whole, ShardedParts(models, optimizers)


def damaged_file(folder: str, files: Mapping[str, list[Any]]) -> Optional[str]:
    """Returns what is wrong with the files of a rank; None if they are as they were written."""
    for name, description in files.items():
        path = os.path.join(folder, name)
        try:
            if _describe(path) != description:
                return f"{os.path.basename(folder)}/{name} is damaged: its size or digest does not match"
        except OSError as error:
            return f"{os.path.basename(folder)}/{name} cannot be read: {error}"
    return None


def _model_of(name: str, optimizer: Any, models: Mapping[str, Any]) -> Any:
    """Returns the divided model that an optimizer trains; None if it trains none of them."""
    trained = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    for model in models.values():
        parameters = {id(parameter) for parameter in model.parameters()}
        if trained <= parameters:
            return model
        if trained & parameters:
            raise CheckpointError(
                f"{name} trains parameters of a model that is sharded over the ranks (FSDP), and others: use an "
                "optimizer for each model"
            )
    return None


def _describe(path: str) -> list[Any]:
    """Returns a file's size in bytes and its digest."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for chunk in iter(lambda: file.read(CHUNK_BYTES), b""):
            digest.update(chunk)
        return [file.tell(), digest.hexdigest()]
