"""The servers that some of these need."""

from tests.servers.fixtures import redis7

__all__ = ["redis7"]
