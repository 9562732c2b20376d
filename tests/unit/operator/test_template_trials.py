"""Which templates the API server is asked about, and when."""

from __future__ import annotations

from typing import Any, cast

from laneway.api.attempt_status import AttemptOutcome
from laneway.operator.execute.template_trials import TemplateTrials
from laneway.operator.execute.writer import Writer
from laneway.operator.lifecycle import transitions
from laneway.operator.lifecycle.between_attempts import pods_refused_seconds
from laneway.operator.state.records.job_record import JobRecord

from tests.unit.operator.builders import NOW, a_job, a_view

AGAIN_SECONDS = 60.0


class _AskedWriter:
    """Refuses images named `wrong`; records the jobs that were tried."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def try_pod(self, job: JobRecord, manifest: dict[str, Any]) -> str:
        self.asked.append(job.name)
        return "no such policy" if manifest["spec"]["containers"][0]["image"] == "wrong" else ""


def of_image(name: str, image: str = "i", **metadata: Any) -> JobRecord:
    template = {"spec": {"containers": [{"name": "trainer", "image": image}]}}
    return a_job(name).spec(template=template).metadata(**metadata).visited().record


def trials() -> tuple[TemplateTrials, _AskedWriter]:
    writer = _AskedWriter()
    return TemplateTrials(cast(Writer, writer), AGAIN_SECONDS), writer


async def ask(found: TemplateTrials, *jobs: JobRecord, now: float = 0.0) -> bool:
    return await found.ask(a_view(jobs), [job.key for job in jobs], [], now)


async def ask_about_none_in_line(found: TemplateTrials, job: JobRecord, now: float) -> bool:
    refused = [job.uid] if pods_refused_seconds(job) is not None else []
    return await found.ask(a_view([job]), [], refused, now)


async def test_templates_that_are_alike_are_asked_about_once() -> None:
    found, writer = trials()
    jobs = [of_image(f"j{at}") for at in range(6)]
    for _ in range(4):
        assert not await ask(found, *jobs)
    assert writer.asked == ["j0"]


async def test_a_wrong_one_is_told_of_and_asked_about_again_after_a_while() -> None:
    found, writer = trials()
    wrong = of_image("wrong", "wrong")
    assert await ask(found, wrong)
    assert found.refusals == {(wrong.uid, 1): "template: no such policy"}
    assert not await ask_about_none_in_line(found, wrong, AGAIN_SECONDS - 1)
    assert writer.asked == ["wrong"]
    assert not await ask_about_none_in_line(found, wrong, AGAIN_SECONDS)
    assert writer.asked == ["wrong", "wrong"], "though it waits no more by the plan"


async def test_a_corrected_one_is_asked_about_at_once_and_the_old_answer_does_not_count() -> None:
    found, _ = trials()
    await ask(found, of_image("j", "wrong"))
    right = of_image("j", "right", generation=2)
    assert not await ask(found, right)
    assert (right.uid, 2) not in found.refusals


async def test_who_does_not_wait_is_not_asked_about_and_who_is_gone_is_forgotten() -> None:
    found, writer = trials()
    wrong = of_image("j", "wrong")
    await ask_about_none_in_line(found, wrong, 0.0)
    assert writer.asked == []
    await ask(found, wrong)
    found.keep_only([])
    assert not found.refusals


async def test_an_answer_is_kept_as_long_as_a_job_of_the_template_waits_or_runs() -> None:
    found, writer = trials()
    first, second, third = (of_image(f"j{at}") for at in range(3))
    await ask(found, first, second)
    found.keep_only([(second.uid, 1)])
    await ask(found, third)
    assert writer.asked == ["j0"]
    found.keep_only([])
    await ask(found, third)
    assert writer.asked == ["j0", "j2"]


async def test_nothing_is_kept_of_specs_before_the_present_one() -> None:
    found, _ = trials()
    for generation in range(1, 50):
        job = of_image("j", f"image-{generation}", generation=generation)
        await ask(found, job)
        found.keep_only([(job.uid, generation)])
        assert len(found._asked) == len(found._answers) == 1


async def test_only_a_few_are_asked_about_in_a_cycle() -> None:
    found, writer = trials()
    await ask(found, *[of_image(f"j{at}", f"image-{at}") for at in range(9)])
    assert len(writer.asked) == 2


async def test_one_that_the_real_creation_refused_is_asked_about_anew_while_it_backs_off() -> None:
    found, writer = trials()
    template = {"spec": {"containers": [{"name": "trainer", "image": "wrong"}]}}
    refused = (
        a_job("j")
        .spec(template=template)
        .placed("n1")
        .after(transitions.unplaced, AttemptOutcome.ROLLED_BACK, "PodRefused", "no such policy", NOW, NOW)
        .record
    )
    assert await ask_about_none_in_line(found, refused, NOW + 1)
    assert found.refusals == {(refused.uid, 1): "template: no such policy"}
    assert not await ask_about_none_in_line(found, refused, NOW + 2)
    assert writer.asked == ["j"]


async def test_one_that_a_quota_refused_is_not_suspected() -> None:
    found, writer = trials()
    passing = (
        a_job("j")
        .placed("n1")
        .after(transitions.unplaced, AttemptOutcome.ROLLED_BACK, "QuotaExceeded", "m", NOW, NOW)
        .record
    )
    assert not await ask_about_none_in_line(found, passing, NOW + 1)
    assert writer.asked == []
