"""The name of a template: jobs of one name are taken to need the same memory and time."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from laneway.api.training_job import FitMode, TrainingJobSpec
from laneway.operator.state.records.worker_pod import trainer_of


def template_hash(spec: TrainingJobSpec) -> str:
    """Return 16 hex digits made of what a worker runs and what the gang has of GPUs.

    The image counts as it is written. Which image the tag stood for when a job ran is in the template's profile. GPU models do
    not count, because a profile is kept for each of them.
    """
    trainer = trainer_of(spec.template["spec"]["containers"])
    gpus = spec.gpus.to_json()
    gpus.pop("models", None)
    what = {
        "image": trainer.get("image"),
        "command": trainer.get("command") or [],
        "args": trainer.get("args") or [],
        "folder": trainer.get("workingDir") or "",
        "env": _environment(trainer),
        "envFrom": trainer.get("envFrom") or [],  # in order: of two values of a variable, the later counts
        "gpus": gpus,
        "workers": spec.workers,
    }
    if spec.memory_fit != FitMode.AUTO:  # it changes what the template needs
        what["fit"] = str(spec.memory_fit)
    canonical = json.dumps(what, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def same_script(spec: TrainingJobSpec, one: str, other: str) -> bool:
    """Return whether two templates of a job differ at most in the number of workers: the spec has both with numbers that it allows."""
    if one == other:
        return True
    if spec.min_workers is None or spec.max_workers is None:
        return False
    numbers = range(spec.min_workers, spec.max_workers + 1)
    return {one, other} <= {template_hash(spec.with_workers(number)) for number in numbers}


def _environment(container: dict[str, Any]) -> dict[str, Any]:
    """Return the value of each variable, or where it comes from; of two entries of a name, the later counts."""
    return {
        str(each["name"]): each.get("valueFrom") or each.get("value") or ""
        for each in container.get("env") or ()
    }
