"""With `metrics.secure`, a proxy asks the API server before anybody reads metrics, and nothing else listens outside a pod."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.chart.generated import CHART
from hack.verify.chart import rendered_objects

ValuesFile = Callable[[str], Path]
SECURE = "metrics: {secure: {enabled: true}, serviceMonitor: {enabled: true}}"
SECURE_PORTS = {"metrics": 9090, "agent-metrics": 9464, "plugin-metrics": 9465}


def objects(values: Path) -> list[dict[str, Any]]:
    return rendered_objects(values)


def containers(found: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The containers of the operator and of the node pods, by name."""
    specs = [
        each["spec"]["template"]["spec"] for each in found if each["kind"] in ("Deployment", "DaemonSet")
    ]
    return {each["name"]: each for spec in specs for each in spec["containers"]}


def option(container: dict[str, Any], name: str) -> str:
    (value,) = (each.partition("=")[2] for each in container["args"] if each.startswith(f"--{name}="))
    return str(value)


def test_only_the_proxies_listen_outside_the_pods(values_file: ValuesFile) -> None:
    found = objects(values_file(SECURE))
    by_name = containers(found)
    listening = {
        port["name"]: port["containerPort"] for each in by_name.values() for port in each.get("ports", ())
    }
    assert listening == SECURE_PORTS
    assert {name for name, each in by_name.items() if "ports" in each} == {
        f"{name}-proxy" for name in SECURE_PORTS
    }
    (config,) = (
        each["data"]["operator.yaml"] for each in found if "operator.yaml" in (each.get("data") or {})
    )
    operator = yaml.safe_load(config)
    upstreams = {
        "metrics": f"http://{operator['metricsAddress']}:{operator['metricsPort']}/",
        "agent-metrics": f"http://{option(by_name['node-agent'], 'address')}:{option(by_name['node-agent'], 'port')}/",
        "plugin-metrics": "http://{}:{}/".format(
            option(by_name["device-plugin"], "http-address"), option(by_name["device-plugin"], "http-port")
        ),
    }
    for name, port in SECURE_PORTS.items():
        proxy = by_name[f"{name}-proxy"]
        assert option(proxy, "secure-listen-address") == f":{port}"
        assert option(proxy, "upstream") == upstreams[name]
        assert upstreams[name].startswith("http://127.0.0.1:")


def test_nothing_passes_a_proxy_without_rights_and_each_has_a_probe_of_its_own(
    values_file: ValuesFile,
) -> None:
    by_name = containers(objects(values_file(SECURE)))
    for name in SECURE_PORTS:
        proxy = by_name[f"{name}-proxy"]
        assert not [each for each in proxy["args"] if each.startswith(("--ignore-paths", "--allow-paths"))]
        port = int(option(proxy, "proxy-endpoints-port"))
        assert proxy["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": port, "scheme": "HTTPS"}


@pytest.fixture(scope="module")
def probes() -> dict[str, list[str]]:
    """What the kubelet runs in each container behind a proxy, by container and probe."""
    by_name = containers(objects(CHART / "ci" / "groups-values.yaml"))
    return {
        f"{name} {kind}": by_name[name][kind]["exec"]["command"]
        for name in ("operator", "node-agent", "device-plugin")
        for kind in ("livenessProbe", "readinessProbe")
    }


def test_a_container_behind_a_proxy_asks_itself(probes: dict[str, list[str]]) -> None:
    asked = {
        name: re.findall(r"'127.0.0.1', (\d+)|GET (\S+)", command[-1]) for name, command in probes.items()
    }
    assert {name: (found[0][0], found[1][1]) for name, found in asked.items()} == {
        "operator livenessProbe": ("19090", "/healthz"),
        "operator readinessProbe": ("19090", "/readyz"),
        "node-agent livenessProbe": ("19464", "/healthz"),
        "node-agent readinessProbe": ("19464", "/healthz"),
        "device-plugin livenessProbe": ("19465", "/healthz"),
        "device-plugin readinessProbe": ("19465", "/readyz"),
    }


@pytest.mark.parametrize(("status", "fails"), [(200, False), (503, True)])
def test_the_probe_of_a_container_behind_a_proxy(
    probes: dict[str, list[str]], status: int, fails: bool
) -> None:
    sources = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            sources.append(self.client_address[0])
            self.send_response(status)
            self.end_headers()

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        server.timeout = 60.0
        _, *options, code = probes["node-agent livenessProbe"]
        code = code.replace("19464", str(server.server_port))
        with subprocess.Popen([sys.executable, *options, code], stderr=subprocess.PIPE) as probe:
            server.handle_request()
        assert (probe.returncode != 0) == fails
        assert sources == ["127.0.0.2"], "not the proxy's, whose clients may delay it"


