"""Wrong values are refused before anything reaches a cluster, with a sentence that names the value."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.chart.generated import CHART
from hack.verify.chart import conform, rendered, rendered_objects, write_schemas
from hack.verify.failure import CheckFailedError

SIMULATED = "gpu: {source: simulated, simulated: {gpus: [{count: 2}], nvlinks: [[0, 5]]}}"

WRONG = {
    "a misspelt group": ("operatr: {}", "additional properties 'operatr' not allowed"),
    "a switch that only a part of another chart has": ("enabled: false", "at '/enabled': value must be true"),
    "a misspelt value": (
        "operator: {replica: 2}",
        "at '/operator': additional properties 'replica' not allowed",
    ),
    "text for a number": ("operator: {replicas: two}", "at '/operator/replicas': got string, want integer"),
    "an unknown source of GPUs": (
        "gpu: {source: fake}",
        "at '/gpu/source': value must be one of 'nvml', 'simulated'",
    ),
    "simulated GPUs without any": (
        "gpu: {source: simulated}",
        "gpu.source is simulated, but gpu.simulated.gpus is empty: write the GPUs of a node, such as",
    ),
    "a group of no nodes": (
        "nodeGroups: {a100: {config: {enforcement: {level: MPS}}}}",
        "nodeGroups.a100: it has neither nodeSelector nor affinity: write which nodes it has, such as",
    ),
    "a group with lanes of its own": (
        "nodeGroups: {a100: {nodeSelector: {a: b}, config: {lanes: {maxPerGpu: 2}}}}",
        "at '/nodeGroups/a100/config/lanes': value must be '(the same for all groups: write it below node)'",
    ),
    "a misspelt value of a group": (
        "nodeGroups: {a100: {nodeSelektor: {a: b}}}",
        "additional properties 'nodeSelektor' not allowed",
    ),
    "two monitors": (
        "metrics: {podMonitor: {enabled: true}, serviceMonitor: {enabled: true}}",
        "metrics.podMonitor and metrics.serviceMonitor are both enabled: choose one",
    ),
    "secure metrics that a PodMonitor cannot read": (
        "metrics: {podMonitor: {enabled: true}, secure: {enabled: true}}",
        "metrics.secure and metrics.podMonitor are both enabled: enable metrics.serviceMonitor",
    ),
    "an alert that there is not": (
        "metrics: {prometheusRule: {disabled: {LanewayJobWaits: true}}}",
        "metrics.prometheusRule.disabled: there is no alert LanewayJobWaits: write one of LanewayOperatorDown, ",
    ),
    "an NVLink to a GPU that is not there": (
        SIMULATED,
        "gpu.simulated.nvlinks: [0, 5] must be two different indices from 0 to 1",
    ),
    "memory without a number": (
        "gpu: {source: simulated, simulated: {gpus: [{memory: plenty}]}}",
        "at '/gpu/simulated/gpus/0/memory': 'plenty' does not match pattern",
    ),
    "sharing that is neither": ("sharing: all", "at '/sharing': value must be one of 'off', 'lanes'"),
    "sharing for the nodes alone": (
        "node: {config: {sharing: lanes}}",
        "at '/node/config': additional properties 'sharing' not allowed",
    ),
    "the overcommit of an older chart": (
        "node: {config: {overcommitPercent: 200}}",
        "at '/node/config/overcommitPercent': value must be '(no longer a value: write sharing: lanes at the top of the values)'",
    ),
    "the active percent of an older chart": (
        "operator: {config: {scheduling: {activePercent: 100}}}",
        "at '/operator/config/scheduling/activePercent': value must be '(no longer a value: write sharing: lanes",
    ),
    "lanes as a placement policy": (
        "operator: {config: {scheduling: {placement: {policy: lanes}}}}",
        "at '/operator/config/scheduling/placement/policy': value must be '(no longer a value: write sharing: lanes",
    ),
    "reserved memory below none": (
        "node: {config: {reserveMebibytes: -1}}",
        "at '/node/config/reserveMebibytes': minimum: got -1, want 0",
    ),
    "an unknown turn policy": (
        "node: {config: {turns: {policy: random}}}",
        "value must be one of 'fair', 'las', 'pack', 'srtf'",
    ),
    "the source of GPUs said twice": (
        "node: {config: {gpuSource: nvml}}",
        "at '/node/config': additional properties 'gpuSource' not allowed",
    ),
    "an unknown order": (
        "operator: {config: {scheduling: {order: {policy: sjf}}}}",
        "'multilevel-las', 'srsf', 'srtf', 'tiresias-gittins', 'tiresias-las'",
    ),
    "a parameter that no order has": (
        "operator: {config: {scheduling: {order: {policy: fifo, options: {queues: 3}}}}}",
        "at '/operator/config/scheduling/order/options': additional properties 'queues' not allowed",
    ),
    "a leader that stops too late": (
        "operator: {config: {lease: {durationSeconds: 5}}}",
        "retrySeconds 2, renewDeadlineSeconds 10, durationSeconds 5: write them in rising order",
    ),
    "the planner's lanes apart from the nodes'": (
        "operator: {config: {lanes: {maxPerGpu: 2}}}",
        "at '/operator/config': additional properties 'lanes' not allowed",
    ),
    "an amount that is none": (
        "operator: {resources: {limits: {memory: much}}}",
        "at '/operator/resources/limits/memory'",
    ),
    "a relative folder": (
        "node: {kubeletFolder: var/lib/kubelet}",
        "at '/node/kubeletFolder': 'var/lib/kubelet' does not match pattern",
    ),
    "a socket whose folder would be all of the node's": (
        "node: {runtimeSocket: /containerd.sock}",
        "at '/node/runtimeSocket': '/containerd.sock' does not match pattern",
    ),
}


@pytest.mark.parametrize(("values", "sentence"), WRONG.values(), ids=WRONG.keys())
def test_wrong_values_are_refused(values_file: Callable[[str], Path], values: str, sentence: str) -> None:
    with pytest.raises(CheckFailedError) as refusal:
        rendered(values_file(values))
    assert sentence in str(refusal.value)


def needed(below: dict[str, Any], *path: str) -> Iterator[tuple[str, ...]]:
    """The paths of the values that the schema requires."""
    for name in below.get("required", ()):
        yield (*path, name)
        yield from needed(below["properties"][name], *path, name)


def removed(paths: Iterable[tuple[str, ...]]) -> str:
    """Values that remove these of the chart, as a key with nothing below it does."""
    values: dict[str, Any] = {}
    for path in paths:
        above = values
        for name in path[:-1]:
            above = above.setdefault(name, {})
        above[path[-1]] = None
    return json.dumps(values)


VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
NEEDED = tuple(needed(SCHEMA["allOf"][0]))


@pytest.mark.parametrize("depth", sorted({len(path) for path in NEEDED}))
def test_a_value_that_the_chart_needs_is_not_removed(values_file: Callable[[str], Path], depth: int) -> None:
    there = [path for path in NEEDED if len(path) == depth]
    with pytest.raises(CheckFailedError) as refusal:
        rendered(values_file(removed(there)))
    for *above, name in there:
        at = "".join(f"/{part}" for part in above)
        assert re.search(rf"at '{at}': missing propert[^\n]*'{name}'", str(refusal.value))


EVERY_OPTION = """
crds: {enabled: true}
operator:
  podDisruptionBudget: {enabled: true}
  config: {bindPods: true}
