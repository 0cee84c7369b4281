"""Values and errors that nodes take over from others: asked for one by one, read together when they are written."""

from __future__ import annotations

import msgspec

from windlass.store.machine.tx import Tx, ids_json


class Value(msgspec.Struct):
    """The value of a node that succeeded, if it has one of its own that is small enough to be handed on."""

    text: str | None = None


class Fault(msgspec.Struct):
    """Why a node failed: its error, None for "as before", and the fingerprint of that."""

    error: str | None = None
    fingerprint: str = ""


class Handed:
    """What nodes hand on, by id. It is filled in by ``read``, and is what it was when it was asked for."""

    def __init__(self, tx: Tx) -> None:
        self.tx = tx
        self._values: dict[str, Value] = {}
        self._faults: dict[str, Fault] = {}
        self._unread: tuple[dict[str, Value], dict[str, Fault]] = ({}, {})

    def value(self, id: str) -> Value:
        if id not in self._values:
            self._values[id] = self._unread[0][id] = Value()
        return self._values[id]

    def fault(self, id: str) -> Fault:
        if id not in self._faults:
            self._faults[id] = self._unread[1][id] = Fault()
        return self._faults[id]

    def becomes(self, id: str, value: Value | None = None, fault: Fault | None = None) -> None:
        """A node has this value from now on, or none; and this error, or that which is written."""
        if any(id in unread for unread in self._unread):
            self.read()
        self._values[id] = value or Value()
        if fault is not None:
            self._faults[id] = fault
        else:
            self._faults.pop(id, None)

    def read(self) -> None:
        """Fill in what was asked for and is not known yet."""
        values, faults = self._unread
        ids = [*values, *(id for id in faults if id not in values)]
        if not ids:
            return
        self._unread = ({}, {})
        for id, text, error, fingerprint in self.tx.all(self.tx.sql.inherited.READ, (ids_json(ids),)):
            # A job comes before what is left of a graph that was dropped.
            value, fault = values.pop(id, None), faults.pop(id, None)
            if value is not None:
                value.text = text
            if fault is not None:
                fault.error, fault.fingerprint = error, fingerprint
