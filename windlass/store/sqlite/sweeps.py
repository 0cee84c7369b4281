"""Sweeping the file: the machine's rules, and before and after them what only this engine has to look after."""

from __future__ import annotations

from functools import partial

from windlass.store.jobs import SweepReply
from windlass.store.machine.jobs import sweeps
from windlass.store.sqlite import mailboxes, mending
from windlass.store.sqlite.tx import FileTx


def sweep(tx: FileTx, limit: int) -> SweepReply:
    mending.audit(tx)
    reply = sweeps.sweep(tx, limit, partial(mailboxes.without_process, tx))
    mailboxes.sweep(tx, reply.dead_workers)
    return reply
