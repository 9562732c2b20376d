"""Runs what needs a real GPU: `make test-gpu`. docs/real-gpu.md says what it does.

    python3 tests/gpu                      # all three parts
    python3 tests/gpu --only tests
    python3 tests/gpu --only sharing       # throughput in all ways of sharing
    python3 tests/gpu --only shares        # memory to the byte, the launch gate, shares of time
    python3 tests/gpu --device cpu         # the same code on a simulated GPU

Ends with 0 and a sentence where there is no GPU.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from readiness import what_is_missing, why_no_driver, why_no_packages

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = [REPOSITORY / name / "src" for name in ("core", "node_agent")]
WHEELS = REPOSITORY / ".wheels"
PARTS = ("tests", "sharing", "shares")


def main() -> int:
    """Run the parts that the command line names; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help=f"{' or '.join(PARTS)}; else all")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument(
        "--results", type=Path, help="the folder for the benchmarks' JSON; else it is only shown"
    )
    parser.add_argument("rest", nargs="*", help="passed on to pytest, or to the benchmarks")
    options = parser.parse_args()
    if options.only and options.only not in PARTS:
        parser.error(f"there is no part {options.only}: write {' or '.join(PARTS)}")
    with tempfile.TemporaryDirectory(prefix="lw-site-") as site:
        if not why_no_driver(options.device) and why_no_packages(options.device):
            _unpack_wheels(Path(site))
        _claim_the_name_tests(Path(site))
        missing = what_is_missing(options.device)
        if missing:
            print(f"make test-gpu: skipped, nothing was tested: {missing}")
            return 0
        return max(_run(part, options) for part in PARTS if options.only in ("", part))


def _unpack_wheels(site: Path) -> None:
    """Make the wheels importable that `make gpu-wheels` has put beside the sources, where there are any."""
    wheels = [str(path) for path in sorted(WHEELS.glob("*.whl"))]
    if not wheels:
        return
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-compile"]
    if subprocess.run([*command, "--target", str(site), *wheels], check=False).returncode:
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        print(f"{WHEELS} cannot be used: make gpu-wheels GPU_PYTHON_VERSION={version}", file=sys.stderr)
    sys.path.insert(0, str(site))


def _claim_the_name_tests(site: Path) -> None:
    """Give `tests` an `__init__.py`: otherwise a package `tests` of an installed library would take precedence."""
    (site / "tests").mkdir()
    (site / "tests/__init__.py").write_text(f"__path__ = [{str(REPOSITORY / 'tests')!r}]\n")
    os.environ["PYTHONPATH"] = _joined(site, *SOURCES, REPOSITORY, os.environ.get("PYTHONPATH", ""))


def _joined(*parts: object) -> str:
    return os.pathsep.join(str(part) for part in parts if part)


def _run(part: str, options: argparse.Namespace) -> int:
    os.environ["LANEWAY_TEST_DEVICE"] = options.device
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # independent of other packages installed there
    if part == "tests":
        command = ["pytest", "-c", str(Path(__file__).with_name("pytest.ini")), f"--rootdir={REPOSITORY}"]
        command += [str(Path(__file__).parent), *options.rest]
    else:
        command = ["tests.performance.gpu", "--part", part, "--device", options.device, *options.rest]
        command += ["--results", str(options.results)] if options.results else []
    return subprocess.run([sys.executable, "-m", *command], cwd=REPOSITORY, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
