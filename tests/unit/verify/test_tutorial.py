"""The reader of a page with commands finds them in order, with the output that the page shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.tutorial import Comparison, Step, steps

START = Path(__file__).parents[3] / "docs" / "start.md"

PAGE = """
```sh
make demo
```

```yaml
a: b
```

```sh
kubectl apply -f a.yaml
kubectl get tj
```

It prints:

```text
NAME   STATE
a      Running
```

```sh
make cluster-down
```
"""


def test_commands_come_with_the_output_below_them() -> None:
    assert list(steps(PAGE)) == [
        Step("make demo\n"),
        Step("kubectl apply -f a.yaml\nkubectl get tj\n", ("NAME   STATE", "a      Running")),
        Step("make cluster-down\n"),
    ]


GPU = "GPU-70d2c0a5-6a0e-5a3c-9a5d-0f6c1d2b3e4f"


@pytest.mark.parametrize(
    ("shown", "printed", "expected"),
    [
        ("a Running", "NAME STATE\na   Running\n", []),
        ("a Running", "a Pending\n", ["a Running"]),
        (f"worker 0 on laneway-node-1: {GPU} (50%)", "worker 0 on e2e-node-2: GPU-9f (50%)\n", []),
        (
            f"worker 0 on laneway-node-1: {GPU} (50%)",
            "worker 0 on e2e-node-2: GPU-9f (25%)\n",
            [f"worker 0 on laneway-node-1: {GPU} (50%)"],
        ),
        ("first-0  laneway-node-1  0    0     …", "first-0  node-2  0    0     50%  1.0 MiB\n", []),
        ("first-0 laneway-node-1 0 0 …", "lane-a-0 node-2 0 0 25%\n", ["first-0 laneway-node-1 0 0 …"]),
        ("first-0 laneway-node-1 0 0 …", "first-0 node-2 0 - 50%\n", ["first-0 laneway-node-1 0 0 …"]),
        ("accuracy: 0.97", "step 150\naccuracy: 0.95\n", []),
        ("accuracy: 0.97", "accuracy: nan\n", ["accuracy: 0.97"]),
        ("a is pending: …", "a is pending: it asks for 20 GPUs\n", []),
        ("a is pending: …", "b is pending: it asks for 20 GPUs\n", ["a is pending: …"]),
    ],
)
def test_names_and_figures_may_differ_and_nothing_else(shown: str, printed: str, expected: list[str]) -> None:
    assert Comparison().missing((shown,), printed) == expected


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ("b on node-7: GPU-aa", []),
        ("b on node-7: GPU-bb", [f"b on laneway-node-1: {GPU}"]),
        ("b on node-8: GPU-aa", [f"b on laneway-node-1: {GPU}"]),
    ],
)
def test_a_name_that_the_page_shows_twice_is_one_node_or_gpu(second: str, expected: list[str]) -> None:
    compare = Comparison()
    assert compare.missing((f"a on laneway-node-1: {GPU}",), "a on node-7: GPU-aa\n") == []
    assert compare.missing((f"b on laneway-node-1: {GPU}",), f"{second}\n") == expected


def test_the_page_about_the_start_shows_output() -> None:
    assert sum(bool(step.shown) for step in steps(START.read_text(encoding="utf-8"))) >= 5


def test_the_page_about_the_start_shows_two_jobs_on_one_gpu() -> None:
    shown = [
        line for step in steps(START.read_text(encoding="utf-8")) for line in step.shown if "GPU-" in line
    ]
    assert len(shown) == 2
    assert len({re.search(r"on (\S+: GPU-\S+)", line)[1] for line in shown}) == 1  # type: ignore[index]
