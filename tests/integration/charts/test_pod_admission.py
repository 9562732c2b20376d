"""The chart's policy on a real API server: nothing that a pod's author writes gives it more than its share."""

from __future__ import annotations

import copy
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from laneway.api import names
from laneway.api.reserved_names import OPERATORS_ANNOTATIONS, OPERATORS_LABELS, PLUGINS_PATHS, USERS_VARIABLES

from hack.chart.generated import CHART
from hack.cluster.control_plane import LoopbackControlPlane
from hack.verify.chart import rendered, rendered_objects

NAMESPACE = "authors"
OPERATOR = "system:serviceaccount:laneway-system:laneway-operator"
POLICY_TIMEOUT_SECONDS = 60.0

Raw = dict[str, Any]
Done = subprocess.CompletedProcess[str]


class Author:
    """Someone who may do anything in the cluster, and is not the operator."""

    def __init__(self, plane: LoopbackControlPlane) -> None:
        self._plane = plane

    def kubectl(self, *arguments: str, manifest: Raw | None = None) -> Done:
        command = [str(self._plane.kubectl), "--kubeconfig", str(self._plane.kubeconfig), *arguments]
        text = json.dumps(manifest) if manifest else None
        return subprocess.run(command, input=text, capture_output=True, text=True, check=False)

    def create(self, pod: Raw, *options: str) -> Done:
        return self.kubectl("create", "-f", "-", *options, manifest=pod)

    def tries(self, pod: Raw) -> Done:
        """Asks the API server for a pod without getting it."""
        return self.create(pod, "--dry-run=server")

    def patches(self, name: str, change: Raw, *options: str) -> Done:
        return self.kubectl(
            *("patch", "pod", name, "-n", NAMESPACE, "--type=strategic", *options, "-p", json.dumps(change))
        )


def a_pod(name: str = "p", *, share: str = "1") -> Raw:
    limits = {"limits": {names.GPU_PERCENT: share}} if share else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"containers": [{"name": "trainer", "image": "i", "resources": limits}]},
    }


def setting(variable: str, pod: Raw | None = None, kind: str = "containers", value: str = "all") -> Raw:
    """A pod in which a container of its own kind sets a variable."""
    pod = copy.deepcopy(pod or a_pod())
    if kind == "containers":
        container = pod["spec"]["containers"][0]
    else:
        container = {"name": "first", "image": "i"}
        pod["spec"].setdefault(kind, []).append(container)
    container["env"] = [{"name": "HOME", "value": "/"}, {"name": variable, "value": value}]
    return pod


def with_metadata(kind: str, key: str, value: str = "1", pod: Raw | None = None) -> Raw:
    pod = copy.deepcopy(pod or a_pod())
    pod["metadata"][kind] = {"team": "x", key: value}
    return pod


def mounting(path: str) -> Raw:
    pod = a_pod()
    pod["spec"]["volumes"] = [{"name": "own", "emptyDir": {}}, {"name": "data", "hostPath": {"path": path}}]
    return pod


def covering(path: str, pod: Raw | None = None, kind: str = "containers") -> Raw:
    """A pod whose last container of a kind mounts volumes of the pod's own."""
    pod = copy.deepcopy(pod or a_pod())
    pod["spec"]["volumes"] = [{"name": "own", "emptyDir": {}}, {"name": "script", "configMap": {"name": "m"}}]
    mounts = [{"name": "script", "mountPath": "/script"}, {"name": "own", "mountPath": path}]
    pod["spec"][kind][-1]["volumeMounts"] = mounts
    return pod


