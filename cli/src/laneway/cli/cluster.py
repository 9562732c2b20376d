"""The API server that the user's kubeconfig names. Only it and `kubeconfig` use the Kubernetes client.

Objects are plain dictionaries, in the API server's own form.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from laneway.api.names import CLI_FIELD_MANAGER, GROUP, VERSION
from laneway.cli.exit_codes import FAILED, NOT_FOUND, UNREACHABLE, CommandError

Object = dict[str, Any]

PLURAL = "trainingjobs"
_GPU_NODES = "gpunodes"
_FIELD_MANAGER = CLI_FIELD_MANAGER
_WATCH_SECONDS = 60
_REQUEST_SECONDS = 30


class ConflictError(Exception):
    """The object has changed since it was read."""


class Cluster:
    """Access to TrainingJobs, their pods and events, and GPUNodes."""

    def __init__(self, *, kubeconfig: str | None = None, context: str | None = None) -> None:
        """Load the kubeconfig: the given file, else KUBECONFIG, else the pod's service account, else ~/.kube/config.

        ``namespace`` is the namespace of the kubeconfig's context, or the pod's.

        Raises:
            CommandError: there is none, or it is wrong.
        """
        from kubernetes import client, config

        self.namespace = "default"
        try:
            if kubeconfig or os.environ.get("KUBECONFIG") or not os.environ.get("KUBERNETES_SERVICE_HOST"):
                config.load_kube_config(config_file=kubeconfig, context=context)
                contexts, active = config.list_kube_config_contexts(config_file=kubeconfig)
                chosen = next((item for item in contexts if item["name"] == context), active)
                self.namespace = chosen["context"].get("namespace") or "default"
            else:
                config.load_incluster_config()
                self.namespace = _pod_namespace()
        except (config.ConfigException, OSError) as error:
            raise CommandError(
                f"no cluster is configured: {error}; set KUBECONFIG or give --kubeconfig", UNREACHABLE
            ) from error
        settings = client.Configuration.get_default_copy()
        settings.retries = 1
        self._server = settings.host
        api = client.ApiClient(settings)
        self._jobs = client.CustomObjectsApi(api)
        self._core = client.CoreV1Api(api)

    def create(self, namespace: str, manifest: Object) -> Object:
        """Create a TrainingJob."""
        with self._errors(f"TrainingJob {_name_of(manifest)} in namespace {namespace}"):
            return dict(
                self._jobs.create_namespaced_custom_object(
                    GROUP, VERSION, namespace, PLURAL, manifest, field_manager=_FIELD_MANAGER
                )
            )

    def read(self, namespace: str, name: str) -> Object:
        """Return a TrainingJob."""
        with self._errors(f"TrainingJob {name} in namespace {namespace}"):
            return dict(self._jobs.get_namespaced_custom_object(GROUP, VERSION, namespace, PLURAL, name))

    def list_jobs(self, namespace: str | None) -> list[Object]:
        """Return the TrainingJobs of a namespace, or of all."""
        with self._errors("TrainingJobs"):
            if namespace is None:
                found = self._jobs.list_cluster_custom_object(GROUP, VERSION, PLURAL)
            else:
                found = self._jobs.list_namespaced_custom_object(GROUP, VERSION, namespace, PLURAL)
            return list(found["items"])

    def delete(self, namespace: str, name: str) -> None:
        """Delete a TrainingJob; the garbage collector deletes its pods."""
        with self._errors(f"TrainingJob {name} in namespace {namespace}"):
            self._jobs.delete_namespaced_custom_object(GROUP, VERSION, namespace, PLURAL, name)

    def watch(self, namespace: str, name: str, deadline_seconds: float | None) -> Iterator[Object | None]:
        """Yield a TrainingJob now and after every change; None once it is deleted.

        Ends at the deadline (in ``time.monotonic``); the caller may stop earlier.
        """
        from kubernetes.watch import Watch

        while True:
            job = self._read_or_none(namespace, name)
            yield job
            if job is None:
                return
            left_seconds = _WATCH_SECONDS
            if deadline_seconds is not None:
                left_seconds = int(min(_WATCH_SECONDS, deadline_seconds - time.monotonic()))
                if left_seconds < 1:
                    if time.monotonic() >= deadline_seconds:
                        return
                    time.sleep(max(0.0, min(0.2, deadline_seconds - time.monotonic())))
                    continue
            with self._errors(f"TrainingJob {name} in namespace {namespace}", allow_expired=True):
                for event in Watch().stream(
                    self._jobs.list_namespaced_custom_object,
                    GROUP,
                    VERSION,
                    namespace,
                    PLURAL,
                    field_selector=f"metadata.name={name}",
                    resource_version=job["metadata"]["resourceVersion"],
                    timeout_seconds=left_seconds,
                ):
                    yield None if event["type"] == "DELETED" else event["object"]

    def pod(self, namespace: str, name: str) -> Object | None:
        """Return a pod; None if there is no pod of that name."""
        with self._errors(f"pod {name} in namespace {namespace}"):
            try:
                answer = self._core.read_namespaced_pod(name, namespace, _preload_content=False)
            except _api_exception() as error:
                if error.status == 404:
                    return None
                raise
            return dict(json.loads(answer.data))

    def pods(self, namespace: str, selector: str) -> list[Object]:
        """Return the pods of a namespace that match a label selector."""
        with self._errors(f"pods in namespace {namespace}"):
            answer = self._core.list_namespaced_pod(
                namespace, label_selector=selector, _preload_content=False
            )
            return list(json.loads(answer.data)["items"])

    def gpu_node(self, name: str) -> Object:
        """Return a GPUNode."""
        with self._errors(f"GPUNode {name}"):
            return dict(self._jobs.get_cluster_custom_object(GROUP, VERSION, _GPU_NODES, name))

    def apply_gpu_node(self, name: str, body: Object) -> None:
        """Apply fields of a GPUNode; conflicts with other field managers are forced.

        Raises:
            ConflictError: it has changed since the resource version of the body.
            CommandError: the API server refuses, or is unreachable.
        """
        try:
            with self._errors(f"GPUNode {name}"):
                self._jobs.patch_cluster_custom_object(
                    GROUP,
                    VERSION,
                    _GPU_NODES,
                    name,
                    body,
                    field_manager=_FIELD_MANAGER,
                    force=True,
                    _content_type="application/apply-patch+yaml",
                )
        except CommandError as error:
            if getattr(error.__cause__, "status", None) == 409:
                raise ConflictError(f"GPUNode {name} has changed") from error
            raise

    def log(self, namespace: str, pod: str, container: str, *, follow: bool) -> Iterator[bytes]:
        """Yield a container's log; with ``follow`` until the container ends."""
        with self._errors(f"log of pod {pod} in namespace {namespace}"):
            answer = self._core.read_namespaced_pod_log(
                pod, namespace, container=container, follow=follow, _preload_content=False
            )
            try:
                yield from answer.stream(decode_content=False)
            finally:
                answer.release_conn()

    def events(self, namespace: str, kind: str, name: str) -> list[Object]:
        """Return the events about an object."""
        with self._errors(f"events in namespace {namespace}"):
            answer = self._core.list_namespaced_event(
                namespace,
                field_selector=f"involvedObject.kind={kind},involvedObject.name={name}",
                _preload_content=False,
            )
            return list(json.loads(answer.data)["items"])

    def _read_or_none(self, namespace: str, name: str) -> Object | None:
        try:
            return self.read(namespace, name)
        except CommandError as error:
            if error.exit_code == NOT_FOUND:
                return None
            raise

    @contextmanager
    def _errors(self, what: str, *, allow_expired: bool = False) -> Iterator[None]:
        """Turn the client's exceptions into CommandErrors."""
        from urllib3.exceptions import HTTPError

        try:
            yield
        except _api_exception() as error:
            if error.status == 410 and allow_expired:
                return
            raise _command_error(error, what) from error
        except (HTTPError, OSError) as error:
            raise CommandError(f"cannot reach the cluster at {self._server}: {error}", UNREACHABLE) from error


