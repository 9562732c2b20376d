"""Which ports Prometheus scrapes."""

from __future__ import annotations

from typing import Any

from hack.demo.discovery import targets


def pod(name: str, **more: Any) -> dict[str, Any]:
    ports = [{"name": "agent-metrics", "containerPort": 9464}, {"name": "grpc", "containerPort": 1}]
    return {
        "metadata": {"name": name, "namespace": "laneway-system", **more.get("metadata", {})},
        "spec": {"containers": [{"name": "a", "ports": ports}, {"name": "b"}]},
        "status": {"phase": more.get("phase", "Running")},
    }


def test_ports_for_metrics_of_running_pods_are_reached_through_the_api_server() -> None:
    gone = {"deletionTimestamp": "2026-01-01T00:00:00Z"}

    groups = targets(
        [pod("n1"), pod("n2", phase="Pending"), pod("n3", metadata=gone)], "https://10.0.0.1:6443"
    )

    assert groups == [
        {
            "targets": ["10.0.0.1:6443"],
            "labels": {
                "__metrics_path__": "/api/v1/namespaces/laneway-system/pods/n1:9464/proxy/metrics",
                "instance": "n1:9464",
            },
        }
    ]
