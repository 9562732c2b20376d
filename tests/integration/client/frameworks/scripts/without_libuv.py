"""Makes torch.distributed's stores work without libuv: Debian's PyTorch lacks it, and not all callers respect
USE_LIBUV."""

from __future__ import annotations

import functools
import importlib
import os

from torch.distributed import TCPStore

os.environ["USE_LIBUV"] = "0"
for name in ("rendezvous", "elastic.rendezvous.static_tcp_rendezvous"):
    importlib.import_module(f"torch.distributed.{name}").TCPStore = functools.partial(
        TCPStore, use_libuv=False
    )
