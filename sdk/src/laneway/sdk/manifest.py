"""Builds a TrainingJob from a trainer. Pure: nothing here asks a cluster, and only a script's file is read."""

from __future__ import annotations

import secrets
import string
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from laneway.api.names import API_VERSION
from laneway.sdk.errors import WrongArgumentError
from laneway.sdk.logs import TRAINER
from laneway.sdk.script import after_installing, script_of_file, script_of_function
from laneway.sdk.trainers import CustomTrainer, CustomTrainerContainer, Resources, Trainer

_PERCENT = 100


def job_manifest(
    trainer: Trainer,
    *,
    name: str | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    spec: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the TrainingJob of a trainer.

    Args:
        trainer: what its workers run.
        name: the job's name; None: one that is not used yet.
        labels: of the job and its workers.
        annotations: of the job.
        spec: further fields of the job's spec, such as ``{"priorityClassName": "high"}``. A ``template`` in it is completed
            by the trainer: its first container, or the one named trainer, keeps all that the trainer does not set.

    Raises:
        WrongArgumentError: the trainer's resources, function or script are wrong.
    """
    given = deepcopy(dict(spec or {}))
    template = _template(trainer, given.pop("template", {}))
    if labels:
        of_template = template.setdefault("metadata", {})
        of_template["labels"] = dict(labels) | (of_template.get("labels") or {})
    metadata: dict[str, Any] = {"name": name or _unused_name()}
    metadata |= {
        key: dict(value) for key, value in (("labels", labels), ("annotations", annotations)) if value
    }
    return {
        "apiVersion": API_VERSION,
        "kind": "TrainingJob",
        "metadata": metadata,
        "spec": {
            "workers": trainer.num_nodes,
            "gpus": gpu_request(trainer.resources_per_node.get("gpu", 1)),
            **given,
            "template": template,
        },
    }


def gpu_request(amount: str | float) -> dict[str, Any]:
    """Return the ``spec.gpus`` of an amount: ``0.5``, ``2``, ``"2"``, or memory such as ``"8Gi"``.

    Raises:
        WrongArgumentError: it is neither.
    """
    text = str(amount)
    try:
        number = float(text)
    except ValueError:
        return {"type": "Memory", "memory": text}
    percent = number * _PERCENT
    if 0 < number < 1 and abs(percent - round(percent)) < 1e-6:
        return {"type": "Share", "sharePercent": round(percent)}
    if number >= 1 and number.is_integer():
        return {"type": "Count", "count": int(number)}
    raise WrongArgumentError(
        f"gpu is {text}: write a share in hundredths such as 0.5, a whole number of GPUs, or memory such as 8Gi"
    )


def _template(trainer: Trainer, given: dict[str, Any]) -> dict[str, Any]:
    """Return the pod template: the given one, completed by the trainer."""
    pod = given.get("spec") or {}
    containers = pod.get("containers") or [{}]
    container = next((each for each in containers if each.get("name") == TRAINER), containers[0])
    container.setdefault("name", TRAINER)
    container["image"] = trainer.image
    if trainer.env:
        given_env = container.get("env") or []
        container["env"] = [
            *given_env,
            *({"name": key, "value": value} for key, value in trainer.env.items()),
        ]
    container.setdefault("terminationMessagePolicy", "FallbackToLogsOnError")
    for kind, amounts in _resources(trainer.resources_per_node).items():
        container.setdefault("resources", {}).setdefault(kind, {}).update(amounts)
    containers.sort(key=lambda each: each is not container)
    template = {**given, "spec": {"restartPolicy": "Never", **pod, "containers": containers}}
    _add_command(trainer, container, template)
    return template


def _add_command(trainer: Trainer, container: dict[str, Any], template: dict[str, Any]) -> None:
    if isinstance(trainer, CustomTrainerContainer):
        container |= {
            key: list(value) for key, value in (("command", trainer.command), ("args", trainer.args)) if value
        }
        return
    launcher: Sequence[str] = ()
    arguments: Sequence[str] = ()
    if isinstance(trainer, CustomTrainer):
        script = script_of_function(trainer.func, trainer.func_args)
    else:
        script, launcher, arguments = script_of_file(Path(trainer.script)), trainer.launcher, trainer.args
    command = [*(launcher or _launcher(trainer)), script.path, *arguments]
    container["command"] = after_installing(command, trainer.packages_to_install, trainer.pip_index_urls)
    script.add_to(template)


def _launcher(trainer: Trainer) -> Sequence[str]:
    """Return how a script starts: by ``torchrun`` where a worker has several GPUs, with a process for each of them."""
    request = gpu_request(trainer.resources_per_node.get("gpu", 1))
    return ["torchrun"] if request.get("count", 1) > 1 else ["python3", "-u"]


def _resources(given: Resources) -> dict[str, dict[str, str]]:
    """Return the container's resources. Requests and limits are equal: else the operator does not measure what CPUs gain."""
    unknown = sorted(set(given) - {"gpu", "cpu", "memory"})
    if unknown:
        raise WrongArgumentError(
            f"resources_per_node has {', '.join(unknown)}: write gpu, cpu and memory only"
        )
    amounts = {key: str(given[key]) for key in ("cpu", "memory") if key in given}
    return {"requests": amounts, "limits": dict(amounts)} if amounts else {}


def _unused_name() -> str:
    """Return a letter and eleven letters or digits, as Kubeflow's client."""
    characters = string.ascii_lowercase + string.digits
    return secrets.choice(string.ascii_lowercase) + "".join(secrets.choice(characters) for _ in range(11))
