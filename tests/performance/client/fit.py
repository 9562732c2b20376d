"""What an iteration costs that is made to fit a part of the memory it would use, beside a checkpoint around every block.

    python -m tests.performance.client.fit -o result.json

Four networks on a simulated GPU, where tensors of the CPU stand for its memory, with budgets in percent of the ephemeral memory of the plain run.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.integration.client.jobs import SCRIPTS
from tests.performance.result_file import write_measured
from tests.torch_runtime import CLIENT, TorchRuntime, torch_runtime

MODELS = ("mlp", "cnn", "resnet", "transformer")
LONGEST_SECONDS = 300.0


def measure() -> list[dict[str, Any]]:
    """Return, by network, what each way of running it needed."""
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
