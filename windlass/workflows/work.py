"""Builders of workflows: chain, group and chord; ``flows.py`` has flow. Values: they say what is to be done.

Every method answers a copy, so that a work can be used in several places. What a work means as jobs and edges is said
in ``plan``; what is wrong with it is found there, when it is submitted as a whole.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Generator, Iterable, Iterator
from typing import Any, ClassVar, Generic, Literal, Protocol, Self, TypeVar, cast, get_args, overload

import msgspec

from windlass.connections.connections import Connections
from windlass.core.draft import Draft
from windlass.core.hints import did_you_mean
from windlass.core.ids import check_id
from windlass.errors import ConfigError
from windlass.handles.handle import Handle, SyncHandle
from windlass.handles.results import MARK, Failure, Read, decode
from windlass.workflows.declarations import Declarations, OneCall
from windlass.workflows.workflow import SyncWorkflow, Workflow, finished_workflow

R = TypeVar("R")
S = TypeVar("S")
A = TypeVar("A")
R_co = TypeVar("R_co", covariant=True)

FAILURE = b"{" + MARK
IfFails = Literal["fail", "ignore", "remove", "continue"]


class Submitter(Protocol):
    """The part of an app that makes jobs of calls."""

    def draft(self, call: OneCall, *, fed: bool = False, stable: bool = False) -> Draft: ...

    async def submit(self, drafts: list[Draft]) -> list[Handle[Any]]: ...

    def submit_here(self, drafts: list[Draft]) -> list[SyncHandle[Any]]: ...

    def send(self, drafts: list[Draft]) -> None: ...

    async def submit_work(self, work: Work[R]) -> Workflow[R]: ...

    def submit_work_here(self, work: Work[R]) -> SyncWorkflow[R]: ...


class App(Protocol):
    """An app, as its tasks and calls know it: three parts."""

    @property
    def declared(self) -> Declarations: ...

    @property
    def submitting(self) -> Submitter: ...

    @property
    def connections(self) -> Connections: ...


class Extras(msgspec.Struct, frozen=True):
    """What a work has besides its parts: callbacks, a name, an id, and how failures are taken."""

    then: tuple[Work[Any], ...] = ()
    on_error: tuple[Work[Any], ...] = ()
    on_end: tuple[Work[Any], ...] = ()
    if_fails: str = ""
    fail_fast: bool = False
    name: str = ""
    id: str = ""


PLAIN = Extras()
METHODS = {"name": "named", "id": "with_id"}


def said_of(extras: Extras) -> list[str]:
    """The methods by which these extras were given, as users write them."""
    names = [name for name in extras.__struct_fields__ if getattr(extras, name)]
    return [f"{METHODS.get(name, name)}()" for name in names]


class Work(Generic[R_co]):
    """Something to be done whose result is an ``R``: a call, or calls put together."""

    kind: ClassVar[str] = "work"
    extras: Extras = PLAIN
    app: App | None = None
    """Only a call knows its app."""

    def __or__(self, other: Work[S]) -> Chain[S]:
        """``a | b``: then b, with the result of a as its first argument."""
        return Chain((self, as_work(other, "the right side of |")))

    def on_error(self, handler: Work[Any]) -> Self:
        """Run ``handler`` once if this work fails. It gets a Failure as its first argument, unless made by ``.si``."""
        return self._more(on_error=(*self.extras.on_error, as_work(handler, "on_error()")))

    def on_end(self, handler: Work[Any]) -> Self:
        """Run ``handler`` once when this work is over, however it ended. It gets nothing of it."""
        return self._more(on_end=(*self.extras.on_end, as_work(handler, "on_end()")))

    def then(self, handler: Work[Any]) -> Self:
        """Run ``handler`` if this work succeeded, with its value. The handler is no part of this work's result."""
        return self._more(then=(*self.extras.then, as_work(handler, "then()")))

    def if_fails(self, what: IfFails) -> Self:
        """As one of the works a flow needs: what becomes of the flow's parent if this one fails."""
        if what not in get_args(IfFails):
            known = get_args(IfFails)
            raise ConfigError(
                f"if_fails({what!r}){did_you_mean(str(what), known)}: give one of {', '.join(map(repr, known))}"
            )
        return self._more(if_fails=what)

    def fail_fast(self) -> Self:
        """Of the whole workflow: its first failure cancels everything else."""
        return self._more(fail_fast=True)

    def named(self, name: str) -> Self:
        """Of the whole workflow: its name, for people."""
        if not str(name).strip() or len(name) > 256 or not name.isprintable():
            raise ConfigError(f"named({name!r}): give 1 to 256 printable characters")
        return self._more(name=name)

    def with_id(self, id: str) -> Self:
        """Of the whole workflow: its id. Submitted again with the same contents, it is the workflow that is there."""
        return self._more(id=check_id(id))

    def _more(self, **changes: Any) -> Self:
        other = copy.copy(self)
        other.extras = msgspec.structs.replace(self.extras, **changes)
        return other

    @property
    def has_callbacks(self) -> bool:
        return bool(self.extras.then or self.extras.on_error or self.extras.on_end)

    @abstractmethod
    def reader(self) -> Read:
        """How its value is read: by the annotations of the tasks it comes from."""

    @abstractmethod
    def parts(self) -> Iterable[Work[Any]]:
        """The works it is made of, callbacks left out."""

    def find_app(self) -> App | None:
        """The app of its first call; None where it has no calls at all."""
        seen: set[int] = set()
        open: list[Iterator[Work[Any]]] = [iter((self,))]
        while open:
            work = next(open[-1], None)
            if work is None:
                open.pop()
            elif work.app is not None:
                return work.app
            elif id(work) not in seen:
                seen.add(id(work))
                extras = work.extras
                open.append(iter((*work.parts(), *extras.then, *extras.on_error, *extras.on_end)))
        return None

    @abstractmethod
    async def enqueue(self) -> Handle[R_co] | Workflow[R_co]:
        """Accept all of it or nothing: when this returns, it is in the store."""

    @abstractmethod
    def delay(self) -> SyncHandle[R_co] | SyncWorkflow[R_co]:
        """The same for sync code, from any thread."""

    def __await__(self) -> Generator[Any, None, Handle[R_co] | Workflow[R_co]]:
        return self.enqueue().__await__()


