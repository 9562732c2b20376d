"""Lists the Leases of the nodes' agents now and then.

A watch would bring a thousand events a second with 10,000 nodes. Lists of metadata alone, which the API server answers from its
cache, cost a tenth of that, and a list a quarter of the allowed silence apart is soon enough.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Set

from laneway.api.node_lease import node_of
from laneway.operator.pacing import HEARTBEAT_LISTS_PER_SILENCE
from laneway.operator.state.cache import ClusterCache
from laneway.operator.state.resources import LEASES
from laneway.operator.watch.apiserver import ApiError, ApiServer, UnknownOutcome
from laneway.operator.watch.relist import METADATA, pages
from laneway.operator.watch.streams import Heard

logger = logging.getLogger(__name__)

_PAGE = 1000

_LOGGED = 20
"""Names of nodes in one line of the log."""

_MOST_INTERVALS = 1.5
"""A longer time between two lists means that renewals could not be seen, or not be written."""


async def hear(
    cache: ClusterCache, api: ApiServer, namespace: str, silent_seconds: float, heard: Heard
) -> None:
    """List the Leases in a namespace until cancelled; ``heard`` is called when an agent fell silent, or is heard again."""
    beats, silent = cache.heartbeats, frozenset[str]()
    interval_seconds = silent_seconds / HEARTBEAT_LISTS_PER_SILENCE
    listed_seconds = -math.inf
    while True:
        began_seconds = time.monotonic()
        try:
            versions = await _versions(api, namespace)
        except (ApiError, UnknownOutcome) as error:
            logger.warning("the nodes' Leases could not be listed", extra={"problem": str(error)})
        else:
            elapsed_seconds = began_seconds - listed_seconds
            unseen = elapsed_seconds > _MOST_INTERVALS * interval_seconds
            known = {record.name for record in cache.gpu_nodes.records()}
            beats.listed(versions, known, 0.0 if unseen else elapsed_seconds)
            before, silent = silent, beats.silent(silent_seconds) & known
            if silent != before:
                _log(silent - before, before - silent)
                heard(LEASES, "")
            listed_seconds = began_seconds
        await asyncio.sleep(max(0.0, began_seconds + interval_seconds - time.monotonic()))


def _log(fell_silent: Set[str], back: Set[str]) -> None:
    extra = {"silent": sorted(fell_silent)[:_LOGGED], "heard_again": sorted(back)[:_LOGGED]}
    logger.warning("nodes' agents fell silent or are heard again", extra=extra)


async def _versions(api: ApiServer, namespace: str) -> dict[str, str]:
    """Return the resource versions of the nodes' Leases, by node."""
    found: dict[str, str] = {}
    async for page in pages(api, LEASES, {"limit": str(_PAGE)}, namespace, accept=METADATA):
        for item in page.get("items") or ():
            node = node_of(item["metadata"]["name"])
            if node is not None:
                found[node] = item["metadata"]["resourceVersion"]
    return found
