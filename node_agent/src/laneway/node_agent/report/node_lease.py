"""Renews this node's Lease on the API server, as the kubelet renews its own."""

from __future__ import annotations

from functools import partial
from typing import Any

import urllib3
from kubernetes import client
from kubernetes.client.exceptions import ApiException
from laneway.api.node_lease import DURATION_SECONDS, lease_name
from laneway.api.rfc3339 import format_time
from laneway.node_agent.clock import Clock
from laneway.node_agent.report.gpu_node_api import TIMEOUT_SECONDS, KubernetesWriter, message_of
from laneway.node_agent.report.gpu_node_writer import WriteError

_ABSENT = ""
"""The resource version of a Lease that does not exist."""


class NodeLease:
    """The Lease of one node, renewed by one request as long as nobody else writes it."""

    def __init__(self, node: str, namespace: str, writer: KubernetesWriter, clock: Clock) -> None:
        """Hold the Lease in a namespace, over the connection of ``writer``."""
        self._node = node
        self._namespace = namespace
        self._leases = client.CoordinationV1Api(writer.api)
        self._owner = writer.owner_references
        self._clock = clock
        self._version = _ABSENT

    def renew(self) -> None:
        """Renew the Lease; create it if necessary. It is owned by its Node, so it is deleted with it.

        Raises:
            WriteError: it could not be written.
        """
        try:
            try:
                self._put()
            except ApiException as error:
                if error.status not in (404, 409):
                    raise
                self._version = self._read_version()
                self._put()
        except ApiException as error:
            raise WriteError(f"Lease: {error.status} {error.reason}: {message_of(error)}") from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise WriteError(f"Lease: {type(error).__name__}: {error}") from error

    def _put(self) -> None:
        name, namespace = lease_name(self._node), self._namespace
        metadata: dict[str, Any] = {"name": name, "namespace": namespace, "ownerReferences": self._owner()}
        spec = {
            "holderIdentity": self._node,
            "leaseDurationSeconds": DURATION_SECONDS,
            "renewTime": format_time(self._clock.realtime()),
        }
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
        if self._version == _ABSENT:
            put = partial(self._leases.create_namespaced_lease, namespace)
        else:
            metadata["resourceVersion"] = self._version
            put = partial(self._leases.replace_namespaced_lease, name, namespace)
        self._version = str(put(body, _request_timeout=TIMEOUT_SECONDS).metadata.resource_version)

    def _read_version(self) -> str:
        try:
            found = self._leases.read_namespaced_lease(
                lease_name(self._node), self._namespace, _request_timeout=TIMEOUT_SECONDS
            )
        except ApiException as error:
            if error.status != 404:
                raise
            return _ABSENT
        return str(found.metadata.resource_version)
