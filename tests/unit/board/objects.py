"""TrainingJobs, GPUNodes and turns as the API server and the agents write them."""

from __future__ import annotations

from typing import Any

HOSTILE = "<img src=x onerror=alert(1)>&\"'\u202e\u0000"


def training_job(name: str = "digits", namespace: str = "team-a", **status: Any) -> dict[str, Any]:
    """A job with half a GPU."""
    return {
        "metadata": {
            "namespace": namespace,
            "name": name,
            "uid": f"uid-{name}",
            "creationTimestamp": "2026-01-31T12:00:00Z",
        },
        "spec": {"workers": 1, "gpus": {"type": "Share", "sharePercent": 50}},
        "status": status,
    }


def session(key: str, state: str = "Holding", **fields: Any) -> dict[str, Any]:
    """A session of a job that has the session's key as its name."""
    return {
        "key": key,
        "namespace": "team-a",
        "pod": f"{key}-0",
        "job": key,
        "rank": 0,
        "sharePercent": 40,
        "state": state,
        "persistentBytes": 2 << 30,
        "heldBytes": 3 << 30,
        **fields,
    }


def gpu_node(*sessions: dict[str, Any], lanes: tuple[tuple[str, ...], ...] = ()) -> dict[str, Any]:
    """A node with one GPU, its sessions and its lanes."""
    gpu = {
        "uuid": "GPU-1",
        "index": 0,
        "model": "NVIDIA H100 80GB HBM3",
        "memoryBytes": 80 << 30,
        "allocatableBytes": 79 << 30,
        "healthy": True,
        "sessions": list(sessions),
        "lanes": [
            {"id": number, "ephemeralBytes": 4 << 30, "sessions": list(keys)}
            for number, keys in enumerate(lanes)
        ],
    }
    conditions = [{"type": "Ready", "status": "True", "reason": "Ready", "message": ""}]
    return {"metadata": {"name": "gpu-1"}, "status": {"conditions": conditions, "gpus": [gpu]}}
