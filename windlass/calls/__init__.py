"""Calls of tasks: declared, made, sent, and waited for."""
