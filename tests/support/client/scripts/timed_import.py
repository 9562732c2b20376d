"""Times the import of PyTorch, and the client's share of it: compiling and importing its modules, and installing its hooks.

Prints milliseconds of CPU time.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from laneway.client.torch_import import AfterImport


def main() -> None:
    (finder,) = [each for each in sys.meta_path if isinstance(each, AfterImport)]
    install_hooks = finder._then
    durations_ms: list[float] = []

    def install_timed(module: Any) -> None:
        began = time.process_time()
        install_hooks(module)
        durations_ms.append(1000 * (time.process_time() - began))

    finder._then = install_timed
    began = time.process_time()
    import torch  # noqa: F401

    import_ms = 1000 * (time.process_time() - began)
    (client_ms,) = durations_ms
    print(json.dumps({"import_torch_ms": import_ms, "client_ms": client_ms}))


if __name__ == "__main__":
    main()
