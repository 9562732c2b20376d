"""The parts of a checkpoint, and how each part's state is captured and restored.

A part has `state_dict` and `load_state_dict` (models, optimizers, schedulers, GradScaler, the script's own
classes), `get_state` and `set_state` (torch.Generator), or `getstate` and `setstate` (random.Random); or it
is a list or dict of parts. Wrappers of models (DistributedDataParallel, DataParallel, torch.compile) are
removed, so a checkpoint does not depend on them.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, Final, Optional

from laneway.client.checkpoint.errors import CheckpointError

ACCESSORS: Final = (("state_dict", "load_state_dict"), ("get_state", "set_state"), ("getstate", "setstate"))
WRAPPERS: Final = {
    "DistributedDataParallel": "module",
    "DataParallel": "module",
    "OptimizedModule": "_orig_mod",
}
SHARDED: Final = ("FullyShardedDataParallel", "FSDPModule")
PLAIN: Final = (type(None), bool, int, float, complex, str, bytes, bytearray)
CONTAINERS: Final = (dict, OrderedDict, Counter, list, tuple, set)


def flatten(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Returns nested parts as one dict: `{"model": [g, d]}` becomes `{"model.0": g, "model.1": d}`. None is
    left out.

    Raises:
        CheckpointError: a value is not a part.
    """
    flat: dict[str, Any] = {}
    for name, part in parts.items():
        if part is None:
            continue
        if isinstance(part, (list, tuple)):
            flat.update(flatten({f"{name}.{index}": entry for index, entry in enumerate(part)}))
        elif type(part) is dict:
            flat.update(flatten({f"{name}.{key}": entry for key, entry in part.items()}))
        else:
            flat[name] = _unwrap(part)
            _accessors(name, flat[name])
    return flat


def is_sharded(part: Any) -> bool:
    """Returns whether a part is a model with parameters that are sharded over the ranks: FSDP, or a DTensor of any
    other kind, such as tensor parallelism."""
    modules, parameters = (getattr(part, name, None) for name in ("modules", "parameters"))
    if not callable(modules) or not callable(parameters):
        return False
    by_class = any(base.__name__ in SHARDED for module in modules() for base in type(module).__mro__)
    return by_class or any(hasattr(parameter, "to_local") for parameter in parameters())


def capture(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the state of every part.

    Raises:
        CheckpointError: a state holds something that could not be loaded again.
    """
    states = {name: getattr(part, _accessors(name, part)[0])() for name, part in parts.items()}
    refuse_unloadable(states)
    return states


def restore(parts: Mapping[str, Any], states: Mapping[str, Any]) -> None:
    """Restores every part; `mismatch` has been checked before."""
    for name, part in parts.items():
        getattr(part, _accessors(name, part)[1])(states[name])


def mismatch(parts: Mapping[str, Any], states: Mapping[str, Any]) -> Optional[str]:
    """Returns why these states do not belong to these parts; None if they do."""
    if set(parts) != set(states):
        return f"it holds {_listed(states)}; the script has {_listed(parts)}"
    for name, part in parts.items():
        reason = _mismatch_of(name, part, states[name])
        if reason is not None:
            return reason
    return None


def refuse_unloadable(states: Mapping[str, Any]) -> None:
    """Checks a state before it is saved.

    Raises:
        CheckpointError: it holds an object that PyTorch would refuse to load (`weights_only=True`); the
            message says where.
    """
    for where, value in _unloadable(states, ""):
        raise CheckpointError(
            f"{where} is a {type(value).__module__}.{type(value).__qualname__}, which a checkpoint cannot hold: use numbers, "
            "strings, tensors, and lists and dicts of them"
        )


def _unloadable(value: Any, where: str) -> Iterator[tuple[str, Any]]:
    kind = type(value)
    if kind in PLAIN:
        return
    if kind in CONTAINERS:
        entries = value.items() if isinstance(value, dict) else enumerate(value)
        for key, entry in entries:
            yield from _unloadable(key, where)
            yield from _unloadable(entry, f"{where}.{key}" if where else str(key))
        return
    if kind.__module__.split(".")[0] != "torch":  # tensors, sizes, dtypes, devices
        yield where, value


def _unwrap(part: Any) -> Any:
    while type(part).__name__ in WRAPPERS:
        part = getattr(part, WRAPPERS[type(part).__name__])
    return part


def _accessors(name: str, part: Any) -> tuple[str, str]:
    for get, put in ACCESSORS:
        if hasattr(part, get) and hasattr(part, put):
            return get, put
    raise CheckpointError(
        f"{name}={part!r} has no state_dict() and load_state_dict(): add both, or store plain values in Checkpoint.values"
    )


def _mismatch_of(name: str, part: Any, state: Any) -> Optional[str]:
    if hasattr(part, "named_parameters"):
        return _tensor_mismatch(name, part.state_dict(), state)
    groups = getattr(part, "param_groups", None)
    if isinstance(groups, list):
        own, saved = (
            [len(group["params"]) for group in entries] for entries in (groups, state.get("param_groups", []))
        )
        if own != saved:
            return f"its {name} trains {saved} parameters (by group); the script's trains {own}"
    return None


def _tensor_mismatch(name: str, own: Mapping[str, Any], saved: Mapping[str, Any]) -> Optional[str]:
    for key in [*own, *saved]:
        if key not in saved:
            return f"its {name} has no {key}, but the script's has"
        if key not in own:
            return f"its {name} has {key}, but the script's has not"
        shapes = [tuple(getattr(tensors[key], "shape", ())) for tensors in (saved, own)]
        if shapes[0] != shapes[1]:
            return f"{key} of its {name} has shape {shapes[0]}; the script's has {shapes[1]}"
    return None


def _listed(names: Mapping[str, Any]) -> str:
    return ", ".join(sorted(names)) or "nothing"
