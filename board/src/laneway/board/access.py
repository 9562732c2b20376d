"""Who may see the page, and with whose rights the board asks the API server."""

from __future__ import annotations

import hmac
import re
from typing import Protocol

from aiohttp import web
from laneway.board.api_server import Credential

_BEARER = re.compile(r"Bearer [A-Za-z0-9._~+/-]{1,16384}=*")


class UnauthorizedError(Exception):
    """A request has no credential, or a wrong one; the message says what to do."""


class Access(Protocol):
    """Decides on a request to the board."""

    def admit(self, request: web.Request) -> Credential:
        """Return the credential of the viewer.

        Raises:
            UnauthorizedError: there is none.
        """
        ...


class ViewerToken:
    """Passes the viewer's own bearer token on. The board itself has no rights."""

    def admit(self, request: web.Request) -> Credential:
        """Return the token of the request's header ``Authorization``."""
        authorization = request.headers.get("Authorization", "")
        if not _BEARER.fullmatch(authorization):
            raise UnauthorizedError(
                "Sign in with a bearer token of the cluster. The board passes it on to the API server and keeps it nowhere."
            )

        async def credential() -> str:
            return authorization

        return credential


class OwnKubeconfig:
    """Lends the rights of a kubeconfig to the pages that know a secret: only its user is to have them, not all users of the machine."""

    def __init__(self, secret: str, credential: Credential, hosts: frozenset[str]) -> None:
        """Take the secret, the kubeconfig's credential, and the addresses (``host:port``) under which the page may be opened.

        A request by another name comes from a page of someone else whose name was pointed to this machine (DNS rebinding).
        """
        self._expected = f"Bearer {secret}".encode()
        self._credential = credential
        self._hosts = hosts

    def admit(self, request: web.Request) -> Credential:
        """Return the kubeconfig's credential to a request that has the secret."""
        given = request.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
        if request.host not in self._hosts or not hmac.compare_digest(given, self._expected):
            raise UnauthorizedError(
                "Open the address that the command printed. It holds until the command ends."
            )
        return self._credential
