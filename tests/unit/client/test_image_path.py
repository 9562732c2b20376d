"""The image's own PYTHONPATH, which the container's replaces: one entry of that stands for it."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests.unit.client.test_start_up import CLIENT, PYTHON

_TELL = "import json, os, sys; print(json.dumps([sys.path, os.environ.get('PYTHONPATH')]))"


def started(
    folder: Path, code: str, *path: str, image_path: str | None = None, door: bool = True
) -> subprocess.CompletedProcess[str]:
    """Runs an interpreter in `folder` with these entries in PYTHONPATH; `image_path` is what is known of the image's own."""
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "LANEWAY"))
    }
    environment["PYTHONPATH"] = os.pathsep.join(path)
    if door:
        environment["LANEWAY_DIR"] = str(folder)
    if image_path is not None:
        (folder / "image-pythonpath").write_text(image_path)
    return subprocess.run(
        [PYTHON, "-c", code], env=environment, cwd=folder, capture_output=True, text=True, check=False
    )


def told(done: subprocess.CompletedProcess[str]) -> list[tuple[list[str], str]]:
    """The path and the variable in each line that was printed, without the client's own entry."""
    assert (done.returncode, done.stderr) == (0, "")
    found = []
    for line in done.stdout.splitlines():
        path, variable = json.loads(line)
        assert variable.split(os.pathsep)[0] == str(CLIENT)
        path.remove(str(CLIENT))
        found.append((path, variable.partition(os.pathsep)[2]))
    return found


def test_the_path_is_as_the_image_would_have_it_and_so_it_is_in_processes_further_down(
    tmp_path: Path,
) -> None:
    """Relative entries, empty ones, some twice, one that Python has behind them in any case, one that is not there."""
    stdlib = sysconfig.get_paths()["stdlib"]
    given = os.pathsep.join(
        (f"{tmp_path}/own", "relative", "", f"{tmp_path}/own", stdlib, "/nonexistent", "")
    )
    plain = started(tmp_path, _TELL, given, door=False)
    expected, _ = json.loads(plain.stdout)
    code = f"{_TELL}; import subprocess; subprocess.run([sys.executable, '-c', {_TELL!r}], check=True)"

    done = started(tmp_path, code, str(CLIENT), f"{tmp_path}/image-pythonpath", image_path=given)

    assert told(done) == [(expected, given)] * 2


def test_the_images_modules_and_its_sitecustomize_are_found(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own/own_module.py").write_text("name = 'own'")
    (tmp_path / "own/sitecustomize.py").write_text("import sys; sys.own = 'ran'")
    code = "import sys, own_module; print(sys.own, own_module.name, 'laneway.client.torch_import' in sys.modules)"

    done = started(tmp_path, code, str(CLIENT), f"{tmp_path}/image-pythonpath", image_path=f"{tmp_path}/own")

    assert (done.stdout, done.stderr) == ("ran own True\n", "")


@pytest.mark.parametrize("image_path", [None, "", "/own:/of-image"])
def test_what_an_entry_point_adds_stays_around_the_images(tmp_path: Path, image_path: str | None) -> None:
    stand_in = f"{tmp_path}/image-pythonpath"

    done = started(tmp_path, _TELL, str(CLIENT), "/first", stand_in, "/last", image_path=image_path)

    entries = ["/first", *(image_path or "").split(":"), "/last"]
    ((path, variable),) = told(done)
    assert variable == ":".join(filter(None, entries))
    assert [each for each in path if each in ("/first", "/own", "/of-image", "/last", stand_in)] == list(
        filter(None, entries)
    )


def test_a_path_that_says_nothing_of_the_images_is_left_alone(tmp_path: Path) -> None:
    """As Kubernetes has it: what the pod sets comes in the place of what the image sets."""
    ((path, variable),) = told(started(tmp_path, _TELL, str(CLIENT), "/users", image_path="/own"))
    assert variable == "/users"
    assert "/users" in path
    assert "/own" not in path
