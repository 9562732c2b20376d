"""A Python process that launches kernels, and whose client may take turns for it: commands as `launching.c` has them."""

from __future__ import annotations

import ctypes
import json
import os
import sys

from tests.support.node_agent.peer_process import Peer


class ClientThatLaunches:
    def __init__(self) -> None:
        self.launched = 0
        self.peer = Peer()
        self.driver = ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        self.driver.cuInit(0)
        self.driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
        self.driver.cuCtxSetCurrent(context)

    def hello(self, argument: int) -> None:
        """Open a session as the client does."""
        self.peer.connect()
        hello = {
            "type": "hello",
            "version": 1,
            "pid": os.getpid(),
            "framework": "",
            "device": "cuda",
            "gpu": None,
        }
        self.peer.send(json.dumps(hello))
        assert self.peer.receive()["packet"]["type"] == "welcome"

    def once(self, argument: int) -> None:
        result = self.driver.cuLaunchKernel(ctypes.c_void_p(argument), *(1,) * 6, 0, None, None, None)
        assert result == 0, result
        self.launched += 1


def main() -> None:
    process = ClientThatLaunches()
    print(json.dumps({"pid": os.getpid()}), flush=True)
    for line in sys.stdin:
        name, argument = line.split()
        getattr(process, name)(int(argument))
        print(json.dumps({"launched": process.launched}), flush=True)


if __name__ == "__main__":
    main()
