"""Reads an image's PYTHONPATH from the container runtime's answer, and finds the image of the starting container."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

import pytest
from laneway.device_plugin.image_paths import image_of
from laneway.device_plugin.pod_resources import Holder
from laneway.device_plugin.runtime_images import pythonpath_of

from tests.support.device_plugin.builders import ids, pod


def said(environment: Sequence[str] | None) -> dict[str, str]:
    """As containerd says it; CRI-O leaves out the chain and adds labels."""
    config = {"Entrypoint": ["/start.sh"]} | ({} if environment is None else {"Env": environment})
    image = {"architecture": "amd64", "os": "linux", "config": config}
    return {"info": json.dumps({"chainID": "sha256:0", "labels": {"a": "b"}, "imageSpec": image})}


@pytest.mark.parametrize(
    ("environment", "value"),
    [
        (["PATH=/bin", "PYTHONPATH=/opt/own:/opt/more", "LANG=C"], "/opt/own:/opt/more"),
        (["PYTHONPATH=/a=b"], "/a=b"),
        (["PYTHONPATH=/first", "PYTHONPATH=/last"], "/last"),
        (["PYTHONPATH="], ""),
        (["PYTHONPATH"], ""),
        (["PYTHONPATHS=/a", "MYPYTHONPATH=/b"], ""),
        ([], ""),
        (None, ""),
    ],
)
def test_the_pythonpath_of_an_image(environment: Sequence[str] | None, value: str) -> None:
    assert pythonpath_of(said(environment)) == value


@pytest.mark.parametrize(
    ("info", "says"),
    [
        ({}, "has no 'info', only []"),
        ({"Docker": "{}"}, "only ['Docker']"),
        ({"info": "not JSON"}, "Expecting value"),
        ({"info": "[]"}, "no imageSpec.config"),
        ({"info": '{"imageSpec": {}}'}, "no imageSpec.config"),
        ({"info": '{"imageSpec": {"config": {"Env": {"PYTHONPATH": "/a"}}}}'}, "an Env that is no list"),
    ],
)
def test_an_answer_in_an_unknown_format_is_refused(info: Mapping[str, str], says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        pythonpath_of(info)


def test_each_container_of_a_pod_has_its_own_image() -> None:
    two = pod("a", asks={"trainer": 20, "loader": 20, "logger": 0})
    for container in ("trainer", "loader"):
        holder = Holder("default", "a", container, frozenset(ids(0, range(20))))
        assert image_of(ids(0, range(20)), holder, two) == f"image-of-{container}"


def test_an_init_container_is_known_by_how_much_it_asked_for() -> None:
    """The kubelet's records name the container after it."""
    held = Holder("default", "a", "trainer", frozenset(ids(0, range(50))))
    lent = ids(0, range(20))
    assert image_of(lent, held, pod("a", first={"other": 10, "prepare": 20})) == "image-of-prepare"
    for unclear in (pod("a", first={"one": 20, "other": 20}), pod("a"), None):
        with pytest.raises(ValueError, match=r"cannot determine|is unknown"):
            image_of(lent, held, unclear)