node:
  namespace: laneway-nodes
  createNamespace: true
  config: {enforcement: {level: MPS}}
  admissionPolicy: {enabled: true}
board: {enabled: true, tlsSecretName: board}
pods: {admissionPolicy: {enabled: true}}
metrics:
  prometheusRule: {enabled: true}
  dashboards: {enabled: true}
networkPolicy: {enabled: true}
"""
MONITORED = {
    "a PodMonitor, groups of nodes": """
metrics: {podMonitor: {enabled: true}}
node: {config: {driverRoot: /home/kubernetes/bin/nvidia}}
nodeGroups: {a100: {nodeSelector: {pool: a100}}}
""",
    "a ServiceMonitor, secure metrics": """
metrics: {serviceMonitor: {enabled: true}, secure: {enabled: true, tlsSecret: laneway-metrics}}
""",
}
"""The two ways to monitor exclude each other."""
DEFAULTED_BY_KUBERNETES = {"replicas", "imagePullPolicy", "resources", "updateStrategy"}
"""Fields of Kubernetes' own kinds that may be null: the API server takes that as if they were not there, and has a default."""


def merged(one: Any, other: Any) -> Any:
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return other
    return one | {name: merged(one[name], value) if name in one else value for name, value in other.items()}


def without_others(
    values: dict[str, Any], schema: dict[str, Any], options: dict[str, Any], *path: str, alone: bool
) -> dict[str, Any]:
    """These options, and null for each of the chart's other values that may be null: with all below it, or alone."""
    result = dict(options)
    for name, value in values.items():
        below = schema["properties"].get(name, {})
        chosen = options.get(name, {})
        if not isinstance(chosen, dict):
            continue
        if isinstance(value, dict) and "properties" in below and (alone or chosen or (*path, name) in NEEDED):
            result[name] = without_others(value, below, chosen, *path, name, alone=alone)
        elif (*path, name) not in NEEDED and not chosen:
            result[name] = None
    return result


