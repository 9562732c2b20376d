"""How properties are tried: see :mod:`tests.support.property_examples`.

Where `CI` is set, hypothesis tries the same examples each time (its profile "ci"), so that what fails there fails here too;
elsewhere it looks for new ones.
"""

from __future__ import annotations

from tests.support.property_examples import load_profile

load_profile()
