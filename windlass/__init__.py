"""Windlass: background jobs for Python."""
