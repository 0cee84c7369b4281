"""Notices of queues and schedules that stand still: told when the standstill begins, and not again while it lasts.
Reads no clock.

The book remembers which ones were told. One that moves again is forgotten, and is told anew at its next standstill.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from windlass.core.duration import from_ms, show_ms
from windlass.core.health import NO_WORKER, STUCK, QueueFacts, flow_of, in_words
from windlass.core.mute import NONE, Muted
from windlass.core.notice import Notice, NoticeBook, NoticeRule, offer
from windlass.core.schedule import GONE


def stands_still(facts: QueueFacts, patience: int) -> bool:
    """Whether no job of a queue has ended for so long although jobs wait."""
    flow = flow_of(facts)
    if facts.oldest_ready < patience:
        return False
    return flow == NO_WORKER or (flow == STUCK and (facts.quiet is None or facts.quiet >= patience))


def tell_of_queues(
    book: NoticeBook, rules: Iterable[NoticeRule], app: str, queues: Mapping[str, QueueFacts], now: int,
    muted: Muted = NONE,
) -> None:  # fmt: skip
    """Tell of queues that stand still. A muted queue is told when the mute ends, if it still stands still then."""
    told: list[str] = []
    for rule in rules:
        for name, facts in queues.items() if "stuck" in rule.on else ():
            notice = _queue_notice(app, name, facts, now)
            heard = (flow_of(facts), name) not in muted
            if heard and rule.wants(notice) and stands_still(facts, rule.stuck_after):
                mark = f"{rule.key} {name}"
                told.append(mark)
                if mark not in book.stuck:
                    offer(book, rule, notice, now)
    book.stuck = told


def tell_of_schedules(
    book: NoticeBook, rules: Iterable[NoticeRule], app: str, gone: Sequence[str], now: int, muted: Muted = NONE
) -> None:  # fmt: skip
    gone = [name for name in gone if ("schedule_paused", name) not in muted]
    for rule in rules:
        for name in gone:
            if name not in book.gone and "schedule" in rule.on:
                offer(book, rule, _gone_notice(app, name, now), now)
    book.gone = list(gone)


def _queue_notice(app: str, name: str, facts: QueueFacts, now: int) -> Notice:
    oldest = show_ms(max(0, facts.oldest_ready))
    words = in_words(flow_of(facts), facts.ready, oldest)
    lines = [
        words, "", f"queue    {name}", f"ready    {facts.ready}", f"oldest   {oldest}", f"running  {facts.running}",
        f"workers  {facts.workers}, {facts.busy} of {facts.slots} slots taken",
    ]  # fmt: skip
    return Notice(
        kind="stuck", app=app, title=f"{app}: queue {name} stands still: {words}", text="\n".join(lines), queue=name,
        at=from_ms(now),
    )  # fmt: skip


def _gone_notice(app: str, name: str, now: int) -> Notice:
    return Notice(
        kind="schedule", app=app, title=f"{app}: schedule {name} is paused: {GONE}", schedule=name, at=from_ms(now),
        text=f"No live worker declares schedule {name} any more. It runs again when one does, or when it is resumed.",
    )  # fmt: skip
