"""Times the import of PyTorch, and in it the client's own share: its modules, compiled from their source, and its hooks. Prints milliseconds of the processor's time."""

from __future__ import annotations

import json
import time
from typing import Any

from laneway.client import torch_import

_install = torch_import._install
_share_ms: list[float] = []


def install(torch: Any) -> None:
    """What the client does once PyTorch has been imported."""
    began = time.process_time()
    _install(torch)
    _share_ms.append(1000 * (time.process_time() - began))


def main() -> None:
    import sys

    (finder,) = [each for each in sys.meta_path if isinstance(each, torch_import.AfterImport)]
    finder._then = install
    began = time.process_time()
    import torch  # noqa: F401

    whole_ms = 1000 * (time.process_time() - began)
    (share_ms,) = _share_ms
    print(json.dumps({"import_torch_ms": whole_ms, "client_ms": share_ms}))


if __name__ == "__main__":
    main()
