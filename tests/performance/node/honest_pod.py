"""What an honest pod of `hostile_pods.py` runs: iterations without a pause, and their number each second.

It comes to its container as text (`python3 -c`).
"""

import json
import time

from laneway.client import iteration

ITERATION_SECONDS = 0.02

iterations = 0
said_seconds = 0.0
while True:
    with iteration():
        time.sleep(ITERATION_SECONDS)
    iterations += 1
    now_seconds = time.time()
    if now_seconds - said_seconds >= 1:
        said_seconds = now_seconds
        print(json.dumps({"at_seconds": now_seconds, "iterations": iterations}), flush=True)
