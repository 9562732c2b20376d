"""The kubeconfig's API server and credential for the board, which sends requests of its own."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass

from kubernetes import client, config
from laneway.board.api_server import Credential, Endpoint, UnreachableError, tls_context
from laneway.cli.exit_codes import UNREACHABLE, CommandError
from laneway.sdk.kubeconfig import load_kubeconfig


@dataclass(frozen=True)
class KubeconfigAccess:
    """What a kubeconfig's context gives: the API server, and the rights of its user."""

    endpoint: Endpoint
    credential: Credential


def kubeconfig_access(kubeconfig: str | None, context: str | None) -> KubeconfigAccess:
    """Load a context of the given file, else of KUBECONFIG, else of ~/.kube/config.

    Raises:
        UnreachableError: of the SDK; there is none, or it is wrong.
        CommandError: its certificates are wrong.
    """
    settings = client.Configuration()
    load_kubeconfig(settings, kubeconfig, context)
    try:
        tls = tls_context(settings.ssl_ca_cert)
        if settings.cert_file:
            tls.load_cert_chain(settings.cert_file, settings.key_file)
    except OSError as error:
        raise CommandError(f"the kubeconfig's certificates cannot be read: {error}", UNREACHABLE) from error
    if not settings.verify_ssl:
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    endpoint = Endpoint(settings.host, tls, settings.tls_server_name or None, settings.proxy or None)
    return KubeconfigAccess(endpoint, _credential(settings))


def _credential(settings: client.Configuration) -> Credential:
    async def credential() -> str | None:
        try:
            # A credential plugin is a program, and may ask its server for a new token.
            return await asyncio.to_thread(
                settings.get_api_key_with_prefix, "BearerToken", alias="authorization"
            )
        except (config.ConfigException, OSError) as error:
            raise UnreachableError(f"the kubeconfig gives no credential: {error}") from error

    return credential
