"""Where things are: the repository, the cached environments, the scratch space, the results."""

import os
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parent.parent
REPOSITORY = BENCHMARKS.parent
APPS = BENCHMARKS / "apps"
ENVIRONMENTS = BENCHMARKS / ".envs"
SCRATCH = BENCHMARKS / ".work"
WORK = SCRATCH / str(os.getpid())  # two runs at once must not share it
RESULTS = BENCHMARKS / "results"
REQUIREMENTS = BENCHMARKS / "requirements"
DOCS = REPOSITORY / "docs" / "benchmarks"