class Composed(Work[R_co]):
    """A work made of works: submitting it always makes a workflow."""

    async def enqueue(self) -> Workflow[R_co]:
        """Accept all of it or nothing: when this returns, it is in the store."""
        app = self.find_app()
        return await app.submitting.submit_work(self) if app else finished_workflow(nothing(self))

    def delay(self) -> SyncWorkflow[R_co]:
        """The same for sync code, from any thread."""
        app = self.find_app()
        return app.submitting.submit_work_here(self) if app else finished_workflow(nothing(self)).sync

    def __await__(self) -> Generator[Any, None, Workflow[R_co]]:
        return self.enqueue().__await__()


class Chain(Composed[R_co]):
    """One after the other; each gets the result of the one before as its first argument."""

    kind = "chain"

    def __init__(self, steps: Iterable[Work[Any]]) -> None:
        self.steps: tuple[Work[Any], ...] = tuple(plain_steps(steps))

    def parts(self) -> Iterable[Work[Any]]:
        return self.steps

    def reader(self) -> Read:
        return self.steps[-1].reader()

    def __repr__(self) -> str:
        return f"chain({show_works(self.steps)})"


class Group(Composed[list[R_co]]):
    """All of them in parallel; its value is the list of theirs, in the order they were given."""

    kind = "group"
    keeps_errors = False
    least = -1

    def __init__(self, members: Iterable[Work[R_co]]) -> None:
        self.members: tuple[Work[R_co], ...] = tuple(members)
        for place, member in enumerate(self.members, 1):
            if not isinstance(member, Work):
                raise not_work(member, f"member {place} of the group")

    def keep_errors(self) -> Group[R_co | Failure]:
        """Succeed whatever fails: failures come as Failure values in the list."""
        other = copy.copy(self)
        other.keeps_errors, other.least = True, -1
        return cast("Group[R_co | Failure]", other)

    def at_least(self, k: int) -> Group[R_co | Failure]:
        """Succeed when at least ``k`` members did; the others are Failure values in the list."""
        other = copy.copy(self)
        other.keeps_errors, other.least = False, check_least(k, len(self.members))
        return cast("Group[R_co | Failure]", other)

    def parts(self) -> Iterable[Work[Any]]:
        return self.members

    def reader(self) -> Read:
        return list_reader([member.reader() for member in self.members])

    def __len__(self) -> int:
        return len(self.members)

    def __repr__(self) -> str:
        return f"group({show_works(self.members)})"


class Chord(Composed[R_co]):
    """A group whose list is the first argument of one more work, the body."""

    kind = "chord"

    def __init__(self, header: Group[Any], body: Work[R_co]) -> None:
        self.header, self.body = header, body

    def keep_errors(self) -> Self:
        """Run the body whatever fails: failures come as Failure values in its list."""
        return self._with_header(self.header.keep_errors())

    def at_least(self, k: int) -> Self:
        """Run the body when at least ``k`` of the header succeeded; the others are Failure values in its list."""
        return self._with_header(self.header.at_least(k))

    def _with_header(self, header: Group[Any]) -> Self:
        other = copy.copy(self)
        other.header = header
        return other

    def parts(self) -> Iterable[Work[Any]]:
        return self.header, self.body

    def reader(self) -> Read:
        return self.body.reader()

    def __repr__(self) -> str:
        return f"chord([{show_works(self.header.members)}], {self.body!r})"


class Header(Generic[R]):
    """``chord(header)``, waiting for its body."""

    def __init__(self, group: Group[R]) -> None:
        self._group = group

    def __call__(self, body: Work[S]) -> Chord[S]:
        return Chord(self._group, as_work(body, "the body of the chord"))


