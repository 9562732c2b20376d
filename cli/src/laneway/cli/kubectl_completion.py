"""``kubectl_complete-laneway``: kubectl runs it to complete ``kubectl laneway …``, with the words after the plugin's name."""

from __future__ import annotations

import io
import os
import shlex
import sys

from laneway.cli.main import command_parser

_NO_FILES = ":4"
"""The last line, as cobra reads it: complete no names of files."""


def main() -> int:
    """Print the words that may replace the last one, one a line."""
    import argcomplete

    words = sys.argv[1:]
    line = shlex.join(["laneway", *words[:-1]]) + " " + (words[-1] if words else "")
    os.environ |= {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
    }
    found = io.StringIO()
    argcomplete.autocomplete(
        command_parser("laneway"), output_stream=found, exit_method=lambda code: None, append_space=False
    )
    print(found.getvalue(), _NO_FILES, sep="\n")
    return 0
