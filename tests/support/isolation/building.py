"""Builds the interposer, the fake driver and the C programs of these tests, once per source, into the cache."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from hack.cluster.cache import cache_folder, exclusive

ROOT = Path(__file__).resolve().parents[3]
INTERPOSER = ROOT / "node_agent" / "interposer"
FAKE_DRIVER = ROOT / "tests" / "isolation" / "fake_driver"
PROGRAMS = ROOT / "tests" / "isolation" / "programs"
COMPILER = ["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-g"]
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
BEFORE_SANITIZERS = ("symbols.c", "loaded_objects.c")
"""The sanitizers themselves call dlsym when they start, before instrumented code may run."""


def shipped_interposer() -> Path:
    """The library as it is in the client's image."""
    sources = [*sorted(INTERPOSER.glob("*.[ch]")), INTERPOSER / "build.sh"]
    return _built("shipped", sources, "", lambda folder: _interposer(folder, [])) / "liblaneway-interposer.so"


def interposer_for(directory: Path) -> Path:
    """The library with another folder in place of `/run/laneway`, for tests without a mount namespace."""
    return _interposer(directory / "interposer", ["gcc", "-g", f'-DLANEWAY_DIRECTORY="{directory}"'])


def sanitized_interposer(directory: Path) -> Path:
    """The same with sanitizers."""
    folder = directory / "sanitized"
    library = folder / "liblaneway-interposer.so"
    if library.exists():
        return library
    folder.mkdir()
    objects = []
    for source in sorted(INTERPOSER.glob("*.c")):
        objects.append(str(folder / f"{source.stem}.o"))
        sanitizers = [] if source.name in BEFORE_SANITIZERS else SANITIZERS
        options = [
            "-D_GNU_SOURCE",
            "-fPIC",
            "-fvisibility=hidden",
            f'-DLANEWAY_DIRECTORY="{directory}"',
            "-O2",
        ]
        _run([*COMPILER, *sanitizers, *options, "-c", "-o", objects[-1], str(source)])
    _run(["gcc", "-shared", "-Wl,-Bsymbolic", *SANITIZERS, "-o", str(library), *objects])
    return library


def _interposer(folder: Path, arguments: Sequence[str]) -> Path:
    _run(["sh", str(INTERPOSER / "build.sh"), str(folder), *arguments])
    return folder / "liblaneway-interposer.so"


def fake_driver() -> Path:
    """A folder with libcuda.so.1 and libnvidia-ml.so.1, and libcuda.so to link with."""

    def build(folder: Path) -> None:
        # -Bsymbolic as in NVIDIA's: the driver calls its own functions directly.
        library = [*COMPILER, "-shared", "-Wl,-Bsymbolic", "-fPIC", "-fvisibility=hidden", "-pthread"]
        versions = f"-Wl,--version-script={FAKE_DRIVER / 'driver.map'}"
        sources = [str(path) for path in sorted(FAKE_DRIVER.glob("*.c")) if path.name != "nvml.c"]
        _run([*library, "-Wl,-soname,libcuda.so.1", versions, "-o", str(folder / "libcuda.so.1"), *sources])
        (folder / "libcuda.so").symlink_to("libcuda.so.1")
        nvml = str(FAKE_DRIVER / "nvml.c")
        _run([*library, "-Wl,-soname,libnvidia-ml.so.1", "-o", str(folder / "libnvidia-ml.so.1"), nvml])
        static = [*COMPILER, "-c", "-fPIC", "-pthread"]
        for source in sources:
            _run([*static, "-o", str(folder / f"{Path(source).stem}.o"), source])

    return _built("driver", sorted(FAKE_DRIVER.iterdir()), "", build)


def fake_driver_variables(devices: Path) -> dict[str, str]:
    """The environment in which a program finds the fake driver, with the devices of a folder."""
    return {"LD_LIBRARY_PATH": str(fake_driver()), "FAKE_CUDA_DEVICES": str(devices)}


def program(name: str, *options: str) -> Path:
    """The program of `programs/NAME.c`, linked with the fake driver unless `options` say otherwise."""
    driver = fake_driver()

    def build(folder: Path) -> None:
        linked = options or (f"-L{driver}", "-lcuda", "-ldl", "-pthread")
        source = str(PROGRAMS / f"{name}.c")
        _run([*COMPILER, "-o", str(folder / name), source, *linked])

    return (
        _built(name, [PROGRAMS / f"{name}.c", *sorted(PROGRAMS.glob("*.h"))], f"{driver} {options}", build)
        / name
    )


def _built(name: str, sources: Sequence[Path], circumstances: str, build: Callable[[Path], object]) -> Path:
    digest = hashlib.sha256(f"{circumstances} {Path(__file__).read_text()}".encode())
    for source in sources:
        digest.update(source.read_bytes())
    folder = cache_folder() / "isolation" / f"{name}-{digest.hexdigest()[:16]}"
    with exclusive(cache_folder() / "locks" / "isolation.lock"):
        if not (folder / ".whole").exists():
            folder.mkdir(parents=True, exist_ok=True)
            build(folder)
            (folder / ".whole").touch()
    return folder


def _run(command: Sequence[str]) -> None:
    environment = {**os.environ, "PYTHON": sys.executable}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"
