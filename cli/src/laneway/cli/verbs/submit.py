"""``submit``: creates the TrainingJobs of a file, or one that runs a command."""

from __future__ import annotations

import os
import re
import secrets
import sys
import warnings
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from laneway.cli.exit_codes import OK, USAGE, CommandError
from laneway.cli.job_table import name_of
from laneway.cli.manifests import read_manifests
from laneway.cli.output import printable, write_document
from laneway.cli.verbs.options import add_cluster_options, add_output_option, open_client
from laneway.sdk import (
    CustomTrainerContainer,
    CustomTrainerScript,
    TrainingJob,
    TrainingJobClient,
    job_manifest,
    job_object,
)
from laneway.sdk.trainers import DEFAULT_IMAGE

HELP = "Create the TrainingJobs of a file, or one that runs a command"
TAKES_COMMAND = True
_NO_NAME = re.compile(r"[^a-z0-9]+")


def add_arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.usage = "%(prog)s (-f FILE | [options] -- COMMAND...)"
    parser.epilog = (
        "A Python file of this machine in the command is sent with the job, and so are the modules beside it that it imports: "
        "laneway submit --gpus 0.5 -- python3 train.py --epochs 3"
    )
    parser.add_argument("-f", "--file", help="file of TrainingJobs in YAML or JSON; - reads standard input")
    job = parser.add_argument_group("the job of a command")
    job.add_argument("--name", help="name (default: the script's with a suffix)")
    job.add_argument(
        "--gpus",
        metavar="AMOUNT",
        help="for each worker: a share such as 0.5, whole GPUs such as 2, or memory such as 8Gi (default: 1)",
    )
    job.add_argument("--workers", type=int, metavar="N", help="number of workers (default: 1)")
    job.add_argument("--image", help=f"image (default: $LANEWAY_IMAGE, else {DEFAULT_IMAGE})")
    job.add_argument("--cpu", metavar="QUANTITY", help="CPUs of each worker, such as 4 or 500m")
    job.add_argument("--memory", metavar="QUANTITY", help="host memory of each worker, such as 16Gi")
    for flag, meaning in (("--env", "environment variable"), ("--label", "label of the job and its workers")):
        job.add_argument(
            flag, action="append", default=[], metavar="NAME=VALUE", help=f"{meaning}; may be repeated"
        )
    job.add_argument(
        "--pip", action="append", default=[], metavar="PACKAGE", help="install it first; may be repeated"
    )
    job.add_argument("--priority-class", metavar="NAME", help="PriorityClass of the job")
    parser.add_argument(
        "--dry-run",
        choices=["client", "server"],
        help="client: print the TrainingJob, ask no cluster; server: have the API server check it, store nothing",
    )
    add_output_option(parser, "name")
    add_cluster_options(parser)


def run(arguments: Namespace) -> int:
    """Create them in the file's order, until one is refused."""
    manifests = [_in_namespace(manifest, arguments) for manifest in _manifests(arguments)]
    if arguments.dry_run == "client":
        for manifest in manifests:
            _report(TrainingJob(manifest), arguments, "")
        return OK
    client = open_client(arguments)
    for manifest in manifests:
        namespace = manifest["metadata"].get("namespace") or client.namespace
        own = TrainingJobClient(namespace=namespace, cluster=client.cluster)
        _report(own.create_job(manifest, dry_run=arguments.dry_run == "server"), arguments, namespace)
    return OK


def _manifests(arguments: Namespace) -> Iterator[dict[str, Any]]:
    given = [_flag(name) for name in _OF_A_COMMAND if getattr(arguments, name) not in (None, [])]
    if bool(arguments.file) == bool(arguments.command):
        raise CommandError("submit needs -f FILE, or a command after --, such as -- python3 train.py", USAGE)
    if arguments.command:
        yield _job_of(arguments)
    elif given:
        raise CommandError(f"{given[0]} belongs to a command: write it into {arguments.file}", USAGE)
    else:
        yield from read_manifests(arguments.file)


