"""Becomes a user without a name or a right, to whom nothing is writable but /tmp, which PyTorch itself writes to, and then runs a script."""

from __future__ import annotations

import os
import subprocess
import sys

NOBODY = 65534

for folder in ("/opt/laneway", "/run/laneway", "/srv/scripts", "/srv/work"):
    subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
os.umask(0o077)
os.setgroups([])
os.setgid(NOBODY)
os.setuid(NOBODY)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
