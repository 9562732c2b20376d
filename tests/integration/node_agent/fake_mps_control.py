"""A stand-in for nvidia-cuda-mps-control, which needs an NVIDIA GPU; it behaves the same as seen from
outside.

With ``-f`` it is a daemon in the foreground that takes commands from a pipe in CUDA_MPS_PIPE_DIRECTORY; each
such folder has at most one daemon. Without an option it is a front end that sends its standard input to the
daemon and prints the answers. It never has an MPS server or clients.
"""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path

PIPES = Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"])
LOGS = Path(os.environ["CUDA_MPS_LOG_DIRECTORY"])


def daemon() -> int:
    lock = (PIPES / "control_lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("An instance of this daemon is already running", flush=True)
        return 1
    (PIPES / "nvidia-cuda-mps-control.pid").write_text(str(os.getpid()))
    os.mkfifo(PIPES / "control", 0o666)
    log = (LOGS / "control.log").open("a")
    print(f"starting for {os.environ.get('CUDA_VISIBLE_DEVICES')}", file=log, flush=True)
    # Open for writing too, so that reading waits when no front end is there.
    requests = os.fdopen(os.open(PIPES / "control", os.O_RDWR), "r")
    while True:
        answer_to, _, command = requests.readline().strip().partition(" ")
        print(command, file=log, flush=True)
        answers = {"get_server_list": "", "quit": ""}
        Path(answer_to).write_text(answers.get(command, "Unknown command\n"))
        if command == "quit":
            (PIPES / "control").unlink()
            return 0


def front_end() -> int:
    for line in sys.stdin:
        try:
            control = os.open(PIPES / "control", os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            print("Cannot find MPS control daemon process")
            return 1
        answer = PIPES / f"answer.{os.getpid()}"
        os.mkfifo(answer)
        os.write(control, f"{answer} {line.strip()}\n".encode())
        os.close(control)
        sys.stdout.write(answer.read_text())
        answer.unlink()
    return 0


sys.exit(daemon() if sys.argv[1:] == ["-f"] else front_end())
