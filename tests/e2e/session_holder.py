"""What the pods of a race run: holds a session by Laneway's own client and does an empty iteration now and then.

It comes to its container as text (`python3 -c`).
"""

import os
import time

from laneway.client import iteration, stopping

PACE_SECONDS = float(os.environ.get("PACE_SECONDS", "1"))

while not stopping():
    with iteration():
        pass
    time.sleep(PACE_SECONDS)