# -- the builders


@overload
def chain(a: Work[R], /) -> Chain[R]: ...
@overload
def chain(a: Work[Any], b: Work[R], /) -> Chain[R]: ...
@overload
def chain(a: Work[Any], b: Work[Any], c: Work[R], /) -> Chain[R]: ...
@overload
def chain(a: Work[Any], b: Work[Any], c: Work[Any], d: Work[R], /) -> Chain[R]: ...
@overload
def chain(a: Work[Any], b: Work[Any], c: Work[Any], d: Work[Any], e: Work[R], /) -> Chain[R]: ...
@overload
def chain(
    a: Work[Any], b: Work[Any], c: Work[Any], d: Work[Any], e: Work[Any], f: Work[Any], /, *more: Work[Any]
) -> Chain[Any]: ...
@overload
def chain(works: Iterable[Work[Any]], /) -> Chain[Any]: ...
def chain(*works: Any) -> Chain[Any]:
    """One after the other: ``chain(a.s(1), b.s(2))`` calls ``a(1)``, then ``b(its result, 2)``."""
    made: Chain[Any] = Chain(_several(works))
    if not made.steps:
        raise ConfigError("chain() of nothing has no result; give at least one work")
    return made


@overload
def group(works: Iterable[Work[R]], /) -> Group[R]: ...
@overload
def group(*works: Work[R]) -> Group[R]: ...
def group(*works: Any) -> Group[Any]:
    """All of them in parallel: ``group(add.si(1, 2), add.si(3, 4))``, or of an iterable. The result is a list."""
    return Group(_several(works))


@overload
def chord(header: Group[A] | Iterable[Work[A]]) -> Header[A]: ...
@overload
def chord(header: Group[Any] | Iterable[Work[Any]], body: Work[R]) -> Chord[R]: ...
def chord(header: Any, body: Any = None) -> Any:
    """The works of ``header`` in parallel, then ``body`` with the list of their results as its first argument."""
    if not isinstance(header, Group):
        header = Group(_several((header,)))
    waiting = Header(header)
    return waiting if body is None else waiting(body)


def _several(works: tuple[Any, ...]) -> Iterable[Any]:
    """Works given one by one, or all of them in one iterable."""
    if len(works) == 1 and not isinstance(works[0], Work) and isinstance(works[0], Iterable):
        return works[0]
    return works


def plain_steps(steps: Iterable[Work[Any]]) -> Iterator[Work[Any]]:
    """The steps, with chains in a chain taken apart where nothing was said of them as a whole."""
    for place, step in enumerate(steps, 1):
        if not isinstance(step, Work):
            raise not_work(step, f"step {place} of the chain")
        if isinstance(step, Chain) and step.extras is PLAIN:
            yield from step.steps
        else:
            yield step


def as_work(value: Any, where: str) -> Any:
    if not isinstance(value, Work):
        raise not_work(value, where)
    return value


def not_work(value: object, where: str) -> ConfigError:
    """The error for something else where a work is wanted; it says what was probably meant."""
    if hasattr(value, "si") and hasattr(value, "fn"):
        return ConfigError(f"{where} is {value!r} without arguments; call it: .s(...) or .si(...)")
    if callable(value) and hasattr(value, "__qualname__"):
        return ConfigError(f"{where} is the plain function {value.__qualname__}; declare it with @app.task first")
    return ConfigError(f"{where} is {value!r}; give a work, such as task.s(...) or group(...)")


def check_least(k: object, members: int) -> int:
    if not isinstance(k, int) or isinstance(k, bool) or not 0 <= k <= members:
        raise ConfigError(f"at_least({k!r}) of a group of {members}; give a whole number from 0 to {members}")
    return k


def list_reader(readers: list[Read]) -> Read:
    """Reads a list whose items have readers of their own. In place of an item there may be a Failure."""
    if len(set(readers)) == 1:
        only = readers[0]
        return lambda data: [_read_item(only, item) for item in _items(data)]

    def read(data: bytes | None) -> Any:
        items = _items(data)
        if len(items) != len(readers):  # an item is missing, and nobody can say whose annotation fits which
            return decode(data)
        return [_read_item(one, item) for one, item in zip(readers, items, strict=True)]

    return read


def _items(data: bytes | None) -> list[msgspec.Raw]:
    return [] if data is None else msgspec.json.decode(data, type=list[msgspec.Raw])


def _read_item(read: Read, item: msgspec.Raw) -> Any:
    data = bytes(item)
    if data.startswith(FAILURE):
        value = decode(data)
        if isinstance(value, Failure):
            return value
    return read(data)


def nothing(work: Work[Any]) -> Any:
    """The value of a work that has no calls: lists of nothing."""
    if isinstance(work, Group):
        return [nothing(member) for member in work.members]
    return nothing(list(work.parts())[-1])


def show_works(works: tuple[Work[Any], ...]) -> str:
    return ", ".join(map(repr, works[:5])) + (f", … {len(works) - 5} more" if len(works) > 5 else "")
