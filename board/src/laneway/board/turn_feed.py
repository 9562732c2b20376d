"""The turns of one node for one viewer, polled from the node's agent through the API server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from laneway.api.retries import RetryDelays
from laneway.board.api_server import APIServer, Credential, RefusedError, UnreachableError
from laneway.board.feed import LIVE, UNAUTHENTICATED, failure
from laneway.board.views.turn_view import newest, turn_views

_HISTORY_SECONDS = 30.0
"""How far back the first answer goes: as far as the page draws."""
_POLL_SECONDS = 1.0
_OVERLAP_SECONDS = 0.5
"""How far an answer goes back before the newest end that is known. An agent reads GPU after GPU: once it has read one, a turn there may
end before the newest end that it then reads on another."""


async def follow_turns(
    api: APIServer, credential: Credential, agents_namespaces: Sequence[str], node: str
) -> AsyncIterator[dict[str, Any]]:
    """Yield messages with the turns that run or have ended lately; after a failure its reason, and it is tried again.

    It ends where the API server refuses the credential.
    """
    since_seconds, delays = time.time() - _HISTORY_SECONDS, RetryDelays()
    while True:
        try:
            namespace, pod = await api.agent_pod(agents_namespaces, node, credential)
            while True:
                overlap_seconds = since_seconds - _OVERLAP_SECONDS
                found, answered_seconds = await api.turns(namespace, pod, overlap_seconds, credential)
                turns = turn_views(found)
                since_seconds = newest(turns, since_seconds)
                # A turn in progress says nothing about the node's time, and may be the only one.
                yield {"source": {"state": LIVE, "message": ""}, "turns": turns, "now": answered_seconds}
                await asyncio.sleep(_POLL_SECONDS)
        except (RefusedError, UnreachableError) as error:
            yield {"source": (source := failure(error)), "turns": []}
            if source["state"] == UNAUTHENTICATED:
                return
        await asyncio.sleep(delays.next_seconds())
