"""The cost of an iteration that is fitted to a part of its memory, compared with a checkpoint around every
block.

    python -m tests.performance.client.fit -o result.json

Four networks on a simulated GPU, where CPU tensors stand for its memory. Budgets are in percent of the plain
run's ephemeral memory.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.performance.result_file import write_measured
from tests.support.client.jobs import SCRIPTS
from tests.support.torch_runtime import CLIENT, TorchRuntime, torch_runtime

MODELS = ("mlp", "cnn", "resnet", "transformer")
LONGEST_SECONDS = 300.0


def measure() -> list[dict[str, Any]]:
    """Returns, by network, what each way of running it needed."""
    runtime = torch_runtime()
    return [{"model": model, "ways": _ways(runtime, model)} for model in MODELS]


def _ways(runtime: TorchRuntime, model: str) -> list[dict[str, Any]]:
    client = "/opt/laneway" if runtime.root else str(CLIENT)
    process = runtime.start(["fit_cost.py", model], SCRIPTS, Path("/tmp"), PYTHONPATH=client)
    try:
        output, errors = process.communicate(timeout=LONGEST_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    if process.returncode:
        raise RuntimeError(f"{model} failed:\n{errors}")
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


if __name__ == "__main__":
    write_measured(measure)