@pytest.fixture(scope="module")
def author(installed: LoopbackControlPlane) -> Iterator[Author]:
    """In a namespace of its own, once the policy is in force: the API server compiles it a little after it has stored it."""
    made = Author(installed)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    assert made.kubectl("create", "-f", "-", manifest=namespace).returncode == 0
    account = ("wait", "--for=create", "serviceaccount/default", "-n", NAMESPACE, "--timeout=60s")
    assert made.kubectl(*account).returncode == 0
    deadline = time.monotonic() + POLICY_TIMEOUT_SECONDS
    while made.tries(setting("NVIDIA_VISIBLE_DEVICES")).returncode == 0:
        assert time.monotonic() < deadline, "the policy never came into force"
    yield made
    made.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def refused(done: Done, *sentences: str) -> None:
    assert done.returncode != 0, done.stdout
    for sentence in sentences:
        assert sentence in done.stderr
    assert "Forbidden" in done.stderr


def taken(done: Done) -> None:
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", ["containers", "initContainers"])
@pytest.mark.parametrize(
    "variable",
    [
        "NVIDIA_VISIBLE_DEVICES",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
        "CUDA_MPS_ANYTHING",
        "LANEWAY_DIR",
        "LANEWAY_JOB",
        "LANEWAY_BATCH",
    ],
)
def test_a_reserved_variable_is_refused_in_any_container(author: Author, variable: str, kind: str) -> None:
    who = {"containers": "container trainer", "initContainers": "init container first"}[kind]
    refused(
        author.tries(setting(variable, kind=kind)),
        f"{who} sets {variable}, which is reserved in a pod with a share of a GPU: leave it out",
        "a pod may set LANEWAY_FIT, ",
    )


