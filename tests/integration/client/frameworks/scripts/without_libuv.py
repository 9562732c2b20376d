"""Has torch.distributed's stores do without libuv: Debian's PyTorch is built without, and not all that makes a store asks for USE_LIBUV."""

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
