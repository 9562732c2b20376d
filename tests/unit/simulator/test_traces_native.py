"""Laneway's own trace format, read and written."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laneway.scheduling import Demand, HostResources, PlacementMode, Profile
from laneway.scheduling.model.host_resources import CPU, MEMORY
from laneway.scheduling.model.sensitivity import MeasuredSensitivity
from laneway.scheduling.model.snapshot import StageSeconds
from laneway.simulator import InputError, TraceJob, load_trace, read_trace, write_trace
from laneway.simulator.traces import native

from tests.support.property_examples import examples

NAMES = st.text("abcXYZ059-_.,;\"' é漢", min_size=1, max_size=12).map(str.strip).filter(bool)
SECONDS = st.floats(0, 1e9, exclude_min=True, allow_subnormal=False)
BYTES = st.integers(0, 2**48)
PROFILES = st.builds(
    Profile,
    BYTES,
    BYTES,
    st.just(0.0) | SECONDS,
    BYTES,
    BYTES,
    st.none() | st.builds(StageSeconds, SECONDS, SECONDS, SECONDS, SECONDS),
)


@st.composite
def demands(draw: st.DrawFn) -> Demand:
    workers = draw(st.integers(1, 100))
    several = draw(st.integers(1, 16))
    return Demand(
        workers,
        several,
        share_percent=draw(st.integers(1, 100)) if several == 1 else 100,
        memory_bytes=draw(st.none() | st.integers(1, 2**40)) if several == 1 else None,
        models=frozenset(draw(st.sets(NAMES.filter(lambda name: "|" not in name), max_size=3))),
        exclusive=draw(st.booleans()),
        mode=draw(st.sampled_from(PlacementMode)),
        min_workers=draw(st.none() | st.integers(1, workers)),
        max_workers=draw(st.none() | st.integers(workers, 200)),
        requests=HostResources.of({CPU: draw(st.integers(0, 10**6)), MEMORY: draw(BYTES)}),
    )


@st.composite
def sensitivities(draw: st.DrawFn) -> MeasuredSensitivity:
    cpus = draw(st.sets(st.integers(1, 10**6), min_size=1, max_size=4))
    memories = draw(st.sets(BYTES.filter(bool), min_size=1, max_size=3))
    return MeasuredSensitivity.from_throughputs(
        {(cpu, memory): draw(st.floats(0.01, 50)) for cpu in sorted(cpus) for memory in sorted(memories)}
    )


JOBS = st.lists(
    st.builds(
        TraceJob,
        st.builds("{}/{}".format, NAMES, NAMES),
        demands(),
        st.just(0.0) | SECONDS,
        SECONDS,
        priority=st.integers(-(2**31), 2**31),
        profile=st.none() | PROFILES,
        model=st.just("") | NAMES,
        user=st.just("") | NAMES,
        expected_seconds=st.none() | SECONDS,
        sensitivity=st.none() | sensitivities(),
        saves=st.booleans(),
        checkpoint_seconds=st.none() | SECONDS,
        unseen_requests=st.integers(0, 10**6).map(lambda millis: HostResources.of({CPU: millis})),
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda job: job.key,
)


@given(JOBS)
@settings(max_examples=examples(40))
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, jobs: list[TraceJob]
) -> None:
    path = tmp_path_factory.mktemp("trace") / "written.csv"
    write_trace(jobs, path)
    read = load_trace(path)
    assert read.format == "laneway"
    assert sorted(read.jobs, key=lambda job: job.key) == sorted(jobs, key=lambda job: job.key)


@pytest.mark.parametrize("column", [*native.REQUIRED, *native.OPTIONAL])
def test_the_page_on_traces_mentions_every_column(column: str) -> None:
    assert f"`{column}`" in (Path(__file__).parents[3] / "docs" / "traces.md").read_text(encoding="utf-8")


def test_empty_columns_are_not_written(tmp_path: Path) -> None:
    path = tmp_path / "written.csv"
    write_trace([TraceJob("t/a", Demand(2), 0.5, 10), TraceJob("t/b", Demand(), 1, 0.1, model="bert")], path)
    assert path.read_text() == (
        "job,submit_seconds,duration_seconds,workers,model\nt/a,0.5,10,2,\nt/b,1,0.1,,bert\n"
    )


def test_every_column_of_the_format(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(
        "job,submit_seconds,duration_seconds,workers,gpus_per_worker,share_percent,memory_bytes,models,exclusive,"
        "placement,min_workers,max_workers,priority,model,user,expected_seconds,persistent_bytes,ephemeral_bytes,"
        "iteration_seconds,model_bytes,largest_tensor_bytes,storage_seconds,cpu_seconds,gpu_seconds,network_seconds\n"
        "team/a,0,10,2,,50,,A100|H100,false,Spread,1,4,5,bert,ann,12.5,100,200,0.25,400,80,0.01,0.02,0.2,0\n"
        "b,1,10,,4,,,,true,,,,,,,,,,,,,,,,\n"
        "c,2,10,,,,1024,,,,,,,,,,0,0,,,,,,,\n"
    )
    assert read_trace(path) == (
        TraceJob(
            "team/a",
            Demand(
                2,
                share_percent=50,
                models=frozenset({"A100", "H100"}),
                mode=PlacementMode.SPREAD,
                min_workers=1,
                max_workers=4,
            ),
            0,
            10,
            priority=5,
            profile=Profile(100, 200, 0.25, 400, 80, StageSeconds(0.01, 0.02, 0.2, 0.0)),
            model="bert",
            user="ann",
            expected_seconds=12.5,
        ),
        TraceJob("default/b", Demand(1, gpus_per_worker=4, exclusive=True), 1, 10),
        TraceJob("default/c", Demand(1, memory_bytes=1024), 2, 10, profile=Profile(0, 0)),
    )


@pytest.mark.parametrize(
    ("story", "columns", "fields", "says"),
    [
        ("another mode", "placement", "Near", "placement is 'Near': write one of Auto, Consolidate"),
        ("yes for true", "exclusive", "yes", "exclusive is 'yes': write true or false"),
        (
            "one size",
            "persistent_bytes,ephemeral_bytes",
            "5,",
            r"ephemeral_bytes: empty or missing; write both \(0 to ignore memory\) of persistent_bytes",
        ),
        (
            "times without sizes",
            "iteration_seconds",
            "0.5",
            "persistent_bytes, ephemeral_bytes: empty or missing",
        ),
        (
            "some of the stages",
            "persistent_bytes,ephemeral_bytes,gpu_seconds",
            "0,0,1",
            "storage_seconds, cpu_seconds, network_seconds: empty or missing; write all four, or none,",
        ),
        (
            "memory that is owed",
            "persistent_bytes,ephemeral_bytes",
            "-1,0",
            "persistent_bytes is -1: write 0 or",
        ),
        (
            "time that is owed",
            "persistent_bytes,ephemeral_bytes,iteration_seconds",
            "0,0,-1",
            "iteration_seconds is -1.0: write 0 or more",
        ),
        (
            "a range that misses",
            "workers,max_workers",
            "4,2",
            "workers is 4, and min_workers to max_workers is 4",
        ),
        (
            "no point",
            "sensitivity",
            "3000:1024",
            "sensitivity has '3000:1024': write <CPU millis>:<memory bytes>",
        ),
        (
            "a table with a hole",
            "sensitivity",
            "1000:64:1|2000:128:2",
            "sensitivity is '1000:64:1.2000:128:2': no throughput for",
        ),
        ("CPUs that are owed", "cpus", "-1", "cpus is -1: write 0 or more"),
        ("CPUs in words", "unseen_cpus", "two", "unseen_cpus is 'two': write a number of CPUs"),
        ("checkpoints all the time", "checkpoint_seconds", "0", "checkpoint_seconds of job default/a is 0.0"),
        ("expected before it began", "expected_seconds", "-2", "expected_seconds of job default/a is -2.0"),
    ],
)
def test_an_error_in_a_field_says_what_to_write(
    tmp_path: Path, story: str, columns: str, fields: str, says: str
) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(f"job,submit_seconds,duration_seconds,{columns}\na,0,1,{fields}\n")
    with pytest.raises(InputError, match=says):
        read_trace(path)


@pytest.mark.parametrize(
    ("job", "says"),
    [
        (TraceJob("a", Demand(), 0, 1), "has no namespace: name it namespace/name"),
        (TraceJob("t/a ", Demand(), 0, 1), "has a name with spaces around it, 't/a '"),
        (TraceJob("t/a", Demand(models=frozenset({"A|B"})), 0, 1), r"has a \|, which separates models"),
    ],
)
def test_a_job_that_the_format_cannot_hold_is_refused(tmp_path: Path, job: TraceJob, says: str) -> None:
    with pytest.raises(InputError, match=says):
        write_trace([job], tmp_path / "written.csv")


def test_a_file_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot write the trace .*written\.csv"):
        write_trace([], tmp_path / "nowhere" / "written.csv")
