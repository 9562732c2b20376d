"""Scripts' reports: which packets are valid, and how the GPUNode and the metrics show them."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.api.enforcement import Enforcement
from laneway.api.goodput_status import BatchStatus
from laneway.api.gpu_node import ReportStatus, SavedWorkStatus, SessionStatus
from laneway.api.health_config import HealthConfig
from laneway.api.schema import MAX_COUNTER
from laneway.client.reporting.progress import _loss
from laneway.node_agent.enforcement.enforcement_status import EnforcementStatus, record_enforcement_status
from laneway.node_agent.enforcement.levels import Level, with_level
from laneway.node_agent.enforcement.violation import NO_TURN, QUOTA_EXCEEDED, Claim
from laneway.node_agent.gpus.monitor import GPUHealth
from laneway.node_agent.report.metrics import AgentCollector
from laneway.node_agent.report.node_status import node_status
from laneway.node_agent.report.snapshot import GPUSnapshot, take_snapshot
from laneway.node_agent.sessions.broker import batch_of
from laneway.node_agent.sessions.packets import PacketError, decode, encode
from laneway.node_agent.turns.session import NANOSECONDS, Report, SavedWork
from prometheus_client import CollectorRegistry, generate_latest

from tests.support.node_agent.gpu_bench import MIB, GPUBench, Process

HEARD = 1_700_000_000.0
REPORT = Report(HEARD, step=30, steps=100, epoch=1, loss="NaN", remaining_seconds=69.6)
SHOWN = ReportStatus(
    step=30, steps=100, epoch=1, loss="NaN", remaining_seconds=70, reported_at="2023-11-14T22:13:20.000000Z"
)


@given(st.floats() | st.integers())
def test_every_number_is_accepted_as_loss(loss: float) -> None:
    try:
        text = _loss(loss)
    except OverflowError:  # too large for a float: left out by the client
        return
    packet = decode(encode("report", loss=text, step=None))
    taken = float(packet.fields["loss"])
    assert math.isnan(taken) if math.isnan(loss) else taken == pytest.approx(loss, rel=1e-5, nan_ok=True)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("loss", 0.5),
        ("loss", "nan"),
        ("loss", "0x10"),
        ("loss", "1" * 40),
        ("loss", "١"),
        ("loss", "1\n"),
        ("loss", "<script>"),
        ("step", -1),
        ("step", 1.0),
        ("steps", 2**53 + 1),
        ("steps", True),
        ("epoch", "1"),
        ("remaining_seconds", -1),
        ("remaining_seconds", 1e10),
        ("unsaved_since", -1),
        ("unsaved_since", True),
        ("unsaved_since", 1e300),
        ("checkpointed", 1),
        ("loaded_from", "yesterday"),
        ("ranks", 1.5),
        ("local_batch", -1),
        ("noise_scale", "large"),
        ("noise_scale", 1e300),
    ],
)
def test_a_report_with_an_invalid_field_is_refused_with_what_to_send(field: str, value: Any) -> None:
    with pytest.raises(PacketError, match=rf"report: '{field}' is .*; send "):
        decode(json.dumps({"type": "report", field: value}).encode())


def training(bench: GPUBench) -> Process:
    process = bench.job("a", 10, 20)
    process.page.iterations = 31
    process.page.busy_ns = 3 * NANOSECONDS
    process.page.data_ns = 2 * NANOSECONDS
    return process


def shown(bench: GPUBench) -> tuple[SessionStatus, str]:
    """The session as the GPUNode has it, and the page of metrics."""
    looks = [(take_snapshot(bench.turns, bench.clock.monotonic()), GPUHealth())]
    return node_status(looks, ()).gpus[0].sessions[0], page_of(looks)


def page_of(looks: list[tuple[GPUSnapshot, GPUHealth]]) -> str:
    registry = CollectorRegistry()
    registry.register(AgentCollector("n1", lambda: looks, HealthConfig()))
    return generate_latest(registry).decode()


def test_a_report_is_in_the_gpu_node_and_in_the_metrics() -> None:
    bench = GPUBench()
    process = training(bench)
    process.session.report = REPORT
    session, metrics = shown(bench)
    assert session.report == SHOWN
    assert session.data_milliseconds == 2000
    labels = '{gpu_uuid="GPU-test",namespace="default",node="n1",pod="a",training_job=""}'
    for line in ("step%s 30.0", "steps%s 100.0", "loss%s NaN"):
        assert f"laneway_session_{line % labels}\n" in metrics
    assert f"laneway_data_seconds_total{labels} 2.0" in metrics


def test_a_lowered_level_is_in_the_metrics() -> None:
    bench = GPUBench()
    training(bench)
    for reason, lowered in (("", 0), ("no interposer: its self-test has not run yet", 1)):
        bench.turns.gpu = with_level(bench.turns.gpu, Level(Enforcement.WATCHDOG, reason))
        _, metrics = shown(bench)
        assert f'laneway_gpu_enforcement_lowered{{gpu_uuid="GPU-test",node="n1"}} {lowered}.0\n' in metrics


def test_evictions_are_counted_once_and_outlive_the_container(tmp_path: Path) -> None:
    bench = GPUBench()
    lease = training(bench).lease
    claim = Claim("GPU-test", lease.record, tmp_path, lease.quota_bytes)
    series = (
        'laneway_watchdog_evictions_total{gpu_uuid="GPU-test",namespace="default",node="n1",reason="%s"} %s\n'
    )
    assert series % (QUOTA_EXCEEDED, "0.0") in shown(bench)[1], "an increase needs a beginning"
    for message in ("stopped", "stopped; that failed"):
        status = EnforcementStatus(evicted=QUOTA_EXCEEDED, eviction_message=message)
        record_enforcement_status(bench.turns, claim, status, bench)
    assert series % (QUOTA_EXCEEDED, "1.0") in shown(bench)[1]
    record_enforcement_status(bench.turns, claim, EnforcementStatus(), bench)
    record_enforcement_status(bench.turns, claim, EnforcementStatus(evicted=NO_TURN), bench)
    bench.turns.remove_container(lease.key)
    bench.turns.forget_ended(0)
    page = page_of([(take_snapshot(bench.turns, bench.clock.monotonic()), GPUHealth())])
    assert series % (QUOTA_EXCEEDED, "1.0") in page
    assert series % (NO_TURN, "1.0") in page


def test_without_a_report_there_is_none() -> None:
    bench = GPUBench()
    training(bench)
    session, metrics = shown(bench)
    assert session.report is None
    assert session.iterations == 31
    assert "laneway_session_loss{" not in metrics


def test_the_first_reporting_process_counts_even_after_it_ended() -> None:
    bench = GPUBench()
    first = training(bench)
    second = bench.process(first.lease)
    second.session.report = replace(REPORT, loss="0.5")
    assert shown(bench)[0].report == SHOWN.model_copy(update={"loss": "0.5"})
    first.session.report = REPORT
    assert shown(bench)[0].report == SHOWN
    second.die()
    first.die()
    assert shown(bench)[0].report == SHOWN
    bench.turns.remove_container(first.lease.key)
    assert shown(bench)[0].report == SHOWN, "told for a while after the container's end"
    assert shown(bench)[0].data_milliseconds == 2000


def test_iterations_count_as_steps_if_only_the_total_is_reported() -> None:
    bench = GPUBench()
    training(bench).session.report = Report(HEARD, steps=100)
    session, _ = shown(bench)
    assert session.report is not None
    assert (session.report.step, session.report.steps) == (31, 100)


def test_remaining_iterations_include_the_time_for_their_data() -> None:
    bench = GPUBench()
    process = training(bench)
    sizes = process.session.sizes
    assert sizes is not None
    bench.turns.measure(
        process.lease,
        process.session,
        replace(
            sizes, iteration_seconds=0.1, data_seconds=0.05, remaining_seconds=40.0, persistent_bytes=MIB
        ),
    )
    session, _ = shown(bench)
    assert session.report == ReportStatus(remaining_seconds=60)
    assert session.data_microseconds == 50_000


def test_the_process_that_writes_checkpoints_counts_for_its_container() -> None:
    bench = GPUBench()
    writes = training(bench)
    other = bench.process(writes.lease)
    assert shown(bench)[0].saved_work is None, "nothing is known of a client that says nothing"
    other.session.saved_work = SavedWork(HEARD, loaded_from_seconds=HEARD - 90)
    writes.session.saved_work = SavedWork(HEARD + 60, checkpointed=True)
    found = SavedWorkStatus(
        unsaved_since="2023-11-14T22:14:20.000000Z",
        checkpointed=True,
        loaded_from="2023-11-14T22:11:50.000000Z",
    )
    assert shown(bench)[0].saved_work == found
    assert shown(bench)[0].report is None, "the script itself reports nothing"
    writes.die()
    assert shown(bench)[0].saved_work == SavedWorkStatus(
        unsaved_since="2023-11-14T22:13:20.000000Z", loaded_from="2023-11-14T22:11:50.000000Z"
    ), "who lives has saved nothing"
    other.die()
    assert shown(bench)[0].saved_work == found.model_copy(update={"ended": True})


def test_a_process_that_starts_again_in_its_container_has_saved_nothing_yet() -> None:
    bench = GPUBench()
    first = training(bench)
    first.session.saved_work = SavedWork(HEARD, checkpointed=True)
    second = bench.process(first.lease)
    first.die()
    second.session.saved_work = SavedWork(HEARD + 60)
    found = shown(bench)[0].saved_work
    assert found == SavedWorkStatus(unsaved_since="2023-11-14T22:14:20.000000Z", checkpointed=False)
    second.die()
    ended = found.model_copy(update={"ended": True})
    assert shown(bench)[0].saved_work == ended, "it wrote no checkpoint, though the one before it did"


def test_the_batch_of_a_training_is_published_and_outlives_its_process() -> None:
    bench = GPUBench()
    first = training(bench)
    assert shown(bench)[0].batch is None, "nothing is known of a client of an earlier release"
    batch = BatchStatus(ranks=2, local_batch=8, initial_batch=16, max_batch=32, max_local_batch=8)
    first.session.batch = batch
    assert shown(bench)[0].batch == batch
    first.die()
    assert shown(bench)[0].batch == batch


def test_a_batch_that_cannot_be_is_ignored() -> None:
    fields = {"ranks": 2, "local_batch": 8, "passes": 1, "initial_batch": 16, "max_batch": 16}
    whole = {**fields, "max_local_batch": 8, "noise_scale": 2.0**60}
    batch = batch_of(whole)
    assert batch is not None
    assert (batch.batch, batch.noise_scale) == (16, MAX_COUNTER)
    for said in ({}, fields, {**whole, "local_batch": 0}, {**whole, "passes": None}):
        assert batch_of(said) is None
