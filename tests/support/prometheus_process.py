"""A real Prometheus with the chart's rules, which scrapes what a test runs."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import yaml

from hack.chart.rules import rules
from hack.cluster.probes import answers_ok, wait_until

_START_SECONDS = 60


@dataclass(frozen=True)
class Prometheus:
    """A running Prometheus."""

    address: str

    def samples(self, expression: str) -> list[dict[str, Any]]:
        """Return the answer to an instant query, which has to be valid."""
        url = f"{self.address}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        except HTTPError as error:
            raise AssertionError(f"{expression}: {json.load(error)['error']}") from error
        return found

    def label_values(self, query: str) -> list[str]:
        """Return the answer to Grafana's query `label_values(series, label)`, as Grafana asks for it."""
        series, _, label = query.removeprefix("label_values(").removesuffix(")").rpartition(", ")
        matching = urllib.parse.urlencode({"match[]": series})
        with urllib.request.urlopen(
            f"{self.address}/api/v1/label/{label}/values?{matching}", timeout=30
        ) as answer:
            found: list[str] = json.load(answer)["data"]
        return found

    def fires(self, alert: str, **labels: str) -> bool:
        """Return whether an alert with these labels fires."""
        matchers = {"alertname": alert, "alertstate": "firing", **labels}
        selector = ",".join(f'{name}="{value}"' for name, value in matchers.items())
        return bool(self.samples(f"ALERTS{{{selector}}}"))

    def alerts(self, name: str) -> list[dict[str, str]]:
        """Return the labels of the alerts with this name that fire."""
        return [each["metric"] for each in self.samples(f'ALERTS{{alertname="{name}",alertstate="firing"}}')]

    def firing(self) -> dict[str, dict[str, str]]:
        """Return the labels of the alerts that fire, by name; of several with one name, those of one."""
        found = self.samples('ALERTS{alertstate="firing"}')
        return {sample["metric"]["alertname"]: sample["metric"] for sample in found}


@contextmanager
def prometheus(
    folder: Path,
    targets: Mapping[str, str],
    *,
    scrape_seconds: int = 1,
    at_once: bool = False,
    **thresholds: float,
) -> Iterator[Prometheus]:
    """Run Prometheus in a folder.

    Args:
        folder: for its files.
        targets: by the name of a scrape job: address and path, without the scheme.
        scrape_seconds: time between two scrapes.
        at_once: let alerts fire as soon as their conditions hold.
        **thresholds: in place of those of the chart's values, by their names.
    """
    log_file = folder / "prometheus.log"
    command = [
        "prometheus",
        f"--config.file={_configuration(folder, targets, scrape_seconds, _quick_rules(at_once, thresholds))}",
        f"--storage.tsdb.path={folder / 'prometheus-data'}",
        "--web.listen-address=127.0.0.1:0",  # a port that was only chosen could be another program's by then
    ]
    with log_file.open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        ready = lambda: answers_ok("127.0.0.1", _port(log_file), "/-/ready", None)  # noqa: E731
        runs = lambda: process.poll() is None  # noqa: E731
        wait_until(ready, "Prometheus", _START_SECONDS, still_possible=runs, log=log_file)
        yield Prometheus(f"http://127.0.0.1:{_port(log_file)}")
    finally:
        process.terminate()
        process.wait()


def _port(log: Path) -> int:
    """Return the port on which Prometheus says that it listens; 0 before it does."""
    found = re.search(r'"Listening on".* address=127\.0\.0\.1:(\d+)\s', log.read_text(encoding="utf-8"))
    return int(found[1]) if found else 0


def _quick_rules(at_once: bool, thresholds: Mapping[str, float]) -> dict[str, Any]:
    """Return the chart's rules, to be evaluated every second."""
    quick = rules(**thresholds)
    for group in quick["groups"]:
        group["interval"] = "1s"
        for rule in group["rules"]:
            if at_once:
                rule.pop("for", None)
    return quick


def _configuration(
    folder: Path, targets: Mapping[str, str], scrape_seconds: int, made: Mapping[str, Any]
) -> Path:
    (folder / "rules.yml").write_text(yaml.safe_dump(dict(made)), encoding="utf-8")
    interval = {"scrape_interval": f"{scrape_seconds}s", "evaluation_interval": "1s"}
    path = folder / "prometheus.yml"
    text = {
        "global": interval,
        "rule_files": ["rules.yml"],
        "scrape_configs": list(_scrapes(targets.items())),
    }
    path.write_text(yaml.safe_dump(text), encoding="utf-8")
    return path


def _scrapes(targets: Iterable[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    for name, target in targets:
        address, _, path = target.partition("/")
        yield {
            "job_name": name,
            "metrics_path": f"/{path}",
            "honor_labels": True,
            "static_configs": [{"targets": [address]}],
        }
