"""Serves metrics and the kubelet's probes over HTTP, on its own thread."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from laneway.api.listener import listen

Answer = tuple[int, str, bytes]
"""Status, content type, body."""


def json_answer(good: bool, body: Mapping[str, object]) -> Answer:
    """Return a probe's answer: 200 or 503, with the reason in JSON."""
    return 200 if good else 503, "application/json", json.dumps(body).encode() + b"\n"


class HttpEndpoint:
    """Serves GET on fixed paths."""

    def __init__(self, address: str, port: int, pages: Mapping[str, Callable[[], Answer]]) -> None:
        """Bind an address, or all where it is empty; port 0 picks a free one.

        Raises:
            OSError: the address is in use.
        """

        class Handler(BaseHTTPRequestHandler):
            timeout = 10

            def do_GET(self) -> None:
                page = pages.get(self.path.partition("?")[0])
                known = ", ".join(sorted(pages))
                status, kind, body = page() if page else (404, "text/plain", f"available: {known}\n".encode())
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Log nothing: probes come every few seconds."""

        self._server = ThreadingHTTPServer((address, port), Handler, bind_and_activate=False)
        self._server.socket.close()
        self._server.socket = listen(address, port)
        self._server.server_address = self._server.socket.getsockname()
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]

    def start(self) -> None:
        """Serve until `stop`."""
        threading.Thread(target=self._server.serve_forever, name="http", daemon=True).start()

    def stop(self) -> None:
        """Stop serving and free the port."""
        self._server.shutdown()
        self._server.server_close()