def leaves(found: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The values in an object that are no objects and lists, with their paths."""
    if isinstance(found, dict):
        for name, value in found.items():
            yield from leaves(value, *path, name)
    elif isinstance(found, list):
        for value in found:
            yield from leaves(value, *path)
    else:
        yield path, found


def without_defaulted(found: Any) -> Any:
    """An object without the null fields for which Kubernetes has a default."""
    if isinstance(found, list):
        return [without_defaulted(value) for value in found]
    if not isinstance(found, dict):
        return found
    return {
        name: without_defaulted(value)
        for name, value in found.items()
        if value is not None or name not in DEFAULTED_BY_KUBERNETES
    }


def paths(values: dict[str, Any], *above: str) -> Iterator[tuple[str, ...]]:
    for name, value in values.items():
        yield (*above, name)
        if isinstance(value, dict):
            yield from paths(value, *above, name)


@pytest.fixture(scope="module")
def crd_schemas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("schemas")
    write_schemas(folder)
    return folder


def test_every_option_is_tried_without_the_other_values() -> None:
    enabled = {path for path in paths(VALUES) if path[-1] == "enabled"}
    tried = {path for text in (EVERY_OPTION, *MONITORED.values()) for path in paths(yaml.safe_load(text))}
    assert enabled <= tried


@pytest.mark.parametrize("alone", [False, True], ids=["with all below it", "alone"])
@pytest.mark.parametrize("monitored", MONITORED.values(), ids=MONITORED.keys())
def test_every_other_value_can_be_removed(
    values_file: Callable[[str], Path], crd_schemas: Path, monitored: str, alone: bool
) -> None:
    options = merged(yaml.safe_load(EVERY_OPTION), yaml.safe_load(monitored))
    values = without_others(VALUES, SCHEMA, options, alone=alone)
    removable = {path for path, value in leaves(values) if value is None}
    assert {("commonLabels",), ("operator", "podLabels"), ("node", "agent", "capabilities")} <= removable
    assert (("metrics", "prometheusRule", "thresholds", "evictions") in removable) == alone

    found = [without_defaulted(each) for each in rendered_objects(values_file(json.dumps(values)))]
    for each in found:
        for path, value in leaves(each):
            assert value is not None, (each["metadata"]["name"], path)
            if path[-1] == "mountPath" or path[-2:] == ("hostPath", "path"):
                assert value.startswith("/"), (each["metadata"]["name"], path)
    conform(crd_schemas, yaml.dump_all(found, Dumper=yaml.CSafeDumper))

    def names(objects: list[dict[str, Any]]) -> set[tuple[str, str]]:
        return {(each["kind"], each["metadata"]["name"]) for each in objects}

    classes = {"operator": {"priorityClassName": ""}, "node": {"priorityClassName": ""}}
    assert names(found) == names(rendered_objects(values_file(json.dumps(merged(options, classes)))))


@pytest.mark.parametrize("alone", [False, True], ids=["with all below it", "alone"])
def test_every_option_can_be_removed_too(values_file: Callable[[str], Path], alone: bool) -> None:
    values = without_others(VALUES, SCHEMA, {}, alone=alone)
    assert values["board"]["enabled"] is None
    assert "kind: DaemonSet" in rendered(values_file(json.dumps(values)))
