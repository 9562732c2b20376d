"""The cluster's DNS: CoreDNS on the bridge address, with a credential that may read Services and their pods only."""

from __future__ import annotations

import secrets
import socket
import struct
from pathlib import Path

from hack.cluster.components import CLUSTER_DOMAIN
from hack.cluster.layout import EmbeddedCluster

DNS_USER = "laneway:dns"
_ANSWER_TIMEOUT_SECONDS = 1.0


def write_corefile(cluster: EmbeddedCluster, kubeconfig: Path) -> Path:
    """Names of the cluster are never cached, because a gang's workers look each other up immediately."""
    zones = f"{CLUSTER_DOMAIN} {cluster.subnet}.10.in-addr.arpa"
    corefile = cluster.folder / "Corefile"
    corefile.write_text(
        f"""{zones} {{
    bind {cluster.address}
    errors
    ready {cluster.address}:8181
    kubernetes {zones} {{
        kubeconfig {kubeconfig}
        pods verified
        ttl 1
    }}
    loadbalance
}}
. {{
    bind {cluster.address}
    errors
    forward . /etc/resolv.conf
    cache 30
}}
"""
    )
    return corefile


def resolve(name: str, server: str) -> str | None:
    """Returns the IPv4 address of a name from a DNS server (RFC 1035); None if it has none or does not respond."""
    query_id = secrets.randbits(16)
    question = b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"
    query = struct.pack("!6H", query_id, 0x0100, 1, 0, 0, 0) + question + struct.pack("!2H", 1, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
        channel.settimeout(_ANSWER_TIMEOUT_SECONDS)
        try:
            channel.sendto(query, (server, 53))
            answer = channel.recv(512)
        except OSError:
            return None
    answer_id, _, _, answers = struct.unpack("!4H", answer[:8])
    if answer_id != query_id or answers == 0:
        return None
    # The one record of type A ends the message: no name that is asked here has additional records.
    return socket.inet_ntoa(answer[-4:])
