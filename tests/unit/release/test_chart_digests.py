"""A released chart names its images by digest."""

from __future__ import annotations

import pytest
import yaml

from hack.chart.generated import CHART
from hack.release.chart import with_digests
from hack.release.failure import ReleaseError

IMAGES = ("operator", "device-plugin", "node-agent", "client", "board")
DIGESTS = {name: f"sha256:{index:064x}" for index, name in enumerate(IMAGES)}
VALUES = (CHART / "values.yaml").read_text(encoding="utf-8")


def test_each_image_gets_its_digest_and_nothing_else_changes() -> None:
    before, after = yaml.safe_load(VALUES), yaml.safe_load(with_digests(VALUES, DIGESTS))
    images = [
        (
            values["operator"]["image"],
            values["board"]["image"],
            *(values["node"][part]["image"] for part in ("devicePlugin", "agent", "client")),
        )
        for values in (before, after)
    ]
    for old, new in zip(*images, strict=True):
        assert old["digest"] == ""
        assert new["digest"] == DIGESTS[new["repository"].removeprefix("laneway/")]
        new["digest"] = ""
    assert after == before


def test_an_image_that_is_not_built_is_refused() -> None:
    with pytest.raises(ReleaseError, match="the image laneway/client, which the release does not build"):
        with_digests(VALUES, {name: DIGESTS[name] for name in IMAGES if name != "client"})


def test_an_image_without_a_place_for_its_digest_is_refused() -> None:
    with pytest.raises(ReleaseError, match=r"6 images, and 5 with a line digest"):
        with_digests(f"{VALUES}another:\n  repository: laneway/another\n", DIGESTS)
