"""`python -m hack.demo`: starts a cluster, installs Laneway, runs real jobs and checks the claims."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from hack.cluster.progress import ClusterError
from hack.demo import prometheus
from hack.demo.api import Api
from hack.demo.claims import CLAIMS
from hack.demo.install import install
from hack.demo.scenario import NAMESPACE, Scenario
from hack.demo.screen import Screen, results
from hack.demo.target import bring_up
from hack.images.chroot import ImageError

_FAILED = 1
_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; return 0 when every claim holds."""
    parser = argparse.ArgumentParser(prog="python -m hack.demo", description=__doc__)
    parser.add_argument("--name", default="laneway", help="the cluster's name (default: %(default)s)")
    parser.add_argument("--nodes", type=int, default=2, help="how many nodes (default: %(default)s)")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    try:
        return _demo(options.name, options.nodes, began)
    except (ClusterError, ImageError, OSError) as error:
        print(f"the demo could not run: {error}", file=sys.stderr)
        return _FAILED
    except KeyboardInterrupt:
        print(
            "\ninterrupted; the cluster still runs: 'make demo' continues, 'make cluster-down' removes it",
            file=sys.stderr,
        )
        return _INTERRUPTED


def _demo(name: str, nodes: int, began: float) -> int:
    screen = Screen()
    target = bring_up(name, nodes)
    installation = install(target)
    api = Api(target.kubeconfig)
    metrics = prometheus.start(target, api.server)
    try:
        scenario = Scenario(installation, api, screen)
        scenario.clear()
        held = _run_scenario(scenario)
        print(f"Prometheus: {metrics.address}" + (" (ends with this command)" if metrics.children else ""))
        print("Dashboards for Grafana: charts/laneway/dashboards/")
        print(f"The jobs: kubectl --kubeconfig {target.kubeconfig} --namespace {NAMESPACE} get trainingjobs")
        print(f"They stay until: kubectl --kubeconfig {target.kubeconfig} delete namespace {NAMESPACE}")
        print(f"Total time: {time.monotonic() - began:.0f} s; 'make cluster-down' removes the cluster.")
        return 0 if held else _FAILED
    finally:
        metrics.end_children()


def _run_scenario(scenario: Scenario) -> bool:
    """Run the jobs, print the table and each claim; return whether everything ran and every claim holds."""
    trouble = ""
    try:
        scenario.run()
    except ClusterError as error:
        trouble = str(error)
    evidence = scenario.gathered()
    print("\n" + "\n".join(results(evidence)) + "\n")
    held = not trouble
    for claim in CLAIMS:
        problems = claim.check(evidence)
        held = held and not problems
        print(f"{claim.number}. {claim.text}: {'does not hold' if problems else 'holds'}")
        for line in problems or [claim.shown(evidence)]:
            print(f"   {line}")
    print()
    if trouble:
        print(f"the demo did not finish: {trouble}", file=sys.stderr)
    return held


if __name__ == "__main__":
    sys.exit(main())
