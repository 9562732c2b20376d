"""``board``: serves a page of nodes, GPUs, lanes, turns, the queue and jobs to browsers of this machine."""

from __future__ import annotations

import secrets
import socket
from argparse import ArgumentParser, Namespace
from urllib.parse import urlencode

from laneway.cli.exit_codes import FAILED, OK, CommandError
from laneway.cli.verbs.options import add_cluster_options, open_client

HELP = "Show nodes, GPUs, turns, the queue and jobs in a browser, with your own rights"

_ADDRESS = "127.0.0.1"
_AGENTS_NAMESPACES = ("laneway-nodes", "laneway-system", "")
"""Where the node agents are searched: the namespaces of the documented installations, then all."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.epilog = "Without -n, it shows the jobs of all namespaces. It only reads, and serves on the loopback address. The address that it prints holds a secret, so that other users of this machine cannot use your rights."
    add_cluster_options(parser)
    parser.add_argument(
        "--port", type=int, default=8421, help="port to serve on; 0: any free one (default: %(default)s)"
    )
    parser.add_argument(
        "--agents-namespace",
        help="namespace of the node agents, whose turns are shown (default: the one that has them)",
    )


def run(arguments: Namespace) -> int:
    """Serve until Ctrl-C."""
    from laneway.board.access import OwnKubeconfig
    from laneway.board.main import serve
    from laneway.board.server import application
    from laneway.cli.cluster_access import cluster_access

    own = cluster_access(arguments.kubeconfig, arguments.context)
    try:
        listener = socket.create_server((_ADDRESS, arguments.port))
    except (OSError, OverflowError) as error:
        raise CommandError(
            f"cannot serve on port {arguments.port}: {error}; give another --port, or 0", FAILED
        ) from error
    with listener:
        open_client(arguments).cluster.get("/version", what="the version")  # says why where nobody answers
        port = listener.getsockname()[1]
        secret = secrets.token_urlsafe(32)
        query = f"?{urlencode({'namespace': arguments.namespace})}" if arguments.namespace else ""
        print(
            f"The board of {own.endpoint.url} is at\n\n  http://{_ADDRESS}:{port}/{query}#secret={secret}\n"
        )
        print(
            "The address gives your rights to read jobs and nodes, so keep it to yourself. Ctrl-C ends the board.",
            flush=True,
        )
        access = OwnKubeconfig(secret, own.credential, frozenset({f"{_ADDRESS}:{port}", f"localhost:{port}"}))
        agents = [arguments.agents_namespace] if arguments.agents_namespace else _AGENTS_NAMESPACES
        serve(application(own.endpoint, access, agents), listener)
        return OK
