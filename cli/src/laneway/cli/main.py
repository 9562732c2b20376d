"""The entry point: parses the command line, runs the verb and returns its exit code."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter, _SubParsersAction
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from laneway.cli.exit_codes import FAILED, INTERRUPTED, USAGE, CommandError
from laneway.cli.output import printable, report
from laneway.cli.verbs import (
    board,
    completion,
    convert,
    delete,
    doctor,
    events,
    exec_worker,
    explain,
    get,
    list_jobs,
    logs,
    nodes,
    pause,
    queue,
    replay,
    simulate,
    submit,
    suspend_resume,
    top,
    wait,
)
from laneway.cli.verbs.options import add_cluster_options
from laneway.sdk import LanewayError

_VERBS: Mapping[str, Any] = {
    "submit": submit,
    "list": list_jobs,
    "get": get,
    "logs": logs,
    "exec": exec_worker,
    "events": events,
    "wait": wait,
    "suspend": suspend_resume.VERBS["suspend"],
    "resume": suspend_resume.VERBS["resume"],
    "delete": delete,
    "explain": explain,
    "queue": queue,
    "nodes": nodes,
    "top": top,
    "doctor": doctor,
    **pause.VERBS,
    "convert": convert,
    "board": board,
    "simulate": simulate,
    "replay": replay,
    "completion": completion,
}

_EXIT_CODES = """Exit codes: 0 success; 1 refused, or the job failed; 2 wrong command line or file; 3 not found;
4 timed out; 5 cluster unreachable; 130 interrupted."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: the command line without the program's name; None: the process's arguments.
    """
    program = "kubectl laneway" if Path(sys.argv[0]).name == "kubectl-laneway" else "laneway"
    parser = command_parser(program)
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        argcomplete.autocomplete(parser)
    parsed = parse(parser, sys.argv[1:] if arguments is None else arguments)
    try:
        exit_code = _run(program, parsed)
        print(end="", flush=True)  # what is still in the buffer
        return exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader has closed the pipe
        _discard_output()
        return 0
    except OSError as error:  # a full disk, for example
        print(printable(f"{program}: {error}"), file=sys.stderr)
        _discard_output()
        return FAILED


def _discard_output() -> None:
    """Discard what is still in the buffer: Python would write it at exit, and report the error again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(program: str, parsed: Namespace) -> int:
    """Run a verb; write an error in one sentence."""
    try:
        return int(_VERBS[parsed.verb].run(parsed))
    except (CommandError, LanewayError) as error:
        return report(program, error)


def parse(parser: ArgumentParser, arguments: Sequence[str]) -> Namespace:
    """Parse what is before ``--``; what is after it is a command for a worker, and none of its flags is ours."""
    words = list(arguments)
    end = words.index("--") if "--" in words else len(words)
    parsed = parser.parse_args(_verb_first(parser, words[:end]))
    parsed.command = words[end + 1 :]
    if parsed.command and not getattr(_VERBS[parsed.verb], "TAKES_COMMAND", False):
        print(f"{parser.prog}: {parsed.verb} takes no command after --", file=sys.stderr)
        sys.exit(USAGE)
    return parsed


def _verb_first(parser: ArgumentParser, words: list[str]) -> list[str]:
    """Move a verb's flags that stand before it behind it; words in which that leaves a doubt stay as they are."""
    verbs = next(each for each in parser._actions if isinstance(each, _SubParsersAction)).choices
    for place, word in enumerate(words):
        if word in verbs and _only_flags(verbs[word], words[:place]):
            return [word, *words[:place], *words[place + 1 :]]
    return words


def _only_flags(verb: ArgumentParser, words: Sequence[str]) -> bool:
    """Return whether words are flags of a verb with their values, and nothing else."""
    rest = iter(words)
    for word in rest:
        name, equals, _ = word.partition("=")
        flag = verb._option_string_actions.get(name)
        if flag is None or (flag.nargs != 0 and not equals and next(rest, None) is None):
            return False
    return True


def command_parser(program: str) -> ArgumentParser:
    """Return the parser of the whole command line."""
    parser = ArgumentParser(
        prog=program,
        description="Manage TrainingJobs on shared GPUs, and simulate scheduling policies.",
        epilog=_EXIT_CODES,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.set_defaults(program=program)
    parser.add_argument("--version", action="version", version=f"laneway {version('laneway-cli')}")
    add_cluster_options(parser, default=None)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for name, module in _VERBS.items():
        module.add_arguments(verbs.add_parser(name, help=module.HELP, description=f"{module.HELP}."))
    return parser


if __name__ == "__main__":
    sys.exit(main())
