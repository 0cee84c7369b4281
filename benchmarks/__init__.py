"""Windlass beside its peers, measured in one run on one machine. Start with `python -m benchmarks --help`."""
