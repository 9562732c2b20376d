"""A proxy before the API server that says of every write when it has been carried out, before the operator hears of it."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import yaml
from aiohttp import web
from laneway.operator.apiserver import connect

_WRITES = {"POST", "PUT", "PATCH", "DELETE"}
_HOP_BY_HOP = {
    "host",
    "connection",
    "transfer-encoding",
    "content-length",
    "content-encoding",
    "accept-encoding",
}


class WriteProxy:
    """Passes all on, with the credentials of a kubeconfig; ``after_write`` is called with "METHOD path" of each write."""

    def __init__(self, session: aiohttp.ClientSession, upstream: str) -> None:
        self._session = session
        self._upstream = upstream
        self.after_write: Callable[[str], None] = lambda write: None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP}
        async with self._session.request(
            request.method,
            self._upstream + request.raw_path,
            headers=headers,
            data=await request.read() or None,
        ) as answer:
            if request.method in _WRITES and answer.status < 400:
                await answer.read()
                self.after_write(f"{request.method} {request.path}")
            if request.transport is None or request.transport.is_closing():
                return web.Response(status=499)  # who asked is dead
            response = web.StreamResponse(
                status=answer.status, headers={"Content-Type": answer.headers["Content-Type"]}
            )
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            return response


@asynccontextmanager
async def write_proxy(kubeconfig: Path, folder: Path) -> AsyncIterator[tuple[WriteProxy, Path]]:
    """Run a proxy; gives it with a kubeconfig that leads to it."""
    async with await connect(kubeconfig) as api:
        credentials = await api.credentials()
    context = ssl.create_default_context(cafile=credentials.ca_path)
    assert credentials.certificate_path is not None
    context.load_cert_chain(credentials.certificate_path, credentials.private_key_path)
    connector = aiohttp.TCPConnector(ssl=context, limit=0)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as session:
        proxy = WriteProxy(session, credentials.server)
        application = web.Application(client_max_size=2**24)
        application.router.add_route("*", "/{path:.*}", proxy.handle)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.5)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            through = folder / "through-proxy.kubeconfig"
            through.write_text(_kubeconfig(f"http://127.0.0.1:{runner.addresses[0][1]}"))
            yield proxy, through
        finally:
            await runner.cleanup()


def _kubeconfig(server: str) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "proxy", "cluster": {"server": server}}],
            "users": [{"name": "proxy", "user": {}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
            "current-context": "proxy",
        }
    )
