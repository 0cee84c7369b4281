"""The server that these need."""

from tests.servers.fixtures import postgres18

__all__ = ["postgres18"]
