"""What the operator knows of a template's speed on several GPU models, and tells users of waiting jobs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from laneway.api.rfc3339 import format_time
from laneway.api.training_job_status import ModelSpeedStatus, ProfileStatus
from laneway.api.training_profile import ModelProfileStatus, TrainingProfileStatus
from laneway.operator.cycle.cycle import Cycle
from laneway.operator.cycle.model_speeds import ModelSpeedBook
from laneway.operator.cycle.templates import known_template
from laneway.operator.cycle.write_history import WriteHistory
from laneway.operator.state.records.profile_record import parse_profile
from laneway.scheduling.config.operator_config import OperatorConfig
from laneway.scheduling.model.gpu_speed import ModelSpeed, SpeedBasis

from tests.unit.operator.builders import GIB, NOW, a_gpu_node, a_job, a_node, a_pod, a_view

HELD = (("one", "a"), ("two", "t"))
BOTH = frozenset({"A100", "T4"})


def ran(*entries: tuple[str, int], completed: int = 0, minutes: int = 0) -> TrainingProfileStatus:
    """A template's profile: its models, and the milliseconds of an iteration there."""
    models = []
    for model, milliseconds in entries:
        profile = ProfileStatus(
            persistent_bytes=GIB, ephemeral_bytes=GIB, iteration_microseconds=1000 * milliseconds
        )
        models.append(
            ModelProfileStatus(
                model=model,
                last_started=format_time(NOW),
                profile=profile,
                completed_jobs=completed,
                mean_run_milliseconds=minutes * 60_000,
            )
        )
    return TrainingProfileStatus(models=tuple(models))


def per_second(speeds: tuple[ModelSpeed, ...]) -> dict[str, Any]:
    return {each.model: pytest.approx(each.per_second) for each in speeds}


class TestModelSpeedBook:
    def test_in_a_cluster_with_one_model_nothing_is_estimated(self) -> None:
        book = ModelSpeedBook()
        book.note("ns/a", ran(("A100", 100)))
        book.refresh(frozenset({"A100"}))
        assert book.of("ns/a") == ()

    def test_a_template_that_ran_on_both_changes_the_estimates_of_others(self) -> None:
        book = ModelSpeedBook()
        book.note("ns/a", ran(("A100", 100)))
        book.refresh(BOTH)
        (_, sheet) = book.of("ns/a")
        assert sheet.basis is SpeedBasis.PEAK_FIGURES
        book.note("ns/b", ran(("A100", 10), ("T4", 50)))
        assert book.refresh(BOTH) == {"ns/a"}
        assert per_second(book.of("ns/a")) == {"A100": 10, "T4": 2}

    def test_small_changes_of_a_measurement_change_no_estimate(self) -> None:
        book = ModelSpeedBook()
        book.note("ns/a", ran(("A100", 100)))
        book.refresh(BOTH)
        before = book.of("ns/a")
        book.note("ns/a", ran(("A100", 104)))
        assert book.refresh(BOTH) == set()
        assert book.of("ns/a") == before
        book.note("ns/a", ran(("A100", 150)))
        assert book.refresh(BOTH) == {"ns/a"}

    def test_a_profile_that_is_gone_counts_no_more(self) -> None:
        book = ModelSpeedBook()
        book.note("ns/a", ran(("A100", 100)))
        book.note("ns/b", ran(("A100", 10), ("T4", 50)))
        book.refresh(BOTH)
        assert book.of("ns/a")[1].basis is SpeedBasis.OTHER_TEMPLATES
        book.note("ns/b", None)
        assert book.refresh(BOTH) == {"ns/a"}
        assert book.of("ns/a")[1].basis is SpeedBasis.PEAK_FIGURES

    def test_one_other_namespace_decides_nothing(self) -> None:
        """A client that reports false figures is that of one namespace."""
        book = ModelSpeedBook()
        book.note("ns/a", ran(("A100", 100)))
        book.refresh(BOTH)
        before = book.of("ns/a")
        for number in range(300):
            book.note(f"a/{number}", ran(("A100", 10), ("T4", 1)))
        assert book.refresh(BOTH) == set()
        assert book.of("ns/a") == before
        for namespace in ("b", "c"):
            book.note(f"{namespace}/0", ran(("A100", 10), ("T4", 50)))
        assert book.refresh(BOTH) == {"ns/a"}
        assert per_second(book.of("ns/a")) == {"A100": 10, "T4": 2}


class TestRunTimes:
    SPEEDS = (ModelSpeed("A100", 10.0), ModelSpeed("T4", 2.0, SpeedBasis.OTHER_TEMPLATES, "from ..."))

    def test_runs_on_several_models_are_converted_to_one(self) -> None:
        status = ran(("A100", 100), ("T4", 500), completed=1, minutes=10)
        known = known_template(status, (), self.SPEEDS)
        assert (known.expected_on, known.expected_seconds) == ("T4", pytest.approx((600 + 3000) / 2))

    def test_runs_on_another_model_count_where_speeds_are_known(self) -> None:
        status = ran(("A100", 100), completed=1, minutes=10)
        assert known_template(status, ("T4",)).expected_seconds is None
        known = known_template(status, ("T4",), self.SPEEDS)
        assert (known.expected_on, known.expected_seconds) == ("A100", pytest.approx(600))


def test_a_waiting_job_is_told_which_speeds_are_estimates() -> None:
    held = [a_job(name).placed(node).running(since=NOW - 300).record for name, node in HELD]
    pods = [a_pod(job).running(since=NOW - 300).record for job in held]
    t4 = a_gpu_node("t", gpus=1)
    t4 = replace(t4, gpus=tuple(gpu.model_copy(update={"model": "T4"}) for gpu in t4.gpus))
    waiting = a_job("waiting").visited().record
    assert waiting.desired is not None
    stored = ran(("A100", 100), completed=3, minutes=10)
    metadata = {"namespace": "ns", "name": waiting.desired.template_hash, "uid": "profile"}
    profile = parse_profile({"metadata": metadata, "status": stored.to_json()})
    nodes = [a_node("a"), a_node("t")]
    view = a_view([*held, waiting], pods, [a_gpu_node("a", gpus=1), t4], nodes, profiles=[profile])
    result = Cycle(OperatorConfig()).run(view, WriteHistory({}, {}), NOW)
    (status,) = [write.status.waiting for write in result.writes if write.job.name == "waiting"]
    assert status is not None
    measured, estimated = status.speeds
    assert measured == ModelSpeedStatus(model="A100", percent=100, basis="Measured")
    assert (estimated.model, estimated.basis) == ("T4", "PeakFigures")
    assert estimated.source == "from the data sheets of it and of A100"
    assert 0 < estimated.percent < 100
    assert "Its run time on T4 is an estimate." in status.estimate_basis
