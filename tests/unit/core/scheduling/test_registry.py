"""Policies by name: parameters, presets, and those that other packages bring."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from laneway.scheduling import policies
from laneway.scheduling.config import plug_ins
from laneway.scheduling.config.parameters import from_text, parameters
from laneway.scheduling.config.registry import ORDER, PRESETS, STAGES, choices, policy_names
from laneway.scheduling.order.fair import Fair
from laneway.scheduling.order.fifo import Fifo
from laneway.scheduling.order.tiresias_las import TiresiasLAS
from laneway.scheduling.placement.best_fit import BestFit

EVERY_POLICY = [(stage, name) for stage, known in STAGES.items() for name in known]


@pytest.mark.parametrize(("stage", "name"), EVERY_POLICY)
def test_every_policy_can_be_made_with_its_defaults(stage: str, name: str) -> None:
    known = STAGES[stage]
    policy = known[name]
    made = known.made(name, {})
    assert made == policy()
    assert known.made(name, parameters(policy)) == made


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"order": "las"}, "no order policy 'las'; write one of fair, fifo, .*tiresias-las"),
        ({"placement": "x"}, "no placement policy 'x'; write one of best-fit, "),
        ({"admission": ("quotas",)}, "no admission policy 'quotas'; write one of quota"),
        ({"elastic": "x"}, "no elastic policy 'x'"),
        ({"admission_options": {"quota": {}}}, "options for admission policy 'quota'"),
        (
            {"order": "tiresias-las", "order_options": {"knob": 1}},
            "no parameter 'knob'; it has thresholds_gpu_seconds, promotion_factor, patience_seconds",
        ),
        ({"order": "fifo", "order_options": {"knob": 1}}, "no parameter 'knob'; it has strict"),
        ({"order": "fifo", "order_options": {"strict": 1}}, "is 1: write true or false"),
        ({"placement_options": {"knob": 1}}, "no parameter 'knob'; it has none"),
        (
            {"order": "tiresias-las", "order_options": {"promotion_factor": "8"}},
            "promotion_factor .* is '8': write a number",
        ),
        ({"order": "tiresias-las", "order_options": {"promotion_factor": -1}}, "promotion_factor is -1"),
        ({"order": "tiresias-las", "order_options": {"promotion_factor": float("nan")}}, "write a number"),
        ({"order": "tiresias-las", "order_options": {"patience_seconds": -1}}, "patience_seconds is -1"),
        (
            {"order": "tiresias-las", "order_options": {"thresholds_gpu_seconds": 5}},
            "is 5: write a list of numbers",
        ),
        (
            {"order": "tiresias-las", "order_options": {"thresholds_gpu_seconds": [9, 5]}},
            "each larger than the one before",
        ),
        ({"order": "fair", "order_options": {"weights": [1]}}, r"is \[1\]: write a number for each name"),
        ({"order": "fair", "order_options": {"weights": {"a": "much"}}}, "is 'much': write a number"),
        ({"preemption_options": {"min_run_seconds": -1}}, "min_run_seconds is -1"),
        (
            {"allocation": "tune", "allocation_options": {"cpu_step_millis": 0.5}},
            "is 0.5: write a whole number",
        ),
    ],
)
def test_wrong_names_and_parameters_are_refused_with_what_to_write(
    options: dict[str, object], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        policies(**options)  # type: ignore[arg-type]


def test_parameters_reach_the_policy() -> None:
    made = policies(
        order="tiresias-las", order_options={"thresholds_gpu_seconds": [10, 20], "promotion_factor": 2}
    )
    assert made.order == TiresiasLAS((10.0, 20.0), 2.0)
    fair = policies(order="fair", order_options={"weights": {"a": 2}}).order
    assert isinstance(fair, Fair)
    assert dict(fair.weights) == {"a": 2.0}


@pytest.mark.parametrize(
    ("default", "text", "want"),
    [
        (1.5, "3", 3.0),
        (8, "4", 4),
        (True, "false", False),
        ((1.0,), "3250,7200", (3250.0, 7200.0)),
        ((1.0,), "", ()),
        ({}, "team-a:2, team-b:0.5", {"team-a": 2, "team-b": 0.5}),
        ("x", "a:1", "a:1"),
        (None, "none", None),
        (None, "5", 5),
    ],
)
def test_what_a_command_line_says_of_a_parameter(default: object, text: str, want: object) -> None:
    assert from_text(default, text) == want


@pytest.mark.parametrize(
    ("default", "text", "says"),
    [
        (1.5, "much", "'much' is not a number"),
        (True, "1", "write true or false"),
        ((1.0,), "1;2", "not a number"),
        ({}, "a=2", "such as a:2,b:1"),
    ],
)
def test_what_a_command_line_cannot_say(default: object, text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        from_text(default, text)


def test_a_preset_chooses_several_stages_and_gives_way_to_what_is_named() -> None:
    assert "pollux" in policy_names()
    assert choices("pollux")["order"].name == "fifo"
    assert choices("pollux")["elastic"].name == "pollux"
    assert choices("pollux", elastic="none")["elastic"].name == "none"
    made = policies(order="pollux", elastic="none", placement="best-fit")
    assert made.order == Fifo(strict=False)
    assert made.placement == BestFit()
    assert policies(order="pollux", elastic="none", order_options={"strict": True}).order == Fifo()


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_names_policies_that_there_are(preset: str) -> None:
    assert all(choice.name in STAGES[stage] for stage, choice in PRESETS[preset].items())


def test_scheduling_needs_no_numpy_until_a_policy_does() -> None:
    code = (
        "import sys, laneway.scheduling as s; s.policies(); "
        "print([name for name in ('numpy', 'scipy') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def distribution(folder: Path, name: str, points: dict[str, str], **modules: str) -> None:
    """Install a package: what pip leaves behind of one."""
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(text)
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = "".join(f"{point} = {value}\n" for point, value in points.items())
    (info / "entry_points.txt").write_text(f"[laneway.policies]\n{lines}")


NEWEST_FIRST = """
from dataclasses import dataclass
from laneway.scheduling.order.fifo import Fifo
from laneway.scheduling.order.policy import Rank

