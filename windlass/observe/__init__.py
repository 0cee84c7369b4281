"""Windlass seen by other tools: metrics, alert rules, dashboards, tracing. No job waits for any of it."""
