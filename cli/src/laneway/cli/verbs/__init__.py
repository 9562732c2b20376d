"""One module per verb: ``HELP``, ``add_arguments`` and ``run``, which returns the exit code."""
