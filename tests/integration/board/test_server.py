"""The board's server before a played API server: who is let in, what is passed on, and how streams fail and recover."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from importlib import resources
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import ClientResponse, web
from aiohttp.test_utils import TestClient, TestServer
from laneway.board import api_server, feed
from laneway.board.access import Access, OwnKubeconfig, ViewerToken
from laneway.board.api_server import Endpoint
from laneway.board.server import application

from tests.integration.board.played_api import JOBS, NODES, PlayedAPI, job

TOKEN = {"Authorization": "Bearer viewer.token-1"}

Client = TestClient[web.Request, web.Application]
Open = Callable[[Access], Awaitable[Client]]


@pytest_asyncio.fixture
async def api() -> PlayedAPI:
    return PlayedAPI()


@pytest_asyncio.fixture
async def open_board(api: PlayedAPI, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Open]:
    """Returns a function: a client of a board in front of the played API server."""
    monkeypatch.setattr(feed, "_COALESCE_SECONDS", 0.0)
    monkeypatch.setattr(feed, "_RETRY_SECONDS", (0.01, 0.01))
    upstream = TestServer(api.app)
    await upstream.start_server()
    clients: list[Client] = []

    async def make(access: Access) -> Client:
        app = application(Endpoint(str(upstream.make_url("/"))), access, "laneway-system")
        server = TestServer(app)
        await server.start_server(shutdown_timeout=0.1)
        clients.append(TestClient(server))
        return clients[-1]

    yield make
    for client in clients:
        await client.close()
    await upstream.close()


@pytest_asyncio.fixture
async def board(open_board: Open) -> Client:
    return await open_board(ViewerToken())


async def next_event(stream: ClientResponse, name: str) -> dict[str, Any]:
    """The next event of a name."""
    while True:
        block = (await stream.content.readuntil(b"\n\n")).decode()
        match = re.fullmatch(r"event: (\w+)\ndata: (.*)\n\n", block)
        assert match, block
        if match[1] == name:
            return dict(json.loads(match[2]))


@pytest.mark.parametrize("path", ["/", "/main.js", "/board.css", "/healthz", "/no-such-file", "/api/objects"])
async def test_every_answer_forbids_foreign_code_and_frames(board: Client, path: str) -> None:
    headers = (await board.get(path)).headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert (headers["X-Content-Type-Options"], headers["Cache-Control"]) == ("nosniff", "no-store")


def test_the_page_has_no_inline_code_and_names_no_other_server() -> None:
    folder = resources.files("laneway.board") / "page"
    texts = {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir()}
    assert not re.findall(r"<script(?! type=\"module\" src=)|<style|\son\w+=|\sstyle=", texts["index.html"])
    for name, text in texts.items():
        assert not re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", text), name
        assert set(re.findall(r"https?://[^\"']*", text)) <= {"http://www.w3.org/2000/svg"}, name
        for imported in re.findall(r"from \"\./([^\"]+)\"", text):
            assert imported in texts, name


@pytest.mark.parametrize("path", ["/page/main.js", "/main.py", "/..%2fserver.py", "/%2e%2e/server.py"])
async def test_nothing_but_the_files_of_the_page_is_served(board: Client, path: str) -> None:
    assert (await board.get(path)).status == HTTPStatus.NOT_FOUND


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Basic dTpw"},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer a b"},
        {"Authorization": "Bearer ü"},
    ],
)
async def test_without_a_token_nothing_is_asked_of_the_cluster(
    board: Client, api: PlayedAPI, headers: dict[str, str]
) -> None:
    for path in ("/api/objects", "/api/turns?node=n", "/api/events?namespace=a&job=b"):
        answer = await board.get(path, headers=headers)
        assert answer.status == HTTPStatus.UNAUTHORIZED
        assert "bearer token" in (await answer.json())["message"]
    assert api.requests == []


async def test_the_viewers_token_is_passed_on_and_no_other_header(board: Client, api: PlayedAPI) -> None:
    api.lists = {JOBS: [job("digits")], NODES: []}
    sent = TOKEN | {"Impersonate-User": "system:admin", "X-Remote-User": "admin", "Cookie": "a=b"}
    async with board.get("/api/objects", headers=sent) as stream:
        await next_event(stream, "jobs")
    assert api.authorizations == {TOKEN["Authorization"]}
    for request in api.requests:
        assert not {"Impersonate-User", "X-Remote-User", "Cookie"} & set(request.headers)
        assert request.method == "GET"


async def test_a_page_of_another_site_gets_nothing(board: Client, api: PlayedAPI) -> None:
    for site in ("cross-site", "same-site"):
        answer = await board.get("/api/objects", headers=TOKEN | {"Sec-Fetch-Site": site})
        assert answer.status == HTTPStatus.FORBIDDEN
        assert "Access-Control-Allow-Origin" not in answer.headers
    assert api.requests == []


async def test_the_kubeconfigs_rights_are_for_the_page_that_knows_the_secret(
    open_board: Open, api: PlayedAPI
) -> None:
    async def credential() -> str:
        return "Bearer of-the-kubeconfig"

    api.lists = {JOBS: [], NODES: []}
    hosts: set[str] = set()
    access = OwnKubeconfig("s3cret", credential, hosts)
    board = await open_board(access)
    hosts.add(f"127.0.0.1:{board.port}")
    secret = {"Authorization": "Bearer s3cret"}
    for headers in ({}, TOKEN, secret | {"Host": f"attacker.example:{board.port}"}):
        assert (await board.get("/api/objects", headers=headers)).status == HTTPStatus.UNAUTHORIZED
    assert api.requests == []
    async with board.get("/api/objects", headers=secret) as stream:
        await next_event(stream, "jobs")
    assert api.authorizations == {"Bearer of-the-kubeconfig"}


async def test_a_redirect_does_not_carry_the_token_away(board: Client, api: PlayedAPI) -> None:
    async def elsewhere(_: web.Request) -> web.StreamResponse:
        raise web.HTTPFound("/elsewhere")

    api.answers[JOBS] = elsewhere
    async with board.get("/api/objects", headers=TOKEN) as stream:
        message = await next_event(stream, "jobs")
    assert message["source"]["state"] == "failed"
    assert "/elsewhere" not in {request.path for request in api.requests}


async def test_a_change_is_pushed_and_an_expired_watch_begins_again(board: Client, api: PlayedAPI) -> None:
    api.lists = {JOBS: [job("a"), job("b")]}
    async with board.get("/api/objects", headers=TOKEN) as stream:
        first = await next_event(stream, "jobs")
        assert (first["reset"], [view["name"] for view in first["set"]]) == (True, ["a", "b"])
        api.events.put_nowait({"type": "ADDED", "object": job("c", 2)})
        change = await next_event(stream, "jobs")
        assert (change["reset"], [view["name"] for view in change["set"]]) == (False, ["c"])
        api.events.put_nowait({"type": "DELETED", "object": job("a", 3)})
        assert (await next_event(stream, "jobs"))["removed"] == ["team-a/a"]
        api.lists[JOBS] = [job("d")]
        api.events.put_nowait({"type": "ERROR", "object": {"code": 410, "message": "too old"}})
        again = await next_event(stream, "jobs")
        assert (again["reset"], [view["name"] for view in again["set"]]) == (True, ["d"])


async def test_what_may_not_be_read_is_said_and_the_rest_is_shown(board: Client, api: PlayedAPI) -> None:
    api.lists = {JOBS: [job("a")]}
    async with board.get("/api/objects", headers=TOKEN) as stream:
        jobs = await next_event(stream, "jobs")
        nodes = jobs if "forbidden" in str(jobs["source"]) else await next_event(stream, "nodes")
    assert jobs["source"]["state"] == "live"
    assert nodes["source"] == {"state": "forbidden", "message": f"cannot list {NODES}"}


async def test_a_source_that_comes_back_is_shown_again(board: Client, api: PlayedAPI) -> None:
    async with board.get("/api/objects", headers=TOKEN) as stream:
        assert (await next_event(stream, "jobs"))["source"]["state"] == "forbidden"
        api.lists = {JOBS: [job("a")]}
        while (message := await next_event(stream, "jobs"))["source"]["state"] != "live":
            pass
    assert [view["name"] for view in message["set"]] == ["a"]


async def test_a_token_that_the_cluster_refuses_ends_the_stream(board: Client, api: PlayedAPI) -> None:
    async def refuse(_: web.Request) -> web.StreamResponse:
        return web.json_response({"message": "Unauthorized"}, status=401)

    api.answers = {JOBS: refuse, NODES: refuse}
    async with board.get("/api/objects", headers=TOKEN) as stream:
        text = (await stream.content.read()).decode()
    assert '"unauthenticated"' in text


async def test_an_answer_that_never_ends_is_cut_off(
    board: Client, api: PlayedAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" " * 1024)

    monkeypatch.setattr(api_server, "_LONGEST_ANSWER_BYTES", 4096)
    api.answers[JOBS] = endless
    async with board.get("/api/objects", headers=TOKEN) as stream:
        message = await next_event(stream, "jobs")
    assert message["source"]["state"] == "unreachable"


@pytest.mark.parametrize("name", ["..", "a/b", "a%2fb", "A", "a" * 300, "a?b=c", ""])
async def test_a_name_that_no_object_has_is_refused(board: Client, api: PlayedAPI, name: str) -> None:
    answer = await board.get("/api/turns", params={"node": name}, headers=TOKEN)
    assert answer.status == HTTPStatus.BAD_REQUEST
    assert api.requests == []


async def test_turns_come_from_the_agent_of_the_node_through_the_api_server(
    board: Client, api: PlayedAPI
) -> None:
    turn = {"gpu": "GPU-1", "lane": 0, "turn": 1, "session": "k", "start_seconds": 1.0, "end_seconds": 2.0}

    async def pods(request: web.Request) -> web.StreamResponse:
        assert "spec.nodeName=gpu-1" in request.query["fieldSelector"]
        return web.json_response({"items": [{"metadata": {"name": "agent-x"}}]})

    async def turns(request: web.Request) -> web.StreamResponse:
        assert float(request.query["since"])
        return web.json_response([turn])

    pods_path = "/api/v1/namespaces/laneway-system/pods"
    api.answers = {pods_path: pods, f"{pods_path}/agent-x:9464/proxy/turns": turns}
    async with board.get("/api/turns?node=gpu-1", headers=TOKEN) as stream:
        message = await next_event(stream, "turns")
    assert (message["source"]["state"], message["turns"][0]["session"]) == ("live", "k")


async def test_secured_metrics_are_said_to_be_why_there_are_no_turns(board: Client, api: PlayedAPI) -> None:
    async def pods(_: web.Request) -> web.StreamResponse:
        return web.json_response({"items": [{"metadata": {"name": "agent-x"}}]})

    async def proxy(_: web.Request) -> web.StreamResponse:
        return web.Response(status=400, text="Client sent an HTTP request to an HTTPS server.\n")

    pods_path = "/api/v1/namespaces/laneway-system/pods"
    api.answers = {pods_path: pods, f"{pods_path}/agent-x:9464/proxy/turns": proxy}
    async with board.get("/api/turns?node=gpu-1", headers=TOKEN) as stream:
        message = await next_event(stream, "turns")
    assert message["source"] == {
        "state": "failed",
        "message": "not available with metrics.secure of the chart",
    }


async def test_without_the_right_to_turns_the_reason_is_said(board: Client) -> None:
    async with board.get("/api/turns?node=gpu-1", headers=TOKEN) as stream:
        message = await next_event(stream, "turns")
    assert (message["source"]["state"], message["turns"]) == ("forbidden", [])