@dataclass(frozen=True)
class NewestFirst(Fifo):
    limit_seconds: float = 5.0

    def ranks(self, jobs, cluster_gpus, now_seconds):
        return {job.key: Rank(0, (-job.created_seconds,)) for job in jobs}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where packages are installed during the test."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_a_package_brings_a_policy(folder: Path) -> None:
    points = {"order.acme.newest-first": "acme_newest:NewestFirst"}
    distribution(folder, "acme-policies", points, acme_newest=NEWEST_FIRST)
    made = policies(order="acme.newest-first", order_options={"limit_seconds": 7, "strict": False}).order
    assert type(made).__name__ == "NewestFirst"
    assert parameters(type(made))["limit_seconds"] == 5.0
    assert "acme.newest-first" in policy_names()
    assert "acme.newest-first" in ORDER
    assert "acme.newest-first" not in list(ORDER), "what Laneway's own documents list does not depend on it"
    with pytest.raises(ValueError, match=r"write one of .*tiresias-las, acme\.newest-first"):
        policies(order="acme.newest")


@pytest.mark.parametrize(
    ("value", "text", "says"),
    [
        ("acme_a:Missing", "", r"of acme-policies 1\.0 \(acme_a:Missing\) cannot be loaded: AttributeError"),
        ("acme_b:Broken", "import no_such_module_of_acme", "cannot be loaded: ModuleNotFoundError"),
        ("acme_c:Broken", "1 / 0", "cannot be loaded: ZeroDivisionError"),
        ("acme_d:plain", "def plain(): ...", "is no policy: write a frozen dataclass"),
        ("acme_g:Plain", "class Plain: ...", "is no policy: write a frozen dataclass"),
        ("acme_h:made", NEWEST_FIRST + "made = NewestFirst()", "is no policy: write a frozen dataclass"),
        (
            "acme_e:Half",
            "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Half:\n    ranks: float = 1",
            "lacks relative, preempts_by_queue, bounds_waiting, interval_seconds, may_preempt, blocks_later_jobs",
        ),
        (
            "acme_f:Needy",
            NEWEST_FIRST
            + "@dataclass(frozen=True, kw_only=True)\nclass Needy(NewestFirst):\n    must: float\n",
            "parameter must has no default",
        ),
    ],
)
def test_a_broken_package_is_named_when_its_policy_is_asked_for(
    folder: Path, value: str, text: str, says: str
) -> None:
    distribution(folder, "acme-policies", {"order.acme.x": value}, **{value.partition(":")[0]: text})
    assert "acme.x" in policy_names(), "nothing is imported before it is asked for"
    assert policies(order="fifo").order == Fifo()
    with pytest.raises(ValueError, match=says) as caught:
        policies(order="acme.x")
    assert "order policy 'acme.x' of acme-policies 1.0" in str(caught.value)


def test_a_package_cannot_take_the_name_of_a_policy_of_laneway(folder: Path) -> None:
    points = {"order.fifo": "acme_s:NewestFirst", "order.newest": "acme_s:NewestFirst"}
    distribution(folder, "acme-shadow", points, acme_s=NEWEST_FIRST)
    assert policies(order="fifo").order == Fifo()
    assert "newest" not in policy_names()
    with pytest.raises(
        ValueError, match=r"acme-shadow 1\.0 brings 'order.newest', which is not usable.*order\.acme\.newest"
    ):
        policies(order="newest")


@pytest.mark.parametrize(
    "name", ["newest", "Newest", "newest_first", "acme.Newest", "7-nights", "-newest", "newest--first", "-"]
)
def test_the_name_that_is_suggested_for_an_unusable_one_is_usable(folder: Path, name: str) -> None:
    distribution(folder, "acme-policies", {f"order.{name}": "acme_u:NewestFirst"}, acme_u=NEWEST_FIRST)
    (says,) = plug_ins.misnamed("order")
    assert f"'order.{name}'" in says
    (suggested,) = re.findall(r"as order\.(\S+)$", says)
    assert plug_ins.is_name(suggested)
    assert (name in suggested) == (name in ("newest", "7-nights")), "an allowed part is kept"


def test_a_policy_of_an_unknown_distribution_is_reported_as_others_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    point = EntryPoint("order.acme.x", "no_such_module_of_acme:X", plug_ins.GROUP)
    assert point.dist is None
    monkeypatch.setattr(plug_ins, "_points", lambda path: (point,))
    with pytest.raises(ValueError, match=r"no_such_module_of_acme:X\) cannot be loaded: ModuleNotFoundError"):
        policies(order="acme.x")


def test_two_packages_that_bring_the_same_name_are_both_named(folder: Path) -> None:
    distribution(folder, "acme-one", {"order.acme.x": "acme_one:NewestFirst"}, acme_one=NEWEST_FIRST)
    distribution(folder, "acme-two", {"order.acme.x": "acme_two:NewestFirst"}, acme_two=NEWEST_FIRST)
    with pytest.raises(ValueError, match=r"acme-one 1\.0 and acme-two 1\.0 both bring"):
        policies(order="acme.x")
