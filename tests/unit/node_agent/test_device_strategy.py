"""Which device strategy a node gets, and why."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.api.inventory import DeviceAccess
from laneway.node_agent.devices.strategy import STRATEGIES, DeviceFacts, device_access
from laneway.node_agent.gpus.protocol import GPUInfo

REAL = tuple(GPUInfo(f"GPU-{n}", n, "NVIDIA", 1 << 30, device_paths=(f"/dev/nvidia{n}",)) for n in range(2))
SIMULATED = tuple(replace(gpu, simulated=True, device_paths=()) for gpu in REAL)
WITH_NODES = tuple(replace(gpu, simulated=True) for gpu in REAL)
NAMED = frozenset({"GPU-0", "GPU-1", "0", "1", "all"})
CONTROL = ("/dev/nvidiactl",)
BARE = DeviceFacts(REAL, "containerd://2.1.4", control_paths=CONTROL)
OLD = "containerd://1.7.27"
NVIDIA, OWN = "nvidia.com/gpu", "laneway.dev/gpu"


@pytest.mark.parametrize(
    ("facts", "strategy", "kind", "says"),
    [
        (
            replace(BARE, cdi_names=NAMED),
            "cdi",
            NVIDIA,
            "a CDI spec on the node names each GPU as nvidia.com/gpu",
        ),
        (replace(BARE, driver_root="/driver"), "cdi", OWN, "the agent's own CDI spec names each GPU"),
        (replace(BARE, runtime="cri-o://1.33.0", cdi_names=NAMED), "cdi", NVIDIA, "strongest"),
        (
            replace(BARE, runtime=OLD, cdi_names=NAMED, driver_root="/driver"),
            "device-specs",
            "",
            f"no cdi: {OLD} resolves CDI names only if it is configured to",
        ),
        (
            replace(BARE, cdi_names=frozenset({"GPU-0"}), accepts_mounts=True),
            "volume-mounts",
            "",
            "no cdi: no CDI spec on the node names each GPU by its UUID",
        ),
        (BARE, "device-specs", "", "no volume-mounts: NVIDIA's container runtime does not accept them"),
        (BARE, "device-specs", "", "so the driver's libraries come from NVIDIA's container runtime"),
        (replace(BARE, trusts_environment=False), "device-specs", "", "that runtime does not add them"),
        (
            replace(BARE, runtime=""),
            "device-specs",
            "",
            "the container runtime is not known (the Node has not been read)",
        ),
        (
            replace(BARE, gpus=(replace(REAL[0], device_paths=()),), driver_root="/driver"),
            "device-specs",
            "",
            "no device-specs: the driver names no device node",
        ),
        (replace(BARE, gpus=WITH_NODES), "cdi", OWN, "the agent's own CDI spec"),
        (replace(BARE, gpus=WITH_NODES, runtime=OLD), "device-specs", "", f"no cdi: {OLD}"),
        (replace(BARE, gpus=SIMULATED), None, "", "simulated GPUs have no device"),
    ],
)
def test_auto_takes_the_strongest_and_says_why(
    facts: DeviceFacts, strategy: str | None, kind: str, says: str
) -> None:
    access = device_access("auto", facts)

    assert (access.strategy, access.cdi_kind) == (strategy, kind)
    assert says in access.reason
    assert access.runtime == facts.runtime


def test_a_configured_strategy_is_taken_and_its_problem_is_published() -> None:
    bare = replace(BARE, trusts_environment=False)
    assert device_access("cdi", bare) == DeviceAccess(
        strategy="cdi",
        reason="configured, although no CDI spec on the node names each GPU by its UUID as nvidia.com/gpu, and "
        "without driverRoot, device nodes alone come without the driver's libraries",
        cdi_kind=OWN,
        control_paths=CONTROL,
        runtime=BARE.runtime,
    )
    assert device_access("env", replace(BARE, cdi_names=NAMED)).reason == "configured"


def test_a_runtime_that_follows_a_pods_own_variable_is_published() -> None:
    trusting = replace(BARE, cdi_names=NAMED, trusts_environment=True)

    assert "follows a pod's own NVIDIA_VISIBLE_DEVICES" in device_access("auto", trusting).reason
    assert "follows" not in device_access("auto", replace(trusting, trusts_environment=False)).reason
    assert "follows" not in device_access("volume-mounts", trusting).reason
    unknown = device_access("auto", replace(trusting, trusts_environment=None)).reason
    assert "finds no config.toml of NVIDIA's runtime, which may follow" in unknown


facts = st.builds(
    DeviceFacts,
    gpus=st.sampled_from([REAL, SIMULATED, WITH_NODES, (*SIMULATED[:1], *WITH_NODES[1:])]),
    runtime=st.sampled_from(["", OLD, "containerd://2.0.0", "cri-o://1.33.1", "docker://27.0.1"]),
    cdi_names=st.sampled_from([frozenset(), NAMED]),
    accepts_mounts=st.booleans(),
    driver_root=st.sampled_from(["", "/driver"]),
)


@given(facts)
def test_auto_takes_the_strongest_and_never_the_environment(found: DeviceFacts) -> None:
    """More support never leads to a weaker strategy, and a weaker one always has its reason."""
    access = device_access("auto", found)
    more = device_access("auto", replace(found, cdi_names=NAMED, accepts_mounts=True)).strategy
    if access.strategy is None or more is None:
        assert access.strategy == more
        return
    assert access.strategy != "env"
    assert "env" not in access.reason.replace("envvar", "")
    # Device nodes are also what is left where the needs of none are certain to be met.
    certain = access.strategy != "device-specs" or "so the driver's libraries" not in access.reason
    chosen = STRATEGIES.index(access.strategy if certain else "env")
    assert STRATEGIES.index(more) <= chosen
    for stronger in STRATEGIES[:chosen]:
        assert f"no {stronger}: " in access.reason
