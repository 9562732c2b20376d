"""Reads this machine's apt configuration, so that a bootstrap of another Debian release uses the same mirror and settings."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

APT = Path("/etc/apt")
OS_RELEASE = Path("/etc/os-release")
_ONE_LINE = re.compile(r"^deb\s+(?:\[[^\]]*\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s+(?P<components>.+)$")


def mirror(apt: Path = APT, os_release: Path = OS_RELEASE) -> str | None:
    """The address from which this machine gets Debian itself; None where it is no Debian or names none.

    Any release of Debian lies on a mirror beside the others, so the host's own may be older than the one to bootstrap.
    """
    host = dict(line.split("=", 1) for line in _lines(os_release) if "=" in line)
    if host.get("ID", "").strip('"') != "debian":
        return None
    codename = host.get("VERSION_CODENAME", "").strip('"')
    for uri, suites, components in _sources(apt):
        if codename in suites and "main" in components and uri.startswith(("http://", "https://")):
            return uri
    return None


def acquire_options() -> str:
    """The `Acquire::…` settings of this machine's apt (proxies, time checks, retries), as a configuration file for another root."""
    if shutil.which("apt-config") is None:
        return ""
    dump = subprocess.run(["apt-config", "dump"], check=True, capture_output=True, text=True).stdout
    kept = [line for line in dump.splitlines() if line.startswith("Acquire::") and "IndexTargets" not in line]
    return "\n".join(kept) + "\n"


def _sources(apt: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """(address, suites, components) of each enabled source, in both of apt's notations."""
    for path in (apt / "sources.list", *sorted((apt / "sources.list.d").glob("*.list"))):
        for line in _lines(path):
            match = _ONE_LINE.match(line)
            if match:
                yield match["uri"], [match["suite"]], match["components"].split()
    for path in sorted((apt / "sources.list.d").glob("*.sources")):
        for stanza in re.split(r"\n\s*\n", path.read_text(encoding="utf-8")):
            fields = _stanza_fields(stanza)
            if "deb" not in fields.get("types", []) or fields.get("enabled", ["yes"]) == ["no"]:
                continue
            for uri in fields.get("uris", []):
                yield uri, fields.get("suites", []), fields.get("components", [])


def _stanza_fields(stanza: str) -> dict[str, list[str]]:
    lines = (line for line in stanza.splitlines() if ":" in line and not line.startswith(("#", " ")))
    pairs = (line.split(":", 1) for line in lines)
    return {name.strip().lower(): value.split() for name, value in pairs}


def _lines(path: Path) -> list[str]:
    if not path.is_file():
        return []
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("#")]
