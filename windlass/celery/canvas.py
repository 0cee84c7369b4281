"""What signatures are put together into: chain, group, chord, chunks, map. Plain values in Celery's shape."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

from windlass.celery.exceptions import ImproperlyConfigured
from windlass.celery.signature import ItemAttribute, Signature, list_of, maybe_signature, signature, subtask

if TYPE_CHECKING:
    from windlass.celery.app import Celery

__all__ = [
    "Signature", "abstract_chain", "chain", "chord", "chunks", "group", "list_of", "maybe_signature", "signature",
    "subtask", "xmap", "xstarmap",
]  # fmt: skip


def _several(tasks: tuple[Any, ...]) -> list[Any]:
    """Signatures given one by one, or all of them in one iterable, generators included."""
    if len(tasks) == 1 and not isinstance(tasks[0], Mapping) and not hasattr(tasks[0], "apply_async"):
        if not isinstance(tasks[0], Iterable):
            raise TypeError(f"{tasks[0]!r} is no signature; write task.s(...)")
        return list(tasks[0])
    return list(tasks)


def _signatures(tasks: Iterable[Any], app: Celery | None) -> list[Signature]:
    found = []
    for task in tasks:
        sig = maybe_signature(task, app)
        if not isinstance(sig, Signature):
            raise TypeError(f"{task!r} is no signature; write task.s(...)")
        found.append(sig.group() if isinstance(sig, chunks) else sig)
    return found


class _Composed(Signature):
    """A signature made of signatures. Calling it sends it; it does not run in place."""

    def _build(self, kwargs: dict[str, Any], app: Celery | None, options: dict[str, Any]) -> None:
        dict.__init__(
            self,
            task=f"celery.{self.kind}",
            args=(),
            kwargs=kwargs,
            options=options,
            subtask_type=self.kind,
            immutable=False,
        )
        self._app = app or next((found for sig in self.members if (found := sig._app) is not None), None)

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self.apply_async(args, **options)

    @classmethod
    def _restored(cls, made: Self, d: Mapping[str, Any]) -> Self:
        made["options"] = dict(d.get("options") or {})
        made["immutable"] = bool(d.get("immutable"))
        return made


class _Listed(_Composed):
    """A list of signatures: a chain or a group."""

    @classmethod
    def _read(cls, d: Mapping[str, Any], app: Celery | None) -> Signature:
        return cls._restored(cls(list(d["kwargs"]["tasks"]), app=app), d)

    tasks = ItemAttribute[list[Signature]]("tasks", within="kwargs")

    @property
    def members(self) -> list[Signature]:
        return self.tasks

    @property
    def is_empty(self) -> bool:
        return not self.tasks


class chain(_Listed):
    """Tasks one after the other; each gets the result of the one before as its first argument."""

    kind = "chain"

    def __init__(self, *tasks: Any, app: Celery | None = None, **options: Any) -> None:
        steps: list[Signature] = []
        for sig in _signatures(_several(tasks), app):
            # Options of a chain as a whole would be lost if it were taken apart.
            steps.extend(sig.tasks if isinstance(sig, chain) and not sig.options.keys() - {"task_id"} else [sig])
        self._build({"tasks": steps}, app, options)

    def _fill(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self.tasks and not self.immutable:
            self.tasks[0]._fill(args, kwargs)

    def set_immutable(self, immutable: bool) -> None:
        self.immutable = immutable
        for task in self.tasks[:1]:
            task.set_immutable(immutable)

    def link_error(self, errback: Any) -> Any:
        """Run ``errback`` once if any part fails; in a group that others follow, a setting runs it for each failed
        task.
        """
        if self.app.conf.task_allow_error_cb_on_chord_header:
            for task in self.tasks[:-1]:
                if isinstance(task, group):
                    task.link_error(errback)
        return super().link_error(errback)

    def __or__(self, other: Any) -> Any:
        found = maybe_signature(other, self._app)
        if not isinstance(found, Signature):
            return NotImplemented
        if self.options.keys() - {"task_id"}:
            return chain(self, found, app=self._app)
        return chain(*(task.clone() for task in self.tasks), found, app=self._app)

    def __repr__(self) -> str:
        return " | ".join(map(repr, self.tasks))


abstract_chain = _chain = chain  # Celery's other names for this class


def _flat(tasks: Iterable[Any], app: Celery | None) -> list[Signature]:
    """The members of a group. As in Celery, a group inside a group is taken apart, and an empty chain is left out."""
    members: list[Signature] = []
    for sig in _signatures(tasks, app):
        members.extend(sig.tasks if isinstance(sig, group) else [sig] if not sig.is_empty else [])
    return members


class group(_Listed):
    """Tasks at the same time; the result is the list of their results, in order."""

    kind = "group"

    _unread: Iterator[Any] | None = None
    """The generator the group was made of. It is read when the tasks are first looked at, at the latest when the group
    is sent.
    """

    def __init__(self, *tasks: Any, app: Celery | None = None, **options: Any) -> None:
        late = len(tasks) == 1 and isinstance(tasks[0], Iterator)
        self._build({"tasks": [] if late else _flat(_several(tasks), app)}, app, options)
        if late:
            self._unread = tasks[0]

    def _read_tasks(self) -> None:
        if (unread := self._unread) is not None:
            self._unread = None
            dict.__getitem__(self, "kwargs")["tasks"] = _flat(unread, self._app)
            self._app = self._app or next((found for sig in self.tasks if (found := sig._app) is not None), None)

    # Every access to its items reads the generator first, also those of json, copy and dict().

    def __getitem__(self, key: str) -> Any:
        self._read_tasks()
        return super().__getitem__(key)

    def __iter__(self) -> Iterator[str]:
        self._read_tasks()
        return super().__iter__()

    def __eq__(self, other: object) -> bool:
        self._read_tasks()
        if isinstance(other, group):
            other._read_tasks()
        return super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]

    def get(self, key: str, default: Any = None) -> Any:
        self._read_tasks()
        return super().get(key, default)

    def items(self) -> Any:
        self._read_tasks()
        return super().items()

    def values(self) -> Any:
        self._read_tasks()
        return super().values()

    def _fill(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for task in self.tasks:
            task._fill(args, kwargs)

    def set_immutable(self, immutable: bool) -> None:
        for task in self.tasks:
            task.set_immutable(immutable)

    def link(self, callback: Any) -> Any:
        """Run ``callback`` once, when all of them succeeded. It gets none of their results, as in Celery."""
        return self._append("link", maybe_signature(callback, self._app).clone().set(immutable=True))

    def link_error(self, errback: Any) -> Any:
        """Run ``errback`` for each of its tasks that fails."""
        for task in self.tasks:
            task.link_error(maybe_signature(errback, self._app).clone())
        return errback

    def _take(self, options: dict[str, Any]) -> None:
        if options.pop("link", None) is not None:
            raise TypeError("a group has no single result to call back with: use a chord")
        for errback in list_of(options.pop("link_error", None)):
            self.link_error(errback)
        id = options.pop("group_id", None)
        self.options.update({"task_id": id, **options} if id is not None else options)

    def skew(self, start: float = 1.0, stop: float | None = None, step: float = 1.0) -> Self:
        """Give each task a countdown of its own, growing by ``step`` from ``start``, up to ``stop``."""
        for number, task in enumerate(self.tasks):
            countdown = start + number * step
            task.set(countdown=countdown if stop is None else min(countdown, stop))
        return self

    def __or__(self, other: Any) -> Any:
        found = maybe_signature(other, self._app)
        if not isinstance(found, Signature):
            return NotImplemented
        return chord(self, body=found, app=self._app)

    def __len__(self) -> int:
        return len(self.tasks)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"group({self.tasks!r})"


class chord(_Composed):
    """The header's tasks at the same time, then the body with the list of their results."""

    kind = "chord"

    def __init__(
        self, header: Any, body: Any = None, task: Any = None, args: Any = None, kwargs: Any = None,
        app: Celery | None = None, **options: Any,
    ) -> None:  # fmt: skip
        tasks = header if isinstance(header, group) else _header(header, app)
        self._build({"header": tasks, "body": maybe_signature(body, app)}, app, options)

    @classmethod
    def _read(cls, d: Mapping[str, Any], app: Celery | None) -> Signature:
        kwargs = d["kwargs"]
        header = maybe_signature(kwargs["header"], app)
        return cls._restored(cls(header, kwargs.get("body"), app=app), d)

    @property
    def header(self) -> group:
        header: group = self["kwargs"]["header"]
        return header

    @property
    def tasks(self) -> list[Signature]:
        return self.header.tasks

    @tasks.setter
    def tasks(self, header: Any) -> None:
        self["kwargs"]["header"] = header if isinstance(header, group) else _header(header, self._app)

    @property
    def body(self) -> Any:
        return self["kwargs"]["body"]

    @body.setter
    def body(self, body: Any) -> None:
        self["kwargs"]["body"] = maybe_signature(body, self._app)

    @property
    def members(self) -> list[Signature]:
        return [self.header] if self.body is None else [self.header, self.body]

    def _fill(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.header._fill(args, kwargs)

    def set_immutable(self, immutable: bool) -> None:
        self.header.set_immutable(immutable)

    def link(self, callback: Any) -> Any:
        if self.body is not None:
            self.body.link(callback)
        return callback

    def link_error(self, errback: Any) -> Any:
        """Runs once if the header or the body fails."""
        if self.app.conf.task_allow_error_cb_on_chord_header:
            self.header.link_error(errback)
        if self.body is not None:
            self.body.link_error(errback)
        return errback

    def _take(self, options: dict[str, Any]) -> None:
        for name in ("interval", "max_retries", "producer", "connection", "retry", "retry_policy"):
            options.pop(name, None)  # an option of Celery's polling for the header
        super()._take(options)

    def __call__(self, body: Any = None, **options: Any) -> Any:
        made = self.clone()
        if body is not None:
            made.body = body
        return made.apply_async((), **options)

    def apply_async(self, args: Any = None, kwargs: Any = None, body: Any = None, **options: Any) -> Any:
        made = self.clone(args, kwargs)
        if body is not None:
            made.body = body
        if made.body is None:
            raise ImproperlyConfigured("a chord needs a body: chord(header)(body)")
        return super(chord, made).apply_async((), {}, **options)

    def __or__(self, other: Any) -> Any:
        found = maybe_signature(other, self._app)
        if not isinstance(found, Signature):
            return NotImplemented
        made = self.clone()
        made.body = made.body | found
        return made

    def __length_hint__(self) -> int:
        return len(self.tasks)

    def __repr__(self) -> str:
        return f"chord({self.tasks!r}, {self.body!r})"


def _header(header: Any, app: Celery | None) -> group:
    """A copy of the header: what is linked to a chord's tasks must not be linked to the caller's, as in Celery."""
    if isinstance(header, Iterator):
        return group(header, app=app)
    return group([maybe_signature(task, app, clone=True) for task in _several((header,))], app=app)


class _Map(Signature):
    """One job that calls a task for each item in turn."""

    def __init__(self, task: Any, it: Iterable[Any], app: Celery | None = None, **options: Any) -> None:
        inner = maybe_signature(task, app)
        dict.__init__(
            self, task=f"celery.{self.kind and self.kind[1:]}", args=(), kwargs={"task": inner, "it": list(it)},
            options=options, subtask_type=self.kind, immutable=True,
        )  # fmt: skip
        self._app = app or inner._app

    @classmethod
    def _read(cls, d: Mapping[str, Any], app: Celery | None) -> Signature:
        made = cls(maybe_signature(d["kwargs"]["task"], app), d["kwargs"]["it"], app=app)
        made["options"] = dict(d.get("options") or {})
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.type(**self.kwargs)

    def __repr__(self) -> str:
        return f"[{self.kwargs['task'].task}(x) for x in {len(self.kwargs['it'])} items]"


class xmap(_Map):
    """``add.map([1, 2])`` is ``[add(1), add(2)]`` in one job."""

    kind = "xmap"


class xstarmap(_Map):
    """``add.starmap([(2, 2), (4, 4)])`` is ``[add(2, 2), add(4, 4)]`` in one job."""

    kind = "xstarmap"


class chunks(_Composed):
    """The items in parts of ``n``, each part one job; the result is a list of lists."""

    kind = "chunks"

    def __init__(self, task: Any, it: Iterable[Any], n: int, app: Celery | None = None, **options: Any) -> None:
        self._build({"task": maybe_signature(task, app), "it": [list(item) for item in it], "n": n}, app, options)
        self._app = self._app or self["kwargs"]["task"]._app

    @classmethod
    def _read(cls, d: Mapping[str, Any], app: Celery | None) -> Signature:
        kwargs = d["kwargs"]
        return cls._restored(cls(maybe_signature(kwargs["task"], app), kwargs["it"], kwargs["n"], app=app), d)

    def group(self) -> group:
        """The same as a group of its parts."""
        task, items, n = (self["kwargs"][name] for name in ("task", "it", "n"))
        parts = [xstarmap(task, items[start : start + n], app=self._app) for start in range(0, len(items), n)]
        return group(parts, app=self._app, **self.options)

    def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        return self.group().apply_async((), {}, **options)

    def apply(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        return self.group().apply((), {}, **options)

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self.apply_async(**options)

    @classmethod
    def apply_chunks(cls, task: Any, it: Iterable[Any], n: int, app: Celery | None = None) -> Any:
        return cls(task, it, n, app=app)()

    def __repr__(self) -> str:
        return f"{self['kwargs']['task'].task}.chunks({len(self['kwargs']['it'])} items, {self['kwargs']['n']})"
