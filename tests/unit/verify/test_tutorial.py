"""The reader of a page with commands finds them in order, with the output that the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.tutorial import Step, missing, steps

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


@pytest.mark.parametrize(
    ("shown", "printed", "expected"),
    [
        ("a Running", "NAME STATE\na   Running\n", []),
        ("a Running", "a Pending\n", ["a Running"]),
        ("worker 0 on node-1: GPU-7 (50%)", "worker 0 on e2e-node-2: GPU-9f (50%)\n", []),
        ("a is pending: …", "a is pending: it asks for 20 GPUs\n", []),
        ("a is pending: …", "b is pending: it asks for 20 GPUs\n", ["a is pending: …"]),
    ],
)
def test_output_is_compared_word_by_word(shown: str, printed: str, expected: list[str]) -> None:
    assert missing((shown,), printed) == expected


def test_the_page_about_the_start_shows_output() -> None:
    assert sum(bool(step.shown) for step in steps(START.read_text(encoding="utf-8"))) >= 5
