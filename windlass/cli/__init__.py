"""The command line. Stands on the app, the admin side and the worker; nothing else imports it."""

from windlass.cli.main import main

__all__ = ["main"]