@pytest.mark.parametrize(
    "variable", [*USERS_VARIABLES, "CUDA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "MY_LANEWAY_DIR"]
)
def test_a_users_own_variable_is_taken(author: Author, variable: str) -> None:
    taken(author.tries(setting(variable)))


def test_a_variable_whose_value_comes_from_elsewhere_is_refused_too(author: Author) -> None:
    pod = setting("NVIDIA_VISIBLE_DEVICES")
    source = {"configMapKeyRef": {"name": "m", "key": "k"}}
    pod["spec"]["containers"][0]["env"][1] = {"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": source}
    refused(author.tries(pod), "sets NVIDIA_VISIBLE_DEVICES")


def test_a_share_of_an_init_container_counts_and_a_sidecar_is_held_to_it(author: Author) -> None:
    pod = a_pod(share="")
    limits = {"limits": {names.GPU_PERCENT: "1"}}
    pod["spec"]["initContainers"] = [{"name": "warm-up", "image": "i", "resources": limits}]
    pod["spec"]["containers"].append(
        {"name": "sidecar", "image": "i", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
    )
    refused(author.tries(pod), "container sidecar sets NVIDIA_VISIBLE_DEVICES")


def test_pods_without_a_share_are_not_the_policys_business(author: Author) -> None:
    plain = a_pod(share="")
    taken(author.tries(setting("NVIDIA_VISIBLE_DEVICES", plain)))
    taken(author.tries(with_metadata("labels", names.JOB_LABEL, pod=plain)))


def test_an_ephemeral_container_is_held_to_the_same(author: Author) -> None:
    taken(author.create(a_pod("debugged")))

    def debugging(name: str, variable: str) -> Done:
        container = {"name": name, "image": "i", "env": [{"name": variable, "value": "all"}]}
        change = {"spec": {"ephemeralContainers": [container]}}
        return author.patches("debugged", change, "--subresource=ephemeralcontainers")

    taken(debugging("fine", "CUDA_VISIBLE_DEVICES"))
    refused(
        debugging("shell", "NVIDIA_VISIBLE_DEVICES"), "ephemeral container shell sets NVIDIA_VISIBLE_DEVICES"
    )
    taken(debugging("another", "HOME"))


KEYS = [
    *(("labels", key, "label") for key in OPERATORS_LABELS),
    *(("annotations", key, "annotation") for key in OPERATORS_ANNOTATIONS),
]


@pytest.mark.parametrize(("kind", "key", "word"), KEYS, ids=[key for _, key, _ in KEYS])
def test_only_the_operator_writes_what_it_writes(
    author: Author, account: Callable[..., Any], kind: str, key: str, word: str
) -> None:
    pod = with_metadata(kind, key)
    refused(
        author.tries(pod),
        f"metadata sets the {word} {key}, which only Laneway's operator writes on a pod with a share of a GPU: leave it out",
    )
    operator = account("laneway-operator")
    taken(operator.kubectl("create", "-f", "-", "--dry-run=server", manifest=pod))


@pytest.mark.parametrize(("kind", "key", "word"), KEYS, ids=[key for _, key, _ in KEYS])
def test_a_binding_cannot_give_a_pod_what_the_operator_writes(
    author: Author, kind: str, key: str, word: str
) -> None:
    name = f"bound-{key.rpartition('/')[2]}"
    pod = a_pod(name)
    pod["spec"]["schedulerName"] = "the-test"
    taken(author.create(pod))
    binding: Raw = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": NAMESPACE, kind: {"team": "x", key: "1"}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }

    def binds(path: str) -> Done:
        return author.kubectl(
            "create", "--raw", f"/api/v1/namespaces/{NAMESPACE}/{path}", "-f", "-", manifest=binding
        )

    for path in (f"pods/{name}/binding", "bindings"):
        done = binds(path)
        assert done.returncode != 0
        assert (
            f"the Binding's metadata sets the {word} {key}, which only Laneway's operator writes"
            in done.stderr
        )
    binding["metadata"][kind] = {"team": "x"}
    taken(binds(f"pods/{name}/binding"))


@pytest.mark.parametrize("options", [(), ("--subresource=status",)], ids=["pod", "status"])
def test_a_pod_that_runs_cannot_be_given_them(author: Author, options: tuple[str, ...]) -> None:
    name = f"runs-{len(options)}"
    taken(author.create(a_pod(name)))
    for key, value in ((names.SHARING_ANNOTATION, "Exclusive"), (names.GPUS_ANNOTATION, "GPU-0")):
        change = {"metadata": {"annotations": {key: value}}}
        refused(author.patches(name, change, *options), f"metadata sets the annotation {key}")
    taken(author.patches(name, {"metadata": {"annotations": {"note": "x"}}}, *options))
    taken(author.patches(name, {"metadata": {"annotations": {names.MINIMUM_ENFORCEMENT_ANNOTATION: "MPS"}}}))


def test_a_workers_metadata_may_be_kept_and_not_be_changed(
    author: Author, account: Callable[..., Any]
) -> None:
    worker = setting("LANEWAY_JOB", with_metadata("labels", names.JOB_LABEL, "digits", a_pod("digits-0")))
    worker["spec"]["containers"][0]["env"].append({"name": "LANEWAY_BATCH", "value": "512"})
    taken(account("laneway-operator").kubectl("create", "-f", "-", manifest=worker))
    taken(author.patches("digits-0", {"metadata": {"labels": {"team": "z"}}}))
    change = {"metadata": {"labels": {names.JOB_LABEL: "other"}}}
    refused(author.patches("digits-0", change), f"metadata sets the label {names.JOB_LABEL}")


def test_a_worker_cannot_be_hidden_from_the_operator(author: Author, account: Callable[..., Any]) -> None:
    worker = with_metadata("labels", names.JOB_LABEL, "digits", a_pod("digits-1"))
    worker["metadata"]["annotations"] = {names.SPANS_GPUS_ANNOTATION: "true"}
    operator = account("laneway-operator")
    taken(operator.kubectl("create", "-f", "-", manifest=worker))
    for kind, key, word in (
        ("labels", names.JOB_LABEL, "label"),
        ("annotations", names.SPANS_GPUS_ANNOTATION, "annotation"),
    ):
        removal = {"metadata": {kind: {key: None}}}
        refused(author.patches("digits-1", removal), f"metadata no longer has the {word} {key}, by which")
    taken(author.patches("digits-1", {"metadata": {"labels": {"team": None}}}))


def test_the_operators_pods_are_held_to_the_variables_too(account: Callable[..., Any]) -> None:
    operator = account("laneway-operator")
    for pod, sentence in (
        (setting("NVIDIA_VISIBLE_DEVICES"), "container trainer sets NVIDIA_VISIBLE_DEVICES"),
        (mounting("/run/laneway"), "volume data mounts the node's /run/laneway"),
    ):
        refused(operator.kubectl("create", "-f", "-", "--dry-run=server", manifest=pod), sentence)


@pytest.mark.parametrize(
    "path",
    [
        "/run/laneway",
        "/var/run/laneway/containers",
        "//run/./laneway/",
        "/var/lib/laneway/client",
        "/var/lib/kubelet/device-plugins",
        "/dev/nvidia0",
        "/dev/nvidia-caps/nvidia-cap1",
        "/dev/nvidiactl",
        "/dev/null",
        "/proc/1/root",
        "/sys/fs/cgroup/kubepods.slice",
        "/var/run/cdi",
        "/etc/cdi/nvidia.yaml",
        "/etc/nvidia-container-runtime",
        "/run/containerd/containerd.sock",
        "/var/run/crio",
        "/run/k3s/containerd/containerd.sock",
        "/run/k0s",
        "/var/run/docker.sock",
        "/run/docker/containerd",
        "/run/cri-dockerd.sock",
        # What holds one of them:
        "/",
        "/dev/",
        "/run",
        "/var",
        "/var/lib/kubelet",
        "/etc",
        "/sys",
    ],
)
def test_a_mount_that_leads_to_other_gpus_is_refused(author: Author, path: str) -> None:
    refused(author.tries(mounting(path)), f"volume data mounts the node's {path}, by which")


@pytest.mark.parametrize(
    "path",
    [
        "/data",
        "/var/lib/laneway-shared",
        "/run/laneways",
        "/etc/ssl",
        "/sys/class",
        "/dev/shm",
        "/dev/infiniband",
        "/ru",
        "/mnt/dev",
    ],
)
def test_other_folders_of_the_node_are_not(author: Author, path: str) -> None:
    taken(author.tries(mounting(path)))


@pytest.mark.parametrize(
    "path",
    [
        *PLUGINS_PATHS,
        "/run/laneway/agent.sock",
        "/opt/laneway/sitecustomize.py",
        "//run/./laneway/",
        "run/laneway",
        "/var/run/laneway",
        "/data/../run/laneway",
        # What holds one of them:
        "/run",
        "/var/run/",
        "/opt",
        "/etc",
    ],
)
def test_a_volume_over_what_the_plugin_mounts_is_refused(author: Author, path: str) -> None:
    refused(
        author.tries(covering(path)),
        f"container trainer mounts a volume at {path}, where a container with a share of a GPU has Laneway's client",
        "mount it elsewhere, neither at, below or above /run/laneway, /run/laneway-mps, /opt/laneway, /etc/ld.so.preload nor with",
    )


@pytest.mark.parametrize(
    "path", ["/data", "/opt/data", "/run/laneways", "/etc/ssl", "/var", "/mnt/opt/laneway"]
)
def test_other_volumes_are_taken(author: Author, path: str) -> None:
    taken(author.tries(covering(path)))


def test_every_container_with_a_share_is_held_to_it_and_no_other(author: Author) -> None:
    init = a_pod(share="")
    limits = {"limits": {names.GPU_PERCENT: "1"}}
    init["spec"]["initContainers"] = [{"name": "warm-up", "image": "i", "resources": limits}]
    refused(
        author.tries(covering("/opt/laneway", init, "initContainers")),
        "init container warm-up mounts a volume at /opt/laneway",
    )
    taken(author.tries(covering("/opt/laneway", init)))
    beside = a_pod()
    beside["spec"]["containers"].append({"name": "sidecar", "image": "i"})
    taken(author.tries(covering("/run", beside)))
    beside["spec"]["containers"][1]["resources"] = limits
    refused(author.tries(covering("/run", beside)), "container sidecar mounts a volume at /run")


def test_the_nodes_processes_are_not_shown(author: Author) -> None:
    pod = a_pod()
    refused(
        author.tries({**pod, "spec": {**pod["spec"], "hostPID": True}}), "hostPID shows a pod with a share"
    )
    taken(
        author.tries({**pod, "spec": {**pod["spec"], "hostPID": False, "hostNetwork": True, "hostIPC": True}})
    )


def test_folders_that_the_chart_is_told_are_protected_too(values_file: Callable[[str], Any]) -> None:
    values = values_file(
        "node: {nvidiaRuntimeFolder: /usr/local/nvidia/toolkit/config, cdiFolder: /run/own/cdi/, runtimeSocket: /opt/own/runtime.sock}"
    )
    paths = next(line for line in rendered(values).splitlines() if '"/dev/nvidia"' in line)
    for path in (
        "/usr/local/nvidia/toolkit/config/",
        "/run/own/cdi/",
        "/var/run/own/cdi/",
        "/opt/own/runtime.sock/",
    ):
        assert f'"{path}"' in paths
    assert '"//"' not in next(
        line
        for line in rendered(
            values_file("node: {cdiFolder: '', nvidiaRuntimeFolder: '', runtimeSocket: ''}")
        ).splitlines()
        if '"/dev/nvidia"' in line
    )


def test_many_variables_and_volumes_are_read_within_the_budget(author: Author) -> None:
    """The API server ends an expression that costs too much, and then refuses the pod."""
    pod = a_pod()
    pod["spec"]["containers"][0]["env"] = [{"name": f"V{number}", "value": "x"} for number in range(2000)]
    pod["spec"]["volumes"] = [
        {"name": f"v{number}", "hostPath": {"path": f"/data/of/team/{number}/in/a/deep/folder"}}
        for number in range(200)
    ]
    pod["spec"]["containers"][0]["volumeMounts"] = [
        {"name": f"v{number}", "mountPath": f"/data/of/team/{number}/in/a/deep/folder"}
        for number in range(200)
    ]
    taken(author.tries(pod))
    refused(
        author.tries(setting("NVIDIA_VISIBLE_DEVICES", pod, "initContainers")), "init container first sets"
    )


def test_the_policy_can_be_switched_off(values_file: Callable[[str], Any]) -> None:
    off = values_file("pods: {admissionPolicy: {enabled: false}}")
    assert "-pods.laneway-system.laneway.dev" in rendered(CHART / "ci" / "simulated-values.yaml")
    assert "-pods.laneway-system.laneway.dev" not in rendered(off)


@pytest.fixture
def sharing(author: Author) -> Iterator[None]:
    """The policy is that of a chart with shared GPUs, and afterwards again what it was."""

    def put_in_force(value: str, condition: Callable[[], bool]) -> None:
        objects = rendered_objects(CHART / "ci" / "simulated-values.yaml", "--set", f"sharing={value}")
        policies = [each for each in objects if each["kind"] == "ValidatingAdmissionPolicy"]
        listed = {"apiVersion": "v1", "kind": "List", "items": policies}
        taken(author.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", manifest=listed))
        deadline = time.monotonic() + POLICY_TIMEOUT_SECONDS
        while not condition():
            assert time.monotonic() < deadline, f"the policy of sharing {value} never came into force"

    taken(author.create(a_pod("from-before")))
    put_in_force("lanes", lambda: author.tries(a_pod()).returncode != 0)
    yield
    put_in_force("off", lambda: author.tries(a_pod()).returncode == 0)


@pytest.mark.usefixtures("sharing")
def test_only_workers_have_shares_of_gpus_that_jobs_share(author: Author) -> None:
    refused(author.tries(a_pod()), "template of a TrainingJob", 'sharing to "off"')
    taken(author.create(a_pod(), "--dry-run=server", "--as", OPERATOR))
    taken(author.tries(a_pod(share="")))
    taken(author.patches("from-before", {"metadata": {"labels": {"team": "y"}}}))
