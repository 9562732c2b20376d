"""What the author of a pod with a share may not write."""

from __future__ import annotations

from typing import Any

import pytest
from laneway.api import names
from laneway.api.reserved_names import (
    OPERATORS_ANNOTATIONS,
    OPERATORS_LABELS,
    PLUGINS_PATHS,
    USERS_VARIABLES,
    covers_plugins_mounts,
    is_reserved_variable,
    mounts_problem,
    template_problem,
)


def a_template(metadata: dict[str, Any] | None = None, **pod: Any) -> dict[str, Any]:
    return {"metadata": metadata, "spec": {"containers": [{"name": "trainer", "image": "i"}], **pod}}


def setting(variable: str) -> list[dict[str, Any]]:
    return [{"name": "a", "env": None}, {"name": "b", "env": [{"name": "HOME"}, {"name": variable}]}]


@pytest.mark.parametrize(
    ("variable", "want"),
    [
        ("NVIDIA_VISIBLE_DEVICES", True),
        ("CUDA_MPS_PIPE_DIRECTORY", True),
        ("CUDA_MPS_", True),
        ("LANEWAY_DIR", True),
        ("LANEWAY_FIT_2", True),
        *((name, False) for name in USERS_VARIABLES),
        ("CUDA_VISIBLE_DEVICES", False),
        ("NVIDIA_DRIVER_CAPABILITIES", False),
        ("MY_LANEWAY_DIR", False),
        ("PYTHONPATH", False),
    ],
)
def test_reserved_variables(variable: str, want: bool) -> None:
    assert is_reserved_variable(variable) is want


@pytest.mark.parametrize("kind", ["containers", "initContainers"])
@pytest.mark.parametrize("field", ["limits", "requests"])
@pytest.mark.parametrize("name", ["laneway.dev/gpu-percent", "nvidia.com/gpu"])
def test_no_container_of_a_worker_requests_gpus_itself(kind: str, field: str, name: str) -> None:
    """A sidecar, which is an init container that is restarted, would hold GPUs that the scheduler never gave to the job."""
    containers: list[dict[str, Any]] = [
        {"name": "a", "resources": None},
        {"name": "b", "restartPolicy": "Always", "resources": {field: {name: "100"}}},
    ]
    problem = template_problem(a_template(None, **{kind: containers}))
    assert f"template.spec.{kind}[1].resources requests {name}, which is reserved: leave it out" in problem


@pytest.mark.parametrize("kind", ["containers", "initContainers"])
def test_a_reserved_variable_is_named_with_its_place(kind: str) -> None:
    problem = template_problem(a_template(**{kind: setting("NVIDIA_VISIBLE_DEVICES")}))
    assert (
        f"template.spec.{kind}[1].env sets NVIDIA_VISIBLE_DEVICES, which is reserved: leave it out" in problem
    )
    assert (
        "LANEWAY_FIT, LANEWAY_STOP_TIMEOUT_SECONDS, LANEWAY_AGENT_TIMEOUT_SECONDS, LANEWAY_LOADER_WORKERS"
        in problem
    )


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        *(("labels", key) for key in OPERATORS_LABELS),
        *(("annotations", key) for key in OPERATORS_ANNOTATIONS),
    ],
)
def test_what_only_the_operator_writes_is_named(kind: str, key: str) -> None:
    problem = template_problem(a_template({kind: {"team": "x", key: "y"}}))
    assert (
        problem == f"template.metadata.{kind} has {key}, which only Laneway's operator writes: leave it out"
    )


@pytest.mark.parametrize(
    "template",
    [
        a_template(),
        a_template({"labels": None, "annotations": {names.MINIMUM_ENFORCEMENT_ANNOTATION: "MPS"}}),
        a_template(initContainers=None),
        a_template(containers=setting("CUDA_VISIBLE_DEVICES")),
    ],
)
def test_other_templates_have_no_problem(template: dict[str, Any]) -> None:
    assert template_problem(template) == ""


@pytest.mark.parametrize(
    ("path", "want"),
    [
        *((path, True) for path in PLUGINS_PATHS),
        ("/run/laneway/containers", True),
        ("/opt/laneway/sitecustomize.py", True),
        ("//run/./laneway/", True),
        ("run/laneway", True),
        ("/var/run/laneway", True),
        ("/var/run", True),
        ("/data/../run/laneway", True),
        ("/run", True),
        ("/opt/", True),
        ("/etc", True),
        ("/", True),
        ("/var", False),
        ("/run/laneways", False),
        ("/opt/data", False),
        ("/etc/ld.so.preload.d", False),
        ("/etc/ssl", False),
        ("/mnt/run/laneway", False),
        ("/data/a..b", False),
    ],
)
def test_mounts_that_cover_the_device_plugins(path: str, want: bool) -> None:
    assert covers_plugins_mounts(path) is want
    trainer = {"name": "trainer", "volumeMounts": [{"name": "a", "mountPath": "/data"}, {"mountPath": path}]}
    problem = mounts_problem(trainer)
    assert problem.startswith(f"template.spec: the trainer mounts a volume at {path}, where") is want
    assert bool(problem) is want


def test_a_trainer_without_volumes_covers_nothing() -> None:
    assert mounts_problem({"name": "trainer", "volumeMounts": None}) == ""
