"""The chart's README.md, which helm-docs renders from `README.md.gotmpl` and from the comments of `values.yaml`."""

from __future__ import annotations

import subprocess
from pathlib import Path

from hack.cluster.build import built
from hack.markdown import formatted


def readme(chart: Path) -> str:
    """Returns the text of the chart's README.md. Builds helm-docs first if the cache does not have it.

    Raises:
        RuntimeError: helm-docs rendered nothing. It reports a broken template only in its log, with status 0.
    """
    command = [
        str(built("helm-docs")),
        f"--chart-search-root={chart}",
        "--sort-values-order=file",
        "--dry-run",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0 or not done.stdout.strip():
        raise RuntimeError(f"helm-docs rendered no README for {chart}:\n{done.stderr.strip()}")
    return formatted(done.stdout)
