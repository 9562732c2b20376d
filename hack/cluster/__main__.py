"""`python -m hack.cluster COMMAND`: prints progress to standard error and results (paths) to standard output."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from hack.cluster import embedded, kind
from hack.cluster.backends import Backend, Choice, choose_here, kubeconfig_of, running_engine
from hack.cluster.binaries import BINARIES, ORDINARY
from hack.cluster.build import built, ensure_built
from hack.cluster.kubectl import Kubectl
from hack.cluster.layout import MOST_NODES
from hack.cluster.progress import ClusterError, report
from hack.cluster.status import print_status
from hack.cluster.teardown import bring_down

Command = Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    command: Command = options.command
    try:
        return command(options)
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(
            "interrupted: run the same command again to continue, or 'down' to remove the cluster",
            file=sys.stderr,
        )
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m hack.cluster", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: Command, help_text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=help_text, description=help_text)
        added.add_argument("--name", default="laneway", help="the cluster's name (default: %(default)s)")
        added.set_defaults(command=command)
        return added

    up = add("up", _up, "start missing components and wait until all nodes are Ready")
    up.add_argument("--nodes", type=_node_count, default=2, help="how many nodes (default: %(default)s)")
    add(
        "status",
        _status,
        "show the backend, the components and the nodes; exit 1 if something does not work",
    )
    add("down", _down, "remove the cluster completely, even after a crash")
    add("kubeconfig", _kubeconfig, "print the path of the kubeconfig")
    add("load-image", _load_image, "import an OCI archive on all nodes").add_argument("archive", type=Path)
    add("build", _build, "build all programs of the embedded cluster, or the named ones").add_argument(
        "programs", nargs="*"
    )
    add("bin", _bin, "print a program's path; build it first if necessary").add_argument(
        "program", choices=sorted(BINARIES)
    )
    add("stop-node", _stop_node, "stop everything on a node at once, pods included").add_argument("node")
    add("start-node", _start_node, "start a stopped node and wait until it is Ready").add_argument("node")
    add("restart-kubelet", _restart_kubelet, "kill -9 a node's kubelet and start it again").add_argument(
        "node"
    )
    add("kill", _kill, "kill -9 a component, as kube-apiserver or NODE/kubelet").add_argument("component")
    add("start", _start, "start a component that is not running").add_argument("component")
    node_exec = add(
        "node-exec", _node_exec, "run a command in a node's namespaces: node-exec NODE -- COMMAND …"
    )
    node_exec.add_argument("node")
    node_exec.add_argument("argv", nargs=argparse.REMAINDER)
    return parser


def _node_count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST_NODES:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of nodes: write 1 to {MOST_NODES}")
    return int(text)


def _chosen(name: str) -> Choice:
    choice = choose_here(name)
    report(f"backend: {choice.backend} ({choice.reason})")
    return choice


def _up(options: argparse.Namespace) -> int:
    choice = _chosen(options.name)
    if choice.backend is Backend.KUBECONFIG:
        _require_answer(kubeconfig_of(options.name, choice))
    elif choice.backend is Backend.KIND:
        kind.bring_up(options.name, options.nodes, running_engine())
    else:
        embedded.bring_up(options.name, options.nodes)
    kubeconfig = kubeconfig_of(options.name, choice)
    report(f"cluster {options.name!r} is up; kubectl reaches it with: export KUBECONFIG={kubeconfig}")
    print(kubeconfig)
    return 0


def _require_answer(kubeconfig: Path) -> None:
    if not kubeconfig.is_file():
        raise ClusterError(
            f"KUBECONFIG={kubeconfig} is not a file: set it to one kubeconfig, or unset it to start a local cluster"
        )
    kubectl = Kubectl(built("kubectl"), kubeconfig)
    if not kubectl.succeeds("get", "--raw", "/readyz"):
        raise ClusterError(
            f"the cluster of KUBECONFIG={kubeconfig} does not respond: repair it, or unset KUBECONFIG to start a local cluster"
        )


def _status(options: argparse.Namespace) -> int:
    choice = _chosen(options.name)
    if choice.backend is Backend.EMBEDDED:
        return 0 if print_status(embedded.open_cluster(options.name)) else 1
    print(
        Kubectl(built("kubectl"), kubeconfig_of(options.name, choice)).run(
            "get", "nodes", "--output", "wide"
        ),
        end="",
    )
    return 0


def _down(options: argparse.Namespace) -> int:
    choice = _chosen(options.name)
    if choice.backend is Backend.KUBECONFIG:
        report("this cluster was not started here; it stays")
    elif choice.backend is Backend.KIND:
        kind.bring_down(options.name, running_engine())
    else:
        bring_down(options.name)
    return 0


def _kubeconfig(options: argparse.Namespace) -> int:
    kubeconfig = kubeconfig_of(options.name, choose_here(options.name))
    if not kubeconfig.exists():
        raise ClusterError(f"there is no {kubeconfig}: start the cluster first with 'make cluster-up'")
    print(kubeconfig)
    return 0


def _load_image(options: argparse.Namespace) -> int:
    choice = _chosen(options.name)
    if choice.backend is Backend.KUBECONFIG:
        raise ClusterError(
            f"the nodes of the cluster of {kubeconfig_of(options.name, choice)} cannot be reached from here: "
            "load the images onto them (`python -m hack.images build` prints the archives), "
            "then set LANEWAY_IMAGES=there"
        )
    if choice.backend is Backend.KIND:
        kind.load_image(options.name, options.archive, running_engine())
    else:
        embedded.open_cluster(options.name).load_image(options.archive)
    return 0


def _build(options: argparse.Namespace) -> int:
    for path in ensure_built(options.programs or ORDINARY).values():
        print(path)
    return 0


def _bin(options: argparse.Namespace) -> int:
    print(built(options.program))
    return 0


def _stop_node(options: argparse.Namespace) -> int:
    embedded.open_cluster(options.name).node(options.node).stop()
    return 0


def _start_node(options: argparse.Namespace) -> int:
    embedded.open_cluster(options.name).start_node(options.node)
    return 0


def _restart_kubelet(options: argparse.Namespace) -> int:
    embedded.open_cluster(options.name).restart_kubelet(options.node)
    return 0


def _kill(options: argparse.Namespace) -> int:
    embedded.open_cluster(options.name).component(options.component).kill()
    return 0


def _start(options: argparse.Namespace) -> int:
    embedded.open_cluster(options.name).start_component(options.component)
    return 0


def _node_exec(options: argparse.Namespace) -> int:
    argv = options.argv[1:] if options.argv[:1] == ["--"] else options.argv
    if not argv:
        raise ClusterError("no command to run on the node: write 'node-exec NODE -- COMMAND …'")
    embedded.open_cluster(options.name).node(options.node).become(argv)
    return 0


if __name__ == "__main__":
    sys.exit(main())
