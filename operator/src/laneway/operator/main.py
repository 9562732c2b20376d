"""The command ``laneway-operator``."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Collection
from pathlib import Path

from laneway.api.config_file import ConfigError, parse_config
from laneway.operator import logs
from laneway.operator.application import run
from laneway.operator.collector import collect_young_only
from laneway.operator.state.resources import STREAMED, Resource
from laneway.operator.watch.apiserver import CredentialsError
from laneway.scheduling.config.operator_config import OperatorConfig
from prometheus_client import disable_created_metrics

_DEFAULT_CONFIG = Path("/etc/laneway/operator.yaml")
_SERVICE_ACCOUNT_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def main(arguments: list[str] | None = None, streamed: Collection[Resource] = STREAMED) -> int:
    """Run the operator; return 0 after SIGTERM or SIGINT, 2 when it is set up wrongly, 1 when it failed.

    Args:
        arguments: of the command line; None: the process's own.
        streamed: kinds of objects that are watched without kopf; a benchmark compares the two.
    """
    parser = argparse.ArgumentParser(
        prog="laneway-operator", description="Admits, places and preempts TrainingJobs."
    )
    parser.add_argument("--config", type=Path, default=_DEFAULT_CONFIG, help=f"default: {_DEFAULT_CONFIG}")
    parser.add_argument(
        "--kubeconfig", type=Path, help="default: $KUBECONFIG, else the pod's service account"
    )
    parser.add_argument(
        "--namespace", help="where the lease is kept; default: $POD_NAMESPACE, else the pod's own"
    )
    options = parser.parse_args(arguments)
    try:
        config = read_config(options.config)
    except (ConfigError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    logs.configure(config.log_level)
    collect_young_only()
    # A second series for each counter, which Prometheus does not need.
    disable_created_metrics()  # type: ignore[no-untyped-call]
    try:
        asyncio.run(run(config, options.namespace or _own_namespace(), options.kubeconfig, streamed))
    except CredentialsError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def read_config(path: Path) -> OperatorConfig:
    """Return the configuration; a file that is not there at the default place means the defaults.

    Raises:
        ConfigError: the file is wrong; names the field and what to write.
        OSError: the file cannot be read.
    """
    if path == _DEFAULT_CONFIG and not path.exists():
        return OperatorConfig()
    return parse_config(path.read_text(), OperatorConfig, str(path))


def _own_namespace() -> str:
    if namespace := os.environ.get("POD_NAMESPACE"):
        return namespace
    if _SERVICE_ACCOUNT_NAMESPACE.exists():
        return _SERVICE_ACCOUNT_NAMESPACE.read_text().strip()
    return "laneway-system"


if __name__ == "__main__":
    sys.exit(main())
