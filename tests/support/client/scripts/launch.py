"""Starts two workers like torchrun, which imports PyTorch and does not train.

(torchrun's own store needs libuv, which Debian's PyTorch lacks.)
"""

from __future__ import annotations

import os
import subprocess
import sys

import torch


def main() -> int:
    port, *command = sys.argv[1:]
    print(f"launching with PyTorch {torch.__version__}", flush=True)
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2"}
    workers = [
        subprocess.Popen(
            [sys.executable, *command], env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        )
        for rank in range(2)
    ]
    return max(worker.wait() for worker in workers)


if __name__ == "__main__":
    sys.exit(main())
