"""A memory account for the self-test's program alone, on a socket where the library looks for one in a container.

In the agent's own pod ``/run/laneway`` is the node's folder. No container sees its files: each has a folder of its own there.
"""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from laneway.lanes import MemoryAccount
from laneway.node_agent.memory_accounts.answering import answer
from laneway.node_agent.memory_accounts.packets import AccountPacketError, decode_request, encode_reply
from laneway.node_agent.self_test.evaluation import AccountUse

_MOST_BYTES = 4096
_PROGRAM = 0
"""The name of the only process in the account."""


class PrivateAccount:
    """Serves one process at a time, on a thread of its own, while the ``with`` block runs."""

    def __init__(self, path: Path, gpu: bytes, quota_bytes: int) -> None:
        """Prepare an account on one GPU.

        Args:
            path: of the socket; only the agent's own user may connect to it.
            gpu: the 16 bytes of the GPU's uuid.
            quota_bytes: of the account.
        """
        self._path = path
        self._gpu = gpu
        self._account = MemoryAccount(quota_bytes)
        self._asked = False
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._connection: socket.socket | None = None
        self._thread = threading.Thread(target=self._serve, name="self-test account", daemon=True)

    @property
    def use(self) -> AccountUse:
        """Return what was asked of the account."""
        return AccountUse(self._asked, self._account.refusals)

    def __enter__(self) -> PrivateAccount:
        """Serve.

        Raises:
            OSError: the socket cannot be made.
        """
        try:
            self._path.unlink(missing_ok=True)
            self._listener.bind(str(self._path))
            os.chmod(self._path, 0o600)
            self._listener.listen()
        except OSError:
            self._listener.close()
            raise
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the socket, also while a program that does not end is connected."""
        for end in (self._listener, self._connection):
            with suppress(OSError):
                if end is not None:
                    end.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        self._path.unlink(missing_ok=True)

    def _serve(self) -> None:
        with suppress(OSError):  # the listener is shut down
            while True:
                connection, _ = self._listener.accept()
                self._connection = connection
                with connection, suppress(OSError, AccountPacketError):
                    self._account.enter(_PROGRAM)
                    self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        while packet := connection.recv(_MOST_BYTES):
            request = decode_request(packet)
            self._asked = True
            account = self._account if request.gpu == self._gpu else None
            reply = answer(request, account, _PROGRAM, framework_bytes=0)
            if reply is not None:
                connection.sendall(encode_reply(reply))
