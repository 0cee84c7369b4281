"""Notifications: what is told, to whom, how often, and that nothing is lost or told twice. Under a virtual clock."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from tests.drafts import draft_of
from tests.unit.operate.notices_kit import app, h, notice
from windlass import ConfigError, DeadLetter, Notice, Windlass, every
from windlass.core.event import Event
from windlass.core.notice import (
    ARGS_MAX,
    CAUSED,
    NoticeBook,
    NoticeRule,
    late_notices,
    letter_id,
    next_reminder,
    offer,
    remind,
)
from windlass.errors import WindlassError
from windlass.store.items import Put, put_one, read_one
from windlass.testing import Harness
from windlass.worker.notifier import BOOK, LEASE, SHELF, Notifier

__all__ = ["app", "h"]


@pytest.fixture
def letters(app: Windlass) -> list[DeadLetter]:
    got: list[DeadLetter] = []

    @app.on_dead(queue="pay*", name="told")
    async def told(letter: DeadLetter) -> None:
        got.append(letter)

    return got


async def call(app: Windlass, task: str, **args: Any) -> str:
    return (await app.tasks[task].enqueue(**args)).id


# -- on_dead


async def test_a_dead_letter_makes_a_job(app: Windlass, letters: list[DeadLetter], h: Harness) -> None:
    id = await call(app, "charge", order=7)
    await call(app, "mail")
    await h.drain()
    (letter,) = letters
    assert (letter.id, letter.task, letter.queue, letter.run) == (id, "charge", "payments", 1)
    assert letter.args == {"order": 7}
    assert letter.error.endswith("Reject")
    assert letter.message == "card of 7 declined"
    assert letter.attempts == 1
    assert letter.at is not None
    assert letter.fingerprint
    (job,) = h.jobs("told")
    assert job.queue == "notices"
    assert job.id.startswith(f"dead-{id}-1-")


async def test_each_handler_gets_its_own_job(app: Windlass, letters: list[DeadLetter], h: Harness) -> None:
    others: list[str] = []

    @app.on_dead(task="ch*", name="other")
    def other(letter) -> None:  # the annotation is filled in
        assert isinstance(letter, DeadLetter)
        others.append(letter.id)

    id = await call(app, "charge", order=1)
    await call(app, "mail")
    await h.drain()
    assert [letter.id for letter in letters] == others == [id]


async def test_a_handler_that_fails_is_tried_again_and_is_never_a_reason_for_another(app: Windlass, h: Harness) -> None:
    tries: list[str] = []

    @app.on_dead(name="broken", retries=2, backoff="1s")
    async def broken(letter: DeadLetter) -> None:
        tries.append(letter.task)
        await app.tasks["mail"].enqueue()  # what it enqueues is its own doing too
        raise OSError("the pager is down")

    await call(app, "charge", order=1)
    await h.advance("1h")
    assert tries == ["charge"] * 3
    assert len(h.jobs("broken", "failed")) == 1
    assert len(h.jobs("mail", "failed")) == 3
    assert all(job.correlation_id.startswith(CAUSED) for job in h.jobs("mail"))


async def test_a_replayed_job_that_dies_again_is_told_again(
    app: Windlass, letters: list[DeadLetter], h: Harness
) -> None:
    id = await call(app, "charge", order=1)
    await h.drain()
    await app.dead.replay(id)
    await h.drain()
    assert [letter.run for letter in letters] == [1, 2]


async def test_a_death_whose_record_has_moved_on_is_told_by_what_the_event_says(
    app: Windlass, letters: list[DeadLetter], h: Harness
) -> None:
    notifier = Notifier(app, h.store, h.clock)
    await notifier.begin()
    app.notices.handlers, handlers = {}, app.notices.handlers  # nobody listens while these die
    gone, again = await call(app, "charge", order=1), await call(app, "charge", order=2)
    await h.drain()
    app.notices.handlers = handlers
    await app.dead.replay(again)
    await app.dead.purge(gone)
    await h.drain()
    assert sorted((letter.id, letter.run) for letter in letters) == sorted([(gone, 0), (again, 0), (again, 2)])
    assert {letter.args is None for letter in letters if not letter.run} == {True}


async def test_large_arguments_stay_where_they_are(app: Windlass, letters: list[DeadLetter], h: Harness) -> None:
    await call(app, "charge", order=1, note="x" * ARGS_MAX)
    await h.drain()
    assert letters[0].args is None
    assert letters[0].message == "card of 1 declined"


async def test_expired_jobs_are_dead_letters_too(app: Windlass, letters: list[DeadLetter], h: Harness) -> None:
    await app.tasks["charge"].options(delay="1h", expires="1m", on_expire="fail").enqueue(order=1)
    await h.advance("10m")
    assert [letter.error.rpartition(".")[2] for letter in letters] == ["JobExpired"]


async def test_what_was_dead_before_the_first_worker_is_no_news(app: Windlass, h: Harness) -> None:
    await call(app, "charge", order=1)
    await h.drain()
    got: list[str] = []

    @app.on_dead(name="late")
    async def late(letter: DeadLetter) -> None:
        got.append(letter.id)

    await h.drain()
    assert not got
    id = await call(app, "charge", order=2)
    await h.drain()
    assert got == [id]


async def test_events_dropped_before_they_were_read_are_made_up_for(letters: list[DeadLetter], app: Windlass) -> None:
    small = Windlass("shop", "memory://", events_kept=3)
    small.declared.tasks.update(app.tasks)
    small.notices.handlers = {}
    got: list[str] = []
    with Harness(small) as h:
        notifier = Notifier(small, h.store, h.clock)
        await notifier.begin()
        h.clock.ms += 1
        drafts = [draft_of(app.tasks["charge"].s(order)) for order in range(5)]
        ids = [(await small.submitting.submit([draft]))[0].id for draft in drafts]
        await h.drain()

        @small.on_dead(name="small")
        async def told(letter: DeadLetter) -> None:
            got.append(letter.id)

        await h.drain()
        assert sorted(got) == sorted(ids)
        await h.drain()
        assert len(got) == 5


def test_a_job_id_too_long_is_cut_and_stays_its_own() -> None:
    one, two = (DeadLetter(id="x" * 250 + end, task="t", queue="q") for end in "ab")
    assert len(letter_id(one, "h", "")) <= 256
    assert letter_id(one, "h", "") != letter_id(two, "h", "") != letter_id(two, "i", "")


def test_a_handler_takes_one_letter(app: Windlass) -> None:
    with pytest.raises(ConfigError, match="must take one argument"):

        @app.on_dead()
        async def wrong(letter: DeadLetter, more: int) -> None: ...


# -- notify


async def test_a_function_is_told_once_and_the_rest_is_counted(app: Windlass, h: Harness) -> None:
    got: list[Notice] = []
    app.notify(got.append, on=["dead"], every="5m")
    for order in range(4):
        await call(app, "charge", order=order)
    await h.drain()
    assert [(notice.kind, notice.held_back) for notice in got] == [("dead", 0)]
    assert got[0].title == "shop: charge is a dead letter: Reject: card of 0 declined"
    assert "job " in got[0].text
    await h.advance("6m")
    assert [(notice.message, notice.held_back) for notice in got[1:]] == [("card of 3 declined", 2)]
    await h.advance("1h")
    assert len(got) == 2
    assert got[0].id != got[1].id


async def test_what_was_held_back_is_said_with_the_next(app: Windlass, h: Harness) -> None:
    got: list[Notice] = []
    app.notify(got.append, on=["dead"], every="5m", burst=2)
    for order in range(2):
        await call(app, "charge", order=order)
    await h.drain()
    assert [notice.held_back for notice in got] == [0, 0]
    await call(app, "mail")
    await h.advance("4m")
    assert len(got) == 2
    await h.advance("2m")
    assert [(notice.task, notice.held_back) for notice in got[2:]] == [("mail", 0)]


async def test_rules_choose_by_queue_and_kind(app: Windlass, h: Harness) -> None:
    payments: list[str] = []
    schedules: list[str] = []

    def pay(notice: Notice) -> None:
        payments.append(notice.queue)

    async def planned(notice: Notice) -> None:
        schedules.append(notice.schedule)

    app.notify(pay, queue="pay*", every=0)
    app.notify(planned, on=["schedule"], every=0)
    app.schedule(every("1h"), name="hourly")(app.tasks["mail"])
    await call(app, "charge", order=1)
    await h.advance("1h 1m")
    assert payments == ["payments"]
    assert schedules == ["hourly"]


async def test_a_delivery_that_fails_is_tried_again_and_makes_no_notice(app: Windlass, h: Harness) -> None:
    tries: list[int] = []

    async def flaky(notice: Notice) -> None:
        tries.append(1)
        raise OSError("down")

    app.notify(flaky, every=0)
    await call(app, "charge", order=1)
    await h.advance("3h")
    assert len(tries) == 11
    assert len(h.jobs("windlass.notice")) == 1


async def test_a_delivery_for_code_that_is_gone_says_so(app: Windlass) -> None:
    app.notify(print)
    with pytest.raises(WindlassError, match=r"no notify\(\) of this worker's code is for 'builtins.prin'.*print"):
        await app.notices._deliver("builtins.prin", notice())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"on": ["ded"]}, "did you mean 'dead'"),
        ({"burst": 0}, "burst"),
        ({"every": "soon"}, "every"),
        ({"target": 5}, "a function of one notice, a Webhook or an Email"),
    ],
)
def test_wrong_options_are_said_at_once(app: Windlass, options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        app.notify(**{"target": print, **options})


def test_the_same_rule_twice_is_one_and_another_for_the_same_target_is_its_own(app: Windlass) -> None:
    app.notify(print)
    app.notify(print)
    app.notify(print, queue="x")
    assert list(app.notices.rules) == ["builtins.print", "builtins.print-2"]


def test_every_worker_serves_notices_when_there_are_any(app: Windlass) -> None:
    from windlass.worker.worker_options import check_worker_options

    assert check_worker_options(app, {"queues": ["a"]}).queues == ("a",)
    app.notify(print)
    assert check_worker_options(app, {"queues": ["a"]}).queues == ("notices", "a")
    assert check_worker_options(app, {"queues": ["a*3", "b"]}).weights == (1, 3, 1)
    assert check_worker_options(app, {"queues": ["a", "notices"]}).queues == ("a", "notices")


# -- nothing lost, nothing twice


@pytest.mark.parametrize("operation", ["commit", "insert", "get", "events"])
@pytest.mark.parametrize("how", ["fail", "lose_reply"])
async def test_a_store_that_fails_anywhere_loses_nothing_and_tells_nothing_twice(
    app: Windlass, letters: list[DeadLetter], h: Harness, operation: str, how: str
) -> None:
    got: list[str] = []
    app.notify(lambda notice: got.append(notice.job), on=["dead"], every=0)
    await h.drain()
    for round in range(6):
        id = await call(app, "charge", order=round)
        notifier = Notifier(app, h._new_store(), h.clock)
        await put_one(h.store, Put(shelf=SHELF, key=LEASE, body=None))
        act = h.fail_next if how == "fail" else h.lose_reply
        h.faults.clear()
        await h.drain() if round % 2 else None
        act(operation, times=1 + round)
        for _ in range(12):
            try:
                await notifier.step()
            except WindlassError:
                continue
        h.faults.clear()
        await notifier.stop()
        await h.drain()
        assert [letter.id for letter in letters].count(id) == 1
        assert got.count(id) == 1


async def test_a_worker_that_only_thinks_it_leads_tells_nothing(app: Windlass, h: Harness) -> None:
    got: list[str] = []
    app.notify(lambda notice: got.append(notice.job), on=["dead"], every=0)
    await h.drain()
    stale = Notifier(app, h.store, h.clock)
    await stale.step()
    await put_one(h.store, Put(shelf=SHELF, key=LEASE, body=None))  # its lease ran out while it stood still
    id = await call(app, "charge", order=1)
    await h.drain()
    await stale.step()
    await h.drain()
    assert got == [id]


async def test_what_a_dead_worker_had_decided_is_sent_by_the_next(app: Windlass, h: Harness) -> None:
    got: list[str] = []
    app.notify(lambda notice: got.append(notice.job), on=["dead"], every="5m")
    await h.drain()
    rule = next(iter(app.notices.rules.values()))
    kept = await read_one(h.store, SHELF, BOOK)
    book = msgspec.json.decode(kept.body, type=NoticeBook)
    offer(book, rule, notice(job="j1"), h.clock())
    await put_one(h.store, Put(shelf=SHELF, key=BOOK, body=msgspec.json.encode(book), expect=kept.version))
    await h.drain()
    await h.drain()
    assert got == ["j1"]


def test_a_rate_lets_so_many_at_once_and_one_per_interval_after() -> None:
    book, rule = NoticeBook(), NoticeRule(key="r", every=100, burst=3)
    for now in (0, 0, 0, 0, 50, 99):
        offer(book, rule, notice(), now)
    assert [(key, one.id, one.held_back) for key, one in book.outbox] == [
        ("r", "notice-r-1", 0),
        ("r", "notice-r-2", 0),
        ("r", "notice-r-3", 0),
    ]
    assert next_reminder(book, [rule]) == 100
    remind(book, rule, 99)
    assert len(book.outbox) == 3
    remind(book, rule, 100)
    remind(book, rule, 1_000)
    assert [one.held_back for _, one in book.outbox[3:]] == [2]
    assert next_reminder(book, [rule]) == 0


def test_a_slot_that_came_with_nobody_there_is_told_once_per_schedule() -> None:
    at = int(datetime(2026, 1, 2, tzinfo=UTC).timestamp() * 1000)
    slots = [at - 7_200_000, at - 3_600_000, at]
    events = [
        Event(f"1-{n}", at, "schedule_fired", "hourly", "mail", "emails", "w", {"slot": slot, "jobs": [f"j{n}"]})
        for n, slot in enumerate(slots)
    ]
    (told,) = late_notices("shop", events)
    assert told.title == "shop: schedule hourly was missed: 2h late"
    assert (
        told.text == "The slot of 2026-01-01 22:00:00 UTC came when no worker was there.\n2 jobs were made up for it."
    )
