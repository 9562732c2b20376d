"""``laneway-board``: the board as a service of the cluster. It has no rights: each viewer signs in with a token of their own."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import AsyncIterator
from pathlib import Path

from aiohttp import web
from laneway.api.listener import listen
from laneway.board.access import ViewerToken
from laneway.board.api_server import Endpoint, tls_context
from laneway.board.connection_limit import BoundedListener
from laneway.board.server import application

_RELOAD_SECONDS = 60.0
_IDLE_SECONDS = 75.0
"""A connection without a complete request for so long is closed. Longer than nginx' 60 s, so that a proxy never reuses a closed one."""
_MOST_CONNECTIONS = 512
"""Twice the streams. A browser has up to six connections, a stream holds one."""


def main() -> int:
    """Serve until SIGTERM; return the exit code."""
    arguments = _parser().parse_args()
    try:
        authority = tls_context(arguments.authority)
        tls = _server_tls(arguments)
        listener = listen(arguments.address, arguments.port)
    except OSError as error:
        print(f"laneway-board: {error}", file=sys.stderr)
        return 1
    print(f"laneway-board: serves on {arguments.address}:{listener.getsockname()[1]}", flush=True)
    endpoint = Endpoint(arguments.api_server, authority)
    app = application(endpoint, ViewerToken(), [arguments.agents_namespace])
    if tls is not None:
        app.cleanup_ctx.append(lambda _: _renewed(tls, arguments))
    serve(app, listener, tls)
    return 0


def serve(app: web.Application, listener: socket.socket, tls: ssl.SSLContext | None = None) -> None:
    """Serve on a socket until SIGINT or SIGTERM."""
    bounded = BoundedListener(listener, _MOST_CONNECTIONS)
    app.middlewares.append(bounded.while_busy)
    web.run_app(
        app,
        sock=bounded,
        keepalive_timeout=_IDLE_SECONDS,
        ssl_context=tls,
        print=None,
        access_log=None,
        handler_cancellation=True,  # a viewer that leaves ends its watches at once
        shutdown_timeout=1.0,
    )


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="laneway-board", description=__doc__)
    host, port = (
        os.environ.get("KUBERNETES_SERVICE_HOST", ""),
        os.environ.get("KUBERNETES_SERVICE_PORT", "443"),
    )
    in_cluster = f"https://{f'[{host}]' if ':' in host else host}:{port}" if host else None
    parser.add_argument(
        "--api-server",
        default=in_cluster,
        required=in_cluster is None,
        help="URL of the API server (default in a pod: the cluster's own)",
    )
    parser.add_argument(
        "--authority", required=True, help="file with the certificate authority of the API server"
    )
    parser.add_argument("--address", default="", help="address to serve on (default: all, of IPv4 and IPv6)")
    parser.add_argument("--port", type=int, default=8080, help="port to serve on (default: %(default)s)")
    parser.add_argument("--tls", type=Path, help="folder with tls.crt and tls.key (default: plain HTTP)")
    parser.add_argument(
        "--agents-namespace", required=True, help="namespace of the node agents, whose turns are shown"
    )
    return parser


def _server_tls(arguments: Namespace) -> ssl.SSLContext | None:
    if arguments.tls is None:
        return None
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    _load(tls, arguments.tls)
    return tls


async def _renewed(tls: ssl.SSLContext, arguments: Namespace) -> AsyncIterator[None]:
    """Load a renewed certificate for new connections, as cert-manager replaces it in the mounted Secret."""

    async def load_again() -> None:
        while True:
            await asyncio.sleep(_RELOAD_SECONDS)
            try:
                _load(tls, arguments.tls)
            except OSError as error:
                print(f"laneway-board: keeps its certificate: {error}", file=sys.stderr, flush=True)

    task = asyncio.create_task(load_again())
    yield
    task.cancel()


def _load(tls: ssl.SSLContext, folder: Path) -> None:
    tls.load_cert_chain(folder / "tls.crt", folder / "tls.key")


if __name__ == "__main__":
    sys.exit(main())
