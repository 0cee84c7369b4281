"""A signature: a call that has not been made, as a value. ``canvas`` puts several together.

A signature is a dict, so that it can be an argument of a task and arrive as one. Nothing here talks to the store:
``compile`` makes a Windlass work of it, ``eager`` runs it in place.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, overload

from windlass.celery import _state
from windlass.celery.exceptions import ImproperlyConfigured

if TYPE_CHECKING:
    from windlass.celery.app import Celery
    from windlass.celery.result import ResultBase
    from windlass.celery.task import Task

T = TypeVar("T")
Made = TypeVar("Made", bound="Signature")


class ItemAttribute(Generic[T]):
    """An attribute of a signature that is an item of its dict, or of its ``kwargs`` with ``within``."""

    def __init__(self, key: str, default: Any = None, within: str = "") -> None:
        self.key, self.default, self.within = key, default, within

    @overload
    def __get__(self, sig: None, owner: type) -> Self: ...
    @overload
    def __get__(self, sig: Mapping[str, Any], owner: type) -> T: ...
    def __get__(self, sig: Mapping[str, Any] | None, owner: type) -> T | Self:
        if sig is None:
            return self
        found: T = self._holder(sig).get(self.key, self.default)
        return found

    def __set__(self, sig: Mapping[str, Any], value: T) -> None:
        self._holder(sig)[self.key] = value

    def _holder(self, sig: Mapping[str, Any]) -> Any:
        return sig[self.within] if self.within else sig


class Signature(dict[str, Any]):
    """A call that has not been made: a task's name, arguments and options. Keys are Celery's."""

    TYPES: ClassVar[dict[str, type[Signature]]] = {}
    kind: ClassVar[str | None] = None
    _app: Celery | None = None

    def __init_subclass__(cls) -> None:
        if "kind" in vars(cls) and cls.kind:
            cls.TYPES[cls.kind] = cls

    @classmethod
    def register_type(cls, name: str | None = None) -> Callable[[type[Made]], type[Made]]:
        """Register a class of the user's own for signatures of this ``subtask_type``."""

        def register(made: type[Made]) -> type[Made]:
            cls.TYPES[name or made.__name__] = made
            return made

        return register

    def __init__(
        self, task: Any = None, args: Any = None, kwargs: Any = None, options: Any = None, type: Any = None,
        subtask_type: str | None = None, immutable: bool = False, app: Celery | None = None, **more: Any,
    ) -> None:  # fmt: skip
        if isinstance(task, Mapping):
            super().__init__(task)
        else:
            name = task if isinstance(task, str) or task is None else task.name
            super().__init__(
                task=name, args=tuple(args or ()), kwargs=dict(kwargs or {}), options={**(options or {}), **more},
                subtask_type=subtask_type, immutable=immutable,
            )  # fmt: skip
        self._app = app

    @classmethod
    def from_dict(cls, d: Mapping[str, Any], app: Celery | None = None) -> Signature:
        """The signature whose plain dict this is."""
        kind = cls.TYPES.get(d.get("subtask_type") or "")
        return kind._read(d, app) if kind is not None else Signature(_filled(d), app=app)

    @classmethod
    def _read(cls, d: Mapping[str, Any], app: Celery | None) -> Signature:
        raise NotImplementedError

    # -- its parts, which may be set as well as read

    task = ItemAttribute[str]("task")
    name = task
    args = ItemAttribute[Any]("args")
    kwargs = ItemAttribute[dict[str, Any]]("kwargs")
    options = ItemAttribute[dict[str, Any]]("options")
    immutable = ItemAttribute[bool]("immutable", False)
    subtask_type = ItemAttribute[str | None]("subtask_type")
    id = ItemAttribute[str | None]("task_id", within="options")

    @property
    def app(self) -> Celery:
        return _state.app_or_default(self._app)

    @property
    def type(self) -> Task:
        """The task itself."""
        return self.app.tasks[self.task]

    @property
    def is_empty(self) -> bool:
        return False

    @property
    def members(self) -> list[Signature]:
        """The signatures it is made of."""
        return []

    # -- making others of it

    def clone(self, args: Any = None, kwargs: Any = None, **options: Any) -> Self:
        """A copy; arguments are put before its own, unless it is immutable."""
        made = copy.deepcopy(self)
        made._fill(tuple(args or ()), dict(kwargs or {}))
        made.options.update(options)
        return made

    partial = clone

    def _fill(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not self.immutable:
            self["args"] = (*args, *self.args)
            self["kwargs"] = {**self.kwargs, **kwargs}

    def set(self, immutable: bool | None = None, **options: Any) -> Self:
        """Change options in place."""
        if immutable is not None:
            self.set_immutable(immutable)
        self.options.update(options)
        return self

    def set_immutable(self, immutable: bool) -> None:
        self.immutable = immutable

    def replace(self, args: Any = None, kwargs: Any = None, options: Any = None) -> Self:
        """A copy with other arguments or options."""
        made = copy.deepcopy(self)
        for name, value in (("args", args), ("kwargs", kwargs), ("options", options)):
            if value is not None:
                made[name] = value
        return made

    def link(self, callback: Any) -> Any:
        """Run ``callback`` with the result if it succeeds."""
        return self._append("link", callback)

    def link_error(self, errback: Any) -> Any:
        """Run ``errback`` if it fails."""
        return self._append("link_error", errback)

    def on_error(self, errback: Any) -> Self:
        """Like ``link_error``, but answers the signature, for chaining."""
        self.link_error(errback)
        return self

    def _append(self, name: str, callback: Any) -> Any:
        known = list_of(self.options.get(name))
        if callback not in known:
            known.append(callback)
        self.options[name] = known
        return callback

    def stamp(self, visitor: Any = None, **headers: Any) -> Any:
        raise ImproperlyConfigured("stamping has no counterpart: give headers= to the call, and revoke by id")

    def flatten_links(self) -> list[Signature]:
        links = [maybe_signature(link, self._app) for link in list_of(self.options.get("link"))]
        return [self, *(found for link in links for found in link.flatten_links())]

    def __or__(self, other: Any) -> Any:
        found = maybe_signature(other, self._app)
        if not isinstance(found, Signature):
            return NotImplemented
        from windlass.celery.canvas import chain

        return chain(self, found, app=self._app)

    def __ior__(self, other: Any) -> Any:
        return self | other

    # -- running it

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """A single call runs here and now, as a function."""
        made = self.clone(args, kwargs)
        return made.type(*made.args, **made.kwargs)

    def delay(self, *args: Any, **kwargs: Any) -> Any:
        return self.apply_async(args, kwargs)

    def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Have workers run it. The arguments go to its first task."""
        from windlass.celery import compile, eager

        made = self.clone(args, kwargs)
        given = {name: value for name, value in options.items() if value is not None}
        made._take(given)
        if made.kind == "chain" and made.is_empty:
            return None  # as in Celery: there is nothing to do or to wait for
        if self.app.conf.task_always_eager:
            return eager.apply(made)
        return compile.submit(self.app, made, options.get("task_id") or options.get("group_id"))

    def _take(self, options: dict[str, Any]) -> None:
        """Apply the options of a call: callbacks are added, others are set."""
        for callback in list_of(options.pop("link", None)):
            self.link(callback)
        for errback in list_of(options.pop("link_error", None)):
            self.link_error(errback)
        self.options.update(options)

    def apply(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Run it here and now, with everything a worker would do around it."""
        from windlass.celery import eager

        made = self.clone(args, kwargs)
        made._take({name: value for name, value in options.items() if value is not None})
        return eager.apply(made)

    def freeze(self, _id: str | None = None, **kwargs: Any) -> ResultBase:
        """Give it its ids now. Answers the result it will have."""
        from windlass.celery import ids

        if _id is not None:
            self.options["task_id"] = _id
        return ids.freeze(self.app, self)

    def __invert__(self) -> Any:
        return self.apply_async().get()

    def reprcall(self, *args: Any, **kwargs: Any) -> str:
        made = self.clone(args, kwargs)
        given = [*map(repr, made.args), *(f"{key}={value!r}" for key, value in made.kwargs.items())]
        return f"{made.task}({', '.join(given)})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        made = self.__class__.__new__(self.__class__)
        dict.update(made, {key: _copied(value, memo) for key, value in self.items()})
        made._app = self._app
        return made

    def __copy__(self) -> Self:
        return copy.deepcopy(self)

    def __reduce__(self) -> Any:
        return maybe_signature, (dict(self),)

    def __repr__(self) -> str:
        return self.reprcall()


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    """A copy with new containers and signatures and the same arguments, which may be objects of any kind."""
    if isinstance(value, Signature):
        return value.__deepcopy__(memo)
    if type(value) is list or type(value) is tuple:
        return type(value)(_copied(item, memo) for item in value)
    if type(value) is dict:
        return {key: _copied(item, memo) for key, item in value.items()}
    return value


def _filled(d: Mapping[str, Any]) -> dict[str, Any]:
    empty: dict[str, Any] = {"args": (), "kwargs": {}, "options": {}, "subtask_type": None, "immutable": False}
    made = {**empty, **d}
    made["args"], made["kwargs"], made["options"] = tuple(made["args"]), dict(made["kwargs"]), dict(made["options"])
    return made


def list_of(value: Any) -> list[Any]:
    """One, several or none, as a list."""
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple | set | frozenset) else [value]


def signature(varies: Any, *args: Any, **kwargs: Any) -> Signature:
    """A signature of a task, a task's name, a plain dict or a signature."""
    app = kwargs.get("app")
    if isinstance(varies, Mapping):
        if isinstance(varies, Signature):
            return varies.clone()
        return Signature.from_dict(varies, app=app)
    return Signature(varies, *args, **kwargs)


subtask = signature


def maybe_signature(d: Any, app: Celery | None = None, clone: bool = False) -> Any:
    """A signature, if the value can be one; any other value unchanged."""
    if isinstance(d, Signature):
        d = d.clone() if clone else d
        if app is not None and d._app is None:
            d._app = app
        return d
    if isinstance(d, Mapping):
        return Signature.from_dict(d, app=app)
    if isinstance(d, _state.Proxy) or (hasattr(d, "apply_async") and hasattr(d, "s")):
        make: Callable[[], Signature] = d.s
        return make()
    return d
