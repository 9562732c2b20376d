"""Waits for a condition with a deadline; health checks of components with TLS."""

from __future__ import annotations

import http.client
import ssl
import time
from collections.abc import Callable
from pathlib import Path

from hack.cluster.pki import Credential
from hack.cluster.progress import ClusterError

_POLL_SECONDS = 0.1
_REQUEST_TIMEOUT_SECONDS = 5.0
_LOG_TAIL_LINES = 25


def wait_until(
    condition: Callable[[], bool],
    what: str,
    timeout_seconds: float,
    *,
    still_possible: Callable[[], bool] = lambda: True,
    log: Path | None = None,
) -> None:
    """Poll until `condition` holds. Fails with the end of `log` at the deadline, or as soon as it cannot hold any more."""
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        if not still_possible():
            raise ClusterError(f"{what}: the process ended instead{log_tail(log)}")
        if time.monotonic() > deadline:
            raise ClusterError(f"{what}: not within {timeout_seconds:.0f} s{log_tail(log)}")
        time.sleep(_POLL_SECONDS)


def log_tail(log: Path | None) -> str:
    """Returns a log's path and last lines for an error message; empty without a log."""
    if log is None:
        return ""
    if not log.exists():
        return f"; it has written no log at {log}"
    lines = log.read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:]
    return f"; the end of {log}:\n" + "\n".join(lines)


def client_context(authority: Path, credential: Credential) -> ssl.SSLContext:
    """Returns TLS settings of a client with `credential` that trusts only `authority`."""
    context = ssl.create_default_context(cafile=str(authority))
    context.load_cert_chain(credential.certificate, credential.key)
    return context


def fetch(address: str, port: int, path: str, context: ssl.SSLContext | None) -> bytes | None:
    """Returns the body of a response with status 200; None for any other outcome. `context` None means plain HTTP."""
    connection: http.client.HTTPConnection
    if context is None:
        connection = http.client.HTTPConnection(address, port, timeout=_REQUEST_TIMEOUT_SECONDS)
    else:
        connection = http.client.HTTPSConnection(
            address, port, timeout=_REQUEST_TIMEOUT_SECONDS, context=context
        )
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.read() if answer.status == http.client.OK else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def answers_ok(address: str, port: int, path: str, context: ssl.SSLContext | None) -> bool:
    """Returns whether a GET of `path` has status 200."""
    return fetch(address, port, path, context) is not None
