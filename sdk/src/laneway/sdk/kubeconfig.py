"""Chooses the cluster as kubectl does, by kubeconfigs or a pod's service account, and says in one sentence what is wrong with them."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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
        merged = KubeConfigMerger(path)
        # kubectl takes the current context of the first file that has one; the client's merger takes the last file's.
        currents = [each.get("current-context") for each in merged.config_files.values()]
        chosen = context or next(filter(None, currents), None)
    if in_pod and not kubeconfig and not chosen:
        if os.environ.get("KUBECONFIG") and merged.config is None:
            logger.warning("there is no kubeconfig %s: using the pod's service account", path)
        return ClusterChoice(None, _load_service_account(settings))
    if merged.config is None:
        wanted, otherwise = "", "set KUBECONFIG or give the path of one"
        if in_pod and not kubeconfig:
            wanted = f", and so no context {chosen}"
            otherwise = "set KUBECONFIG, give the path of one, or leave the context out to use the pod's service account"
        raise UnreachableError(
            f"no cluster is configured: there is no kubeconfig {path}{wanted}; {otherwise}"
        )
    with _errors(path), _logged() as messages:
        namespace = _load_context(settings, path, merged.config, chosen)
    if messages:
        raise UnreachableError(f"the kubeconfig {path} gives no credential: {_one_line(messages[0])}")
    return ClusterChoice(chosen, namespace)


def _load_context(settings: Any, path: str, found: Any, chosen: str | None) -> str:
    """Load a context of the kubeconfig that was found, and return its namespace."""
    from kubernetes import config

    names = [each["name"] for each in found["contexts"].value]
    if chosen not in names:
        chooses = f"has no context {chosen}" if chosen else "has no current context"
        raise config.ConfigException(f"{chooses}; its contexts: {', '.join(names) or 'none'}")
    context = found["contexts"].get_with_name(chosen)["context"]
    if user := context.safe_get("user"):
        found["users"].get_with_name(user)  # the client goes on without a user that is missing
    config.load_kube_config(path, chosen, client_configuration=settings)
    if not str(settings.host).startswith(("https://", "http://")):
        raise config.ConfigException(f"has the server {settings.host}: begin it with https://")
    return str(context.safe_get("namespace") or "default")


def _load_service_account(settings: Any) -> str:
    """Load the service account of the pod that this process runs in, and return the pod's namespace: a file beside the token."""
    from kubernetes import config
    from kubernetes.config import incluster_config

    try:
        config.load_incluster_config(client_configuration=settings)
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
