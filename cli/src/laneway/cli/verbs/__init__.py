"""One file a verb: ``add`` describes it to argparse, ``run`` carries it out and returns the exit code."""
