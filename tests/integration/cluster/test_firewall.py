"""On a machine whose firewall drops what it does not know, as Docker's and ufw's do, nodes still reach one another.

The firewall and the cluster are in a network namespace of the test's own: nobody else's traffic is touched.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from hack.cluster.cache import exclusive
from hack.cluster.layout import state_root
from hack.cluster.teardown import bring_down

_NAME = "it-firewall"
_SCRIPT = r"""
set -eu
ip link set lo up
iptables -A INPUT -i lo -j ACCEPT
iptables -A INPUT -m conntrack --ctstate ESTABLISHED -j ACCEPT
iptables -P INPUT DROP
iptables -P FORWARD DROP
iptables-save | grep ^- > "$WORK/before" || true
"$PYTHON" -m hack.cluster up --name "$NAME" --nodes 2
second=$("$PYTHON" -m hack.cluster node-exec --name "$NAME" "$NAME-node-2" -- ip -4 -oneline address show eth0 | awk '{sub("/.*", "", $4); print $4}')
"$PYTHON" -m hack.cluster node-exec --name "$NAME" "$NAME-node-1" -- \
    curl --silent --insecure --max-time 20 --output /dev/null --write-out 'kubelet of %{url} said %{http_code}\n' "https://$second:10250/healthz"
"$PYTHON" -m hack.cluster down --name "$NAME"
iptables-save | grep ^- > "$WORK/after" || true
diff "$WORK/before" "$WORK/after"
"""


def test_nodes_reach_one_another_behind_a_firewall_that_is_left_as_it_was(root: None, tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
    with exclusive(state_root() / ".locks" / f"tests-{_NAME}.lock"):
        bring_down(_NAME)
        try:
            done = subprocess.run(
                ["unshare", "--net", "--", "/bin/sh", "-c", _SCRIPT],
                env={**environment, "PYTHON": sys.executable, "NAME": _NAME, "WORK": str(tmp_path)},
                capture_output=True,
                text=True,
                check=False,
                timeout=240,
            )
        finally:
            bring_down(_NAME)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "said 401" in done.stdout, "an answer without credentials is a refusal, but it is an answer"
