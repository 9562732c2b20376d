"""What happens in a Python process before and during the import of PyTorch."""

from __future__ import annotations

import ast
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.unit.client.interpreter import CLIENT, PYTHON

LATER_THAN_3_8 = {
    *(
        "removeprefix",
        "removesuffix",
        "waitstatus_to_exitcode",
        "cache",
        "randbytes",
        "to_thread",
        "pidfd_open",
    ),
    *(
        "pairwise",
        "batched",
        "bit_count",
        "lcm",
        "nextafter",
        "is_relative_to",
        "with_stem",
        "readlink",
        "hardlink_to",
    ),
    *(
        "ParamSpec",
        "TypeAlias",
        "Self",
        "override",
        "StrEnum",
        "UTC",
        "ExceptionGroup",
        "tomllib",
        "zoneinfo",
    ),
}
"""Names of the standard library missing from Python 3.8, which PyTorch supported until 2.4."""

FAKE_TORCH = """
import laneway.client.pytorch.hooks
installed = []
laneway.client.pytorch.hooks.install = installed.append
"""


def interpreter(
    *arguments: str, path: Sequence[Path], laneway: bool = True
) -> subprocess.CompletedProcess[str]:
    """Runs a new interpreter with these folders on its path."""
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "LANEWAY"))
    }
    environment["PYTHONPATH"] = os.pathsep.join(str(entry) for entry in path)
    if laneway:
        environment["LANEWAY_DIR"] = "/nonexistent"
    return subprocess.run([PYTHON, *arguments], env=environment, capture_output=True, text=True, check=False)


def python(code: str, path: Sequence[Path], *, laneway: bool = True, client: Path = CLIENT) -> list[str]:
    """Runs code in a new interpreter with the client first on the path; returns the printed lines."""
    done = interpreter("-c", code, path=[client, *path], laneway=laneway)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize(("own", "wanted"), [("0.9", "None 0.9"), ("", "0.4 ")])
