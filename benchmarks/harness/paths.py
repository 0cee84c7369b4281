"""Where things are: the repository, the cached environments, the scratch space, the results."""

from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parent.parent
REPOSITORY = BENCHMARKS.parent
ENVIRONMENTS = BENCHMARKS / ".envs"
WORK = BENCHMARKS / ".work"
RESULTS = BENCHMARKS / "results"
REQUIREMENTS = BENCHMARKS / "requirements"
DOCS = REPOSITORY / "docs" / "benchmarks"
