"""TrainingJob's model: defaults, round trip, and what the checked-in CRDs say."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from laneway.api import generate_crds
from laneway.api.gpu_node import SessionStatus
from laneway.api.schema import MAX_COUNTER
from laneway.api.training_job import TrainingJobSpec
from laneway.api.training_job_status import TrainingJobStatus

TEMPLATE = {"spec": {"containers": [{"name": "trainer", "image": "training:1"}]}}
CRDS = Path(__file__).parents[4] / "crds"
SESSION = {
    "key": "k",
    "namespace": "n",
    "pod": "p",
    "podUID": "u",
    "container": "c",
    "sharePercent": 1,
    "quotaBytes": 1,
    "state": "Allocated",
}


def test_a_short_spec_is_filled_with_defaults() -> None:
    spec = TrainingJobSpec.model_validate(
        {"gpus": {"type": "Share", "sharePercent": 50}, "template": TEMPLATE}
    )
    assert (spec.workers, spec.sharing, spec.placement, spec.preemption.mode) == (1, "Lanes", "Auto", "Auto")
    assert spec.effective_grace_period_seconds == 30
    assert not spec.spans_gpus


@pytest.mark.parametrize(
    ("workers", "gpus", "spans"),
    [(1, {"type": "Count", "count": 2}, True), (2, {"type": "Share", "sharePercent": 5}, True)],
)
def test_a_job_on_several_gpus_is_known_as_such(workers: int, gpus: dict[str, int], spans: bool) -> None:
    spec = TrainingJobSpec.model_validate({"workers": workers, "gpus": gpus, "template": TEMPLATE})
    assert spec.spans_gpus is spans


def test_a_field_of_a_newer_crd_is_ignored() -> None:
    """The API server refuses fields that its CRD does not have."""
    known = {"gpus": {"type": "Share", "sharePercent": 50}, "template": TEMPLATE}
    assert TrainingJobSpec.model_validate({**known, "later": 2}) == TrainingJobSpec.model_validate(known)


def test_a_status_of_a_newer_writer_is_still_read() -> None:
    status = TrainingJobStatus.model_validate({"attempt": 2, "invented": {"later": True}})
    assert status.attempt == 2


def test_the_uid_of_a_pod_is_spelled_as_kubernetes_spells_it() -> None:
    assert SessionStatus.model_validate(SESSION).to_json()["podUID"] == "u"


def test_the_checked_in_crds_are_current() -> None:
    assert generate_crds.main(["--check", "--out", str(CRDS)]) == 0


def test_a_stale_crd_is_noticed(tmp_path: Path) -> None:
    assert generate_crds.main(["--out", str(tmp_path)]) == 0
    stale = tmp_path / "gpunodes.yaml"
    stale.write_text(stale.read_text().replace("Cluster", "Namespaced"))
    assert generate_crds.main(["--check", "--out", str(tmp_path)]) == 1


def test_specs_hold_no_floats() -> None:
    def types(schema: object) -> set[str]:
        if isinstance(schema, dict):
            own = {schema["type"]} if isinstance(schema.get("type"), str) else set()
            return own.union(*(types(value) for value in schema.values()))
        return set().union(*(types(value) for value in schema)) if isinstance(schema, list) else set()

    for path in CRDS.glob("*.yaml"):
        assert "number" not in types(yaml.safe_load(path.read_text()))


def fields(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the fields of our own schemas; Kubernetes' pod is left out."""
    for name, field in schema.get("properties", {}).items():
        place = f"{path}.{name}"
        if place in (".spec.template", ".metadata"):
            continue
        yield place, field
        yield from fields(field.get("items", field), place)


OUR_FIELDS = [
    (path.stem + place, field)
    for path in sorted(CRDS.glob("*.yaml"))
    for place, field in fields(
        yaml.safe_load(path.read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    )
]


def test_every_integer_has_a_range_and_every_field_a_description() -> None:
    integers = {place: field for place, field in OUR_FIELDS if field.get("type") == "integer"}
    assert len(integers) > 40
    assert [place for place, field in integers.items() if "minimum" not in field] == []
    assert [place for place, field in integers.items() if "maximum" not in field] == []
    assert {field["maximum"] for field in integers.values() if field["format"] == "int64"} == {MAX_COUNTER}
    assert integers["trainingjobs.status.progress.percent"]["maximum"] == 100
    kinds = ("apiVersion", "kind")
    assert [
        place for place, field in OUR_FIELDS if "description" not in field and not place.endswith(kinds)
    ] == []


def test_no_figure_is_written_above_the_range_of_its_schema() -> None:
    figures = {"turns": 2**53 + 1, "iterations": MAX_COUNTER, "heldBytes": 5, "profiled": True}
    report = {"step": 2**60, "steps": 7}
    written = SessionStatus.model_validate({**SESSION, **figures, "report": report}).to_json()
    assert (written["turns"], written["iterations"], written["heldBytes"]) == (MAX_COUNTER, MAX_COUNTER, 5)
    assert written["profiled"] is True
    assert written["report"] == {"step": MAX_COUNTER, "steps": 7}
    assert TrainingJobStatus(attempt=2**70).to_json()["attempt"] == MAX_COUNTER


def test_enumerations_are_in_camel_case() -> None:
    values = {value for _, field in OUR_FIELDS for value in field.get("enum", ())}
    assert values >= {"Cooperative", "MPS", "Share", "Waiting"}
    assert [value for value in values if not value[0].isupper() or not value.isalnum()] == []


def test_the_crds_have_no_yaml_anchors() -> None:
    for path in CRDS.glob("*.yaml"):
        assert "&id" not in path.read_text()
