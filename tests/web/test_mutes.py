"""Warnings that somebody muted: for a time, with a reason, on the record, and heard again when it is over."""

from __future__ import annotations

import pytest

from tests.web.kit import audited, bearer, dashboard, new_job, visiting
from windlass import ConfigError, Windlass
from windlass.console import Console
from windlass.console.desk import now_ms
from windlass.console.recent_reads import shared_of
from windlass.console.replies import Warn
from windlass.core.access import make_access
from windlass.core.health import QueueFacts
from windlass.core.mute import SHELF, decode, key_of
from windlass.core.notice import NoticeBook, NoticeRule
from windlass.core.standstill import tell_of_queues, tell_of_schedules
from windlass.errors import Forbidden, NotFound
from windlass.store.items import Put, put_all

REASON = "the mail server moves"


async def warned(app: Windlass, queue: str = "mail") -> Console:
    """Somebody before whom a queue is paused with a job in it."""
    store = (await app.client()).store
    await store.insert([new_job(f"waits-in-{queue}", "mail.send" if queue == "mail" else "bill.charge", queue)])
    await app.queue(queue).pause()
    return Console(app, make_access("ann", ["*"]), "web")


async def of_queues(console: Console) -> list[Warn]:
    """Without those of the store, which engines have of their own."""
    return [warn for warn in await console.warnings() if warn.code == "paused_backlog"]


async def test_a_warning_is_muted_and_heard_again(any_app: Windlass) -> None:
    console = await warned(any_app)
    [warn] = await of_queues(console)
    assert (warn.code, warn.where, warn.muted_until) == ("paused_backlog", "mail", 0)
    muted = await console.mute_warning("paused_backlog", "mail", "2h", REASON)
    [warn] = await of_queues(console)
    assert warn == muted
    assert (warn.muted_by, warn.muted_reason) == ("ann", REASON)
    assert abs(warn.muted_until - now_ms() - 7_200_000) < 60_000
    [warn] = await of_queues(Console(any_app))  # for all eyes
    assert warn.muted_until
    await console.unmute_warning("paused_backlog", "mail")
    [warn] = await of_queues(console)
    assert (warn.muted_until, warn.muted_by, warn.muted_reason) == (0, "", "")
    told = [(one["action"], one["target"], one["outcome"]) for one in await audited((await any_app.client()).store)]
    assert told[:2] == [
        ("unmute_warning", "paused_backlog mail", "done"), ("mute_warning", "paused_backlog mail", "done"),
    ]  # fmt: skip


async def test_a_mute_ends_by_itself(any_app: Windlass) -> None:
    console = await warned(any_app)
    store = (await any_app.client()).store
    await console.mute_warning("paused_backlog", "mail", "2h", REASON)
    [item] = await store.shelf(SHELF)
    assert 0 < item.ttl <= 7_200_000
    assert set(decode([item.body], now_ms())) == {("paused_backlog", "mail")}
    assert decode([item.body], now_ms() + 7_200_001) == {}
    await put_all(store, [Put(shelf=SHELF, key=key_of("x", "y"), body=body) for body in (b"{", b"7", b"[]", b"")])
    shared_of(any_app).forget()
    assert [warn.muted_until > 0 for warn in await of_queues(console)] == [True]


async def test_what_makes_no_sense_is_refused(app: Windlass) -> None:
    console = await warned(app)
    for lasts, reason, said in (("2h", " ", "reason"), ("1s", REASON, "lasts"), ("90d", REASON, "lasts")):
        with pytest.raises(ConfigError, match=said):
            await console.mute_warning("paused_backlog", "mail", lasts, reason)
    with pytest.raises(NotFound, match="did you mean"):
        await console.mute_warning("paused_backlogs", "mail", "2h", REASON)
    with pytest.raises(Forbidden):
        await Console(app, make_access("bob", ["read"])).mute_warning("paused_backlog", "mail", "2h", REASON)
    scoped = Console(app, make_access("bob", ["*"], ["bill"]))
    for code in ("paused_backlog", "no_worker"):
        with pytest.raises(Forbidden):
            await scoped.mute_warning(code, "mail", "2h", REASON)
    assert [warn.muted_until for warn in await of_queues(console)] == [0]


async def test_the_page_shows_it_apart_and_counts_it_no_more(app: Windlass) -> None:
    console = await warned(app)
    await warned(app, "bill")
    async with visiting(dashboard(app, {"ann": ["*"], "bob": ["read"]})) as visitor:
        before = (await visitor.get("/", headers=bearer("ann"))).text
        known = len(await console.warnings())
        assert before.count(">Mute</button>") == known
        assert "Mute warning" in before
        await console.mute_warning("paused_backlog", "mail", "2h", REASON)
        after = (await visitor.get("/", headers=bearer("ann"))).text
        assert (after.count(">Mute</button>"), after.count(">Unmute</button>")) == (known - 1, 1)
        assert REASON in after
        assert f"{known - 1}, 1 muted" in after
        assert f'<span class="n bad">{known - 1}</span>' in after
        seen = (await visitor.get("/", headers=bearer("bob"))).text
        assert REASON in seen
        assert "mute</button>" not in seen.lower()


# -- notices


def test_what_is_muted_is_told_to_nobody_until_the_mute_ends() -> None:
    rule = NoticeRule(key="r", on=("stuck", "schedule"), stuck_after=1_000)
    facts = {"mail": QueueFacts(ready=3, oldest_ready=120_000), "bill": QueueFacts(ready=3, oldest_ready=120_000)}
    book, muted = NoticeBook(), frozenset({("no_worker", "mail"), ("schedule_paused", "nightly")})
    tell_of_queues(book, [rule], "shop", facts, 1_000_000, muted)
    assert [notice.queue for _, notice in book.outbox] == ["bill"]
    assert book.stuck == ["r bill"]
    tell_of_queues(book, [rule], "shop", facts, 2_000_000)
    assert [notice.queue for _, notice in book.outbox] == ["bill", "mail"]
    tell_of_schedules(book, [rule], "shop", ["nightly"], 3_000_000, muted)
    assert len(book.outbox) == 2
    tell_of_schedules(book, [rule], "shop", ["nightly"], 4_000_000)
    assert book.outbox[-1][1].schedule == "nightly"
