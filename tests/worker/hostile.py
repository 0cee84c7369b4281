"""Tasks that end in every bad way user code can, told by a small spec; and tasks beside them that must not notice.

A module of its own, so that process children can import it. Tests put a store of theirs into ``app``.
"""

from __future__ import annotations

import asyncio
import enum
import json
import math
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from hypothesis import strategies as st

from windlass import Cancel, Reject, Retry, Snooze, Windlass, chain, chord, current
from windlass.errors import PayloadError

app = Windlass("hostile", "memory://")

Spec = dict[str, Any]


class Text(str):
    """A text with ways of its own."""

    def encode(self, *args: Any, **kwargs: Any) -> bytes:
        raise RuntimeError("no bytes for you")

    def __len__(self) -> int:
        raise RuntimeError("no length for you")

    def __str__(self) -> str:
        return self


class Nobody:
    """An object that raises whatever is asked of it."""

    def __init__(self, error: BaseException) -> None:
        object.__setattr__(self, "error", error)

    def _refuse(self, *args: Any) -> Any:
        raise object.__getattribute__(self, "error")

    __str__ = __repr__ = __eq__ = __hash__ = __reduce__ = __len__ = __iter__ = __bool__ = __float__ = __int__ = _refuse  # type: ignore[assignment]
    __getattr__ = __index__ = __call__ = __contains__ = __format__ = __dir__ = _refuse  # type: ignore[assignment]

    @property
    def __class__(self) -> Any:  # type: ignore[override]
        raise object.__getattribute__(self, "error")


