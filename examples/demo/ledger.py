"""What really happened, written apart from Windlass's store: one row per effect, as a payment provider would keep it.

The job's id is the idempotency key. The second effect under a key is refused and counted: this is how a task that may
run twice has its effect once.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass

_SCHEMA = """
CREATE TABLE IF NOT EXISTS effects (key TEXT PRIMARY KEY, repeats INTEGER NOT NULL DEFAULT 0);
"""


@dataclass(frozen=True)
class Effects:
    """``keys``: every effect. ``repeats``: how many more were asked for and refused."""

    keys: frozenset[str]
    repeats: int


def _open() -> sqlite3.Connection:
    return sqlite3.connect(os.environ.get("WINDLASS_DEMO_LEDGER", "ledger.db"), timeout=60, isolation_level=None)


def create() -> None:
    with closing(_open()) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.executescript(_SCHEMA)


def record(key: str) -> None:
    with closing(_open()) as db:
        db.execute("INSERT INTO effects (key) VALUES (?) ON CONFLICT DO UPDATE SET repeats = repeats + 1", (key,))


def read() -> Effects:
    with closing(_open()) as db:
        rows = db.execute("SELECT key, repeats FROM effects").fetchall()
    return Effects(frozenset(key for key, _ in rows), sum(repeats for _, repeats in rows))
