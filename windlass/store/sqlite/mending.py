"""Damaged rows are taken out, alone: their bytes are put aside in the table ``corrupt``, a job becomes a dead letter,
and whatever else cannot be read holds nothing from then on.

This runs when a call failed over what it read, and for a few rows at every sweep: nothing is asked of any call before.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from windlass.core import lifecycle
from windlass.store.jobs import Presence
from windlass.store.machine.codes import FAILED, FIRST_TERMINAL
from windlass.store.machine.graphs import spreading
from windlass.store.machine.graphs.inherited import InheritedError
from windlass.store.machine.graphs.todos import Step, work_off
from windlass.store.machine.jobs.moves import shift
from windlass.store.machine.tx import encode, ids_json
from windlass.store.sqlite.damage import LARGEST, TABLES, checked
from windlass.store.sqlite.tx import FileTx

log = logging.getLogger("windlass.store")

AUDITED = 500
"""Jobs looked at in one sweep: damage that no call stumbles over must not hide for ever."""

ASIDE = "CREATE TABLE IF NOT EXISTS corrupt (source TEXT NOT NULL, at INTEGER NOT NULL, record TEXT NOT NULL)"
IS_ASIDE = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'corrupt')"
THESE = "IN (SELECT value FROM json_each(?))"


def aside(tx: FileTx) -> int:
    """How many damaged records were put aside."""
    return tx.value("SELECT count(*) FROM corrupt") if tx.value(IS_ASIDE) else 0


def audit(tx: FileTx) -> int:
    """Look at the next jobs and lanes; how many rows were damaged."""
    first, last = _next_page(tx, "jobs")
    pages = {"jobs": (first, last), "lanes": _next_page(tx, "lanes")}
    if any(_is_damaged(tx, table, *page) for table, page in pages.items()):
        return mend(tx)
    _rebuild_lanes(tx, first, last)
    return 0


def _next_page(tx: FileTx, table: str) -> tuple[int, int]:
    """The numbers of the next rows lie behind the first and up to the last of these."""
    first = tx.memo.audited[table]
    last, seen = tx.one(
        f"SELECT coalesce(max(n), 0), count(*) FROM (SELECT n FROM {table} WHERE n > ? ORDER BY n LIMIT {AUDITED})",
        (first,),
    )
    tx.memo.audited[table] = last if seen == AUDITED else 0
    return first, last


def _is_damaged(tx: FileTx, table: str, first: int, last: int) -> bool:
    sound = checked(tx.db, table).sound
    sql = f"SELECT EXISTS (SELECT 1 FROM {table} WHERE {table}.n > ? AND {table}.n <= ? AND NOT ({sound}))"
    return bool(tx.value(sql, (first, last)))


def mend(tx: FileTx) -> int:
    """Take out everything that is damaged; how many rows that was."""
    jobs, places = _damaged(tx, "jobs"), _damaged(tx, "nodes") + _damaged(tx, "links")
    places += [
        n for (n,) in tx.all("SELECT n FROM nodes WHERE NOT EXISTS (SELECT 1 FROM links WHERE links.n = nodes.n)")
    ]
    found = {name: _take_out(tx, name) for name in TABLES}
    lost = _fill_gaps(tx, places)
    total = sum(found.values()) + lost
    if total == 0:
        return 0
    log.error(
        "%d damaged records were put aside: %s", total,
        ", ".join(f"{many} of {name}" for name, many in found.items() if many) or f"{lost} lost ones",
    )  # fmt: skip
    _count_anew(tx)
    tx.forget_book()
    tx.heeded += 1
    jobs += [n for (n,) in tx.all(f"SELECT n FROM jobs WHERE node {THESE} AND state < 4", (ids_json(places),))]
    _bury(tx, sorted(set(jobs)))
    _rebuild_lanes(tx, 0, LARGEST)
    step = Step(tx)
    for node in step.workset.numbered(places):
        if node.shape and not node.over:
            error = InheritedError(lifecycle.corrupt_error().decode())
            spreading.end_join(step.workset, node, FAILED, lifecycle.CORRUPT, error=error)
    work_off(tx, step)
    return total


def _damaged(tx: FileTx, table: str) -> list[int]:
    return [n for (n,) in tx.all(f"SELECT n FROM {table} WHERE NOT ({checked(tx.db, table).sound})")]


def _take_out(tx: FileTx, table: str) -> int:
    """Put the damaged rows of a table aside, and others in their place; how many."""
    sound, record, replace = checked(tx.db, table)
    if not tx.value(f"SELECT EXISTS (SELECT 1 FROM {table} WHERE NOT ({sound}))"):
        return 0
    tx.run(ASIDE)
    tx.run(f"INSERT INTO corrupt SELECT '{table}', ?, {record} FROM {table} WHERE NOT ({sound})", (tx.now,))
    drop = TABLES[table].instead is None
    tx.run(f"DELETE FROM {table} WHERE NOT ({sound})" if drop else f"{replace} WHERE NOT ({sound})")
    return tx.db.changes()


def _fill_gaps(tx: FileTx, places: Sequence[int]) -> int:
    """Rows that lean on others that are gone, or were replaced."""
    tx.run("INSERT INTO links SELECT n, '[]', '[]' FROM nodes WHERE NOT EXISTS (SELECT 1 FROM links WHERE n = nodes.n)")
    lost = tx.db.changes()
    tx.run(
        "UPDATE nodes SET edges = replace(hex(zeroblob((SELECT json_array_length(outs) FROM links "
        f"WHERE links.n = nodes.n))), '00', '0') WHERE n {THESE}", (ids_json(places),)
    )  # fmt: skip
    # Whatever moves no more from now on is seen by the next audit of graphs.
    tx.run(f"UPDATE graphs SET looked_at = 0 WHERE state = 0 AND n IN (SELECT graph FROM nodes WHERE n {THESE})",
           (ids_json(places),))  # fmt: skip
    tx.run("UPDATE workers SET lease_until = 0, mark = 0 WHERE id LIKE 'damaged-%'")
    for n, id, lease in tx.all("SELECT n, id, lease FROM workers WHERE n NOT IN (SELECT worker FROM presences)"):
        # It says what it can do at its next beat.
        nobody = Presence(id=id, queues=[], declares={}, lease=lease)
        tx.run("INSERT INTO presences VALUES (?, ?)", (n, encode(nobody).decode()))
        tx.run("UPDATE workers SET mark = 0 WHERE n = ?", (n,))
        lost += 1
    return lost


def _count_anew(tx: FileTx) -> None:
    tx.run("DELETE FROM counts WHERE task = ''")
    tx.run("INSERT INTO counts SELECT '', queue, state, count(*) FROM jobs GROUP BY queue, state")


FOUND = f"SELECT n, id, task, queue, state, node, crashes, max_crashes FROM jobs WHERE n {THESE} ORDER BY n"
ENDS = ("succeeded", "failed", "cancelled", "skipped")


def _bury(tx: FileTx, jobs: list[int]) -> None:
    """Damaged jobs become dead letters, whatever they were before."""
    rows = tx.all(FOUND, (ids_json(jobs),))
    for n, _, _, _, state, node, *_ in rows:
        if state >= FIRST_TERMINAL:
            # It had ended, and is counted and kept as one that ended so.
            tx.run("UPDATE buckets SET size = size - 1 WHERE n > 0 AND n = (SELECT bucket FROM jobs WHERE n = ?)", (n,))
            tx.run("UPDATE jobs SET bucket = 0 WHERE n = ?", (n,))
            end = ENDS[state - FIRST_TERMINAL]
            tx.run(f"UPDATE graphs SET {end} = max({end} - 1, 0) WHERE n = "
                   "(SELECT graph FROM nodes WHERE n = ? AND aftermath = 0)", (node,))  # fmt: skip
    error = lifecycle.corrupt_error().decode()
    reason, mark = lifecycle.CORRUPT, lifecycle.CORRUPT_MARK
    # Read before they move: who was in the way of others must not stay there, whatever its own row says of that.
    held = _held_by(tx, jobs)
    shift(tx, [[n, FAILED, 0, 0, reason, error, mark, *crashes] for n, _, _, _, _, _, *crashes in rows])
    tx.record("failed", "", [[id, task, queue, {"reason": reason}] for _, id, task, queue, *_ in rows])
    for queue, name in held:
        touch = tx.effects.lane(queue, name)
        touch.left = touch.free = True
    tx.effects.keys_freed(tx.all(f"SELECT key, job FROM uniques WHERE job {THESE}", (ids_json(jobs),)))
    tx.effects.keys_freed(tx.all(f"SELECT key, successor FROM uniques WHERE successor {THESE}", (ids_json(jobs),)))
    if tx.gates:
        tx.book.recount()


def _held_by(tx: FileTx, jobs: list[int]) -> list[Any]:
    numbers = ids_json(jobs)
    return tx.all(f"SELECT queue, name FROM lanes WHERE head {THESE} OR holder {THESE}", (numbers, numbers))


LANELESS = """
SELECT queue, coalesce(lane, 't' || task) AS name, count(*) FROM jobs WHERE state = 2 AND hold = 3 AND n > ? AND n <= ?
    AND NOT EXISTS (SELECT 1 FROM lanes WHERE queue = jobs.queue AND name = coalesce(jobs.lane, 't' || jobs.task))
GROUP BY 1, 2
"""


def _rebuild_lanes(tx: FileTx, first: int, last: int) -> None:
    """Jobs whose lane is gone are in line again."""
    for queue, name, many in tx.all(LANELESS, (first, last)):
        tx.effects.lane(queue, name).joined += many
