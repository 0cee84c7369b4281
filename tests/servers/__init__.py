"""Real servers for the tests, and a proxy that stands in their way. `fixtures.py` is what conftests import."""
