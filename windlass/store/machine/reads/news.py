"""What happened, as it is read: the newest entries of the event stream, and how many events there ever were."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from windlass.core.event import Entry, Group
from windlass.store.machine.tx import Tx
from windlass.store.reads import Total

_groups = msgspec.json.Decoder(list[Group]).decode


def events(tx: Tx, after: int, limit: int, kinds: Sequence[str]) -> list[Entry]:
    wanted, many = [f",{kind}," for kind in kinds], len(kinds)
    sql, bounds = (tx.sql.news.newest(many), ()) if after < 0 else (tx.sql.news.behind(many), (after, limit))
    rows = msgspec.convert(tx.all(sql, (*wanted, *bounds)), list[tuple[int, int, str]])
    return [Entry(seq, at, _of_kinds(_groups(groups), kinds)) for seq, at, groups in rows]


def _of_kinds(groups: list[Group], kinds: Sequence[str]) -> list[Group]:
    return [group for group in groups if group[0] in kinds] if kinds else groups


def totals(tx: Tx) -> list[Total]:
    return msgspec.convert(tx.all(tx.sql.news.TOTALS), list[Total])
