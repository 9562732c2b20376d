"""Stage: admission. The protocol is in ``policy``; every other file is one policy."""
