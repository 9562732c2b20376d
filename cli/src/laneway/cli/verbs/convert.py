"""``convert``: Kubeflow's TrainJobs and ``torchrun`` Jobs into TrainingJobs, and back."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from laneway.cli.conversion import KINDS, WrongKindError, convert
from laneway.cli.exit_codes import OK, USAGE, CommandError
from laneway.cli.manifests import read_objects
from laneway.cli.output import write_document

HELP = "Convert a Kubeflow TrainJob or a torchrun Job into a TrainingJob, or back"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.epilog = (
        "What has no counterpart is named on standard error. Read the result before you submit it."
    )
    parser.add_argument(
        "-f", "--file", required=True, help="file of jobs in YAML or JSON; - reads standard input"
    )
    parser.add_argument("--to", choices=list(KINDS), help="kind of the result (default: TrainingJob)")
    parser.add_argument("-o", "--output", choices=["json", "yaml"], default="yaml", help="output format")


def run(arguments: Namespace) -> int:
    """Convert each object of the file, in order."""
    for where, given in read_objects(arguments.file):
        try:
            converted = convert(given, arguments.to)
        except WrongKindError as error:
            raise CommandError(f"{where}: {error}", USAGE) from error
        except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
            raise CommandError(
                f"{where}: it is no valid {given.get('kind')}; check it with kubectl apply --dry-run=server",
                USAGE,
            ) from error
        for result in converted.objects:
            write_document(result, arguments.output)
        for note in converted.notes:
            print(f"{where}: {note}", file=sys.stderr)
    return OK
