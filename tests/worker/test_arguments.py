"""Arguments and results, typed by annotation, through every place; old payloads; payloads that do not fit."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
import pytest

from tests.drafts import draft_of
from tests.worker import typed
from tests.worker.helpers import within
from tests.worker.typed import ORDER, Address, Colour, Item, Order
from windlass import JobFailed, PayloadError, State, Windlass


@pytest.mark.parametrize("task", [typed.on_loop, typed.in_thread, typed.in_process], ids=["loop", "thread", "process"])
async def test_everything_comes_out_as_it_went_in(app: Windlass, task: Any) -> None:
    own = app.declared.add_task(task.fn, {"name": task.name, "runs_in": task.runs_in})
    async with app.worker(children=1):
        handle = await own.enqueue(ORDER, again=True)
        result = await within(handle)
        typed.check(result)
        assert type(result) is Order
        info = await handle.info()
        assert info is not None
        assert info.result == ORDER
        assert info.args["order"]["colour"] == "blue"


async def test_star_arguments(app: Windlass) -> None:
    own = app.declared.add_task(typed.variadic.fn, {})
    a, b, c = (Item(sku, Decimal(1)) for sku in "abc")
    async with app.worker():
        result = await within(await own.enqueue(a, b, c, limit=Decimal("0.1"), back=Colour.RED))
        assert result == ["a", ["b", "c"], "0.1", {"back": "RED"}]
        assert await within(await own.enqueue(a)) == ["a", [], "1", {}]
        with pytest.raises(PayloadError):
            await own.enqueue(a, "not an item")
        with pytest.raises(PayloadError):
            await own.enqueue(a, back="green")


async def test_defaults_are_the_workers(app: Windlass) -> None:
    """What was not given is not stored: a release that changes a default changes it for waiting jobs too."""

    @app.task(name="greet")
    async def greet(name: str, greeting: str = "Hello") -> str:
        return f"{greeting} {name}"

    handle = await greet.enqueue("Ada")
    assert (await handle.info()).args == {"name": "Ada"}  # type: ignore[union-attr]
    async with app.worker():
        assert await within(handle) == "Hello Ada"


async def test_positional_only_and_keyword_only(app: Windlass) -> None:
    @app.task
    async def mixed(a: int, /, b: int, *, c: int, d: int = 4) -> list[int]:
        return [a, b, c, d]

    async with app.worker():
        assert await within(await mixed.enqueue(1, b=2, c=3)) == [1, 2, 3, 4]
        assert await within(await mixed.enqueue(1, 2, c=3, d=5)) == [1, 2, 3, 5]
    with pytest.raises(PayloadError):
        await mixed.enqueue(1, 2, 3)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"n": "seven"}, "Expected `int`, got `str`"),
        ({}, "missing required field `n`"),
        ({"n": 1, "other": 2}, "unknown field `other`"),
        ({"n": 1, "where": {"street": 5}}, "$.where"),
    ],
)
@pytest.mark.parametrize("kind", ["loop", "thread"])
async def test_what_a_stranger_sent_dead_letters_with_the_reason(
    app: Windlass, args: Any, message: str, kind: str
) -> None:
    async def on_loop(n: int, where: Address | None = None) -> int:
        return n

    def in_thread(n: int, where: Address | None = None) -> int:
        return n

    app.task(name="strict", retries=9)(on_loop if kind == "loop" else in_thread)
    stranger = Windlass("stranger", app.url)
    async with app.worker():
        handle = await stranger.queue("default").add("strict", args)
        with pytest.raises(JobFailed, match="bad payload") as caught:
            await within(app.job(handle.id))
        assert message in caught.value.error_message
        (dead,) = (await app.dead.list(task="strict")).jobs
        assert (dead.attempts, dead.reason, dead.args) == (1, "bad payload", args)
    await stranger.close()


async def test_a_payload_that_is_no_object(app: Windlass) -> None:
    @app.task(name="strict")
    async def strict(n: int) -> int:
        return n

    async with app.worker():
        store = (await app.client()).store
        for id, payload in (("a", b"[1]"), ("b", b"not json"), ("c", b"[" * 100_000), ("d", b"")):
            job = draft_of(strict.s(1).set(id=id)).to_job("", b"{}")
            job.payload = payload
            await store.insert([job])
            with pytest.raises(JobFailed, match="bad payload"):
                await within(app.job(id))
        assert await within(await strict.enqueue(1)) == 1


# -- versions


async def test_old_payloads_are_brought_up_to_date(app: Windlass) -> None:
    @app.task(name="move")
    async def old(x: int, y: int) -> None: ...

    waiting = await old.enqueue(1, 2)
    newer = Windlass("newer", app.url, lease="1.5s", beat="0.4s")

    def one(args: dict[str, Any]) -> dict[str, Any]:
        return {"point": {"x": args["x"], "y": args["y"]}}

    def two(args: dict[str, Any]) -> dict[str, Any]:
        return {"where": args["point"], "speed": 1}

    @newer.task(name="move", version=3, upcast={1: one, 2: two})
    async def move(where: dict[str, int], speed: int) -> list[Any]:
        return [where, speed]

    middle = await newer.queue("default").add("move", {"where": {"x": 5, "y": 6}, "speed": 2})
    async with newer.worker():
        assert await within(newer.job(waiting.id)) == [{"x": 1, "y": 2}, 1]
        assert await within(middle) == [{"x": 5, "y": 6}, 2]
    assert (await middle.info()).version == 3  # type: ignore[union-attr]
    await newer.close()


@pytest.mark.parametrize("fault", ["raises", "gives nonsense"])
async def test_an_upcast_that_fails_dead_letters_with_the_reason(app: Windlass, fault: str) -> None:
    def broken(args: dict[str, Any]) -> dict[str, Any]:
        if fault == "raises":
            raise KeyError("point")
        return {"nonsense": 1}

    @app.task(name="move", version=2, upcast={1: broken}, retries=5)
    async def move(where: int) -> None: ...

    store = (await app.client()).store
    job = draft_of(move.s(1).set(id="old")).to_job("", b"{}")
    job.version, job.payload = 1, b'{"x":1}'
    await store.insert([job])
    async with app.worker():
        with pytest.raises(JobFailed, match="bad payload") as caught:
            await within(app.job("old"))
    expected = "upcast from version 1 failed" if fault == "raises" else "does not fit"
    assert expected in caught.value.error_message


async def test_the_result_is_capped(app: Windlass) -> None:
    small = Windlass("small", app.url, max_payload=1_000, lease="1.5s", beat="0.4s")

    @small.task
    async def long(size: int) -> str:
        return "x" * size

    async with small.worker():
        assert len(await within(await long.enqueue(900))) == 900
        with pytest.raises(JobFailed, match="the result cannot be kept"):
            await within(await long.enqueue(2_000))
    await small.close()


async def test_a_result_of_none_is_none(app: Windlass) -> None:
    @app.task
    async def nothing() -> None: ...

    async with app.worker():
        handle = await nothing.enqueue()
        assert await within(handle) is None
        record = await handle.record()
        assert record is not None
        assert (record.result, record.state) == (b"null", State.SUCCEEDED)


async def test_nothing_is_ever_imported_or_rebuilt_from_an_error(app: Windlass) -> None:
    class Odd(Exception):
        def __init__(self, a: int, b: int) -> None:
            super().__init__(a, b)

        def __str__(self) -> str:
            raise RuntimeError("no text")

    @app.task
    async def odd() -> None:
        secret = "hunter2"
        raise Odd(1, len(secret))

    async with app.worker():
        handle = await odd.enqueue()
        with pytest.raises(JobFailed, match=r"no message: str\(\) of .*Odd raised RuntimeError") as caught:
            await within(handle)
        assert caught.value.error_type.endswith("Odd")
        record = await handle.record()
        assert record is not None
        assert record.error is not None
        assert set(msgspec.json.decode(record.error)) <= {
            "type", "message", "traceback", "fingerprint", "attempts", "at", "took", "worker", "run", "attempt",
        }  # fmt: skip
        assert b"hunter2" not in record.error.replace(b'secret = \\"hunter2\\"', b"")
