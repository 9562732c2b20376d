"""The chart's generated files: copies of the CRDs, the schema of its values, some of their defaults, the dashboards, the configuration page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from hack.chart.config_page import config_page
from hack.chart.defaults import defaults
from hack.chart.values_schema import values_schema
from hack.dashboards.files import dashboards
from hack.markdown import formatted

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "laneway"


def generated_files() -> dict[Path, str]:
    """Returns the text of each generated file by its path. Only README.md is missing, because it requires helm-docs."""
    crds = {
        CHART / "files" / "crds" / path.name: path.read_text(encoding="utf-8")
        for path in sorted((ROOT / "crds").glob("*.yaml"))
    }
    built = {
        CHART / "dashboards" / f"{name}.json": _json(dashboard) for name, dashboard in dashboards().items()
    }
    return {
        **crds,
        **built,
        CHART / "files" / "defaults.yaml": defaults(CHART),
        CHART / "values.schema.json": _json(values_schema()),
        CHART / "CONFIGURATION.md": formatted(config_page()),
    }


def stale_files(files: Mapping[Path, str]) -> list[str]:
    """Returns the files whose text differs from the given one, and CRDs and dashboards that are not among them; relative to the tree."""
    stale = [
        path for path, text in files.items() if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]
    folders = (CHART / "files" / "crds", CHART / "dashboards")
    surplus = [path for folder in folders for path in sorted(folder.glob("*")) if path not in files]
    return [str(path.relative_to(ROOT)) for path in (*stale, *surplus)]


def _json(document: object) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
