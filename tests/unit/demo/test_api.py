"""What the demo and the tests see when the API server fails them."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from hack.cluster.held_ports import held_ports
from hack.cluster.progress import ClusterError
from hack.demo import api as module
from hack.demo.api import Api

_BEGUN = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nfirst\n\r\n"


@contextmanager
def server(answer: Callable[[socket.socket], object]) -> Iterator[str]:
    """Serves one connection with `answer`, which then is closed; yields the address."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                answer(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


def client_of(folder: Path, address: str) -> Api:
    file = folder / "kubeconfig"
    document = {
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [{"name": "it", "cluster": {"server": address}}],
        "users": [{"name": "it", "user": {}}],
    }
    file.write_text(json.dumps(document))
    return Api(file)


def test_a_server_that_does_not_answer_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TIMES", (5.0, 0.05))
    over = threading.Event()

    with server(lambda connection: over.wait()) as address:
        with pytest.raises(ClusterError, match=r"GET /api: .*timed out"):
            client_of(tmp_path, address).get("/api")
        over.set()


def test_an_answer_that_breaks_off(tmp_path: Path) -> None:
    with (
        server(lambda connection: connection.sendall(_BEGUN)) as address,
        pytest.raises(ClusterError, match=r"GET /api: .*prematurely|broken"),
    ):
        client_of(tmp_path, address).get("/api")


def test_a_stream_that_breaks_off_after_its_first_line(tmp_path: Path) -> None:
    with server(lambda connection: connection.sendall(_BEGUN)) as address:
        lines = client_of(tmp_path, address).lines("/log", {})
        assert next(lines) == "first"
        with pytest.raises(ClusterError, match="GET /log: Response ended"):
            next(lines)


def test_no_server(tmp_path: Path) -> None:
    with (
        held_ports("127.0.0.1", 1) as (port,),
        pytest.raises(ClusterError, match=r"GET /api: .*refused"),
    ):
        client_of(tmp_path, f"http://127.0.0.1:{port}").get("/api")
