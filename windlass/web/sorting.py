"""The order of the table of tasks, as the page's address says it: ``?sort=rate`` is highest first, ``-rate`` lowest
first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self

import msgspec

from windlass.console.replies import TaskNumbers, TaskRow

COLUMNS: dict[str, Callable[[TaskNumbers], float | None]] = {
    "rate": lambda numbers: numbers.per_minute, "failed": lambda numbers: numbers.failed,
    "failing": lambda numbers: numbers.failing, "run": lambda numbers: numbers.run_p50,
    "run95": lambda numbers: numbers.run_p95, "wait": lambda numbers: numbers.wait_p50,
    "wait95": lambda numbers: numbers.wait_p95,
}  # fmt: skip
"""What can be sorted by besides the name."""


class Sort(msgspec.Struct, frozen=True):
    """``turned``: the reverse of the column's first order, which is highest first."""

    column: str = "name"
    turned: bool = False

    @classmethod
    def read(cls, text: str) -> Self:
        """Read the order; an unknown column sorts by name."""
        column = text.removeprefix("-")
        return cls(column, text.startswith("-")) if column in COLUMNS or column == "name" else cls()

    def put(self, rows: Sequence[TaskRow]) -> list[TaskRow]:
        """Sort the rows. Those without the number come last in both orders."""
        if self.column == "name":
            return sorted(rows, key=lambda row: row.name, reverse=self.turned)
        get = COLUMNS[self.column]
        known: list[tuple[float, TaskRow]] = []
        rest: list[TaskRow] = []
        for row in rows:
            value = get(row.numbers) if row.numbers is not None else None
            if value is None:
                rest.append(row)
            else:
                known.append((value, row))
        known.sort(key=lambda pair: pair[0], reverse=not self.turned)
        return [row for _, row in known] + rest

    def next(self, column: str) -> str:
        """The order that a click on a column's head asks for."""
        return f"-{column}" if column == self.column and not self.turned else column

    def aria(self, column: str) -> str:
        """The order as screen readers are told it."""
        if column != self.column:
            return "none"
        return "ascending" if (column == "name") != self.turned else "descending"
