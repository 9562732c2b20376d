"""An API server whose answers a test chooses, for what a real one does rarely: cut connections, outages, expired watches."""

from __future__ import annotations

import json
import threading
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import yaml

from hack.cluster.held_ports import held_ports

Object = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """A response."""

    body: bytes = b""
    status: int = 200
    end: str = "complete"
    """After the body: ``complete``, ``cut`` (the connection is closed), or ``held`` (nothing more comes)."""


def objects(*items: Object, version: str = "1", more: str = "") -> Answer:
    """A list, or a page of one."""
    metadata = {"resourceVersion": version, "continue": more}
    return Answer(json.dumps({"kind": "List", "items": list(items), "metadata": metadata}).encode())


def events(*changes: tuple[str, Object], end: str = "complete") -> Answer:
    """The answer to a watch."""
    lines = [json.dumps({"type": kind, "object": changed}).encode() + b"\n" for kind, changed in changes]
    return Answer(b"".join(lines), end=end)


def document(value: Object, status: int = 200) -> Answer:
    """One object."""
    return Answer(json.dumps({"kind": "Object", **value}).encode(), status)


class PlayedAPI:
    """Gives each kind of request its answers in their order, the last one again and again; remembers the requests."""

    def __init__(self) -> None:
        self.answers: dict[str, deque[Answer]] = defaultdict(deque)
        """By the last word of the path; ``watch`` for watches."""

        self.requests: list[tuple[str, dict[str, str]]] = []
        self._released = threading.Event()
        self._held = ExitStack()
        (self.port,) = self._held.enter_context(held_ports("127.0.0.1", 1))
        self._server = self._listen()

    def asked(self, kind: str) -> list[dict[str, str]]:
        """The queries of the requests of a kind."""
        return [query for each, query in self.requests if each == kind]

    @contextmanager
    def outage(self) -> Iterator[None]:
        """Refuse connections, and cut those that are held: in this order, as who is cut off connects again."""
        self._refuse()
        self._released.set()
        yield
        self._released = threading.Event()
        self._server = self._listen()

    def stop(self) -> None:
        self._refuse()
        self._released.set()
        self._held.close()

    def _refuse(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def kubeconfig(self, folder: Path) -> Path:
        """A kubeconfig for it, with the namespace `team`."""
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "team"}}],
            "clusters": [{"name": "k", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
        }
        path = folder / "kubeconfig"
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        return path

    def _listen(self) -> ThreadingHTTPServer:
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                query = dict(parse_qsl(parts.query))
                kind = "watch" if query.get("watch") else parts.path.rpartition("/")[2]
                api.requests.append((kind, query))
                queue = api.answers[kind]
                self._send(queue.popleft() if len(queue) > 1 else queue[0])

            def _send(self, answer: Answer) -> None:
                released = api._released
                self.send_response(answer.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                if answer.body:
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(answer.body), answer.body))
                if answer.end == "held":
                    released.wait()
                if answer.end == "complete":
                    self.wfile.write(b"0\r\n\r\n")
                else:
                    self.close_connection = True

            def log_message(self, format: str, *args: Any) -> None:
                """Write nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return server
