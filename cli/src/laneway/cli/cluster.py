"""The API server, as the user's kubeconfig reaches it. The only room that knows the Kubernetes client.

Objects come and go as plain dictionaries, as the API server has them.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
    """Somebody else wrote an object at the same time."""


class Cluster:
    """TrainingJobs, their pods and events, and the GPUNodes that they run on."""

    def __init__(self, *, kubeconfig: str | None = None, context: str | None = None) -> None:
        """Read the kubeconfig: the file given, else KUBECONFIG, else ~/.kube/config, else the pod's own account.

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
        except (config.ConfigException, OSError) as error:
            raise CommandError(
                f"no cluster to talk to: {error}; set KUBECONFIG or give --kubeconfig", UNREACHABLE
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
        """Delete a TrainingJob; its pods follow."""
        with self._errors(f"TrainingJob {name} in namespace {namespace}"):
            self._jobs.delete_namespaced_custom_object(GROUP, VERSION, namespace, PLURAL, name)

    def changes(self, namespace: str, name: str, deadline_seconds: float | None) -> Iterator[Object | None]:
        """Yield a TrainingJob as it is, and again whenever it changes; None once it is gone.

        Ends at the deadline (of ``time.monotonic``); the caller ends it when it has seen enough.
        """
        from kubernetes import watch

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
            with self._errors(f"TrainingJob {name} in namespace {namespace}", expired_is_fine=True):
                for event in watch.Watch().stream(
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
        """Return a pod; None where there is none of that name."""
        with self._errors(f"pod {name} in namespace {namespace}"):
            try:
                answer = self._core.read_namespaced_pod(name, namespace, _preload_content=False)
            except _api_exception() as error:
                if error.status == 404:
                    return None
                raise
            return dict(json.loads(answer.data))

    def pods(self, namespace: str, selector: str) -> list[Object]:
        """Return the pods of a namespace that a label selector matches."""
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
        """Apply what the command line says of a GPUNode; what others say of the same fields is overruled.

        Raises:
            ConflictError: it has changed since the version that the body names.
            CommandError: it is refused, or there is no cluster.
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
        """Yield what a container has written, and with ``follow`` what it writes until it ends."""
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
    def _errors(self, what: str, *, expired_is_fine: bool = False) -> Iterator[None]:
        """Put what the client raises into words for people."""
        from urllib3.exceptions import HTTPError

        try:
            yield
        except _api_exception() as error:
            if error.status == 410 and expired_is_fine:
                return
            raise _in_words(error, what) from error
        except (HTTPError, OSError) as error:
            raise CommandError(f"cannot reach the cluster at {self._server}: {error}", UNREACHABLE) from error


def _api_exception() -> Any:
    from kubernetes.client import ApiException

    return ApiException


def _in_words(error: Any, what: str) -> CommandError:
    body = error.body.decode() if isinstance(error.body, bytes) else str(error.body or "")
    try:
        message = str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        message = ""
    if error.status == 404 and not message:
        return CommandError(
            "the cluster does not know TrainingJobs: install Laneway first (helm install laneway charts/laneway)",
            NOT_FOUND,
        )
    words: dict[int, Callable[[], str]] = {
        401: lambda: "the cluster does not know you: check the credentials in your kubeconfig",
        403: lambda: f"not allowed: {message}",
        404: lambda: f"there is no {what}",
        409: lambda: f"{what} is there already: delete it first, or choose another name",
        422: lambda: f"{what} is refused: {message}",
    }
    say = words.get(error.status, lambda: f"{what}: {message or error.reason}")
    return CommandError(say(), NOT_FOUND if error.status == 404 else FAILED)


def _name_of(manifest: Object) -> str:
    metadata = manifest.get("metadata") or {}
    return str(metadata.get("name") or f"{metadata.get('generateName', '')}*")
