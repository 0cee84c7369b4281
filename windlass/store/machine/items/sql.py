"""The statements of items, logs and commits."""

from __future__ import annotations

from typing import Protocol


class ItemSql(Protocol):
    """Items that have ended are not there for any of these. Keys are ordered by their UTF-8 bytes."""

    READ: str
    """JSON of [shelf, key], now → (shelf, key, body, end, version)"""
    WRITE: str
    """shelf, key, version, end, body: in the place of what was there"""
    TAKE_OFF: str
    """shelf, key"""
    PAGE: str
    """shelf, first key, the key to stop before (NULL: none), now, limit → (key, body, end, version), in order"""
    PAGE_BEHIND: str
    """the same, behind the first key"""
    PAGE_DOWN: str
    """as PAGE, the last keys first"""
    PAGE_BEHIND_DOWN: str
    """as PAGE_BEHIND, the last keys first"""
    FORGET: str
    """now, limit → a row for each of the ended items that were deleted, those first that ended first"""
    ANY_EXPIRES: str
    """→ a row if any item will ever end"""
