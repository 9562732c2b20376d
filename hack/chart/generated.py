"""The chart's generated files: copies of the CRDs, the schema of its values, the dashboard, the tables of its README."""

from __future__ import annotations

import json
from pathlib import Path

from laneway.api.node_config import NodeConfig
from laneway.operator.config import OperatorConfig

from hack.chart.dashboard import dashboard
from hack.chart.values_schema import CHART_DECIDES, values_schema
from hack.chart.values_table import model_table, policies_table, values_table, with_tables

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "laneway"


def generated_files() -> dict[Path, str]:
    """The text of each generated file, by its path."""
    files = {
        CHART / "files" / "crds" / path.name: path.read_text(encoding="utf-8")
        for path in sorted((ROOT / "crds").glob("*.yaml"))
    }
    files[CHART / "values.schema.json"] = _json(values_schema())
    files[CHART / "dashboards" / "laneway.json"] = _json(dashboard())
    readme, values = CHART / "README.md", CHART / "values.yaml"
    tables = {
        "values": values_table(values.read_text(encoding="utf-8")),
        "node.config": model_table(NodeConfig, CHART_DECIDES["node"]),
        "policies": policies_table(),
        "operator.config": model_table(OperatorConfig, CHART_DECIDES["operator"]),
    }
    files[readme] = with_tables(readme.read_text(encoding="utf-8"), tables)
    return files


def stale_files() -> list[str]:
    """What is not current, or has no business to be there; relative to the tree."""
    files = generated_files()
    stale = [
        path for path, text in files.items() if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]
    strangers = [path for path in sorted((CHART / "files" / "crds").glob("*")) if path not in files]
    return [str(path.relative_to(ROOT)) for path in (*stale, *strangers)]


def _json(document: object) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
