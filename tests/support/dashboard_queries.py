"""The queries of the dashboards, as Grafana sends them to Prometheus."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hack.dashboards.files import dashboards


@dataclass(frozen=True)
class PanelQuery:
    """One query of one panel."""

    dashboard: str
    panel: str
    kind: str
    """The panel's type, such as `timeseries` or `table`."""

    expression: str
    legend: str

    def __str__(self) -> str:
        return f"{self.dashboard}, {self.panel}: {self.expression}"

    def filled(self, variables: Mapping[str, str], window: str) -> str:
        """Return the expression with values for the dashboard's variables, and one window for those that Grafana chooses."""
        chosen = {"__rate_interval": window, "__range": window, "__range_s": "60", **variables}
        return _filled(self.expression, chosen)


def variable_queries(dashboard: str, variables: Mapping[str, str]) -> dict[str, str]:
    """Return what Grafana asks for the choices of each variable of a dashboard, with values for the variables."""
    listed = dashboards()[dashboard]["templating"]["list"]
    return {
        each["name"]: _filled(each["query"]["query"], variables) for each in listed if each["type"] == "query"
    }


def _filled(query: str, variables: Mapping[str, str]) -> str:
    return re.sub(r"\$([a-z_]\w*)", lambda found: variables[found[1]], query)


def panels() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each panel with its dashboard's name, without the rows' titles."""
    for name, dashboard in dashboards().items():
        for panel in dashboard["panels"]:
            if panel["type"] != "row":
                yield name, panel


def panel_queries() -> list[PanelQuery]:
    """Return the queries of all panels."""
    return [
        PanelQuery(name, panel["title"], panel["type"], target["expr"], target.get("legendFormat", ""))
        for name, panel in panels()
        for target in panel["targets"]
    ]
