"""Labels that an administrator sets beside the chart's own."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from hack.chart.generated import CHART
from hack.verify.chart import rendered, rendered_objects


class _Strict(yaml.SafeLoader):
    """Refuses a key that a mapping has twice, as kustomize and Flux do."""


def _mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[object, object]:
    keys = [loader.construct_object(key) for key, _ in node.value]
    assert len(keys) == len(set(keys)), f"line {node.start_mark.line}: {sorted(map(str, keys))}"
    return dict(loader.construct_pairs(node, deep=True))


_Strict.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


@pytest.mark.parametrize("label", ["app.kubernetes.io/part-of", "app.kubernetes.io/component", "team"])
def test_no_label_is_written_twice(tmp_path: Path, label: str) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(f"commonLabels: {{{label}: ml-platform}}")
    assert list(yaml.load_all(rendered(values), Loader=_Strict))


def test_no_label_that_the_chart_sets_is_written_twice_or_replaced(tmp_path: Path) -> None:
    def found(common: dict[str, str]) -> list[dict[str, str]]:
        values = tmp_path / "values.yaml"
        values.write_text(yaml.safe_dump(yaml.safe_load(ALL % "serviceMonitor") | {"commonLabels": common}))
        text = rendered(values, "--set", "crds.enabled=false")  # a CRD takes the loader a second
        objects = [each for each in yaml.load_all(text, Loader=_Strict) if each]
        templates = [each["spec"]["template"] for each in objects if "template" in each.get("spec", {})]
        return [each["metadata"].get("labels", {}) for each in (*objects, *templates)]

    own = found({})
    keys = {key for labels in own for key in labels}
    assert "rbac.authorization.k8s.io/aggregate-to-edit" in keys
    for before, after in zip(own, found(dict.fromkeys(keys, "common")), strict=True):
        assert before.items() <= after.items()


@pytest.mark.parametrize("variant", ["all-options", "groups"])
def test_one_label_finds_every_pod_of_laneway(variant: str) -> None:
    """`laneway doctor` lists the pods by it."""
    found = rendered_objects(CHART / "ci" / f"{variant}-values.yaml")
    pods = {
        each["metadata"]["labels"]["app.kubernetes.io/component"]: each["spec"]["template"]["metadata"][
            "labels"
        ]
        for each in found
        if each["kind"] in ("Deployment", "DaemonSet")
    }
    assert pods.keys() == {"operator", "node", "mps-daemon", "board"}
    for component, labels in pods.items():
        assert labels["app.kubernetes.io/part-of"] == "laneway", component
        assert labels["app.kubernetes.io/component"] == component


ALL = """
operator: {podAnnotations: {laneway.dev/config-hash: x}}
node: {namespace: laneway-nodes, podAnnotations: {laneway.dev/config-hash: x}}
board: {enabled: true}
commonLabels: {release: common, grafana_dashboard: "0", pod-security.kubernetes.io/enforce: baseline}
metrics:
  dashboards: {labels: {release: grafana}}
  prometheusRule: {enabled: true, labels: {release: prometheus}}
  %s: {enabled: true, labels: {release: prometheus, app.kubernetes.io/part-of: x}}
"""


@pytest.mark.parametrize("monitor", ["podMonitor", "serviceMonitor"])
def test_an_objects_own_labels_and_annotations_come_before_the_common_ones(
    tmp_path: Path, monitor: str
) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(ALL % monitor)
    found = [each for each in yaml.load_all(rendered(values), Loader=_Strict) if each]
    labels = {(each["kind"], each["metadata"]["name"]): each["metadata"]["labels"] for each in found}
    releases = {kind: each["release"] for (kind, _), each in labels.items() if each["release"] != "common"}
    kind = monitor[0].upper() + monitor[1:]
    assert releases == {kind: "prometheus", "PrometheusRule": "prometheus", "ConfigMap": "grafana"}
    assert labels[kind, "laneway"]["app.kubernetes.io/part-of"] == "laneway"
    assert labels["ConfigMap", "laneway-dashboards"]["grafana_dashboard"] == "1"
    assert labels["Namespace", "laneway-nodes"]["pod-security.kubernetes.io/enforce"] == "privileged"
    pods = [
        each["spec"]["template"]["metadata"] for each in found if each["kind"] in ("Deployment", "DaemonSet")
    ]
    hashes = [each["annotations"]["laneway.dev/config-hash"] for each in pods if "annotations" in each]
    assert [len(each) for each in hashes] == [16, 16]
