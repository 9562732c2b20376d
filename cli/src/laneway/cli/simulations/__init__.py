"""``simulate`` and ``replay``: the only part of the command line that needs the simulator (``laneway-cli[simulator]``)."""
