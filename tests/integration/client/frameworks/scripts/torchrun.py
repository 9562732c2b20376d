"""torchrun itself. Prints at its end whether it had a session."""

from __future__ import annotations

import json

import without_libuv
from exact import has_session
from torch.distributed import run

__all__ = ["without_libuv"]

if __name__ == "__main__":
    run.main()
    print(json.dumps({"rank": "none", "session": has_session()}), flush=True)
