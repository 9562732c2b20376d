"""The dashboards as Grafana imports them."""

from __future__ import annotations

import json
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from hack.dashboards.cluster import cluster
from hack.dashboards.gpu import gpu
from hack.dashboards.job import job
from hack.dashboards.tenant import tenant


def dashboards() -> dict[str, dict[str, Any]]:
    """Returns the dashboards by the names of their files."""
    builders = {"cluster": cluster(), "tenant": tenant(), "job": job(), "gpu": gpu()}
    return {
        name: json.loads(JSONEncoder(sort_keys=True).encode(built.build()))
        for name, built in builders.items()
    }
