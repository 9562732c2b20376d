"""`python -m hack.chart`: writes the chart's generated files; with ``--check`` says which are not current.

Generated: `files/crds/` (copies of the tree's `crds/`), `values.schema.json`, `dashboards/laneway.json`, the tables in `README.md`.
"""

from __future__ import annotations

import argparse
import json
import sys
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


def main() -> int:
    """Writes the files, or checks them; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m hack.chart", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 when a file is not current"
    )
    if parser.parse_args().check:
        stale = stale_files()
        if stale:
            print(
                f"not current: {', '.join(stale)}; run `python -m hack.chart` and commit the result",
                file=sys.stderr,
            )
        return 1 if stale else 0
    for path, text in generated_files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


def _json(document: object) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.exit(main())
