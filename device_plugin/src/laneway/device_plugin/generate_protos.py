"""Generates the modules in `proto/` from the .proto files beside them.

``python -m laneway.device_plugin.generate_protos`` writes them; with ``--check`` it only says which are not current.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_SOURCE_ROOT = _HERE.parent.parent
_PROTO_FOLDER = _HERE / "proto"


def generate(into: Path) -> dict[Path, str]:
    """Run protoc; return the text of each generated file by its path relative to the source root.

    Raises:
        subprocess.CalledProcessError: protoc refused a file (it has said why on stderr).
    """
    sources = sorted(str(file) for file in _PROTO_FOLDER.glob("*.proto"))
    protoc = [sys.executable, "-m", "grpc_tools.protoc"]
    options = [f"-I{_SOURCE_ROOT}", f"--python_out={into}", f"--pyi_out={into}"]
    subprocess.run([*protoc, *options, *sources], check=True)
    return {file.relative_to(into): file.read_text() for file in sorted(into.rglob("*_pb2.py*"))}


def main(arguments: list[str] | None = None) -> int:
    """Write the generated modules, or check that they are current."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is not current")
    check = parser.parse_args(arguments).check
    stale = []
    with tempfile.TemporaryDirectory() as scratch:
        for relative, text in generate(Path(scratch)).items():
            target = _SOURCE_ROOT / relative
            if target.exists() and target.read_text() == text:
                continue
            stale.append(str(relative))
            if not check:
                target.write_text(text)
    if check and stale:
        print(
            f"not current: {', '.join(stale)}; run python -m laneway.device_plugin.generate_protos",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
