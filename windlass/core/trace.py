"""Reads a trace's id from its header, without any tracing package."""

from __future__ import annotations


def trace_id(traceparent: str) -> str:
    """The id of the trace in a W3C header, empty where there is none."""
    parts = traceparent.split("-")
    good = len(parts) >= 4 and len(parts[1]) == 32 and all(char in "0123456789abcdef" for char in parts[1])
    return parts[1] if good and parts[1].strip("0") else ""
