"""The console: everything an operator sees and does, for the dashboard, its API, the command line and the terminal.

It reads the store and keeps no state. Every action asks its ``Access`` and leaves a record in the audit log.
"""

from windlass.console.console import Console

__all__ = ["Console"]
