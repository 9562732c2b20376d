"""The entry point: parses the command line, runs the verb and returns its exit code."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from laneway.cli.exit_codes import INTERRUPTED, CommandError
from laneway.cli.verbs import (
    board,
    delete,
    events,
    explain,
    get,
    list_jobs,
    logs,
    pause_resume,
    replay,
    simulate,
    submit,
    wait,
)

_VERBS: Mapping[str, Any] = {
    "submit": submit,
    "list": list_jobs,
    "get": get,
    "logs": logs,
    "events": events,
    "wait": wait,
    "delete": delete,
    "explain": explain,
    **pause_resume.VERBS,
    "board": board,
    "simulate": simulate,
    "replay": replay,
}

_EXIT_CODES = """Exit codes: 0 success; 1 refused, or the job failed; 2 wrong command line or file; 3 not found;
4 timed out; 5 cluster unreachable; 130 interrupted."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: the command line without the program's name; None: the process's arguments.
    """
    program = "kubectl laneway" if Path(sys.argv[0]).name == "kubectl-laneway" else "laneway"
    parsed = _parser(program).parse_args(arguments)
    try:
        return int(_VERBS[parsed.verb].run(parsed))
    except CommandError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()  # the reader has closed the pipe; Python would report it again at exit
        return 0


def _parser(program: str) -> ArgumentParser:
    parser = ArgumentParser(
        prog=program,
        description="Manage TrainingJobs on shared GPUs, and simulate scheduling policies.",
        epilog=_EXIT_CODES,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.set_defaults(program=program)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for name, module in _VERBS.items():
        module.add_arguments(verbs.add_parser(name, help=module.HELP, description=f"{module.HELP}."))
    return parser


if __name__ == "__main__":
    sys.exit(main())
