"""Workflows: built from calls, made into graphs, and held by handles."""
