"""From a call to its job: the terms it carries, what becomes of the store's answer, and waiting for room."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.drafts import draft_of
from tests.unit.calls.flow_kit import ACCEPTED, FULL
from windlass import (
    ConfigError,
    EnqueueError,
    JobFailed,
    PayloadError,
    QueueDraining,
    QueueFull,
    Windlass,
    chain,
    group,
)
from windlass.core.job import Job, NewJob
from windlass.core.terms import DRAINING, Policy, Terms
from windlass.store.answers import Accept, Answer
from windlass.workflows.plan import make_plan


@pytest.fixture
def app() -> Windlass:
    return Windlass("shop", "memory://")


def terms_of(app: Windlass, task: str, *args: Any, **kwargs: Any) -> Terms | None:
    return draft_of(app.tasks[task].s(*args, **kwargs)).terms


# -- terms


def test_a_plain_call_has_none(app: Windlass) -> None:
    @app.task(name="t", rate="10/m", limit=3)
    async def task(x: int = 0) -> None: ...

    draft = draft_of(task.s())
    assert draft.terms is None
    assert draft.resolved.flow is None
    assert draft.to_job("me", b"{}").terms is None


def test_arguments_are_seen_as_they_were_given_with_defaults(app: Windlass) -> None:
    seen: list[dict[str, Any]] = []

    def key(**arguments: Any) -> str:
        seen.append(arguments)
        return "k"

    @app.task(name="t", key=key)
    async def task(a: int, b: list[int], *rest: int, c: str = "c", **more: int) -> None: ...

    values = [1, 2]
    assert terms_of(app, "t", 1, values, 3, 4, x=5) == Terms(key="k")
    assert seen == [{"a": 1, "b": values, "rest": (3, 4), "c": "c", "x": 5}]
    assert seen[0]["b"] is values
    draft_of(task.s(values), fed=True)
    assert seen[1] == {"b": values, "rest": (), "c": "c"}

    @app.task(name="any", key=key)
    async def any_number(*rest: int) -> None: ...

    draft_of(any_number.s(1, 2), fed=True)
    assert (terms_of(app, "any"), seen[2:]) == (Terms(key="k"), [{"rest": (1, 2)}, {"rest": ()}])


def test_unique_calls_are_equal_however_they_are_written(app: Windlass) -> None:
    @app.task(name="t", unique=True)
    async def task(a: int, b: int = 2) -> None: ...

    one = terms_of(app, "t", 1)
    assert one is not None
    assert one.unique.startswith("t:")
    assert one == terms_of(app, "t", 1, 2) == terms_of(app, "t", b=2, a=1)
    assert one != terms_of(app, "t", 1, 3)
    assert draft_of(task.options(unique=False).s(1)).terms is None
    assert draft_of(task.options(unique="x").s(1)).terms == Terms(unique="t:x")


def test_call_over_task_over_queue(app: Windlass) -> None:
    app.queue("mail", key_limit=2, ordered=True, max_ready=10, ageing="1m", when_full="drop_oldest")

    @app.task(name="t", queue="mail", key=["to"], key_limit=5)
    async def task(to: str) -> None: ...

    whole = Terms(key="a", key_limit=5, ordered=True, max_ready=10, ageing=60_000, drop_oldest=True)
    assert terms_of(app, "t", "a") == whole
    call = task.options(queue="other", key="b", seq=3, gap_timeout="5s", units=2)
    assert draft_of(call.s("a")).terms == Terms(key="b", key_limit=5, seq=3, gap=5_000, units=2)


def test_a_debounced_call_is_delayed_by_its_quiet_time(app: Windlass) -> None:
    @app.task(name="t", unique=["a"], unique_policy="debounce", unique_for="5s", debounce_max="1m")
    async def task(a: int) -> None: ...

    draft = draft_of(task.s(1))
    assert (draft.delay, draft.terms) == (5_000, Terms(unique="t:1", policy=Policy.DEBOUNCE, most=60_000))
    assert draft_of(task.options(delay=9).s(1)).delay == 9_000
    with pytest.raises(ConfigError, match=r"debounced call .* takes no at="):
        draft_of(task.options(at=datetime(2030, 1, 1, tzinfo=UTC)).s(1))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"key": ["custmer"]}, "key needs an argument 'custmer'.*did you mean 'customer'"),
        ({"unique": ["x", "customer"]}, "unique needs an argument 'x'"),
        ({"units": lambda row: 1}, "units needs an argument 'row'.*did you mean 'rows'"),
        ({"ageing": 5}, "unknown option 'ageing'"),
        ({"max_ready": 5}, "unknown option 'max_ready'"),
        ({"seq": 5}, "unknown option 'seq'"),
    ],
)
def test_what_is_wrong_in_a_declaration_fails_there(app: Windlass, options: dict[str, Any], text: str) -> None:
    async def task(customer: int, rows: list[int]) -> None: ...

    with pytest.raises(ConfigError, match=text):
        app.task(**options)(task)


def test_a_task_that_takes_any_argument_may_be_keyed_by_any(app: Windlass) -> None:
    @app.task(name="t", key=["customer"])
    async def task(**more: int) -> None: ...

    assert terms_of(app, "t", customer=5) == Terms(key="5")
    with pytest.raises(ConfigError, match="task t: key names 'customer'"):
        terms_of(app, "t", custom=5)


def test_scopes_of_the_app_and_of_queues(app: Windlass) -> None:
    assert Windlass("x", "memory://", ageing="1m").declared.defaults == {"ageing": 60_000}
    for name in ("rate", "limit", "max_ready", "ordered", "unique"):
        with pytest.raises(ConfigError, match=f"unknown option '{name}'"):
            Windlass("x", "memory://", **{name: 1})  # type: ignore[arg-type]
    for name in ("unique", "key", "breaker", "batch", "seq"):
        with pytest.raises(ConfigError, match=f"unknown option '{name}'"):
            app.queue("q", **{name: 1})  # type: ignore[arg-type]


def test_calls_by_name_can_give_values(app: Windlass) -> None:
    queue = app.queue("q")
    draft = draft_of(queue.call("far.away", {"a": 1, "b": 2}, {"key": 5, "unique": True}))
    assert draft.terms is not None
    assert draft.terms.key == "5"
    assert draft.terms == draft_of(queue.call("far.away", {"b": 2, "a": 1}, {"key": 5, "unique": True})).terms
    for options in ({"key": ["a"]}, {"unique": lambda a: a}):
        with pytest.raises(ConfigError, match="depends on the arguments of a call, which are not known here"):
            draft_of(queue.call("far.away", {"a": 1}, options))


def test_a_declared_task_called_by_name_has_its_rules(app: Windlass) -> None:
    @app.task(name="t", key=["a"])
    async def task(a: int) -> None: ...

    assert draft_of(app.queue("q").call("t", {"a": 1}, {})).terms == Terms(key="1")
    assert draft_of(app.sig("t", {"a": 2})).terms == Terms(key="2")


def test_one_job_that_makes_many_calls_needs_a_value(app: Windlass) -> None:
    @app.task(name="t", key=["a"])
    async def task(a: int) -> None: ...

    with pytest.raises(ConfigError, match="one job makes many calls"):
        draft_of(task.map([1, 2]))
    assert draft_of(task.map([1, 2]).set(key="all")).terms == Terms(key="all")


# -- workflows


def test_members_keep_what_a_member_can_have(app: Windlass) -> None:
    app.queue("default", max_ready=5, when_full="drop_oldest", ageing=1)

    @app.task(name="t", key=["b"], units=2, breaker="stripe")
    async def task(a: int, b: int) -> int:
        return a + b

    plan = make_plan(app, chain(task.s(1, 2), task.s(3)))
    own = [job.terms for job in plan.nodes if job.task]
    assert own == [Terms(key=str(n), units=2, breaker="stripe", ageing=1_000) for n in (2, 3)]


def test_members_that_only_a_full_queue_concerns_have_no_terms(app: Windlass) -> None:
    app.queue("default", max_ready=5)

    @app.task(name="t")
    async def task() -> None: ...

    assert draft_of(task.s()).terms == Terms(max_ready=5)
    assert [job.terms for job in make_plan(app, group(task.si(), task.si())).nodes] == [None] * 3


def test_a_member_is_nobodys_double(app: Windlass) -> None:
    @app.task(name="t", unique=True)
    async def task(a: int = 0) -> None: ...

    with pytest.raises(ConfigError, match=r"step 2 of the chain: task t has unique=.*\.set\(unique=False\)"):
        make_plan(app, chain(task.si().set(unique=False), task.si()))
    with pytest.raises(ConfigError, match="task t has seq="):
        make_plan(app, group(task.si().set(unique=False, key=1, seq=2)))


def test_what_a_fed_call_gets_later_is_not_known(app: Windlass) -> None:
    @app.task(name="t", key=["a"])
    async def task(a: int) -> int:
        return a

    with pytest.raises(ConfigError, match=r"step 2 of the chain: task t: key names 'a'.*first argument"):
        make_plan(app, chain(task.s(1), task.s()))
    make_plan(app, chain(task.s(1), task.s().set(key="x")))


def test_a_breaker_that_holds_nothing_back_is_no_term(app: Windlass) -> None:
    @app.task(name="t", breaker="stripe")
    async def task() -> None: ...

    assert terms_of(app, "t") == Terms(breaker="stripe")
    app.declared.loose_breakers.add("stripe")
    app.declared.forget_resolved()
    assert terms_of(app, "t") is None


# -- answers


@pytest.fixture
def answering(app: Windlass, monkeypatch: pytest.MonkeyPatch) -> list[Answer]:
    """Whatever is inserted gets this answer, here and in threads."""
    answers: list[Answer] = []

    async def insert(self: object, jobs: Sequence[NewJob]) -> list[Answer]:
        return answers * len(jobs)

    monkeypatch.setattr(type(app.connections._anchor), "insert", insert)
    monkeypatch.setattr(type(app.connections._anchor), "insert_here", lambda self, jobs: answers * len(jobs))

    @app.task(name="t", unique=True, when_full="reject")
    async def task(a: int = 0) -> int:
        return a

    return answers


async def test_who_has_the_key_is_who_the_caller_gets(app: Windlass, answering: list[Answer]) -> None:
    task = app.tasks["t"]
    for status in (Accept.DUPLICATE, Accept.REPLACED):
        answering[:] = [Answer(status, holder="other")]
        handle = await task.enqueue()
        assert (handle.id, handle.existing, handle.sync.existing) == ("other", True, True)
    answering[:] = [ACCEPTED]
    assert (await task.enqueue()).existing is False
    assert (await app.enqueue_many([task.s()]))[0].existing is False
    answering[:] = [Answer(Accept.DUPLICATE)]
    assert (await task.enqueue()).existing is False, "it was only sent twice"
    assert (await task.options(id="mine").enqueue()).existing is True


async def test_refusals_have_their_own_errors(app: Windlass, answering: list[Answer]) -> None:
    task = app.tasks["t"]
    answering[:] = [FULL]
    with pytest.raises(QueueFull, match="queue default is full: 3 ready jobs"):
        await task.enqueue()
    with pytest.raises(QueueFull, match="queue default is full after 5ms: 3 ready jobs"):
        await task.options(when_full="wait", full_timeout="5ms").enqueue()
    answering[:] = [Answer(Accept.REFUSED, f"queue 'default' is {DRAINING}")]
    with pytest.raises(QueueDraining, match="queue default takes in no new jobs"):
        await task.enqueue()
    answering[:] = [Answer(Accept.REFUSED, "the key is another task's")]
    with pytest.raises(EnqueueError, match="was refused: the key is another task's"):
        await task.enqueue()


def test_sync_callers_get_the_same(app: Windlass, answering: list[Answer]) -> None:
    task = app.tasks["t"]
    answering[:] = [ACCEPTED]
    task.delay()  # opens the portal's connection; from now on threads insert directly
    answering[:] = [Answer(Accept.DUPLICATE, holder="other")]
    assert (task.delay().id, task.delay().existing) == ("other", True)
    assert app.sync.enqueue_many([task.s()])[0].id == "other"
    answering[:] = [FULL]
    with pytest.raises(QueueFull):
        task.delay()
    with pytest.raises(QueueFull, match="after 5ms"):
        task.options(when_full="wait", full_timeout="5ms").delay()
    app.sync.close()


def test_a_key_that_cannot_be_made_is_an_error_of_the_call(app: Windlass) -> None:
    @app.task(name="t", key=lambda order: order["customer"])
    async def task(order: dict[str, int]) -> None: ...

    with pytest.raises(PayloadError, match="task t: the function for key raised KeyError"):
        draft_of(task.s({}))


async def test_edited_arguments_bring_their_own_key_units_and_unique_key() -> None:
    app = Windlass("edits", "memory://")

    @app.task(key=["customer"], ordered=True, units=lambda size: size, unique=["customer", "size"])
    async def bill(customer: str, size: int = 1) -> None:
        raise ValueError("no such customer")

    def kept(job: Job | None) -> Terms:
        assert job is not None
        assert job.terms is not None
        return job.terms

    async with app, app.worker():
        handle = await bill.enqueue("anan", 2)
        own = await bill.options(key="mine").enqueue("other", 3)
        for one in (handle, own):
            with pytest.raises(JobFailed):
                await one
        before = kept(await handle.record())
        await app.dead.edit(handle.id, {"customer": "anna"})
        after = kept(await handle.record())
        assert (before.key, before.units) == ("anan", 2)
        assert (after.key, after.units, after.ordered) == ("anna", 1, True)
        assert after.unique not in ("", before.unique)
        await app.dead.edit(own.id, {"customer": "anna", "size": 4})
        changed = kept(await own.record())
        assert (changed.key, changed.units) == ("mine", 4), "what the call said for itself stays"
        await app.dead.edit(handle.id, {"customer": "anna", "size": 1})
        assert kept(await handle.record()) == after


async def test_edited_arguments_of_a_waiting_job_may_not_change_its_key() -> None:
    app = Windlass("edits", "memory://")

    @app.task(key=["customer"])
    async def bill(customer: str, size: int = 1) -> None: ...

    async with app:
        handle = await bill.enqueue("anan")
        with pytest.raises(ConfigError, match=r"is ready, and with these arguments its key, .* cancel it first"):
            await app.dead.edit(handle.id, {"customer": "anna"})
        await app.dead.edit(handle.id, {"customer": "anan", "size": 2})
        assert await handle.cancel()
        await app.dead.edit(handle.id, {"customer": "anna"})


async def test_a_task_that_is_not_known_here_keeps_its_terms() -> None:
    app = Windlass("edits", "memory://")
    async with app:
        handle = await app.queue("default").add("elsewhere.bill", {"customer": "anan"}, key="k")
        await handle.cancel()
        before = await handle.record()
        await app.dead.edit(handle.id, {"customer": "anna"})
        after = await handle.record()
        assert before is not None
        assert after is not None
        assert after.terms == before.terms
