"""An embedded cluster with Laneway, of this command's own: brought up, used and removed."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from kubernetes import client, config
from laneway.api import names

from hack.cluster.kubectl import Kubectl
from hack.cluster.progress import ClusterError
from hack.cluster.teardown import bring_down
from hack.demo.api import Api
from hack.demo.install import DEMO_VALUES, Installation, install
from hack.demo.jobs import Jobs, JobView, describe
from hack.demo.target import bring_up_embedded

NODES = 2
VALUES = (DEMO_VALUES, Path(__file__).with_name("values.yaml"))
ADVERTISED_PERCENT = 400
_POLL_SECONDS = 1.0
_GROUP, _VERSION = names.API_VERSION.split("/")


class Submitted(Protocol):
    """A job of a benchmark."""

    def manifest(self, namespace: str) -> dict[str, Any]:
        """Return the TrainingJob."""
        ...


@dataclass(frozen=True)
class LiveCluster:
    """The API of the cluster, with one namespace for all jobs."""

    api: Api
    kubectl: Kubectl
    jobs: Jobs
    installation: Installation
    objects: Any
    """Creates objects in this process: a kubectl for each would be late on a busy machine."""

    @property
    def namespace(self) -> str:
        """Where the jobs are."""
        return self.jobs.namespace

    def submit(self, job: Submitted) -> float:
        """Create a job; return when, in seconds since the epoch."""
        self.objects.create_namespaced_custom_object(
            _GROUP, _VERSION, self.namespace, "trainingjobs", job.manifest(self.namespace)
        )
        return time.time()

    def wait(
        self,
        job_names: Sequence[str],
        condition: Callable[[JobView], bool],
        timeout_seconds: float,
        look: Callable[[Mapping[str, JobView]], None] = lambda views: None,
    ) -> dict[str, JobView]:
        """Wait until a condition holds for jobs; none of them may fail.

        Raises:
            ClusterError: one failed, or it took too long; says what the jobs say.
        """
        deadline = time.monotonic() + timeout_seconds
        while True:
            views = self.jobs.views()
            look(views)
            failed = [name for name in job_names if name in views and views[name].has("Failed")]
            missing = [name for name in job_names if name not in views or not condition(views[name])]
            if failed or (missing and time.monotonic() > deadline):
                said = "; ".join(describe(views.get(name), name) for name in failed or missing)
                raise ClusterError(said if failed else f"not within {timeout_seconds:.0f} s: {said}")
            if not missing:
                return views
            time.sleep(_POLL_SECONDS)

    def records(self) -> dict[str, Any]:
        """Return what the cluster recorded, as `laneway replay --records` reads it."""
        kinds = "trainingjobs,gpunodes,nodes,priorityclasses,events.events.k8s.io"
        return self.kubectl.get(kinds, "--all-namespaces")


@contextmanager
def live_cluster(
    name: str, values: Sequence[Path] = VALUES, advertised_percent: int = ADVERTISED_PERCENT
) -> Iterator[LiveCluster]:
    """Bring a cluster up, and always remove it at the end.

    Args:
        name: the cluster's.
        values: files of the chart's values, each over the one before.
        advertised_percent: what each node then offers of its GPUs.

    Raises:
        ClusterError: it does not come up; says why.
    """
    try:
        target = bring_up_embedded(name, NODES)
        first, *others = values
        over = [option for file in others for option in ("--values", file)]
        installation = install(target, *over, advertised_percent=advertised_percent, values=first)
        api = Api(target.kubeconfig)
        jobs = Jobs(api, target.kubectl, "real-workload")
        jobs.make_namespace()
        chosen = client.Configuration()
        config.load_kube_config(config_file=str(target.kubeconfig), client_configuration=chosen)
        objects = client.CustomObjectsApi(client.ApiClient(chosen))
        yield LiveCluster(api, target.kubectl, jobs, installation, objects)
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # a second Ctrl-C would leave half a cluster
        bring_down(name)
