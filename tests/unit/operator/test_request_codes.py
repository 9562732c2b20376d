"""Each request to the API server is counted once, with its status code or as one without an answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from kubernetes.aio.client import Configuration
from laneway.operator.watch.apiserver import ApiError, ApiServer, UnknownOutcome


@pytest.fixture
async def api() -> AsyncIterator[ApiServer]:
    """A client of a server that refuses `/refused` and hangs up on `/broken`."""

    async def respond(request: web.Request) -> web.StreamResponse:
        if request.path == "/broken":
            assert request.transport is not None
            request.transport.close()
        return web.json_response({"kind": "Event"}, status=409 if request.path == "/refused" else 200)

    application = web.Application()
    application.router.add_route("*", "/{path}", respond)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    async with ApiServer(Configuration(host=f"http://127.0.0.1:{runner.addresses[0][1]}")) as client:
        yield client
    await runner.cleanup()


async def watch(api: ApiServer, path: str) -> None:
    async for _ in api.watch(path, {}):
        pass


async def test_every_request_is_counted_with_its_code(api: ApiServer) -> None:
    counted: Counter[tuple[str, str]] = Counter()
    api.answered = lambda method, code: counted.update([(method, code)])
    await api.request("PATCH", "/found")
    with pytest.raises(ApiError):
        await api.request("POST", "/refused")
    with pytest.raises(UnknownOutcome):
        await api.request("DELETE", "/broken")
    assert counted == {("PATCH", "200"): 1, ("POST", "409"): 1, ("DELETE", "<error>"): 1}


async def test_every_watch_is_counted_when_it_opens(api: ApiServer) -> None:
    counted: Counter[str] = Counter()
    api.answered = lambda method, code: counted.update([f"{method} {code}"])
    await watch(api, "/found")
    with pytest.raises(ApiError):
        await watch(api, "/refused")
    with pytest.raises(UnknownOutcome):
        await watch(api, "/broken")
    assert counted == {"WATCH 200": 1, "WATCH 409": 1, "WATCH <error>": 1}