class Model:
    """Looks like a pydantic model, and is none."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def model_dump(self, mode: str) -> Any:
        raise self.error


class Rows(list):  # type: ignore[type-arg]
    def __iter__(self) -> Any:
        raise RuntimeError("no items for you")

    __len__ = cast(Any, lambda self: -1)


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError(self.args)


class Leaving(Exception):
    def __str__(self) -> str:
        raise SystemExit(self.args)


class Numeric(Exception):
    __str__ = cast(Any, lambda self: 5)


class Talking(Exception):
    def __str__(self) -> str:
        return Text(self.args[0])


class Masked(Exception):
    @property
    def __class__(self) -> Any:  # type: ignore[override]
        raise RuntimeError("no class for you")


class Rootless(Exception):
    __traceback__ = property(lambda self: self.nothing)  # type: ignore[assignment]
    __cause__ = property(lambda self: self.nothing)  # type: ignore[assignment]
    __notes__ = property(lambda self: [Nobody(SystemExit())])  # type: ignore[assignment]


class Equal(Exception):
    def __eq__(self, other: object) -> bool:
        raise SystemExit

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> Any:
        raise SystemExit


class Hiding(type):
    def __getattribute__(cls, name: str) -> Any:
        if name in ("__module__", "__qualname__", "__name__"):
            raise RuntimeError(name)
        return super().__getattribute__(name)


Nameless = Hiding("Nameless", (Exception,), {})
Named = type("Named", (Exception,), {"__module__": 7, "__qualname__": "half\ud83d"})


def noted(text: str) -> BaseException:
    error = ValueError(text)
    error.add_note(text)
    return error


def grouped(text: str) -> BaseException:
    error: Exception = ValueError(text)
    for _ in range(20):
        error = ExceptionGroup(text, [error, Leaving()])
    return error


def chained(text: str) -> BaseException:
    error: Exception = Silent()
    for _ in range(50):
        following = ValueError(text)
        following.__cause__ = error
        error = following
    return error


def ring(text: str) -> BaseException:
    first, second = ValueError(text), KeyError(text)
    first.__context__, second.__context__ = second, first
    return first


def exceptions(text: str) -> dict[str, Callable[[], BaseException]]:
    """Exceptions by name; made anew, as a raised one remembers where it was."""
    return {
        "value": lambda: ValueError(text), "text": lambda: ValueError(Text("sub")), "cancel": lambda: Cancel(text),
        "reject": lambda: Reject(text), "retry": lambda: Retry(text), "exit": lambda: SystemExit(text),
        "interrupt": lambda: KeyboardInterrupt(text), "generator": lambda: GeneratorExit(text),
        "cancelled": lambda: asyncio.CancelledError(text), "stop": lambda: StopIteration(text),
        "stop_async": lambda: StopAsyncIteration(text), "base": lambda: BaseException(text),
        "memory": lambda: MemoryError(text), "recursion": lambda: RecursionError(text), "silent": lambda: Silent(text),
        "leaving": lambda: Leaving(text), "numeric": Numeric, "talking": lambda: Talking(text), "masked": Masked,
        "rootless": Rootless, "equal": Equal, "nameless": Nameless, "named": Named, "noted": lambda: noted(text),
        "grouped": lambda: grouped(text), "chained": lambda: chained(text), "ring": lambda: ring(text),
        "nobody": lambda: ValueError(Nobody(SystemExit(text))), "long": lambda: ValueError(text * 100_000),
        "cancel_nobody": lambda: Cancel(Nobody(SystemExit(text))),  # type: ignore[arg-type]
        "reject_nobody": lambda: Reject(Nobody(KeyError(text))),  # type: ignore[arg-type]
        "retry_nan": lambda: Retry(delay=math.nan), "retry_inf": lambda: Retry(delay=math.inf),
        "retry_less": lambda: Retry(delay=-1), "retry_text": lambda: Retry(delay=text),
        "retry_nobody": lambda: Retry(delay=Nobody(SystemExit(text))), "retry_most": lambda: Retry(delay=10**300),
        "snooze_nan": lambda: Snooze(math.nan), "snooze_text": lambda: Snooze(text),
        "snooze_nobody": lambda: Snooze(Nobody(SystemExit(text))), "snooze_most": lambda: Snooze(2**80),
    }  # fmt: skip


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def ring_of_lists() -> Any:
    value: list[Any] = []
    value.append({"again": value})
    return value


MARKED = {"windlass": "failure", "job": "x", "task": "x", "state": "failed", "type": "x", "message": "x"}


def values(text: str) -> dict[str, Callable[[], Any]]:
    """Results by name."""
    return {
        "nan": lambda: math.nan, "inf": lambda: [1, {"deep": -math.inf}], "nan_key": lambda: {math.nan: 1},
        "none": lambda: {"a": None, "b": [None, 1.5]}, "huge_int": lambda: {"a": None, "n": 2**200},
        "text": lambda: text, "key": lambda: {text: 1}, "subclass": lambda: Text(text), "long": lambda: text * 300_000,
        "deep": lambda: deep(100), "deepest": lambda: deep(100_000), "ring": ring_of_lists, "object": object,
        "nobody": lambda: Nobody(SystemExit(text)), "nobodies": lambda: [Nobody(KeyError(text))],
        "model": lambda: Model(SystemExit(text)), "models": lambda: [Model(AttributeError(text))],
        "bytes": lambda: b"\xff", "set": lambda: {1, 2}, "rows": lambda: Rows([1]), "marked": lambda: [MARKED],
        "lambda": lambda: len, "exception": lambda: ValueError(text), "enum": lambda: enum.Enum("E", "A").A,
        "tuple_key": lambda: {(1, 2): 3}, "none_key": lambda: {None: 3}, "generator": lambda: (x for x in "ab"),
    }  # fmt: skip


def says(text: str) -> dict[str, Callable[[], Any]]:
    """What a job may say while it runs, by name."""
    job = current()
    return {
        "log": lambda: job.log(text), "log_nobody": lambda: job.log(Nobody(SystemExit(text))),
        "level": lambda: job.log("x", text), "level_text": lambda: job.log("x", Text("info")),
        "log_long": lambda: job.log(text * 100_000), "nan": lambda: job.progress(math.nan),
        "inf": lambda: job.progress(1, n=[math.inf]), "message": lambda: job.progress(1, text),
        "message_nobody": lambda: job.progress(1, Nobody(SystemExit(text))),  # type: ignore[arg-type]
        "data": lambda: job.progress(1, text=text), "key": lambda: job.progress(1, **{text or "a": 1}),
        "data_nobody": lambda: job.progress(1, it=Nobody(SystemExit(text))), "huge": lambda: job.progress(2**70),
        "data_long": lambda: job.progress(1, text=text * 300_000), "percent": lambda: job.progress(text),  # type: ignore[arg-type]
    }  # fmt: skip


EXCEPTIONS, VALUES = tuple(exceptions("")), tuple(values(""))
SAYS = (
    "log", "log_nobody", "level", "level_text", "log_long", "nan", "inf", "message", "message_nobody", "data", "key",
    "data_nobody", "huge", "data_long", "percent",
)  # fmt: skip

texts = st.lists(
    st.sampled_from([0x61, 0xE9, 0xD83D, 0xDCFF, 0xDE00, 0x1F600, 0, 0xA, 0x1B, 0x202E, 0xFFFF, 0x22, 0x5C]), max_size=8
)
"""As code points: half a character cannot travel in arguments either."""

specs: st.SearchStrategy[Spec] = st.one_of(
    st.fixed_dictionaries({"do": st.just("raise"), "which": st.sampled_from(EXCEPTIONS), "text": texts}),
    st.fixed_dictionaries({"do": st.just("return"), "which": st.sampled_from(VALUES), "text": texts}),
    st.fixed_dictionaries({"do": st.just("say"), "which": st.sampled_from(SAYS), "text": texts}),
)


def act(spec: Spec) -> Any:
    """End as the spec says."""
    text = "".join(map(chr, spec["text"]))
    if spec["do"] == "raise":
        if current().snoozes:
            return None
        raise exceptions(text)[spec["which"]]()
    if spec["do"] == "say":
        try:
            return says(text)[spec["which"]]()
        except PayloadError:
            return "refused"
    return values(text)[spec["which"]]()


OPTIONS: Any = {"retries": 1, "backoff": "1ms"}


@app.task(**OPTIONS)
async def on_loop(spec: Spec) -> Any:
    await asyncio.sleep(0)
    return act(spec)


@app.task(**OPTIONS)
def in_thread(spec: Spec) -> Any:
    return act(spec)


@app.task(runs_in="process", **OPTIONS)
def in_process(spec: Spec) -> Any:
    return act(spec)


@app.task(batch=10, batch_wait="5ms", **OPTIONS)
async def in_batch(items: list[Spec]) -> list[Any]:
    return [_as_value(spec) for spec in items]


def _as_value(spec: Spec) -> Any:
    """In a batch a job ends by what stands in its place; what cannot stand there ends all that run with it."""
    if spec["do"] != "raise":
        return act(spec)
    error = exceptions("".join(map(chr, spec["text"])))[spec["which"]]()
    return error if issubclass(type(error), Exception) and not current().snoozes else None


@app.task(retries=0)
async def fine_on_loop(n: int) -> int:
    await asyncio.sleep(0)
    return n


@app.task(retries=0)
def fine_in_thread(n: int) -> int:
    return n


@app.task(runs_in="process", retries=0)
def fine_in_process(n: int) -> int:
    return n


@app.task(batch=10, batch_wait="5ms", retries=0)
async def fine_in_batch(items: list[int]) -> list[int]:
    return items


# -- other places where user code runs


class Told(Exception):
    """An error that says what the code that is asked about it does."""

    def __init__(self, spec: Spec) -> None:
        super().__init__("told")
        self.spec = spec


def answer(attempt: int, error: BaseException) -> Any:
    """A backoff function."""
    return act(error.spec) if isinstance(error, Told) else 0


@app.task(retries=1, backoff=answer)
async def in_backoff(spec: Spec) -> None:
    raise Told(spec)


@app.task(retries=1, retry_on=lambda error: act(error.spec), backoff="1ms")
def in_predicate(spec: Spec) -> None:
    raise Told(spec)


def older(fields: dict[str, Any]) -> Any:
    """An upcaster."""
    return act(fields["spec"])


@app.task(version=2, upcast={1: older}, **OPTIONS)
async def in_upcast(spec: Spec) -> None: ...


@app.task(retries=0)
async def receive(value: Any = None) -> Any:
    return value


@app.task(retries=0)
async def receive_typed(value: dict[str, int]) -> Any:
    return value


layered = Windlass("hostile", "memory://")


@layered.around_run
async def around(job: Any, call_next: Any) -> Any:
    """Middleware that ends every bad way, before the task or behind it."""
    spec = job.headers.get("spec")
    if spec is None:
        return await call_next()
    if job.headers["when"] == "before":
        act(json.loads(spec))
    result = await call_next()
    return act(json.loads(spec)) if job.headers["when"] == "behind" else result


@layered.task(retries=1, backoff="1ms")
async def under_on_loop(n: int) -> int:
    return n


@layered.task(retries=1, backoff="1ms")
def under_in_thread(n: int) -> int:
    return n


@layered.task(retries=0)
async def under_fine(n: int) -> int:
    return n


def under(spec: Spec) -> Any:
    task = (under_on_loop, under_in_thread)[len(spec["text"]) % 2]
    when = ("before", "behind")[len(spec["which"]) % 2]
    return task.options(headers={"spec": json.dumps(spec), "when": when}).s(1)


class Place(NamedTuple):
    """An app, a call or workflow that ends as a spec says in this place, and a neighbour."""

    app: Windlass
    hostile: Callable[[Spec], Any]
    fine: Callable[[int], Any]
    version: int = 0


PLACES = {
    "loop": Place(app, on_loop.s, fine_on_loop.s), "thread": Place(app, in_thread.s, fine_in_thread.s),
    "process": Place(app, in_process.s, fine_in_process.s), "batch": Place(app, in_batch.s, fine_in_batch.s),
    "backoff": Place(app, in_backoff.s, fine_on_loop.s), "predicate": Place(app, in_predicate.s, fine_in_thread.s),
    "upcast": Place(app, in_upcast.s, fine_on_loop.s, version=1), "middleware": Place(layered, under, under_fine.s),
    "chain": Place(app, lambda spec: chain(on_loop.s(spec), receive.s(), receive_typed.s()), fine_in_thread.s),
    "chord": Place(
        app, lambda spec: chord([in_thread.s(spec), in_process.s(spec), on_loop.s(spec)], receive.s()), fine_on_loop.s
    ),
    "callback": Place(
        app, lambda spec: chain(in_thread.s(spec), receive.s()).on_error(on_loop.si(spec)).on_end(in_thread.si(spec)),
        fine_in_thread.s,
    ),
}  # fmt: skip
