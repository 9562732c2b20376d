"""How fast a template runs on GPU models where it was not measured."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.scheduling.model.gpu_peaks import Peaks, peaks_of
from laneway.scheduling.model.gpu_speed import (
    IterationSeconds,
    Measured,
    ModelSpeed,
    SpeedBasis,
    estimated_speeds,
)

V100, T4, H100 = "Tesla V100-SXM2-16GB", "Tesla T4", "NVIDIA H100 80GB HBM3"
MODELS = (V100, T4, H100)


def took(**seconds: float) -> Measured:
    """What was measured of a template, by a short name of the model."""
    names = {"v100": V100, "t4": T4, "h100": H100}
    return {names.get(model, model): IterationSeconds(each) for model, each in seconds.items()}


def speed(model: str, own: Measured, *others: Measured) -> ModelSpeed | None:
    """The speed of a template on one model."""
    return next(iter(estimated_speeds([model], own, others)), None)


def ratio(model: str, own: Measured, *others: Measured) -> float:
    """The time on a model over the 1 second on the V100."""
    found = speed(model, own, *others)
    assert found is not None
    return 1 / found.per_second


class TestPeaks:
    @pytest.mark.parametrize(
        ("name", "memory"),
        [
            ("Tesla T4", 320),
            ("t4", 320),
            ("Tesla P4", 192),
            ("Tesla V100-SXM2-32GB", 900),
            ("NVIDIA A100-SXM4-40GB", 1555),
            ("NVIDIA A100-SXM4-80GB", 2039),
            ("NVIDIA A100 80GB PCIe", 1935),
            ("NVIDIA H100 80GB HBM3", 3350),
            ("NVIDIA H100 PCIe", 2000),
            ("NVIDIA RTX A6000", 768),
            ("NVIDIA RTX 6000 Ada Generation", 960),
            ("NVIDIA L40S", 864),
        ],
    )
    def test_the_entry_with_the_most_words_of_the_name_counts(self, name: str, memory: int) -> None:
        found = peaks_of(name)
        assert found is not None
        assert found.memory_gigabytes_per_second == memory

    @pytest.mark.parametrize("name", ["Simulated", "", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "A1000"])
    def test_a_part_of_a_gpu_and_an_unknown_model_have_none(self, name: str) -> None:
        assert peaks_of(name) is None


class TestSpeeds:
    def test_a_measurement_counts_before_any_estimate(self) -> None:
        found = speed(T4, {T4: IterationSeconds(0.3, 0.1)}, took(v100=1, t4=9))
        assert found == ModelSpeed(T4, 2.5)

    def test_other_templates_show_the_ratio_between_two_models(self) -> None:
        found = speed(T4, took(v100=1), took(v100=1, t4=2), took(v100=10, t4=40), took(v100=1, t4=3))
        assert found is not None
        assert found.per_second == pytest.approx(1 / 3)
        assert found.basis is SpeedBasis.OTHER_TEMPLATES
        assert found.source == f"from 3 other templates that ran on it and on {V100}"

    def test_one_odd_template_does_not_move_the_ratio(self) -> None:
        others = [took(v100=1, t4=2)] * 4
        assert ratio(T4, took(v100=1), *others, took(v100=1, t4=900)) == pytest.approx(2)

    def test_templates_that_were_alike_elsewhere_count_more(self) -> None:
        like = took(v100=1, h100=0.5, t4=2)
        unlike = took(v100=1, h100=0.1, t4=8)
        assert ratio(T4, took(v100=1, h100=0.5), like, unlike, unlike) == pytest.approx(2)
        assert ratio(T4, took(v100=1), like, unlike, unlike) == pytest.approx(8)

    def test_the_time_for_data_is_the_same_on_every_model(self) -> None:
        own = {V100: IterationSeconds(gpu=1.0, data=5.0)}
        assert ratio(T4, own, took(v100=1, t4=2)) == pytest.approx(7)

    def test_without_other_templates_the_data_sheets_count(self) -> None:
        found = speed(H100, took(v100=1))
        assert found is not None
        assert found.per_second == pytest.approx(((67 / 15.7) * (3350 / 900)) ** 0.5)
        assert found.basis is SpeedBasis.PEAK_FIGURES
        assert found.source == f"from the data sheets of it and of {V100}"

    def test_a_model_of_which_nothing_is_known_has_no_speed(self) -> None:
        assert speed("Simulated", took(v100=1)) is None
        assert estimated_speeds(["Simulated", "Other"], {}, []) == ()

    def test_of_a_template_that_never_ran_only_the_ratios_are_known(self) -> None:
        speeds = {each.model: each for each in estimated_speeds(MODELS, {}, [took(v100=3, t4=6)])}
        assert speeds[V100].per_second / speeds[T4].per_second == pytest.approx(2)
        assert {each.basis for each in speeds.values()} == {
            SpeedBasis.OTHER_TEMPLATES,
            SpeedBasis.PEAK_FIGURES,
        }

    def test_the_peaks_are_those_of_the_data_sheets(self) -> None:
        assert peaks_of(V100) == Peaks(15.7, 900)


seconds = st.floats(1e-4, 1e3)
templates = st.dictionaries(
    st.sampled_from(MODELS), st.builds(IterationSeconds, seconds, st.floats(0, 10)), max_size=3
)


@given(own=templates, others=st.lists(templates, max_size=6), factor=st.floats(0.01, 100))
def test_speeds_are_sane(own: Measured, others: list[Measured], factor: float) -> None:
    found = estimated_speeds(MODELS, own, others)
    assert [each.model for each in found] == sorted(MODELS)  # all are in the table of data sheets
    assert all(each.per_second > 0 for each in found)
    assert all((each.basis is SpeedBasis.MEASURED) == (each.model in own) for each in found)
    assert all(bool(each.source) != (each.model in own) for each in found)
    # Others in any unit of their own and in any order say the same.
    scaled = [
        {model: IterationSeconds(time.gpu * factor, time.data) for model, time in each.items()}
        for each in reversed(others)
    ]
    again = estimated_speeds(MODELS, own, scaled)
    assert [each.per_second for each in again] == pytest.approx([each.per_second for each in found])


def elsewhere(own: Measured, *namespaces: list[Measured]) -> ModelSpeed | None:
    """The speed on the T4 of a template that ran on the V100, by templates of other namespaces."""
    return next(iter(estimated_speeds([T4], own, [], namespaces)), None)


FORGED = [took(v100=1, t4=1e6)] * 50


class TestOtherNamespaces:
    def test_templates_of_the_own_namespace_come_first(self) -> None:
        (found,) = estimated_speeds([T4], took(v100=1), [took(v100=1, t4=2)], [[took(v100=1, t4=9)]] * 5)
        assert 1 / found.per_second == pytest.approx(2)

    def test_each_other_namespace_has_one_vote(self) -> None:
        found = elsewhere(took(v100=1), [took(v100=1, t4=3)], [took(v100=1, t4=4)], FORGED)
        assert found is not None
        assert 1 / found.per_second == pytest.approx(4)
        assert found.basis is SpeedBasis.OTHER_TEMPLATES
        assert found.source == f"from templates of 3 other namespaces that ran on it and on {V100}"

    def test_one_namespace_that_reports_false_figures_does_not_decide(self) -> None:
        assert elsewhere(took(v100=1), FORGED) == speed(T4, took(v100=1)), "as by data sheets"
        found = elsewhere(took(v100=1), FORGED, [took(v100=1, t4=5)])
        assert found is not None
        assert 1 / found.per_second == pytest.approx(5), "between the data sheets' and the false one"

    def test_of_models_without_data_sheets_two_namespaces_tell_nothing(self) -> None:
        measured = {"Other": IterationSeconds(1.0), V100: IterationSeconds(2.0)}
        found = estimated_speeds(["Other"], took(v100=1), [], [[measured]] * 2)
        assert found == ()
        (found_by_three,) = estimated_speeds(["Other"], took(v100=1), [], [[measured]] * 3)
        assert found_by_three.per_second == pytest.approx(2)