def test_prometheus_sends_its_token_and_is_given_the_right_by_an_administrator(
    values_file: ValuesFile,
) -> None:
    found = objects(values_file(f"node: {{namespace: laneway-nodes}}\n{SECURE}"))
    (monitor,) = (each["spec"] for each in found if each["kind"] == "ServiceMonitor")
    assert {endpoint["port"] for endpoint in monitor["endpoints"]} == set(SECURE_PORTS)
    assert {endpoint["scheme"] for endpoint in monitor["endpoints"]} == {"https"}
    assert all(endpoint["bearerTokenFile"] for endpoint in monitor["endpoints"])
    (proxies,) = (each for each in found if each["metadata"]["name"].endswith("-metrics-proxies"))
    assert proxies["roleRef"]["name"] == "system:auth-delegator"
    assert [(each["name"], each["namespace"]) for each in proxies["subjects"]] == [
        ("laneway-operator", "laneway-system"),
        ("laneway-node", "laneway-nodes"),
    ]
    reader = "laneway-system:laneway-metrics-reader"
    (role,) = (each for each in found if each["metadata"]["name"] == reader)
    assert role["rules"] == [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    bindings = [each for each in found if each["kind"] == "ClusterRoleBinding"]
    assert reader not in {each["roleRef"]["name"] for each in bindings}


def test_prometheus_sends_the_token_of_a_secret_where_it_may_read_no_file(values_file: ValuesFile) -> None:
    token = "{enabled: true, credentials: {name: prometheus-token, key: token}}"
    found = objects(values_file(f"metrics: {{secure: {{enabled: true}}, serviceMonitor: {token}}}"))
    (monitor,) = (each["spec"] for each in found if each["kind"] == "ServiceMonitor")
    for endpoint in monitor["endpoints"]:
        assert endpoint["authorization"] == {
            "type": "Bearer",
            "credentials": {"name": "prometheus-token", "key": "token"},
        }
        assert "bearerTokenFile" not in endpoint


@pytest.mark.parametrize(
    ("given", "rendered"),
    [
        ("{}", {"insecureSkipVerify": True}),
        ("null", {"insecureSkipVerify": True}),
        ("{serverName: laneway, ca: {secret: {name: laneway, key: ca.crt}}}", None),
        ("{insecureSkipVerify: false}", None),
        ("{insecureSkipVerify: true, serverName: laneway}", None),
    ],
    ids=["by default", "null", "an authority", "prometheus' own authorities", "no checks on purpose"],
)
def test_prometheus_checks_certificates_as_the_values_say_and_by_default_does_not(
    values_file: ValuesFile, given: str, rendered: dict[str, Any] | None
) -> None:
    """By default each proxy signs a certificate itself, which cannot be checked."""
    monitor = f"{{enabled: true, tlsConfig: {given}}}"
    found = objects(values_file(f"metrics: {{secure: {{enabled: true}}, serviceMonitor: {monitor}}}"))
    (spec,) = (each["spec"] for each in found if each["kind"] == "ServiceMonitor")
    wanted = rendered or yaml.safe_load(given)
    assert [endpoint["tlsConfig"] for endpoint in spec["endpoints"]] == [wanted] * len(SECURE_PORTS)


@pytest.mark.parametrize(("secret", "mounted"), [("", 0), ("laneway-metrics", 3)])
def test_a_certificate_of_ones_own_reaches_every_proxy(
    values_file: ValuesFile, secret: str, mounted: int
) -> None:
    text = f"metrics: {{secure: {{enabled: true, tlsSecret: '{secret}'}}, serviceMonitor: {{enabled: true}}}}"
    found = objects(values_file(text))
    proxies = [each for name, each in containers(found).items() if name.endswith("-proxy")]
    assert len(proxies) == 3
    mounts = [mount for each in proxies for mount in each.get("volumeMounts", ())]
    assert len(mounts) == mounted
    assert sum("--tls-cert-file=/etc/metrics-tls/tls.crt" in each["args"] for each in proxies) == mounted
    specs = [
        each["spec"]["template"]["spec"] for each in found if each["kind"] in ("Deployment", "DaemonSet")
    ]
    volumes = [
        volume["secret"]["secretName"] for spec in specs for volume in spec["volumes"] if "secret" in volume
    ]
    assert volumes == [secret] * (2 if mounted else 0)


def test_by_default_nothing_of_it_is_there(values_file: ValuesFile) -> None:
    found = objects(values_file("{}"))
    assert not any("proxy" in name for name in containers(found))
    assert not any("metrics-" in each["metadata"]["name"] for each in found)