_OF_A_COMMAND = ("name", "gpus", "workers", "image", "cpu", "memory", "env", "label", "pip", "priority_class")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _job_of(arguments: Namespace) -> dict[str, Any]:
    """Return the TrainingJob that runs the command."""
    for option in _OF_A_COMMAND:
        if getattr(arguments, option) == "":
            raise CommandError(f"{_flag(option)} is empty: give it a value, or leave it out", USAGE)
    if arguments.workers is not None and arguments.workers < 1:
        raise CommandError(f"--workers {arguments.workers}: write a whole number from 1", USAGE)
    resources = {"gpu": arguments.gpus or 1, "cpu": arguments.cpu, "memory": arguments.memory}
    common: dict[str, Any] = {
        "image": arguments.image or os.environ.get("LANEWAY_IMAGE") or DEFAULT_IMAGE,
        "num_nodes": arguments.workers or 1,
        "resources_per_node": {key: value for key, value in resources.items() if value},
        "env": _pairs("--env", arguments.env),
    }
    words: list[str] = arguments.command
    place = next((place for place, word in enumerate(words) if _is_script(word)), None)
    trainer: CustomTrainerContainer | CustomTrainerScript
    if place is not None:
        launcher, script, rest = words[:place] or ["python3"], words[place], words[place + 1 :]
        trainer = CustomTrainerScript(
            script=script, launcher=launcher, args=rest, packages_to_install=arguments.pip, **common
        )
    elif arguments.pip:
        raise CommandError("--pip needs a Python file of this machine in the command", USAGE)
    else:
        trainer = CustomTrainerContainer(command=words, **common)
    priority = {"priorityClassName": arguments.priority_class} if arguments.priority_class else None
    name = arguments.name or _unused_name(words[place or 0])
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", UserWarning)
        job = job_manifest(trainer, name=name, labels=_pairs("--label", arguments.label), spec=priority)
    for warning in found:
        print(printable(f"laneway: {warning.message}"), file=sys.stderr)
    return job


def _is_script(word: str) -> bool:
    return word.endswith(".py") and Path(word).is_file()


def _unused_name(word: str) -> str:
    """Return a name that tells what runs, such as ``train-4f0a1``. It begins with a letter, as a gang's has to."""
    stem = _NO_NAME.sub("-", Path(word).stem.lower()).strip("-")[:40]
    return "-".join(
        part for part in ("" if stem[:1].isalpha() else "job", stem, secrets.token_hex(3)[1:]) if part
    )


def _pairs(flag: str, given: Sequence[str]) -> dict[str, str]:
    for pair in given:
        if not pair.partition("=")[1]:
            raise CommandError(f"{flag} {pair}: write NAME=VALUE", USAGE)
    return {pair.partition("=")[0]: pair.partition("=")[2] for pair in given}


def _in_namespace(manifest: dict[str, Any], arguments: Namespace) -> dict[str, Any]:
    """Return a manifest with the namespace of the command line, if there is one; it may not have another."""
    metadata, wanted = manifest["metadata"], arguments.namespace
    if not wanted:
        return manifest
    if metadata.get("namespace") not in (None, "", wanted):
        raise CommandError(
            f"TrainingJob {job_object.name(manifest)} is in namespace {metadata['namespace']}, but -n is {wanted}: "
            "remove one of them",
            USAGE,
        )
    return {**manifest, "metadata": {**metadata, "namespace": wanted}}


def _report(job: TrainingJob, arguments: Namespace, namespace: str) -> None:
    if arguments.output in ("json", "yaml") or (arguments.dry_run == "client" and not arguments.output):
        write_document(dict(job.object), arguments.output or "yaml")
    elif arguments.output == "name":
        print(name_of(job))
    elif arguments.dry_run:
        print(f"TrainingJob {job.name} would be created in namespace {namespace}: the API server accepts it.")
    else:
        print(f"TrainingJob {job.name} created in namespace {namespace}. Next:")
        for verb, effect in (
            ("explain", "why it does not run yet"),
            ("logs -f", "its output"),
            ("wait", "until it has ended"),
        ):
            print(f"  {f'{arguments.program} {verb} {job.name} -n {namespace}':<60} {effect}")
