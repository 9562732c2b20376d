"""Calls the driver as it is told on standard input: one JSON list a line, one JSON answer a line.

["call", name, argument…] calls a function of libcuda.so.1 that it found with dlsym (through ctypes). An argument is a whole number, "out" for a pointer
to a result of 8 bytes, or hex digits "x…" for a pointer to a structure of these bytes. The answer is [result, out…].
"""

import ctypes
import json
import os
import resource
import sys

LIBRARIES = {}
FILLING = []


def library(name):
    soname = "libnvidia-ml.so.1" if name.startswith("nvml") else "libcuda.so.1"
    if soname not in LIBRARIES:
        LIBRARIES[soname] = ctypes.CDLL(soname)
    return LIBRARIES[soname]


def call(name, *arguments):
    return invoke(getattr(library(name), name), *arguments)


def call_found(name, version, *arguments):
    """The same with the function that cuGetProcAddress_v2 gives for a name without a suffix and a CUDA version."""
    found, status = ctypes.c_void_p(), ctypes.c_int()
    get = library("cuGetProcAddress_v2").cuGetProcAddress_v2
    result = get(name.encode(), ctypes.byref(found), version, ctypes.c_uint64(0), ctypes.byref(status))
    return invoke(ctypes.CFUNCTYPE(ctypes.c_int)(found.value), *arguments) if result == 0 else [result]


def invoke(function, *arguments):
    values, outs = [], []
    for argument in arguments:
        if argument == "out":
            outs.append(ctypes.c_uint64())
            values.append(ctypes.byref(outs[-1]))
        elif isinstance(argument, str):
            buffer = ctypes.create_string_buffer(bytes.fromhex(argument[1:]))
            outs.append(buffer)
            values.append(buffer)
        else:
            values.append(ctypes.c_uint64(argument))
    result = function(*values)
    return [result, *(out.value if isinstance(out, ctypes.c_uint64) else out.raw.hex() for out in outs)]


def use_first_device():
    """Makes a context on the first device the thread's."""
    results = [call("cuInit", 0)[0]]
    result, context = call("cuDevicePrimaryCtxRetain", "out", 0)
    return [*results, result, call("cuCtxSetCurrent", context)[0]]


def fork_and_allocate(size):
    """Before CUDA is started here: a child starts it, allocates, answers and ends."""
    return in_child(lambda: use_first_device() + call("cuMemAlloc_v2", "out", size)[:1])


def fork_and_call(*arguments):
    """The same in a child that ends afterwards; it has a context of its own, because CUDA's are not inherited."""
    return in_child(lambda: call(*arguments))


def in_child(work):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        answer = json.dumps(work())
        os.write(write, answer.encode())
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read) as pipe:
        return json.load(pipe)


def close_descriptors():
    """As a daemon does that closes what it did not open; then other files take the numbers."""
    os.closerange(3, 4096)
    return [os.open("/dev/null", os.O_RDWR) for _ in range(16)] and [0]


def fill_descriptors():
    """Opens files until the process may open no more."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    try:
        while True:
            FILLING.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        return [len(FILLING)]


def release_descriptors():
    while FILLING:
        os.close(FILLING.pop())
    return [0]


def fork_and_call_without_descriptors(*arguments):
    """The same as `fork_and_call` in a child that may open no file."""

    def work():
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
        return call(*arguments)

    return in_child(work)


def take_socket_number():
    """Puts a pipe where the library's socket was: the number is the program's now. Answers with what was written into the pipe."""
    sockets = [int(fd) for fd in os.listdir("/proc/self/fd") if is_socket(fd)]
    read, write = os.pipe()
    for descriptor in sockets:
        os.dup2(write, descriptor)
    os.set_blocking(read, False)
    LIBRARIES["pipe"] = read
    return [len(sockets)]


def is_socket(descriptor):
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}").startswith("socket:")
    except OSError:
        return False


def read_pipe():
    try:
        return [len(os.read(LIBRARIES["pipe"], 65536))]
    except BlockingIOError:
        return [0]


def write_garbage(digits):
    """Writes bytes into each socket of the process."""
    for descriptor in os.listdir("/proc/self/fd"):
        if is_socket(descriptor):
            os.write(int(descriptor), bytes.fromhex(digits))
    return [0]


ACTIONS = {
    "call": call,
    "call_found": call_found,
    "use_first_device": use_first_device,
    "fork_and_call": fork_and_call,
    "fork_and_allocate": fork_and_allocate,
    "close_descriptors": close_descriptors,
    "fill_descriptors": fill_descriptors,
    "release_descriptors": release_descriptors,
    "fork_and_call_without_descriptors": fork_and_call_without_descriptors,
    "take_socket_number": take_socket_number,
    "read_pipe": read_pipe,
    "write_garbage": write_garbage,
}

for line in sys.stdin:
    action, *parts = json.loads(line)
    print(json.dumps(ACTIONS[action](*parts)), flush=True)
