"""The operator with the rights that the chart gives it, on a real API server, and a cluster for each test to play."""

from __future__ import annotations

import asyncio
import subprocess
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml
from laneway.operator.watch.apiserver import connect

from hack.cluster.build import ensure_built
from hack.cluster.control_plane import LoopbackControlPlane
from tests.support.operator.job_history import JobHistory, recorded
from tests.support.operator.namespaces import add_namespace
from tests.support.operator.operator_process import FAST, OperatorProcess
from tests.support.operator.played_cluster import PlayedCluster
from tests.support.rights import until_bound

SYSTEM_NAMESPACE = "laneway-system"
CHART = Path(__file__).parents[3] / "charts" / "laneway"
_RBAC_KINDS = {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ServiceAccount"}


@pytest.fixture(scope="session")
def operator_kubeconfig(
    control_plane: LoopbackControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Credentials of the operator's service account, with the rights that the chart renders for it and no others."""
    return install_rights(control_plane, SYSTEM_NAMESPACE, tmp_path_factory.mktemp("rbac"))


def install_rights(control_plane: LoopbackControlPlane, namespace: str, folder: Path, *settings: str) -> Path:
    """Install the rights that the chart renders for the operator with these values; return its credentials.

    Args:
        control_plane: where.
        namespace: Laneway's own, which is created.
        folder: for the manifests.
        settings: as helm's ``--set`` takes them.
    """
    helm = ensure_built(["helm"])["helm"]
    rendered = subprocess.run(
        [
            str(helm),
            "template",
            "laneway",
            str(CHART),
            "--namespace",
            namespace,
            "--kube-version",
            "1.36.0",
            *(f"--set={each}" for each in settings),
            "--show-only",
            "templates/operator-rbac.yaml",
        ],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    manifests = [each for each in yaml.safe_load_all(rendered) if each and each["kind"] in _RBAC_KINDS]
    account = next(each for each in manifests if each["kind"] == "ServiceAccount")["metadata"]["name"]
    manifests.insert(0, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    path = folder / "rbac.yaml"
    path.write_text(yaml.safe_dump_all(manifests))
    kubectl = [str(control_plane.kubectl), "--kubeconfig", str(control_plane.kubeconfig)]
    subprocess.run([*kubectl, "apply", "-f", str(path)], check=True)
    until_bound(control_plane, manifests)
    return control_plane.kubeconfig_for(f"system:serviceaccount:{namespace}:{account}")


@pytest.fixture(scope="module")
def operator(
    request: pytest.FixtureRequest, operator_kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    """One replica for all tests of a module, with the module's own OPERATOR_CONFIG and OPERATOR_MODULE where it has them."""
    config = getattr(request.module, "OPERATOR_CONFIG", FAST)
    module = getattr(request.module, "OPERATOR_MODULE", "laneway.operator.main")
    folder = tmp_path_factory.mktemp("operator")
    with OperatorProcess(folder, operator_kubeconfig, SYSTEM_NAMESPACE, config, (module,)) as process:
        yield process
    print(process.log)


@asynccontextmanager
async def played_cluster(control_plane: LoopbackControlPlane) -> AsyncIterator[PlayedCluster]:
    """A namespace and nodes of one test's own."""
    namespace = f"t-{uuid.uuid4().hex[:8]}"
    async with await connect(control_plane.kubeconfig) as api:
        await add_namespace(api, namespace)
        played = PlayedCluster(api, namespace)
        heart = asyncio.create_task(played.beat())
        try:
            yield played
        finally:
            heart.cancel()
            await played.clean_up()
            await api.request("DELETE", f"/api/v1/namespaces/{namespace}")


@pytest.fixture
async def cluster(control_plane: LoopbackControlPlane) -> AsyncIterator[PlayedCluster]:
    """A namespace and nodes of the test's own."""
    async with played_cluster(control_plane) as played:
        yield played


@pytest.fixture
async def history(cluster: PlayedCluster) -> AsyncIterator[JobHistory]:
    """Every status of the test's jobs."""
    async with recorded(cluster.api, cluster.namespace) as found:
        yield found
