"""How properties are tried: no example has a time limit, because a machine that is busy is no failure.

Where `CI` is set, hypothesis tries the same examples each time (its profile "ci"), so that what fails there fails here too;
elsewhere it looks for new ones.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
