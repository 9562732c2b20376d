"""The random number generators of a process: Python, NumPy if loaded, PyTorch on the CPU and, once CUDA is in
use, on its GPUs."""

from __future__ import annotations

import hashlib
import random
import sys
from typing import Any


def capture_random_state(torch: Any) -> dict[str, Any]:
    """Returns the states of all generators, in types that `torch.load(weights_only=True)` accepts."""
    state: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        kind, keys, position, has_gauss, cached = numpy.random.get_state()
        state["numpy"] = (str(kind), keys.tobytes(), int(position), int(has_gauss), float(cached))
    if torch.cuda.is_initialized():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def restore_random_state(torch: Any, state: dict[str, Any]) -> None:
    """Restores the generators; GPUs that no longer exist are left out."""
    random.setstate(state["python"])
    torch.set_rng_state(state["torch"])
    numpy = _numpy() if "numpy" in state else None
    if numpy is not None:
        kind, keys, position, has_gauss, cached = state["numpy"]
        numpy.random.set_state(
            (kind, numpy.frombuffer(keys, dtype=numpy.uint32), position, has_gauss, cached)
        )
    if "cuda" in state and torch.cuda.is_available():
        for device, generator in enumerate(state["cuda"][: torch.cuda.device_count()]):
            torch.cuda.set_rng_state(generator, device)


def fingerprints(state: dict[str, Any]) -> dict[str, str]:
    """Returns a short text for each generator, equal where the generators of two ranks are in the same state."""
    return {name: hashlib.sha256(_bytes(generator)).hexdigest()[:16] for name, generator in state.items()}


def reseed(torch: Any, state: dict[str, Any], rank: int, shared: set[str]) -> dict[str, Any]:
    """Returns the random state of a new rank, made from another rank's. Generators that all ranks share stay
    as they are.

    Args:
        torch: the module `torch`.
        state: the other rank's.
        rank: the new one.
        shared: the names of generators that are in the same state on all ranks.
    """
    before = capture_random_state(torch)
    seed = int(hashlib.sha256(f"{sorted(fingerprints(state).items())} {rank}".encode()).hexdigest()[:8], 16)
    random.seed(seed)
    torch.manual_seed(seed)
    if "numpy" in state and (numpy := _numpy()) is not None:
        numpy.random.seed(seed)
    fresh = capture_random_state(torch)
    restore_random_state(torch, before)
    return {name: state[name] if name in shared else fresh.get(name, state[name]) for name in state}


def _bytes(generator: Any) -> bytes:
    if isinstance(generator, list):
        return b"".join(_bytes(entry) for entry in generator)
    to_numpy = getattr(generator, "numpy", None)
    return repr(generator).encode() if to_numpy is None else bytes(to_numpy().tobytes())


def _numpy() -> Any:
    """Returns NumPy if installed: a resumed job may not have imported it yet."""
    try:
        import numpy
    except ImportError:
        return None
    return numpy
