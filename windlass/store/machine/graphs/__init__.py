"""Workflows: staged, opened, spread along their edges, kept and pruned as wholes."""
