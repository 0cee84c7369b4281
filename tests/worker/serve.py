"""A worker process for the tests: ``python -m tests.worker.serve MODULE:APP OPTIONS``."""

from __future__ import annotations

import json
import logging
import sys

from windlass.calls.context import JobIdFilter
from windlass.worker.child_functions import load_object
from windlass.worker.running import run_worker


def main() -> int:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(process)d %(levelname)s %(name)s %(job_id)s %(message)s"))
    handler.addFilter(JobIdFilter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    app = load_object(sys.argv[1])
    app.load()
    return run_worker(app, json.loads(sys.argv[2]))


if __name__ == "__main__":
    sys.exit(main())
