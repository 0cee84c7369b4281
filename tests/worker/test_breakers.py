"""Circuit breakers with real workers: what opens them, what becomes of jobs meanwhile, and how they close again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.worker.helpers import SHORT, Fleet, Ledger, eventually, soon, within
from windlass import (
    BreakerOpen,
    Cancel,
    JobCancelled,
    JobFailed,
    Reject,
    Retry,
    Snooze,
    State,
    Windlass,
)
from windlass.core.breaker import Mode
from windlass.errors import ConfigError
from windlass.limits.breakers import Breaker


class Down(Exception):
    pass


async def mode_of(breaker: Breaker) -> Mode:
    return (await breaker.state()).state


def is_(breaker: Breaker, mode: str) -> Any:
    async def check() -> bool:
        return await mode_of(breaker) == mode

    return check


async def test_held_while_open_and_tried_again_with_one_probe(app: Windlass) -> None:
    stripe = app.breaker("stripe", errors=2, open_for="2s", window="1m")
    works, running, most = False, 0, 0

    @app.task(breaker="stripe", retries=20, backoff=0.01)
    async def charge(n: int) -> int:
        nonlocal running, most
        running += 1
        try:
            if not works:
                raise Down
            if await mode_of(stripe) is Mode.HALF_OPEN:
                most = max(most, running)
            return n
        finally:
            running -= 1

    async with app, app.worker(concurrency=10):
        failing = [await charge.enqueue(n) for n in range(2)]
        await eventually(is_(stripe, "open"))
        held = await app.enqueue_many([charge.s(n) for n in range(10, 20)])
        info = await stripe.state()
        assert info.until is not None
        assert not info.forced
        works = True
        assert [await within(handle) for handle in held] == list(range(10, 20))
        assert [await within(handle) for handle in failing] == [0, 1]
        await eventually(is_(stripe, "closed"))
        attempts = [record.attempts for handle in held if (record := await handle.info())]
        assert sum(attempts) == 0, "what is held burns no attempt"
    assert most <= 1


async def test_a_failing_probe_opens_it_again(app: Windlass) -> None:
    stripe = app.breaker("stripe", errors=1, open_for="500ms")
    probes = 0

    @app.task(breaker="stripe", retries=50, backoff=0.2)  # later than the report of the error
    async def charge() -> str:
        nonlocal probes
        probes += 1
        if probes < 4:
            raise Down
        return "done"

    async with app, app.worker():
        handle = await charge.enqueue()
        assert await within(handle) == "done"
        await eventually(is_(stripe, "closed"))
    assert probes == 4


async def test_as_many_successes_as_probes_close_it(app: Windlass) -> None:
    stripe = app.breaker("stripe", errors=1, open_for="100ms", probes=3)
    works, seen = False, []

    @app.task(breaker="stripe", retries=50, backoff=0.01)
    async def charge(n: int) -> None:
        seen.append((await stripe.state()).state)
        if not works:
            raise Down
        await asyncio.sleep(0.05)

    async with app, app.worker(concurrency=10):
        await charge.enqueue(0)
        await eventually(is_(stripe, "open"))
        works = True
        handles = await app.enqueue_many([charge.s(n) for n in range(8)])
        await within(asyncio.gather(*handles))
        await eventually(is_(stripe, "closed"))
    assert seen.count(Mode.HALF_OPEN) >= 3


@pytest.mark.parametrize("when_open", ["fail", "drop"])
async def test_failing_or_dropping_what_comes(app: Windlass, when_open: Any) -> None:
    stripe = app.breaker("stripe", errors=2, open_for="1h", when_open=when_open)
    ran = []

    @app.task(breaker="stripe")
    async def charge(n: int) -> None:
        ran.append(n)
        raise Down

    async with app, app.worker():
        for n in range(2):
            with pytest.raises(JobFailed, match="Down"):
                await within(await charge.enqueue(n))
        await eventually(is_(stripe, "open"))
        handle = await charge.enqueue(2)
        if when_open == "fail":
            with pytest.raises(JobFailed, match="breaker stripe is open"):
                await within(handle)
        else:
            with pytest.raises(JobCancelled):
                await within(handle)
            info = await handle.info()
            assert info is not None
            assert info.reason == "breaker stripe is open"
        assert (await stripe.state()).errors == 2, "being turned away is no error"
        await stripe.auto()
        await eventually(is_(stripe, "closed"))

        async def runs_again() -> bool:
            await within(asyncio.wait([asyncio.ensure_future(waited(await charge.enqueue(3)))]))
            return 3 in ran

        await eventually(runs_again)
    assert 2 not in ran


async def waited(handle: Any) -> None:
    with pytest.raises((JobFailed, JobCancelled)):
        await handle


async def test_what_counts_and_what_does_not(app: Windlass) -> None:
    class Known(Down):
        pass

    stripe = app.breaker("stripe", errors=100, error_rate=None, trip_on=Down, ignore=Known)

    @app.task(breaker="stripe", retries=1, backoff=0.01)
    async def charge(what: str) -> None:
        errors: dict[str, Exception] = {
            "down": Down(), "known": Known(), "other": ValueError(), "reject": Reject(), "cancel": Cancel(),
            "open": BreakerOpen(),
        }  # fmt: skip
        if what in errors:
            raise errors[what]
        if what == "snooze" and not snoozed:
            snoozed.append(what)
            raise Snooze(0.01)
        if what == "retry" and what not in snoozed:
            snoozed.append(what)
            raise Retry(delay=0.01)
        if what == "retry from":
            raise Retry(delay=0.01) from Down()

    snoozed: list[str] = []
    async with app, app.worker():
        for what in ("known", "other", "reject", "cancel", "open", "snooze", "retry"):
            handle = await charge.options(retries=1 if what == "retry" else 0).enqueue(what)
            await within(settled(handle))
        assert (await stripe.state()).errors == 0
        for what in ("down", "retry from"):
            await within(settled(await charge.options(retries=0).enqueue(what)))

        async def both() -> bool:
            return (await stripe.state()).errors == 2

        await eventually(both)


async def settled(handle: Any) -> State:
    while True:
        info = await handle.info()
        if info.state.terminal:
            state: State = info.state
            return state
        await asyncio.sleep(0.01)


async def test_an_error_in_a_child_is_judged_there(tmp_path: Path) -> None:
    from tests.worker.jobs import adopt, fails_in_child

    app = Windlass("e2e", f"sqlite:///{tmp_path}/jobs.db?durability=normal", **SHORT)
    stripe = app.breaker("stripe", errors=2, open_for="1h")
    adopt(app, fails_in_child)
    async with app, app.worker(children=1):
        handles = [await app.queue("default").add(fails_in_child.name, {"kind": kind}) for kind in ("known", "down")]
        for handle in handles:
            await within(settled(handle), 60)

        async def one() -> bool:
            return (await stripe.state()).errors == 1

        await eventually(one)


# -- in user code


async def call(breaker: Breaker, error: Exception | None = None) -> str:
    async with breaker:
        if error is not None:
            raise error
        return "called"


def call_here(breaker: Breaker, error: Exception | None = None) -> str:
    with breaker:
        if error is not None:
            raise error
        return "called"


async def test_around_any_code(app: Windlass) -> None:
    api = app.breaker("api", errors=2, open_for="2s")
    async with app:
        assert await call(api) == "called"
        with pytest.raises(Down):
            await call(api, Down())
        with pytest.raises(Down):
            await asyncio.to_thread(call_here, api, Down())
        await eventually(is_(api, "open"))
        with pytest.raises(BreakerOpen, match="api"):
            await call(api)
        with pytest.raises(BreakerOpen):
            await asyncio.to_thread(call_here, api)

        async def lets_through() -> bool:
            try:
                return await call(api) == "called"
            except BreakerOpen:
                return False

        await eventually(lets_through)
        await eventually(is_(api, "closed"))
        assert await asyncio.to_thread(call_here, api) == "called"
    await asyncio.to_thread(app.sync.close)


async def test_by_a_share_of_errors(app: Windlass) -> None:
    api = app.breaker("api", errors=None, error_rate=0.5, least=6, open_for="1h")
    async with app:
        for _ in range(4):
            await call(api)
        for _ in range(3):
            with pytest.raises(Down):
                await call(api, Down())
        await api.flush()
        assert await mode_of(api) is Mode.CLOSED
        with pytest.raises(Down):
            await call(api, Down())
        await api.flush()
        info = await api.state()
        assert (info.state, info.calls, info.errors) == (Mode.OPEN, 8, 4)


async def test_an_operators_word(app: Windlass) -> None:
    api = app.breaker("api", errors=1)
    async with app:
        info = await api.open()
        assert (info.state, info.forced, info.until) == (Mode.OPEN, True, None)
        with pytest.raises(BreakerOpen):
            await call(api)
        info = await api.close()
        assert (info.state, info.forced) == (Mode.CLOSED, True)
        for _ in range(3):
            with pytest.raises(Down):
                await call(api, Down())
        await api.flush()
        assert await mode_of(api) is Mode.CLOSED
        info = await api.open(for_="1s")
        assert info.until is not None
        assert info.forced
        await eventually(is_(api, "half_open"))
        info = await api.auto()
        assert (info.state, info.forced, info.errors) == (Mode.CLOSED, False, 0)
        with pytest.raises(Down):
            await call(api, Down())
        await eventually(is_(api, "open"))


async def test_an_operators_word_holds_jobs(app: Windlass) -> None:
    @app.task(breaker="api")
    async def work() -> str:
        return "done"

    async with app, app.worker():
        await app.breaker("api").open()
        handle = await work.enqueue()

        async def says_so() -> bool:
            return "breaker" in str(await handle.why())

        await eventually(says_so)
        info = await handle.info()
        assert info is not None
        assert info.state is State.READY
        await app.breaker("api").auto()
        assert await within(handle) == "done"


async def test_never_declared_it_has_the_defaults(app: Windlass) -> None:
    async with app:
        for _ in range(5):
            with pytest.raises(Down):
                await call(app.breaker("undeclared"), Down())
        await eventually(is_(app.breaker("undeclared"), "open"))


async def test_processes_that_report_at_once_lose_no_error(tmp_path: Path) -> None:
    """Each app is a process's worth: connections, counters and beliefs of its own."""
    url = f"sqlite:///{tmp_path}/jobs.db?durability=normal"
    apps = [Windlass("e2e", url) for _ in range(4)]

    async def report(app: Windlass) -> None:
        api = app.breaker("api", errors=10_000)
        for _ in range(10):
            api.report(ok=1, failed=2)
            await api.flush()

    await asyncio.gather(*(report(app) for app in apps))
    info = await apps[0].breaker("api").state()
    assert (info.calls, info.errors) == (120, 80)
    for app in apps:
        await app.close()


