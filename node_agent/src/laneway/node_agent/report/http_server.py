"""The agent's HTTP endpoints: ``/metrics``, ``/healthz``, ``/turns``, ``/sessions``."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import ip_address
from itertools import chain
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from laneway.node_agent.report.bounded_server import BoundedHandler, BoundedHTTPServer
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

_log = logging.getLogger(__name__)
_TURNS_PER_CHUNK = 100


class BadQueryError(Exception):
    """A query is invalid; the text says what to write."""


@dataclass(frozen=True, slots=True)
class Answers:
    """The sources of the answers. All are called on the server's threads."""

    registry: CollectorRegistry
    health_problem: Callable[[], str]
    """Returns why the agent is unhealthy; empty while it is healthy."""

    turns: Callable[[str | None, float], Iterator[dict[str, Any]]]
    """Returns the turns of one GPU, or of all, that ended after a time or still run."""

    sessions: Callable[[bool], list[dict[str, Any]]]
    """Returns the sessions, with or without pids and messages."""


class AgentHTTPServer:
    """Serves on its own threads."""

    def __init__(self, address: str, port: int, answers: Answers) -> None:
        """Open the port, on all addresses where that is empty.

        Raises:
            OSError: the port is taken, or the address is not this machine's.
        """
        handler = type("Handler", (_Handler,), {"answers": answers})
        self._server = BoundedHTTPServer((address, port), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, name="http", daemon=True)

    @property
    def port(self) -> int:
        """Return the port."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Start serving."""
        self._thread.start()

    def stop(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()


class _Handler(BoundedHandler):
    answers: ClassVar[Answers]

    def do_GET(self) -> None:  # noqa: N802 (the standard library looks for this name)
        url = urlsplit(self.path)
        try:
            if url.path == "/metrics":
                self._send(HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(self.answers.registry))
            elif url.path == "/healthz":
                health_problem = self.answers.health_problem()
                status = HTTPStatus.SERVICE_UNAVAILABLE if health_problem else HTTPStatus.OK
                self._send(status, "text/plain; charset=utf-8", f"{health_problem or 'ok'}\n".encode())
            elif url.path == "/turns":
                self._send_turns(parse_qs(url.query))
            elif url.path == "/sessions":
                sessions = self.answers.sessions(self._is_local)
                self._send(HTTPStatus.OK, "application/json", json.dumps(sessions).encode())
            else:
                self._refuse(HTTPStatus.NOT_FOUND, "available: /metrics, /healthz, /turns, /sessions")
        except BadQueryError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
        except TimeoutError:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "the event loop does not answer")

    @property
    def _is_local(self) -> bool:
        """Whether the request comes from the agent's own network namespace."""
        return ip_address(self.client_address[0]).is_loopback

    def log_message(self, format: str, *args: Any) -> None:
        """Log requests at debug level only."""
        _log.debug(format, *args)

    def _send_turns(self, query: dict[str, list[str]]) -> None:
        """Send the turns in chunks: encoding all at once would block the loop's thread."""
        gpu = query["gpu"][0] if "gpu" in query else None
        turns = self.answers.turns(gpu, _seconds(query))
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        separator = ""
        for part in chain(_parts(turns), [None]):
            if part is None:
                self._chunk("]" if separator else "[]")
                break
            self._chunk(("," if separator else "[") + ",".join(part))
            separator = ","
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def _refuse(self, status: HTTPStatus, text: str) -> None:
        self._send(status, "text/plain; charset=utf-8", f"{text}\n".encode())

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _seconds(query: dict[str, list[str]]) -> float:
    text = query.get("since", ["0"])[0]
    try:
        return float(text)
    except ValueError as error:
        raise BadQueryError(f"since={text}: write seconds since 1970, such as since=1767225600.5") from error


def _parts(turns: Iterator[dict[str, Any]]) -> Iterator[list[str]]:
    part = []
    for turn in turns:
        part.append(json.dumps(turn))
        if len(part) == _TURNS_PER_CHUNK:
            yield part
            part = []
    if part:
        yield part
