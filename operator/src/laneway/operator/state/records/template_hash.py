"""The name of a template: jobs of one name are taken to need the same memory and time."""

from __future__ import annotations

import hashlib
import json

from laneway.api.training_job import FitMode, TrainingJobSpec
from laneway.operator.state.records.worker_pod import trainer_of


def template_hash(spec: TrainingJobSpec) -> str:
    """Return 16 hex digits made of what a worker runs (image, command and arguments) and what the gang has of GPUs.

    The environment is left out: names of runs and folders are in it, which change from one run to the next.
    """
    trainer = trainer_of(spec.template["spec"]["containers"])
    what = {
        "image": trainer.get("image"),
        "command": trainer.get("command") or [],
        "args": trainer.get("args") or [],
        "gpus": spec.gpus.to_json(),
        "workers": spec.workers,
    }
    if spec.memory_fit != FitMode.AUTO:  # it changes what the template needs
        what["fit"] = str(spec.memory_fit)
    canonical = json.dumps(what, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]