def test_a_scripts_own_memory_fraction_for_jax_replaces_the_containers(
    own: str, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.4")
    monkeypatch.setenv("XLA_CLIENT_MEM_FRACTION", own)
    code = "import os; print(*map(os.environ.get, ('XLA_PYTHON_CLIENT_MEM_FRACTION', 'XLA_CLIENT_MEM_FRACTION')))"
    assert python(code, []) == [wanted]


def test_only_an_import_hook_is_loaded_until_torch_is_imported() -> None:
    code = "import sys, json; print(json.dumps([m for m in sys.modules if m.startswith('laneway')]))"
    loaded = set(json.loads(python(code, [])[0]))
    assert loaded <= {"laneway", "laneway.client", "laneway.client.torch_import"}
    assert "laneway.client.torch_import" in loaded


def test_it_loads_no_other_modules(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("")
    code = "import sys; print(*sys.modules)"
    (with_client,), (without,) = (python(code, [tmp_path], client=client) for client in (CLIENT, tmp_path))
    added = set(with_client.split()) - set(without.split())
    assert added == {"__future__", "laneway", "laneway.client", "laneway.client.torch_import"}


@pytest.mark.parametrize("flag", ["-S", "-I", "-E"])
def test_an_interpreter_that_ignores_the_environment_has_no_client(flag: str) -> None:
    code = "import sys; print([m for m in sys.modules if 'laneway' in m], 'x')"
    done = interpreter(flag, "-c", code, path=[CLIENT])
    assert (done.returncode, done.stdout, done.stderr) == (0, "[] x\n", "")


def test_a_subinterpreter_starts_as_well() -> None:
    code = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
other = interpreters.create()
interpreters.run_string(other, "import sys; assert 'laneway.client.torch_import' in sys.modules")
interpreters.run_string(other, "import laneway.client; assert not laneway.client.stopping()")
interpreters.destroy(other)
print("good")
"""
    assert python(code, []) == ["good"]


def test_nothing_is_loaded_in_a_container_without_a_share() -> None:
    code = "import sys; print([m for m in sys.modules if m.startswith('laneway.client')])"
    assert python(code, [], laneway=False) == ["[]"]


def test_torch_gets_its_hooks_on_import_and_looks_unchanged(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").write_text(FAKE_TORCH)
    code = """
import importlib.util, sys
assert importlib.util.find_spec("torch") is not None  # as libraries do that only want to know
before = len(sys.meta_path)
import torch
assert torch.installed == [torch], torch.installed
assert len(sys.meta_path) == before - 1
assert "exec_module" not in vars(torch.__spec__.loader)
import inspect
assert "installed = []" in inspect.getsource(torch)
print("good")
"""
    assert python(code, [tmp_path]) == ["good"]


def test_a_failing_import_of_torch_fails_as_without_the_client(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('no libcuda')")
    code = """
for _ in range(2):
    try:
        import torch
    except ImportError as error:
        print(error)
"""
    assert python(code, [tmp_path]) == ["no libcuda", "no libcuda"]


def test_a_missing_torch_is_reported_as_missing() -> None:
    code = """
try:
    import torch
except ModuleNotFoundError as error:
    print(error)
"""
    assert python(code, []) == ["No module named 'torch'"]


@pytest.mark.parametrize("laneway", [True, False])
def test_the_images_own_sitecustomize_runs(tmp_path: Path, laneway: bool) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.own = 'ran'; name = 'own'")
    code = "import sys, sitecustomize; print(sys.own, sitecustomize.name)"
    assert python(code, [tmp_path], laneway=laneway) == ["ran own"]


@pytest.mark.parametrize("own", ["sitecustomize", "usercustomize"])
@pytest.mark.parametrize("raises", ["ValueError('broken')", "ImportError('no such thing', name='thing')"])
def test_the_images_own_customize_module_fails_as_without_the_client(
    tmp_path: Path, own: str, raises: str
) -> None:
    (tmp_path / f"{own}.py").write_text(f"raise {raises}")
    code = f"import sys; print('{own}' in sys.modules)"
    without, with_client = (interpreter("-c", code, path=path) for path in ([tmp_path], [CLIENT, tmp_path]))
    assert "Error" in without.stderr, "the interpreter runs what it is to run"
    outcome = (with_client.returncode, with_client.stdout, with_client.stderr)
    assert outcome == (without.returncode, without.stdout, without.stderr)


def test_the_images_own_sitecustomize_may_refuse_to_start(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("raise SystemExit(3)")
    without, with_client = (
        interpreter("-c", "print('started')", path=path) for path in ([tmp_path], [CLIENT, tmp_path])
    )
    # Python fails with a traceback, here through the client; its last line is the same.
    assert with_client.stderr.splitlines()[-1] == without.stderr.splitlines()[-1]
    assert (with_client.returncode, with_client.stdout) == (without.returncode, without.stdout)


def test_the_images_usercustomize_runs(tmp_path: Path) -> None:
    (tmp_path / "usercustomize.py").write_text("import sys; sys.own = 'ran'")
    code = "import sys; print(sys.own, 'laneway.client.torch_import' in sys.modules)"
    assert python(code, [tmp_path]) == ["ran True"]


def test_it_works_through_symbolic_links_as_on_a_node(tmp_path: Path) -> None:
    opt, own = tmp_path / "opt", tmp_path / "own"
    opt.mkdir()
    own.mkdir()
    for name in ("laneway", "sitecustomize.py"):
        (opt / name).symlink_to(CLIENT / name)
    (own / "sitecustomize.py").write_text("import sys; sys.own = 'ran'")
    code = "import sys; print(sys.own, 'laneway.client.torch_import' in sys.modules)"
    assert python(code, [own], client=opt) == ["ran True"]


def test_two_copies_of_the_client_on_the_path_do_not_call_each_other_forever(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text((CLIENT / "sitecustomize.py").read_text())
    last = tmp_path / "last"
    last.mkdir()
    (last / "sitecustomize.py").write_text("import sys; sys.own = 'ran'")
    (last / "torch.py").write_text(FAKE_TORCH)
    code = "import sys, torch; print(sys.own, len(torch.installed))"
    assert python(code, [tmp_path, last]) == ["ran 1"]


def test_the_script_api_works_without_laneway() -> None:
    code = """
from laneway.client import iteration, iterations, stopping
assert list(iterations([1, 2])) == [1, 2]
with iteration():
    with iteration():
        pass
print(stopping())
"""
    assert python(code, [], laneway=False) == ["False"]
    assert python(code, [], laneway=True) == ["False"]


def test_stopping_is_true_after_sigterm() -> None:
    code = """
import signal
from laneway.client import stopping
assert not stopping()
signal.raise_signal(signal.SIGTERM)
print(stopping())
"""
    assert python(code, [], laneway=False) == ["True"]


@pytest.mark.parametrize("path", sorted(CLIENT.rglob("*.py")), ids=lambda path: path.name)
def test_the_source_is_python_3_8(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 8))
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    names |= {name.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for name in node.names}
    assert not names & LATER_THAN_3_8
