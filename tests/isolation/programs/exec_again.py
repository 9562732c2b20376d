"""Allocates BYTES, prints the result, and becomes the same program once more: `exec_again.py BYTES`."""

import ctypes
import os
import sys

cuda, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
for result in (
    cuda.cuInit(0),
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
    cuda.cuCtxSetCurrent(context),
):
    assert result == 0, result
print(cuda.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(int(sys.argv[1]))), flush=True)
if len(sys.argv) < 3:
    os.execv(sys.executable, [sys.executable, *sys.argv, "again"])
