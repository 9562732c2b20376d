"""Writes this node's GPUNode to the API server, by server-side apply as ``laneway-node``."""

from __future__ import annotations

import json
import logging
from typing import Any, Final

import urllib3
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from laneway.api.names import API_VERSION, GROUP, NODE_FIELD_MANAGER, VERSION
from laneway.node_agent.devices.monitor import NodeUnreadError
from laneway.node_agent.devices.node_facts import NodeFacts, node_facts
from laneway.node_agent.report.gpu_node_writer import MissingError, NoAPIServerError, WriteError

_log = logging.getLogger(__name__)
PLURAL: Final = "gpunodes"
_APPLY: Final = "application/apply-patch+yaml"
TIMEOUT_SECONDS: Final = (3.0, 10.0)
"""To connect, and to read."""


class KubernetesWriter:
    """Writes through the cluster's API server."""

    def __init__(self, node: str, api: client.ApiClient) -> None:
        self.api = api
        self._node = node
        self._objects = client.CustomObjectsApi(api)
        self._core = client.CoreV1Api(api)
        self._owner: list[dict[str, Any]] | None = None

    @classmethod
    def connect(cls, node: str) -> KubernetesWriter:
        """Connect with the pod's service account, or with ``KUBECONFIG`` if there is none.

        Raises:
            NoAPIServerError: neither is available.
        """
        try:
            config.load_incluster_config()
        except config.ConfigException:
            try:
                config.load_kube_config()
            except (config.ConfigException, OSError) as error:
                raise NoAPIServerError(
                    f"no API server: there is no service account, and no kubeconfig can be read ({error}); "
                    "set KUBECONFIG, or run with --standalone to publish no GPUNode"
                ) from error
        return cls(node, client.ApiClient())

    def apply_object(self) -> None:
        """Create the object if necessary. It is owned by its Node, so it is deleted with it.

        Raises:
            WriteError: it could not be written.
        """
        metadata: dict[str, Any] = {"name": self._node}
        owner = self.owner_references()
        if owner:
            metadata["ownerReferences"] = owner
        body = {"apiVersion": API_VERSION, "kind": "GPUNode", "metadata": metadata, "spec": {}}
        self._apply(self._objects.patch_cluster_custom_object, body)

    def apply_status(self, status: dict[str, Any]) -> None:
        """Replace the status.

        Raises:
            MissingError: the object does not exist.
            WriteError: it could not be written.
        """
        body = {
            "apiVersion": API_VERSION,
            "kind": "GPUNode",
            "metadata": {"name": self._node},
            "status": status,
        }
        self._apply(self._objects.patch_cluster_custom_object_status, body)

    def owner_references(self) -> list[dict[str, Any]]:
        """Return the owner of what the agent creates: its Node; nothing where the Node does not exist.

        Raises:
            WriteError: the Node could not be read.
        """
        if self._owner is None:
            try:
                node = self._core.read_node(self._node, _request_timeout=TIMEOUT_SECONDS)
            except ApiException as error:
                if error.status not in (403, 404):
                    raise WriteError(f"node {self._node} could not be read: {message_of(error)}") from error
                _log.info("GPUNode gets no owner node=%s reason=%r", self._node, message_of(error))
                self._owner = []
            except (urllib3.exceptions.HTTPError, OSError) as error:
                raise WriteError(f"node {self._node} could not be read: {error}") from error
            else:
                uid = node.metadata.uid
                self._owner = [{"apiVersion": "v1", "kind": "Node", "name": self._node, "uid": uid}]
        return self._owner

    def read_node(self) -> NodeFacts:
        """Return what the agent needs of its Node.

        Raises:
            NodeUnreadError: the API server did not return it.
        """
        try:
            node = self._core.read_node(self._node, _request_timeout=TIMEOUT_SECONDS)
        except ApiException as error:
            raise NodeUnreadError(f"node {self._node} could not be read: {message_of(error)}") from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise NodeUnreadError(f"node {self._node} could not be read: {error}") from error
        return node_facts(self.api.sanitize_for_serialization(node))

    def _apply(self, patch: Any, body: dict[str, Any]) -> None:
        try:
            patch(
                GROUP,
                VERSION,
                PLURAL,
                self._node,
                body,
                field_manager=NODE_FIELD_MANAGER,
                force=True,
                _content_type=_APPLY,
                _request_timeout=TIMEOUT_SECONDS,
            )
        except ApiException as error:
            kind = MissingError if error.status == 404 else WriteError
            raise kind(f"{error.status} {error.reason}: {message_of(error)}") from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise WriteError(f"{type(error).__name__}: {error}") from error


def message_of(error: ApiException) -> str:
    """Return the message of a Status object."""
    try:
        return str(json.loads(error.body)["message"])
    except (TypeError, ValueError, KeyError):
        return str(error.body or error.reason)[:500]
