"""What a hostile pod of `hostile_pods.py` runs: one attack after the other in every second period, and nothing in the others.

It comes to its container in a ConfigMap, with the attacks of the integration tests.
"""

import itertools
import os
import time

from hostile.every_attack import Hostile

PERIOD_SECONDS = float(os.environ["PERIOD_SECONDS"])
ATTACKS = os.environ["ATTACKS"].split(",")
ATTACK_SECONDS = 2.0


def rest() -> None:
    """Wait for the next period of attacks."""
    while int(time.time() / PERIOD_SECONDS) % 2 == 0:
        time.sleep(0.2)


hostile = Hostile()
order = itertools.cycle(ATTACKS)
for _ in range(int(os.environ["NUMBER"]) % len(ATTACKS)):
    next(order)  # each pod begins with another one
while True:
    rest()
    attack = next(order)
    getattr(hostile, attack)(seconds=ATTACK_SECONDS)
