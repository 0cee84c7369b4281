"""What a workflow brings to a job: values as arguments, typed and untyped, read before the run; maps; the calls' rules.

Claims are made by hand here, and the store only answers what is asked: workflows as a whole are in ``test_workflows``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from tests.worker.helpers import eventually
from windlass import Windlass, current
from windlass.core.graph import Input
from windlass.core.job import Claim, Job, Meta, State
from windlass.core.links import Inject, Links, Shape
from windlass.errors import PayloadError, StoreError, StoreUnavailable
from windlass.handles.results import Failure
from windlass.store.base import Store
from windlass.worker.arguments import arguments
from windlass.worker.children import Children
from windlass.worker.executor import Executor
from windlass.worker.graphs import Graphs
from windlass.worker.note_buffer import NoteBuffer
from windlass.worker.runner import Run

FAILURE = Failure("j", "t", "failed", "ValueError", "no")
FAILED = msgspec.json.encode(FAILURE)


@pytest.fixture
def app() -> Windlass:
    return Windlass("values", "memory://")


def claim(task: str, payload: bytes = b"{}", **given: Any) -> Claim:
    fields = {"graph": "g", "source": "s", "inject": Inject.RESULT, "meta": b"{}", "version": 1, **given}
    return Claim(id="a", task=task, queue="default", priority=5, payload=payload, run=1, epoch=1, seq=1, attempt=0,
                 crashes=0, snoozes=0, enqueued_at=0, **fields)  # fmt: skip


def run_of(app: Windlass, made: Claim) -> Run:
    return Run(app, made, cast("Any", None), SimpleNamespace())


def called(app: Windlass, task: str, given: bytes | None, payload: bytes = b"{}", **more: Any) -> Any:
    """What the task gives when it is called with a value from its workflow."""
    function, args, kwargs = arguments(run_of(app, claim(task, payload, given=given, **more)))
    return function(*args, **kwargs)


# -- the value as an argument


class Receipt(msgspec.Struct):
    id: int


def test_the_value_is_the_first_argument_before_those_of_the_call(app: Windlass) -> None:
    @app.task(name="f")
    def f(a: int, b: int, *, c: int = 3) -> list[int]:
        return [a, b, c]

    assert called(app, "f", b"1", b'{"b":2}') == [1, 2, 3]
    assert called(app, "f", b"1", b'{"a":null,"b":2,"c":9}') == [1, 2, 9]


def test_the_value_is_read_by_annotation(app: Windlass) -> None:
    @app.task(name="f")
    def f(receipts: list[Receipt]) -> Any:
        return receipts

    assert called(app, "f", b'[{"id":1},{"id":2}]') == [Receipt(1), Receipt(2)]


def test_the_value_is_the_first_of_star_arguments(app: Windlass) -> None:
    @app.task(name="f")
    def f(*numbers: int, **more: int) -> Any:
        return numbers, more

    assert called(app, "f", b"1", b'{"*numbers":[2,3],"x":4}') == ((1, 2, 3), {"x": 4})
    assert called(app, "f", b"1") == ((1,), {})


def test_a_value_without_a_place_is_a_bad_payload(app: Windlass) -> None:
    @app.task(name="f")
    def f(*, only: int = 0) -> None:
        pass

    with pytest.raises(PayloadError, match=r"no positional argument.*previous step"):
        called(app, "f", b"1")


def test_a_value_that_does_not_fit_says_where_it_came_from(app: Windlass) -> None:
    @app.task(name="f")
    def f(n: int) -> None:
        pass

    with pytest.raises(PayloadError, match=r"Expected `int`.*'n' is the value of the workflow's previous step"):
        called(app, "f", b'"one"')


def test_failures_come_as_annotated(app: Windlass) -> None:
    @app.task(name="typed")
    def typed(values: list[int | Failure]) -> Any:
        return values

    @app.task(name="raw")
    def raw(value: dict[str, Any]) -> Any:
        return value

    assert called(app, "typed", b"[1," + FAILED + b"]") == [1, FAILURE]
    assert called(app, "raw", FAILED) == msgspec.to_builtins(FAILURE)


def test_failures_come_as_objects_where_nothing_is_annotated(app: Windlass) -> None:
    @app.task(name="bare")
    def bare(value) -> Any:  # type: ignore[no-untyped-def]
        return value

    @app.task(name="listed")
    def listed(value: list, more: int = 0) -> Any:  # type: ignore[type-arg]
        return value

    @app.task(name="star")
    def star(*values: Any) -> Any:
        return list(values)

    assert called(app, "bare", FAILED) == FAILURE
    assert called(app, "bare", b'{"a":' + FAILED + b"}") == {"a": FAILURE}
    assert called(app, "listed", b"[1," + FAILED + b"]", b'{"more":1}') == [1, FAILURE]
    assert called(app, "star", FAILED, b'{"*values":[2]}') == [FAILURE, 2]


def test_an_older_payload_is_brought_up_before_the_value_is_put_in(app: Windlass) -> None:
    @app.task(name="f", version=2, upcast={1: lambda old: {"twice": old["b"] * 2}})
    def f(a: int, twice: int) -> Any:
        return [a, twice]

    assert called(app, "f", b"1", b'{"b":2}') == [1, 4]


def test_a_handler_of_any_name_gets_the_value_by_name(app: Windlass) -> None:
    @app.queue("default").handler
    def anything(task: str, payload: dict[str, Any]) -> Any:
        return task, payload

    assert called(app, "no.such", b"[1]", b'{"x":2}') == ("no.such", {"x": 2, "result": [1]})
    assert called(app, "no.such", None, b'{"x":2}', inject=Inject.NONE) == ("no.such", {"x": 2})


def test_a_value_on_the_side_is_no_argument(app: Windlass) -> None:
    @app.task(name="f")
    def f(a: int) -> Any:
        return a

    made = claim("f", b'{"a":1}', inject=Inject.ASIDE, given=b"[2," + FAILED + b"]")
    run = run_of(app, made)
    assert arguments(run)[1] == (1,)
    assert run.current.results == [2, FAILURE]


def test_results_are_those_of_the_awaited_work_and_none_without(app: Windlass) -> None:
    assert run_of(app, claim("f", given=b"1", inject=Inject.ASIDE, awaits="g", awaited=b"[3]")).current.results == [3]
    assert run_of(app, claim("f", given=b"1")).current.results is None
    assert run_of(app, claim("f", inject=Inject.NONE)).current.results is None


# -- one job, many calls

EACH = Meta(options={"each": "starmap"}).encode()


def test_a_map_calls_the_task_for_each_item(app: Windlass) -> None:
    @app.task(name="f")
    def f(a: Receipt, b: int = 0, *rest: int) -> Any:
        return [a.id, b, *rest]

    payload = b'{"each":[[{"id":1}],[{"id":2},3],[{"id":4},5,6,7]]}'
    assert called(app, "f", b"not used", payload, meta=EACH) == [[1, 0], [2, 3], [4, 5, 6, 7]]


async def test_a_map_awaits_the_task_for_each_item(app: Windlass) -> None:
    @app.task(name="f")
    async def f(a: int) -> int:
        await asyncio.sleep(0)
        return a + 1

    assert await called(app, "f", None, b'{"each":[[1],[2]]}', meta=EACH) == [2, 3]
    assert await called(app, "f", None, b'{"each":[]}', meta=EACH) == []


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (b'{"each":[[1],["x"]]}', "item 1: .*Expected `int`"),
        (b'{"each":[[1,2]]}', "item 0 has 2 arguments"),
        (b'{"each":[[]]}', "item 0: .*missing required field"),
        (b'{"each":[1]}', "payload of a map"),
        (b'{"a":1}', "payload of a map"),
    ],
)
def test_a_map_that_does_not_fit_calls_nothing(app: Windlass, payload: bytes, message: str) -> None:
    @app.task(name="f")
    def f(a: int) -> None:
        raise AssertionError("called")

    with pytest.raises(PayloadError, match=message):
        called(app, "f", None, payload, meta=EACH)


def test_a_map_upcasts_each_item(app: Windlass) -> None:
    @app.task(name="f", version=2, upcast={1: lambda old: {"a": old["a"] * 10}})
    def f(a: int) -> int:
        return a

    assert called(app, "f", None, b'{"each":[[1],[2]]}', meta=EACH) == [10, 20]


# -- before the run


class Sources:
    """A store that has one list to give, and fails first as often as it is told."""

    def __init__(self, *errors: Exception) -> None:
        self.errors, self.asked = list(errors), 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def get(self, ids: Sequence[str]) -> list[Job | None]:
        self.asked += 1
        await self.gate.wait()
        if self.errors:
            raise self.errors.pop(0)
        links = Links(shape=Shape.MANY)
        return [
            Job(
                id=id,
                task="",
                version=1,
                queue="",
                priority=5,
                state=State.SUCCEEDED,
                payload=b"",
                meta=b"{}",
                links=links,
            )
            for id in ids
        ]

    async def inputs(self, ids: Sequence[str]) -> list[list[Input]]:
        return [
            [Input(f"{id}{n}", "t", State.SUCCEEDED, Inject.RESULT, Shape.CALL, b"%d" % n) for n in (1, 2)]
            for id in ids
        ]


Start = Callable[[Claim], Executor]


@pytest.fixture
def sources() -> Sources:
    return Sources()


@pytest.fixture
async def start(app: Windlass, sources: Sources) -> Any:
    store = cast("Store", sources)

    async def unused(*args: Any) -> Any:
        raise AssertionError("nothing runs in a process here")

    notes = NoteBuffer(store, asyncio.get_running_loop(), unused)
    executor = Executor(app, 1, notes, Children(1, lambda *args: None), Graphs(store), lambda: None)

    def take(made: Claim) -> Executor:
        executor.take([made])
        return executor

    yield take
    executor.close()


def declare(app: Windlass, kind: str) -> None:
    async def on_loop(n: Any = None) -> Any:
        return [n, current().results]

    def in_thread(n: Any = None) -> Any:
        return [n, current().results]

    app.declared.add_task(on_loop if kind == "loop" else in_thread, {"name": "f"})


@pytest.mark.parametrize("kind", ["loop", "thread"])
async def test_values_that_are_not_at_hand_are_read_first(app: Windlass, start: Start, kind: str) -> None:
    declare(app, kind)
    executor = start(claim("f", awaits="w"))
    await eventually(lambda: executor.finished)
    assert executor.finished[0].result == b"[[1,2],[1,2]]"


async def test_a_value_at_hand_is_not_read(app: Windlass, start: Start, sources: Sources) -> None:
    declare(app, "loop")
    executor = start(claim("f", given=b"5"))
    await eventually(lambda: executor.finished)
    assert (executor.finished[0].result, sources.asked) == (b"[5,null]", 0)


@pytest.mark.parametrize("kind", ["loop", "thread"])
async def test_reading_takes_a_slot_and_can_be_cancelled(
    app: Windlass, start: Start, sources: Sources, kind: str
) -> None:
    declare(app, kind)
    sources.gate.clear()
    executor = start(claim("f"))
    await eventually(lambda: sources.asked)
    assert executor.active == 1
    executor.cancel("a")
    await eventually(lambda: executor.finished)
    assert executor.finished[0].to is State.CANCELLED
    assert executor.active == 0


@pytest.mark.parametrize("kind", ["loop", "thread"])
async def test_reading_ends_with_the_worker(app: Windlass, start: Start, sources: Sources, kind: str) -> None:
    declare(app, kind)
    sources.gate.clear()
    executor = start(claim("f"))
    await eventually(lambda: sources.asked)
    executor.hand_back_running()
    await eventually(lambda: executor.finished)
    assert (executor.finished[0].event, executor.active, executor.stuck) == ("released", 0, 0)


async def test_reading_for_a_lost_job_is_given_up(app: Windlass, start: Start, sources: Sources) -> None:
    declare(app, "loop")
    sources.gate.clear()
    executor = start(claim("f"))
    await eventually(lambda: sources.asked)
    executor.drop()
    await eventually(lambda: not executor.active)
    assert not executor.finished
    assert not executor.held


async def test_a_store_out_of_reach_is_asked_again(app: Windlass, start: Start, sources: Sources) -> None:
    declare(app, "loop")
    sources.errors = [StoreUnavailable(), StoreUnavailable()]
    executor = start(claim("f"))
    await eventually(lambda: executor.finished)
    assert (executor.finished[0].result, sources.asked) == (b"[[1,2],null]", 3)


async def test_a_store_that_refuses_fails_the_attempt(app: Windlass, start: Start, sources: Sources) -> None:
    declare(app, "loop")
    sources.errors = [StoreError("damaged")]
    executor = start(claim("f"))
    await eventually(lambda: executor.finished)
    assert executor.finished[0].to is State.FAILED
    assert b"damaged" in (executor.finished[0].error or b"")


async def test_time_spent_reading_does_not_count(app: Windlass, start: Start, sources: Sources) -> None:
    armed: list[str] = []

    @app.task(name="f", timeout=30)
    async def f(n: Any) -> None:
        armed.append("running")

    sources.gate.clear()
    executor = start(claim("f"))
    executor._arm = lambda run: armed.append("armed")  # type: ignore[method-assign]
    await eventually(lambda: sources.asked)
    assert not armed
    sources.gate.set()
    await eventually(lambda: executor.finished)
    assert armed == ["armed", "running"]
