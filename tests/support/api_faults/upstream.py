"""A connection to the real API server with the credentials of a kubeconfig, for those who pass things on or watch."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from laneway.operator.watch.apiserver import connect

_LONGEST_LINE_BYTES = 2**22


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where requests go, and as whom."""

    session: aiohttp.ClientSession
    url: str


@asynccontextmanager
async def upstream(kubeconfig: Path) -> AsyncIterator[Upstream]:
    """Connect by a kubeconfig with a client certificate."""
    async with await connect(kubeconfig) as api:
        credentials = await api.credentials()
    context = ssl.create_default_context(cafile=credentials.ca_path)
    assert credentials.certificate_path is not None
    context.load_cert_chain(credentials.certificate_path, credentials.private_key_path)
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=context, limit=0),
        timeout=aiohttp.ClientTimeout(total=None),
        auto_decompress=False,
        read_bufsize=_LONGEST_LINE_BYTES,
    ) as session:
        yield Upstream(session, credentials.server)
