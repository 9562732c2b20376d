"""Reads a kubeconfig into the Kubernetes client's settings, and says in one sentence what is wrong with it."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from laneway.sdk.errors import UnreachableError

_CLIENTS_MODULE = "kube_config"
"""The module of the client that logs why a user's program gives no credential, and goes on without one."""

_CLIENTS_PREFIX = re.compile(r"^Invalid kube-config( file)?\. ")


def load_kubeconfig(settings: Any, kubeconfig: str | None, context: str | None) -> str:
    """Load a context into the client's settings, and return its namespace.

    Args:
        settings: a ``kubernetes.client.Configuration``.
        kubeconfig: path; None: ``KUBECONFIG``, else ``~/.kube/config``.
        context: None: the kubeconfig's current one.

    Raises:
        UnreachableError: there is no kubeconfig, or it is wrong.
    """
    from kubernetes import config
    from kubernetes.config.kube_config import KubeConfigMerger

    path = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
    with _errors(path), _logged() as messages:
        found = KubeConfigMerger(path).config
        if found is None:
            raise UnreachableError(
                f"no cluster is configured: there is no kubeconfig {path}; set KUBECONFIG or give the path of one"
            )
        names = [each["name"] for each in found["contexts"].value]
        chosen = context or found.safe_get("current-context")
        if chosen not in names:
            chooses = f"has no context {chosen}" if chosen else "has no current context"
            raise config.ConfigException(f"{chooses}; its contexts: {', '.join(names) or 'none'}")
        chosen_context = found["contexts"].get_with_name(chosen)["context"]
        if user := chosen_context.safe_get("user"):
            found["users"].get_with_name(user)  # the client goes on without a user that is missing
        config.load_kube_config(path, chosen, client_configuration=settings)
        if not str(settings.host).startswith(("https://", "http://")):
            raise config.ConfigException(f"has the server {settings.host}: begin it with https://")
    if messages:
        raise UnreachableError(f"the kubeconfig {path} gives no credential: {_one_line(messages[0])}")
    return str(chosen_context.safe_get("namespace") or "default")


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
