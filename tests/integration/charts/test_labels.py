"""Labels that an administrator sets beside the chart's own."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from hack.verify.chart import rendered


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
