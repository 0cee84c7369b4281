"""A transaction on the server."""

from __future__ import annotations

from windlass.errors import StoreOutdated
from windlass.store.machine.tx import Memo, Tx
from windlass.store.postgres.session import Session
from windlass.store.postgres.setup import SCHEMA
from windlass.store.postgres.sql import STATEMENTS


class ServerTx(Tx):
    """What an operation of this engine is given. Refused where a newer Windlass has changed the tables."""

    def __init__(self, db: Session, memo: Memo, host: int) -> None:
        super().__init__(db, STATEMENTS, memo, host)
        if self.schema != SCHEMA:
            raise StoreOutdated(
                f"the tables were migrated to version {self.schema} by a newer Windlass, and this one knows {SCHEMA}: "
                "restart this process with that version"
            )
