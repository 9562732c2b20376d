"""kopf's part: watch, put what was seen into the cache, wake the engine. Nothing is decided here.

Only ``on.event`` handlers are used: they need no finalizer, no annotation and no write of kopf's. The cache itself is the
index: it orders versions and takes in lists and answers to writes as well, which kopf's own indices do not.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import kopf
from laneway.operator.apiserver import ApiServer
from laneway.operator.cache import ClusterCache, Store
from laneway.operator.relist import LABEL_SELECTORS
from laneway.operator.resources import WATCHED

logger = logging.getLogger(__name__)

_WORKERS = 200
"""Objects that kopf handles at the same time; a handler here never waits, so more would only cost memory."""


def build_registry(cache: ClusterCache, api: ApiServer, wake: Callable[[], None]) -> kopf.OperatorRegistry:
    """Return the handlers of all that is watched."""
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    async def log_in(**_: Any) -> kopf.ConnectionInfo:
        credentials = await api.credentials()
        scheme, token = _scheme_and_token(credentials.authorization)
        return kopf.ConnectionInfo(
            server=credentials.server,
            ca_path=credentials.ca_path,
            insecure=not credentials.verify,
            scheme=scheme,
            token=token,
            certificate_path=credentials.certificate_path,
            private_key_path=credentials.private_key_path,
        )

    for resource in WATCHED:
        handle = _handler(cache.store(resource), wake)
        kopf.on.event(resource.group, resource.version, resource.plural, registry=registry)(handle)
    return registry


def build_settings() -> kopf.OperatorSettings:
    """Return kopf's settings: it watches, and does nothing else."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = (
        True  # the CRDs are waited for at start; no right to list CRDs and namespaces is needed
    )
    settings.queueing.worker_limit = _WORKERS
    settings.queueing.idle_timeout = 1.0
    settings.watching.server_timeout = 300
    settings.networking.request_timeout = 60
    for resource, selector in LABEL_SELECTORS.items():
        settings.watching.label_selectors[resource.group, resource.version, resource.plural] = selector
    return settings


def _handler(store: Store[Any], wake: Callable[[], None]) -> Callable[..., Any]:
    async def note(event: dict[str, Any], **_: Any) -> None:
        raw = event["object"]
        changed = store.forget(raw["metadata"]) if event["type"] == "DELETED" else store.observe(raw)
        if changed:
            wake()

    return note


def _scheme_and_token(authorization: str | None) -> tuple[str | None, str | None]:
    if authorization is None:
        return None, None
    scheme, token = authorization.split(" ", 1)
    return scheme.capitalize(), token
