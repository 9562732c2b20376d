"""The operator, which writes a TrainingProfile again within a second. That it writes seldom: tests/unit/operator/test_training_profiles.py."""

from __future__ import annotations

import sys

from laneway.operator import pacing

pacing.PROFILE_WRITTEN_SECONDS = 1.0  # before the modules that take it are imported

from laneway.operator.main import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