async def test_one_process_opens_it_for_all(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db?durability=normal"
    one, other = Windlass("e2e", url), Windlass("e2e", url)
    for app in (one, other):
        app.breaker("api", errors=3, open_for="1h")
    async with one, other:
        for app in (one, other, one):
            with pytest.raises(Down):
                await call(app.breaker("api"), Down())
            await app.breaker("api").flush()

        async def is_shut() -> bool:
            try:
                await call(other.breaker("api"))
            except BreakerOpen:
                return True
            return False

        await eventually(is_shut)


async def test_wrong_options_are_said(app: Windlass) -> None:
    for options, text in (
        ({"erors": 5}, "did you mean 'errors'"),
        ({"errors": 0}, "never open"),
        ({"error_rate": 2}, "error_rate"),
        ({"window": 0}, "window"),
        ({"probes": 0}, "probes"),
        ({"when_open": "wait"}, "when_open"),
        ({"trip_on": "Down"}, "trip_on"),
    ):
        with pytest.raises(ConfigError, match=text):
            app.breaker("wrong", **options)
    app.breaker("twice", errors=3)
    app.breaker("twice", errors=3)
    with pytest.raises(ConfigError, match="twice"):
        app.breaker("twice", errors=4)


def test_a_worker_killed_in_its_probe_does_not_keep_it_half_open(fleet: Fleet, ledger: Ledger) -> None:
    from tests.worker.jobs import caller

    app = caller(fleet.env["E2E_URL"])
    probe = app.tasks["tests.worker.jobs.probes"]
    app.sync.run(app.breaker("probed").open(for_="10ms"))
    first = fleet.start()
    handles = [probe.delay(n) for n in range(3)]
    soon(lambda: len(ledger.lines("start")) == 1)
    assert app.sync.run(app.breaker("probed").state()).state == "half_open"
    first.kill()
    fleet.start(env={"E2E_PAUSE": "0"})
    assert [handle.get(timeout=40) for handle in handles] == [0, 1, 2]
    soon(lambda: app.sync.run(app.breaker("probed").state()).state == "closed")
    app.sync.close()
