"""Results and errors that nodes take over from other nodes.

They are asked for one by one and read together, when whoever took them over is written.
"""

from __future__ import annotations

import msgspec

from windlass.store.machine.tx import Tx, ids_json


class InheritedValue(msgspec.Struct):
    """The value of a node that succeeded, if it has one of its own that is small enough to be handed on."""

    text: str | None = None


class InheritedError(msgspec.Struct):
    """Why a node failed: its error, or None for "as before", and the fingerprint of that error."""

    text: str | None = None
    fingerprint: str = ""


class Inherited:
    """What nodes hand on, by id. Who asks gets a blank that ``read`` fills in with what was there when it was asked
    for."""

    def __init__(self, tx: Tx) -> None:
        self.tx = tx
        self._values: dict[str, InheritedValue] = {}
        self._errors: dict[str, InheritedError] = {}
        self._unread: tuple[dict[str, InheritedValue], dict[str, InheritedError]] = ({}, {})

    def value(self, id: str) -> InheritedValue:
        if id not in self._values:
            self._values[id] = self._unread[0][id] = InheritedValue()
        return self._values[id]

    def error(self, id: str) -> InheritedError:
        if id not in self._errors:
            self._errors[id] = self._unread[1][id] = InheritedError()
        return self._errors[id]

    def becomes(self, id: str, value: InheritedValue | None = None, error: InheritedError | None = None) -> None:
        """A node has this value from now on, or none; and this error, or the one that the store has."""
        if any(id in unread for unread in self._unread):
            self.read()
        self._values[id] = value or InheritedValue()
        if error is not None:
            self._errors[id] = error
        else:
            self._errors.pop(id, None)

    def read(self) -> None:
        """Fill in the blanks that were given out."""
        values, errors = self._unread
        ids = [*values, *(id for id in errors if id not in values)]
        if not ids:
            return
        self._unread = ({}, {})
        for id, text, error, fingerprint in self.tx.all(self.tx.sql.inherited.READ, (ids_json(ids),)):
            # A job comes before what is left of a graph that was dropped.
            if id in values:
                values.pop(id).text = text
            if id in errors:
                blank = errors.pop(id)
                blank.text, blank.fingerprint = error, fingerprint
