"""The board's server before a played API server: who is let in, what is passed on, and how streams fail and recover."""

from __future__ import annotations

import asyncio
import gc
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
from laneway.api import retries
from laneway.board import api_server, feed, server
from laneway.board.access import Access, OwnKubeconfig, ViewerToken
from laneway.board.api_server import Endpoint, View
from laneway.board.server import application

from tests.integration.board.played_api import JOBS, NODES, PlayedAPI, job

TOKEN = {"Authorization": "Bearer viewer.token-1"}
NODE_PODS, PODS, ALL_PODS = (
    f"/api/v1{within}/pods" for within in ("/namespaces/laneway-nodes", "/namespaces/laneway-system", "")
)

Client = TestClient[web.Request, web.Application]
Open = Callable[[Access], Awaitable[Client]]


@pytest_asyncio.fixture
async def api() -> PlayedAPI:
    return PlayedAPI()


@pytest_asyncio.fixture
async def open_board(api: PlayedAPI, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Open]:
    """Returns a function: a client of a board in front of the played API server."""
    monkeypatch.setattr(feed, "_COALESCE_SECONDS", 0.0)
    monkeypatch.setattr(api_server, "_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(retries, "_LONGEST_SECONDS", 0.01)
    upstream = TestServer(api.app)
    await upstream.start_server()
    clients: list[Client] = []

    async def make(access: Access) -> Client:
        app = application(
            Endpoint(str(upstream.make_url("/"))), access, ["laneway-nodes", "laneway-system", ""]
        )
        own = TestServer(app)
        await own.start_server(shutdown_timeout=0.1)
        clients.append(TestClient(own))
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


async def refuse(_: web.Request) -> web.StreamResponse:
    return web.json_response({"message": "Unauthorized"}, status=401)


@pytest.mark.parametrize("path", ["/api/objects", "/api/turns?node=gpu-1"])
async def test_a_token_that_the_cluster_refuses_holds_no_stream(
    board: Client, api: PlayedAPI, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(server, "_MOST_STREAMS", 1)
    api.answers = {JOBS: refuse, NODES: refuse, NODE_PODS: refuse}
    for _ in range(3):
        answer = await board.get(path, headers=TOKEN)
        assert answer.status == HTTPStatus.UNAUTHORIZED
        assert (await answer.json())["message"] == "The cluster refuses the token: Unauthorized"
    del api.answers[JOBS]
    async with board.get("/api/objects", headers={"Authorization": "Bearer another"}) as stream:
        await next_event(stream, "jobs")


async def three_viewers(board: Client, asked: asyncio.Semaphore) -> list[asyncio.Task[ClientResponse]]:
    """Open a stream with each of three tokens; return once the API server was asked for the jobs and the nodes of each."""
    viewers = [
        asyncio.create_task(board.get("/api/objects", headers={"Authorization": f"Bearer {number}"}))
        for number in range(3)
    ]
    for _ in range(2 * len(viewers)):
        await asyncio.wait_for(asked.acquire(), 60)
    return viewers


async def test_streams_of_tokens_that_are_not_checked_yet_keep_no_viewer_out(
    board: Client, api: PlayedAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_MOST_STREAMS", 1)
    asked, answered = asyncio.Semaphore(0), asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.release()
        await answered.wait()
        return await refuse(request)

    api.answers = {JOBS: answer, NODES: answer}
    guesses = await three_viewers(board, asked)
    api.answers, api.lists = {}, {JOBS: []}
    async with board.get("/api/objects", headers=TOKEN) as stream:
        await next_event(stream, "jobs")
        answered.set()
        assert {(await guess).status for guess in guesses} == {HTTPStatus.UNAUTHORIZED}


async def test_of_streams_that_are_let_in_together_no_more_are_served_than_there_are_places(
    board: Client, api: PlayedAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_MOST_STREAMS", 1)
    api.lists = {JOBS: [], NODES: []}
    asked, answered = asyncio.Semaphore(0), asyncio.Event()

    async def answer(_: web.Request) -> web.StreamResponse:
        asked.release()
        await answered.wait()
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})

    api.answers = {JOBS: answer, NODES: answer}
    viewers = await three_viewers(board, asked)
    api.answers = {}
    answered.set()
    answers = [await viewer for viewer in viewers]
    assert sorted(each.status for each in answers) == [200, 503, 503]
    for each in answers:
        each.close()


async def test_a_token_that_expires_ends_the_streams(board: Client, api: PlayedAPI) -> None:
    api.lists = {JOBS: [job("a")]}
    async with (
        board.get("/api/objects", headers=TOKEN) as objects,
        board.get("/api/turns?node=gpu-1", headers=TOKEN) as turns,
    ):
        await next_event(objects, "jobs")
        assert (await next_event(turns, "turns"))["source"]["state"] == "forbidden"
        api.answers = {JOBS: refuse, NODE_PODS: refuse}
        api.events.put_nowait({"type": "ERROR", "object": {"code": 410, "message": "too old"}})
        assert '"unauthenticated"' in (await objects.content.read()).decode()
        assert '"unauthenticated"' in (await turns.content.read()).decode()


async def test_one_viewer_cannot_take_all_streams(
    board: Client, api: PlayedAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_MOST_STREAMS_OF_A_VIEWER", 1)
    api.lists = {JOBS: [], NODES: []}
    async with board.get("/api/objects", headers=TOKEN) as stream:
        await next_event(stream, "jobs")
        refused = await board.get("/api/objects", headers=TOKEN)
        assert refused.status == HTTPStatus.TOO_MANY_REQUESTS
        assert "Close other pages" in await refused.text()
        async with board.get("/api/objects", headers={"Authorization": "Bearer another"}) as other:
            await next_event(other, "jobs")


@pytest.mark.parametrize(
    ("story", "first", "versions"),
    [
        ("a connection is cut", 0, ["1", "2"]),
        ("the API server starts", 503, ["1", "2"]),
        ("etcd has no leader", 500, ["1", "2"]),
        ("the right was taken for a moment", 403, ["1", "1"]),
    ],
)
async def test_after_an_outage_a_watch_goes_on_at_the_last_change(
    board: Client, api: PlayedAPI, story: str, first: int, versions: list[str]
) -> None:
    """`first` is the status of the error in the watch; 0: its connection is cut."""
    api.lists = {JOBS: [job("a")]}
    async with board.get("/api/objects", headers=TOKEN) as stream:
        await next_event(stream, "jobs")
        api.events.put_nowait({"type": "MODIFIED", "object": job("a", 2)})
        await next_event(stream, "jobs")
        api.events.put_nowait({"type": "ERROR", "object": {"code": first, "message": "no"}})
        api.events.put_nowait({"type": "ADDED", "object": job("b", 3)})
        messages = [await next_event(stream, "jobs")]
        while "b" not in [view["name"] for view in messages[-1]["set"]]:
            messages.append(await next_event(stream, "jobs"))
    assert [each["source"]["state"] for each in messages if each["source"]][-1] == "live", story
    watches = [each for each in api.requests if each.path == JOBS and each.query.get("watch")]
    assert [each.query["resourceVersion"] for each in watches] == versions, story


async def test_large_objects_are_listed_in_smaller_pages(
    board: Client, api: PlayedAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [job(name) | {"padding": "x" * 3000} for name in ("a", "b", "c")]

    async def pages(request: web.Request) -> web.StreamResponse:
        start, limit = int(request.query["continue"] or 0), int(request.query["limit"])
        rest = str(start + limit) if start + limit < len(jobs) else ""
        metadata = {"resourceVersion": "1", "continue": rest}
        return web.json_response({"metadata": metadata, "items": jobs[start : start + limit]})

    monkeypatch.setattr(api_server, "_LONGEST_ANSWER_BYTES", 8192)
    api.answers[JOBS] = pages
    async with board.get("/api/objects", headers=TOKEN) as stream:
        message = await next_event(stream, "jobs")
    assert [view["name"] for view in message["set"]] == ["a", "b", "c"]


@pytest.mark.parametrize("path", ["/api/objects", "/api/events?namespace=a&job=b"])
async def test_a_viewer_that_reads_nothing_keeps_neither_connection_nor_memory(
    board: Client, api: PlayedAPI, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    async def events(_: web.Request) -> web.StreamResponse:
        return web.json_response({"items": [{"message": "ä" * 1000, "reason": "ä" * 1000}] * 1000})

    monkeypatch.setattr(server, "_WRITE_SECONDS", 0.1)
    api.answers["/api/v1/namespaces/a/events"] = events
    messages = [{"type": str(number), "message": "ä" * 1000} for number in range(2)]
    api.lists[JOBS] = [job(str(number)) | {"status": {"conditions": messages}} for number in range(1000)]
    reader, writer = await asyncio.open_connection(board.host, board.port, limit=1024)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: b\r\nAuthorization: Bearer t\r\n\r\n".encode())
    await reader.readline()
    assert isinstance(board.server, TestServer)
    assert board.server.runner is not None
    serves = board.server.runner.server
    assert serves is not None
    async with asyncio.timeout(60):
        while serves.connections:  # noqa: ASYNC110 - a server does not tell of lost connections
            await asyncio.sleep(0.01)
    writer.transport.abort()


def views() -> list[View]:
    """All views in this process's memory."""
    return [each for each in gc.get_objects() if isinstance(each, View)]


async def test_what_was_sent_takes_no_memory(
    board: Client, api: PlayedAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_VIEWS_OF_A_PIECE", 2)
    api.lists[JOBS] = [job(name) for name in ("a", "b", "c")]
    earlier = views()  # of streams that other tests cut off: their cycles wait for the collector
    async with board.get("/api/objects", headers=TOKEN) as stream:
        first = await next_event(stream, "jobs")
        assert [view["name"] for view in first["set"]] == ["a", "b", "c"]
        async with asyncio.timeout(60):
            while len(views()) > len(earlier):  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.01)
        api.events.put_nowait({"type": "ADDED", "object": job("d", 2)})
        assert [view["name"] for view in (await next_event(stream, "jobs"))["set"]] == ["d"]


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


@pytest.mark.parametrize(
    ("story", "allowed", "found", "namespace", "want"),
    [
        ("installed for a platform", [NODE_PODS], NODE_PODS, "laneway-nodes", ("live", ["k"])),
        ("all in one namespace", [NODE_PODS, PODS], PODS, "laneway-system", ("live", ["k"])),
        ("with the right for one", [PODS], PODS, "laneway-system", ("live", ["k"])),
        ("elsewhere", [NODE_PODS, PODS, ALL_PODS], ALL_PODS, "gpus", ("live", ["k"])),
        ("nowhere", [NODE_PODS, PODS], "", "gpus", ("missing", [])),
    ],
)
async def test_turns_come_from_the_agent_of_the_node_through_the_api_server(
    board: Client,
    api: PlayedAPI,
    story: str,
    allowed: list[str],
    found: str,
    namespace: str,
    want: tuple[str, list[str]],
) -> None:
    agents: dict[str, Any] = {}
    turn = {"gpu": "GPU-1", "lane": 0, "turn": 1, "session": "k", "start_seconds": 1.0, "end_seconds": 2.0}

    async def pods(request: web.Request) -> web.StreamResponse:
        assert "spec.nodeName=gpu-1" in request.query["fieldSelector"]
        return web.json_response({"items": agents.get(request.path, [])})

    async def turns(request: web.Request) -> web.StreamResponse:
        assert float(request.query["since"])
        return web.json_response([turn], headers={"Date": "Thu, 01 Jan 1970 00:01:40 GMT"})

    if found:
        agents = {found: [{"metadata": {"namespace": namespace, "name": "agent-x"}}]}
    api.answers = dict.fromkeys(allowed, pods)
    api.answers[f"/api/v1/namespaces/{namespace}/pods/agent-x:9464/proxy/turns"] = turns
    async with board.get("/api/turns?node=gpu-1", headers=TOKEN) as stream:
        message = await next_event(stream, "turns")
    assert (message["source"]["state"], [each["session"] for each in message["turns"]]) == want, story
    assert message.get("now") == (100.0 if found else None), story


async def test_a_turn_that_ends_while_the_agent_reads_its_gpus_is_reported_with_its_end(
    board: Client, api: PlayedAPI
) -> None:
    """The agent reads GPU after GPU, so the newest end of an answer may be later than one that it did not see yet."""
    turn = {"gpu": "GPU-1", "lane": 0, "turn": 7, "session": "k", "start_seconds": 5e9}
    running: dict[str, Any] = {**turn, "end_seconds": None}
    ended = {**running, "end_seconds": 5e9 + 8.99, "end": "released"}
    of_next_gpu = {**ended, "gpu": "GPU-2", "session": "other", "end_seconds": 5e9 + 9}
    answers = iter([[running, of_next_gpu], [ended, of_next_gpu]])

    async def pods(_: web.Request) -> web.StreamResponse:
        return web.json_response({"items": [{"metadata": {"namespace": "n", "name": "agent-x"}}]})

    async def turns(request: web.Request) -> web.StreamResponse:
        since_seconds = float(request.query["since"])
        known = next(answers)
        return web.json_response([each for each in known if (each["end_seconds"] or 1e10) >= since_seconds])

    api.answers[NODE_PODS] = pods
    api.answers["/api/v1/namespaces/n/pods/agent-x:9464/proxy/turns"] = turns
    async with board.get("/api/turns?node=gpu-1", headers=TOKEN) as stream:
        first = await next_event(stream, "turns")
        second = await next_event(stream, "turns")
    assert {turn["session"]: turn["end"] for turn in first["turns"]} == {"k": None, "other": 5e9 + 9}
    assert {turn["session"]: turn["end"] for turn in second["turns"]} == {"k": 5e9 + 8.99, "other": 5e9 + 9}


async def test_secured_metrics_are_said_to_be_why_there_are_no_turns(board: Client, api: PlayedAPI) -> None:
    async def pods(_: web.Request) -> web.StreamResponse:
        return web.json_response(
            {"items": [{"metadata": {"namespace": "laneway-system", "name": "agent-x"}}]}
        )

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
