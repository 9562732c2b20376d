"""The mirror of a bootstrap is the machine's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from hack.images.apt_sources import mirror

DEBIAN = 'ID=debian\nVERSION_CODENAME="bookworm"\n'
UBUNTU = "ID=ubuntu\nVERSION_CODENAME=noble\n"
STANZA = """\
Types: deb
# a comment
URIs: {uri}
Suites: {suites}
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""


@pytest.mark.parametrize(
    ("os_release", "files", "expected"),
    [
        pytest.param(
            DEBIAN,
            {
                "sources.list": "# old\ndeb [signed-by=/k.gpg] http://mirror.example/debian bookworm main contrib\n"
            },
            "http://mirror.example/debian",
            id="one line a source",
        ),
        pytest.param(
            DEBIAN,
            {
                "sources.list.d/debian.sources": STANZA.format(
                    uri="https://mirror.example/debian", suites="bookworm bookworm-updates"
                )
            },
            "https://mirror.example/debian",
            id="stanzas",
        ),
        pytest.param(
            DEBIAN,
            {
                "sources.list.d/a.sources": STANZA.format(
                    uri="http://mirror.example/security", suites="bookworm-security"
                )
                + "\n"
                + STANZA.format(uri="http://mirror.example/debian", suites="bookworm")
            },
            "http://mirror.example/debian",
            id="not the security archive",
        ),
        pytest.param(
            DEBIAN,
            {
                "sources.list.d/a.sources": STANZA.format(
                    uri="http://mirror.example/debian", suites="bookworm"
                )
                + "Enabled: no\n"
            },
            None,
            id="not what is switched off",
        ),
        pytest.param(
            DEBIAN,
            {"sources.list.d/other.list": "deb https://apt.example/tools stable main\n"},
            None,
            id="not another vendor's",
        ),
        pytest.param(
            UBUNTU, {"sources.list": "deb http://mirror.example/ubuntu noble main\n"}, None, id="not Ubuntu's"
        ),
        pytest.param(DEBIAN, {}, None, id="nothing configured"),
    ],
)
def test_mirror(tmp_path: Path, os_release: str, files: dict[str, str], expected: str | None) -> None:
    (tmp_path / "apt" / "sources.list.d").mkdir(parents=True)
    for name, text in files.items():
        (tmp_path / "apt" / name).write_text(text, encoding="utf-8")
    (tmp_path / "os-release").write_text(os_release, encoding="utf-8")
    assert mirror(tmp_path / "apt", tmp_path / "os-release") == expected
