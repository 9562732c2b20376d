"""``completion``: the script with which a shell completes verbs, flags and the names of TrainingJobs."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from laneway.cli.exit_codes import OK

_LOAD_COMPLETION = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }"
"""For a zsh whose user has not switched completion on."""

HELP = "Print the script with which a shell completes commands"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.epilog = "bash and zsh: source <(laneway completion bash), with the name of the shell; fish: laneway completion fish | source."
    parser.add_argument("shell", choices=["bash", "zsh", "fish"])


def run(arguments: Namespace) -> int:
    """Print it."""
    from argcomplete.shell_integration import shellcode

    script = shellcode(["laneway"], shell=arguments.shell)
    if arguments.shell == "zsh":
        first, rest = script.split("\n", 1)  # zsh finds the script in a folder by its first line
        script = "\n".join((first, _LOAD_COMPLETION, rest))
    print(script)
    return OK
