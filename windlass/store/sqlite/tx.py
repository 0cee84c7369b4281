"""A transaction on the file."""

from __future__ import annotations

import apsw

from windlass.errors import StoreOutdated
from windlass.store.machine.tx import Memo, Tx
from windlass.store.sqlite.connection import SCHEMA
from windlass.store.sqlite.sql import STATEMENTS


class FileTx(Tx):
    """What an operation of this engine is given. Refused where a newer Windlass has changed the file."""

    db: apsw.Connection

    def __init__(self, db: apsw.Connection, memo: Memo, host: int) -> None:
        super().__init__(db, STATEMENTS, memo, host)
        if self.schema != SCHEMA:
            raise StoreOutdated(
                f"{db.filename} was migrated to schema {self.schema} by a newer Windlass, and this one knows {SCHEMA}: "
                "restart this process with that version"
            )
