"""The operator with TrainingJobs on kopf or on the raw stream, and how long an event takes to reach its cache.

    python -m tests.performance.scale.watched_operator kopf|raw --config FILE …

The benchmark writes the time of a request into an annotation. The first version of the object in the cache that has it tells how
long that took: the request, the API server's watch, and the operator's own share.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Mapping
from typing import Any

from laneway.operator.main import main
from laneway.operator.state.cache import Store
from laneway.operator.state.resources import STREAMED, TRAINING_JOBS

SENT = "laneway.dev/benchmark-sent"
WATCHES = {"kopf": STREAMED, "raw": (*STREAMED, TRAINING_JOBS)}

logger = logging.getLogger(__name__)


def measure_reactions() -> None:
    """Have the cache log when it first sees an annotation :data:`SENT`."""
    observe, seen = Store.observe, set[tuple[str, str]]()

    def timed(store: Store[Any], raw: Mapping[str, Any]) -> bool:
        changed = observe(store, raw)
        metadata = raw["metadata"]
        sent = (metadata.get("annotations") or {}).get(SENT)
        if sent is not None and (metadata["uid"], sent) not in seen:
            seen.add((metadata["uid"], sent))
            logger.info("reaction", extra={"milliseconds": 1e3 * (time.time() - float(sent))})
        return changed

    Store.observe = timed  # type: ignore[method-assign]


if __name__ == "__main__":
    measure_reactions()
    sys.exit(main(sys.argv[2:], WATCHES[sys.argv[1]]))
