"""The API server and the credential of the user's choice for the board, which sends requests of its own."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass

from kubernetes import client, config
from kubernetes.client.rest import should_bypass_proxies
from laneway.board.api_server import Credential, Endpoint, UnreachableError, tls_context
from laneway.cli.exit_codes import UNREACHABLE, CommandError
from laneway.sdk.kubeconfig import load_config


@dataclass(frozen=True)
class ClusterAccess:
    """What a kubeconfig's context or a pod's service account gives: the API server, and someone's rights."""

    endpoint: Endpoint
    credential: Credential


def cluster_access(kubeconfig: str | None, context: str | None) -> ClusterAccess:
    """Choose a cluster as the SDK does.

    Raises:
        UnreachableError: of the SDK; there is no kubeconfig, or it is wrong.
        CommandError: the certificates are wrong.
    """
    settings = client.Configuration()
    load_config(settings, kubeconfig, context)
    try:
        tls = tls_context(settings.ssl_ca_cert)
        if settings.cert_file:
            tls.load_cert_chain(settings.cert_file, settings.key_file)
    except OSError as error:
        raise CommandError(
            f"the certificates for {settings.host} cannot be read: {error}", UNREACHABLE
        ) from error
    if not settings.verify_ssl:
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    bypasses = should_bypass_proxies(settings.host, settings.no_proxy or "")
    proxy = None if bypasses else settings.proxy or None
    endpoint = Endpoint(settings.host, tls, settings.tls_server_name or None, proxy)
    return ClusterAccess(endpoint, _credential(settings))


def _credential(settings: client.Configuration) -> Credential:
    async def credential() -> str | None:
        try:
            # A credential plugin is a program, and may ask its server for a new token.
            return await asyncio.to_thread(
                settings.get_api_key_with_prefix, "BearerToken", alias="authorization"
            )
        except (config.ConfigException, OSError) as error:
            raise UnreachableError(f"there is no credential for {settings.host}: {error}") from error

    return credential
