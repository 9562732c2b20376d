"""Chooses the cluster as kubectl does, by kubeconfigs or a pod's service account, and says in one sentence what is wrong with them."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from laneway.sdk.errors import UnreachableError

logger = logging.getLogger(__name__)

_CLIENTS_MODULE = "kube_config"
"""The module of the client that logs why a user's program gives no credential, and goes on without one."""

_CLIENTS_PREFIX = re.compile(r"^Invalid kube-config( file)?\. ")


@dataclass(frozen=True)
class ClusterChoice:
    """Which cluster is used, and as whom."""

    context: str | None
    """Name of the kubeconfig's context; None: the service account of the pod that this process runs in."""

    namespace: str
    """Of the context, or of the pod."""


def load_config(settings: Any, kubeconfig: str | None, context: str | None) -> ClusterChoice:
    """Choose a cluster in kubectl's order, and load its address and the credential into the client's settings.

    The order is: the given kubeconfig, else the files of ``KUBECONFIG``, else ``~/.kube/config``. In a pod where these choose no
    context, it is the pod's service account.

    Args:
        settings: a ``kubernetes.client.Configuration``.
        kubeconfig: path; None: as above.
        context: None: the kubeconfig's current one.

    Raises:
        UnreachableError: there is none, or it is wrong.
    """
    from kubernetes.config.kube_config import KubeConfigMerger

    path = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
    in_pod = bool(os.environ.get("KUBERNETES_SERVICE_HOST"))
    with _errors(path):
        read = os.pathsep.join(each for each in path.split(os.pathsep) if not _is_empty(each))
        if not in_pod or kubeconfig:
            read = read or path
        merged = KubeConfigMerger(read)
        # kubectl takes the current context of the first file that has one; the client's merger takes the last file's.
        currents = [each.get("current-context") for each in merged.config_files.values()]
        chosen = context or next(filter(None, currents), None)
    if in_pod and not kubeconfig and not chosen:
        if os.environ.get("KUBECONFIG") and merged.config is None:
            logger.warning("there is no kubeconfig %s: using the pod's service account", path)
        own_namespace = _load_service_account(settings)
        _check_proxy(settings)
        return ClusterChoice(None, own_namespace)
    if merged.config is None:
        wanted, otherwise = "", "set KUBECONFIG or give the path of one"
        if in_pod and not kubeconfig:
            wanted = f", and so no context {chosen}"
            otherwise = "set KUBECONFIG, give the path of one, or leave the context out to use the pod's service account"
        raise UnreachableError(
            f"no cluster is configured: there is no kubeconfig {path}{wanted}; {otherwise}"
        )
    with _errors(path), _logged() as messages:
        namespace = _load_context(settings, read, merged.config, chosen)
    _check_proxy(settings)
    if messages:
        raise UnreachableError(f"the kubeconfig {path} gives no credential: {_one_line(messages[0])}")
    return ClusterChoice(chosen, namespace)


def _is_empty(path: str) -> bool:
    """Return whether there is a file with nothing in it, which kubectl passes over and the client refuses."""
    file = Path(path).expanduser()
    lines = file.read_bytes().splitlines() if path and file.exists() else [b"none"]
    return all(not line or line.startswith(b"#") for line in map(bytes.strip, lines))


def _load_context(settings: Any, path: str, found: Any, chosen: str | None) -> str:
    """Load a context of the kubeconfig that was found, and return its namespace."""
    from kubernetes import config

    names = [each["name"] for each in found["contexts"].value]
    if chosen not in names:
        chooses = f"has no context {chosen}" if chosen else "has no current context"
        raise config.ConfigException(f"{chooses}; its contexts: {', '.join(names) or 'none'}")
    context = found["contexts"].get_with_name(chosen)["context"]
    if user := context.safe_get("user"):
        # The client goes on without a user that is missing, and as the user's own self where it is to be another.
        _refuse_impersonation(found["users"].get_with_name(user)["user"], user)
    config.load_kube_config(path, chosen, client_configuration=settings)
    _trim_token(settings)
    token = str(settings.api_key.get("BearerToken", "")).strip()
    if not (token.isascii() and token.isprintable()):
        raise config.ConfigException("gives a token that is not one line of ASCII text")
    if not str(settings.host).startswith(("https://", "http://")):
        raise config.ConfigException(f"has the server {settings.host}: begin it with https://")
    return str(context.safe_get("namespace") or "default")


def _refuse_impersonation(user: Any, name: str) -> None:
    from kubernetes import config

    for field in ("as", "as-uid", "as-groups", "as-user-extra"):
        if value := user.safe_get(field):
            raise config.ConfigException(
                f"has the user {name}, who acts as another one ({field}: {value}): Laneway's commands cannot; use another context"
            )


def _trim_token(settings: Any) -> None:
    """Let a token end as kubectl does, before the end of its file's line: no header can have that."""
    refresh = settings.refresh_api_key_hook
    if refresh is None:
        return

    def trimmed(current: Any) -> None:
        refresh(current)
        current.refresh_api_key_hook = trimmed  # it has put itself back
        current.api_key["BearerToken"] = current.api_key["BearerToken"].strip()

    settings.refresh_api_key_hook = trimmed


def _check_proxy(settings: Any) -> None:
    from kubernetes.client.rest import is_socks_proxy_url, should_bypass_proxies

    if not settings.proxy or should_bypass_proxies(settings.host, settings.no_proxy or ""):
        return
    socks = is_socks_proxy_url(settings.proxy)
    if not socks and not settings.proxy.lower().startswith(("http://", "https://")):
        advice = "begin it with http://, https:// or socks5://"
    elif socks and find_spec("socks") is None:
        advice = "install the Python package PySocks"
    else:
        return
    raise UnreachableError(f"no cluster can be reached through the proxy {settings.proxy}: {advice}")


def _load_service_account(settings: Any) -> str:
    """Load the service account of the pod that this process runs in, and return the pod's namespace: a file beside the token."""
    from kubernetes import config
    from kubernetes.config import incluster_config

    try:
        config.load_incluster_config(client_configuration=settings)
        _trim_token(settings)
        path = Path(incluster_config.SERVICE_TOKEN_FILENAME).with_name("namespace")
        return path.read_text(encoding="utf-8").strip() or "default"
    except (config.ConfigException, OSError) as error:
        why = str(error).rstrip(".")
        raise UnreachableError(f"the pod's service account cannot be used: {why}; set KUBECONFIG") from error


@contextmanager
def _errors(path: str) -> Iterator[None]:
    """Turn what the client raises about a kubeconfig into ours."""
    from kubernetes.config import ConfigException
    from yaml import YAMLError

    try:
        yield
    except YAMLError as error:
        raise _wrong(path, f"is not valid YAML: {error}") from error
    except OSError as error:
        raise _wrong(path, f"cannot be read: {error.strerror or error}") from error
    except ConfigException as error:
        raise _wrong(path, _CLIENTS_PREFIX.sub("is wrong: ", str(error))) from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _wrong(path, "is no kubeconfig") from error


def _wrong(path: str, why: str) -> UnreachableError:
    return UnreachableError(f"no cluster is configured: the kubeconfig {path} {_one_line(why)}")


def _one_line(text: str) -> str:
    return " ".join(text.split())


@contextmanager
def _logged() -> Iterator[list[str]]:
    """Collect what the client logs, instead of letting it write to standard error."""

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.module == _CLIENTS_MODULE:
                messages.append(record.getMessage())

    messages: list[str] = []
    collector = Collector()
    logging.getLogger().addHandler(collector)
    try:
        yield messages
    finally:
        logging.getLogger().removeHandler(collector)