def _pod_namespace() -> str:
    """Return the namespace of the pod that this process runs in: a file beside its service account's token."""
    from kubernetes.config import incluster_config

    path = Path(incluster_config.SERVICE_TOKEN_FILENAME).with_name("namespace")
    return path.read_text(encoding="utf-8").strip() or "default"


def _api_exception() -> Any:
    from kubernetes.client import ApiException

    return ApiException


def _command_error(error: Any, what: str) -> CommandError:
    body = error.body.decode() if isinstance(error.body, bytes) else str(error.body or "")
    try:
        message = str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        message = ""
    if error.status == 404 and not message:
        return CommandError(
            "the cluster has no TrainingJobs: install Laneway first (helm install laneway charts/laneway)",
            NOT_FOUND,
        )
    messages: dict[int, Callable[[], str]] = {
        401: lambda: "the cluster refused your credentials: check the user in your kubeconfig",
        403: lambda: f"not allowed: {message}",
        404: lambda: f"{what} not found",
        409: lambda: f"{what} already exists: delete it first, or choose another name",
        422: lambda: f"{what} is invalid: {message}",
    }
    text = messages.get(error.status, lambda: f"{what}: {message or error.reason}")
    return CommandError(text(), NOT_FOUND if error.status == 404 else FAILED)


def _name_of(manifest: Object) -> str:
    metadata = manifest.get("metadata") or {}
    return str(metadata.get("name") or f"{metadata.get('generateName', '')}*")
