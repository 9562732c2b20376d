"""The page docs/cli.md: every verb and flag of ``laneway``, from its argument parser."""

from __future__ import annotations

from argparse import SUPPRESS, Action, ArgumentParser, _HelpAction, _SubParsersAction, _VersionAction
from collections.abc import Iterable, Iterator

from laneway.cli.main import command_parser

from hack.markdown import formatted

_HEAD = """<!-- Generated from the argument parser by `make generate`. Do not edit. -->

# Command line reference

The plugin for kubectl has the same verbs and flags, and `laneway --version` prints the version. Flags
stand before the verb or after it; a command for a worker stands after `--`. How they are used together
is in [cli-and-simulator.md](cli-and-simulator.md); `--help` after a verb prints the same as this page.
"""


def cli_page() -> str:
    """Returns the text of the page."""
    parser = command_parser("laneway")
    verbs = next(each for each in parser._actions if isinstance(each, _SubParsersAction))
    common = [
        each
        for each in parser._actions
        if each.option_strings and not isinstance(each, (_HelpAction, _VersionAction))
    ]
    lines = [
        _HEAD,
        parser.epilog or "",
        "\n## Flags of all verbs\n",
        "Verbs that ask no cluster have none of them.\n",
        *_table(common),
    ]
    for name, verb in verbs.choices.items():
        lines += _verb(name, verb, {each.dest for each in common})
    return formatted("\n".join(lines))


def _verb(name: str, parser: ArgumentParser, common: set[str]) -> Iterator[str]:
    own = [each for each in parser._actions if not isinstance(each, _HelpAction) and each.dest not in common]
    yield f"\n## {name}\n"
    yield f"```\n{_usage(parser, own)}\n```\n"
    yield f"{_escaped(parser.description or '')} {_escaped(parser.epilog or '')}\n"
    if own:
        yield from _table(sorted(own, key=lambda each: bool(each.option_strings)))


def _usage(parser: ArgumentParser, actions: Iterable[Action]) -> str:
    if parser.usage:
        return parser.usage % {"prog": parser.prog}
    words = [
        _value(each) + ("..." if each.nargs == "+" else "") for each in actions if not each.option_strings
    ]
    flags = [each for each in actions if each.option_strings]
    required = [f"{each.option_strings[-1]} {_value(each)}" for each in flags if each.required]
    optional = ["[options]"] if len(flags) > len(required) else []
    return " ".join([parser.prog, *words, *required, *optional])


def _table(actions: Iterable[Action]) -> Iterator[str]:
    yield "| argument | meaning |\n| --- | --- |"
    for each in actions:
        spelled = [f"`{flag}{f' {_value(each)}' if _value(each) else ''}`" for flag in each.option_strings]
        name = ", ".join(spelled) or f"`{_value(each)}`"
        yield f"| {name.replace('|', '&#124;')} | {_meaning(each)} |"


def _value(action: Action) -> str:
    """Returns how an argument's value is written; empty for a flag without one."""
    if action.nargs == 0:
        return ""
    return str(action.metavar or action.dest.upper())


def _meaning(action: Action) -> str:
    default = None if action.default is SUPPRESS else action.default
    text = (action.help or "") % {**vars(action), "default": default}
    choices = [] if action.metavar or not action.choices else [f"`{each}`" for each in action.choices]
    return _escaped(": ".join(part for part in (text, ", ".join(choices)) if part))


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace("|", "&#124;").replace("*", "\\*")
