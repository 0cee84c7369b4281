"""Helpers for testing jobs, and the suite that every store engine passes."""
