"""The loop of a process that a test drives line by line: JSON commands on standard input, JSON answers on standard output.

`PeerProcess` in `node.py` is the other end. The module rests on nothing but the standard library, because the processes run
in containers.
"""

from __future__ import annotations

import json
import os
import sys


def answer_commands(target: object) -> None:
    """Print the process's pid, then do each command and print its answer, until the standard input ends.

    A command such as `{"do": "close", "n": 1}` calls the method `close(n=1)` of the target.
    """
    print(json.dumps({"pid": os.getpid()}), flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        answer = getattr(target, command.pop("do"))(**command)
        print(json.dumps(answer), flush=True)
