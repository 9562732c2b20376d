"""Reads the spec of this node's GPUNode from the API server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import urllib3
from kubernetes import client, watch
from kubernetes.client.exceptions import ApiException
from laneway.api.names import GROUP, VERSION
from laneway.node_agent.report.gpu_node_api import PLURAL, message_of
from laneway.node_agent.report.gpu_node_writer import ReadError

_WATCH_SECONDS: Final = 300
_TIMEOUT_SECONDS: Final = (3.0, _WATCH_SECONDS + 30.0)
"""To connect, and to receive anything. The server ends a watch in time, so longer silence means a dead
connection."""
_EXPIRED: Final = 410


class GPUNodeReader:
    """Reads through the cluster's API server. Only this node's object is requested."""

    def __init__(self, node: str, api: client.ApiClient, seen: Callable[[str | None], None]) -> None:
        """Read with a client.

        Args:
            node: whose object.
            api: the client.
            seen: gets the time of the status, or None without one, whenever the object was listed, and None when it is gone.
        """
        self._objects = client.CustomObjectsApi(api)
        self._seen = seen
        self._selector = f"metadata.name={node}"

    def specs(self) -> Iterator[dict[str, Any]]:
        """Yield the current spec (empty if there is no object), and again whenever the object changes;
        ends after minutes.

        Raises:
            ReadError: the API server could not be read.
        """
        try:
            listed = self._objects.list_cluster_custom_object(
                GROUP, VERSION, PLURAL, field_selector=self._selector, _request_timeout=(3.0, 10.0)
            )
            found: dict[str, Any] = next(iter(listed["items"]), {})
            self._seen((found.get("status") or {}).get("observedAt"))
            yield dict(found.get("spec") or {})
            for event in watch.Watch().stream(
                self._objects.list_cluster_custom_object,
                GROUP,
                VERSION,
                PLURAL,
                field_selector=self._selector,
                resource_version=listed["metadata"]["resourceVersion"],
                timeout_seconds=_WATCH_SECONDS,
                _request_timeout=_TIMEOUT_SECONDS,
            ):
                gone = event["type"] == "DELETED"
                if gone:
                    self._seen(None)
                yield {} if gone else dict(event["object"].get("spec") or {})
        except ApiException as error:
            if error.status != _EXPIRED:
                raise ReadError(f"{error.status} {error.reason}: {message_of(error)}") from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ReadError(f"{type(error).__name__}: {error}") from error
