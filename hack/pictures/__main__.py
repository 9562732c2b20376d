"""`python -m hack.pictures PROMETHEUS`: pictures of the dashboards, drawn with Grafana's component library from a Prometheus' data."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import threading
import time
import urllib.parse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
SITE = REPOSITORY / "build" / "pictures"
_PACKAGES = HERE / "node_modules"
_FONTS = {"Regular": 400, "Medium": 500}
_WIDTH = 1600
_TIMEOUT_MILLISECONDS = 60_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Builds the page and takes a picture of each dashboard."""
    parser = argparse.ArgumentParser(prog="python -m hack.pictures", description=__doc__)
    parser.add_argument("prometheus", help="its address, such as http://127.0.0.1:9090")
    parser.add_argument(
        "choices", nargs="*", metavar="VARIABLE=VALUE", help="values of the dashboards' variables"
    )
    parser.add_argument("--dashboards", type=Path, default=REPOSITORY / "charts" / "laneway" / "dashboards")
    parser.add_argument("--folder", type=Path, default=REPOSITORY / "docs" / "pictures")
    parser.add_argument(
        "--minutes", type=float, default=15, help="length of the time shown (default: %(default)s)"
    )
    parser.add_argument("--to", type=float, default=time.time(), help="its end, in Unix time (default: now)")
    parser.add_argument(
        "--scrape", type=int, default=5, help="seconds between scrapes (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    query = {each: getattr(options, each) for each in ("prometheus", "minutes", "scrape")} | {
        "to": int(options.to)
    }
    query |= dict(choice.split("=", 1) for choice in options.choices)
    _build(options.dashboards)
    with _served() as address, _chromium() as page:
        for file in sorted(options.dashboards.glob("*.json")):
            query["dashboard"] = file.stem
            _take(
                page,
                f"{address}?{urllib.parse.urlencode(query)}",
                options.folder / f"dashboard-{file.stem}.png",
            )
    return 0


def _build(dashboards: Path) -> None:
    """Puts the page, the dashboards, and Grafana's icons and fonts where the page expects them."""
    shutil.rmtree(SITE, ignore_errors=True)
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit("there is no program 'npm': install Node.js")
    if not _PACKAGES.exists():
        subprocess.run([npm, "ci", "--no-audit", "--no-fund"], cwd=HERE, check=True)
    subprocess.run([npm, "run", "--silent", "build"], cwd=HERE, check=True)
    fonts = SITE / "public" / "fonts" / "inter"
    fonts.mkdir(parents=True)
    for name, weight in _FONTS.items():
        file = _PACKAGES / "@fontsource" / "inter" / "files" / f"inter-latin-{weight}-normal.woff2"
        shutil.copy(file, fonts / f"Inter-{name}.woff2")
    (SITE / "public" / "build").symlink_to(_PACKAGES / "@grafana" / "ui" / "dist" / "public")
    for file in (HERE / "index.html", *dashboards.glob("*.json")):
        shutil.copy(file, SITE)


class _Handler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        """Logs nothing."""


@contextmanager
def _served() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=SITE)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@contextmanager
def _chromium() -> Iterator[Page]:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        raise SystemExit("neither chromium nor google-chrome is on the PATH: install one")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(timezone_id="UTC")
        page.on("pageerror", lambda error: print(error, file=sys.stderr))
        yield page
        browser.close()


def _take(page: Page, address: str, picture: Path) -> None:
    page.set_viewport_size({"width": _WIDTH, "height": 900})
    page.goto(address)
    page.wait_for_selector("body[data-drawn]", state="attached", timeout=_TIMEOUT_MILLISECONDS)
    height = page.evaluate("document.documentElement.scrollHeight")
    page.set_viewport_size({"width": _WIDTH, "height": height})  # tables draw only what is within it
    page.wait_for_load_state("networkidle")
    page.screenshot(path=picture)
    print(f"{picture} ({picture.stat().st_size // 1000} kB)")


if __name__ == "__main__":
    sys.exit(main())
