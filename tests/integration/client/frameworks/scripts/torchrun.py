"""torchrun itself."""

from __future__ import annotations

import without_libuv
from torch.distributed import run

__all__ = ["without_libuv"]

if __name__ == "__main__":
    run.main()
