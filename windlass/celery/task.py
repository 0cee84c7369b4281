"""Celery's task: options as attributes, and the ways to call it. Each task is declared in the Windlass app."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from types import GenericAlias
from typing import TYPE_CHECKING, Any

from windlass.celery import _state, prefork, states, task_run
from windlass.celery.exceptions import ImproperlyConfigured, MaxRetriesExceededError, Retry
from windlass.celery.given import models, named_ones, several
from windlass.celery.rates import rate_of
from windlass.celery.request import Context, node_name
from windlass.celery.utils import uuid

if TYPE_CHECKING:
    from windlass.celery.app import Celery
    from windlass.celery.canvas import Signature, chunks, xmap, xstarmap
    from windlass.celery.result import AsyncResult, EagerResult

MANY = 10_000
"""Windlass's most retries: this layer counts them itself, by ``max_retries``."""

_MISSING: Any = type("Missing", (), {"__repr__": lambda self: "<not given>"})()


class Task:
    """Base of all tasks. ``bind=True`` gives the function this object as ``self``."""

    MaxRetriesExceededError = MaxRetriesExceededError

    name: str = ""
    max_retries: int | None = 3
    default_retry_delay: float = 180
    rate_limit: Any = None
    ignore_result: bool | None = None
    trail: bool = True
    send_events: bool = True
    store_errors_even_if_ignored: bool | None = None
    serializer: str | None = None
    time_limit: float | None = None
    soft_time_limit: float | None = None
    backend: Any = None
    track_started: bool | None = None
    acks_late: bool | None = None
    reject_on_worker_lost: bool | None = None
    throws: Any = ()
    expires: Any = None
    priority: int | None = None
    queue: Any = None
    typing: bool | None = None
    pydantic: bool = False
    resultrepr_maxsize: int = 1024
    abstract: bool = True
    autoretry_for: Any = ()
    dont_autoretry_for: Any = ()
    retry_kwargs: Any = None
    retry_backoff: Any = False
    retry_backoff_max: int = 600
    retry_jitter: bool = True

    _app: Celery | None = None
    __wrapped__: Any = None

    __class_getitem__: Any = classmethod(GenericAlias)  # annotations such as Task[..., int]

    @property
    def app(self) -> Celery:
        return _state.app_or_default(self._app)

    # -- what a user may override

    def run(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("a task defines run()")

    def before_start(self, task_id: Any, args: Any, kwargs: Any) -> None: ...

    def on_success(self, retval: Any, task_id: Any, args: Any, kwargs: Any) -> None: ...

    def on_retry(self, exc: Any, task_id: Any, args: Any, kwargs: Any, einfo: Any) -> None: ...

    def on_failure(self, exc: Any, task_id: Any, args: Any, kwargs: Any, einfo: Any) -> None: ...

    def after_return(self, status: str, retval: Any, task_id: Any, args: Any, kwargs: Any, einfo: Any) -> None: ...

    @classmethod
    def on_bound(cls, app: Celery) -> None:
        """Called when the task is declared in an app."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run it here and now, as the plain function it is."""
        frame = _state.current_frame()
        if frame is not None and frame.task is self and not frame.request.called_directly:
            return self.run(*args, **kwargs)  # called by the user's own __call__, on the way to run()
        with _state.running(self, Context(args=args, kwargs=kwargs)):
            return self.run(*args, **kwargs)

    # -- being called

    @property
    def request(self) -> Context:
        """The running call; outside of one, the defaults."""
        frame = _state.frame_of(self)
        return frame.request if frame is not None else Context()

    @property
    def body(self) -> Callable[..., Any]:
        return self.run if type(self).__call__ is Task.__call__ else self.__call__

    def accept(self, args: list[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments as the function takes them, from those given by name, by position or both."""
        count = len(self._places)
        named, rest = args[:count], args[count:]
        known = next((place for place, value in enumerate(named) if value is _MISSING), count)
        by_name = {name: value for name, value in zip(self._places, named, strict=False) if value is not _MISSING}
        for name in self._places[:known]:
            del by_name[name]
        given = {name: value for name, value in kwargs.items() if value is not _MISSING}
        return self._read([*named[:known], *rest], {**by_name, **given})

    def _read(self, args: list[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        return models(self.run, self._places, args, kwargs) if self.pydantic else (args, kwargs)

    # -- declaring

    def attach(self, app: Celery) -> None:
        """Called by the app: take in the app's settings, and check the options."""
        self._app = app
        vars(self)["__name__"] = type(self).__name__  # the name of the function it was made of
        where = f"task {self.name}"
        rate_of(self.rate_limit, f"{where}: rate_limit")
        if self.backend is not None:
            raise ImproperlyConfigured(f"{where}: results are kept in the store itself, so backend= has no counterpart")
        if self.serializer not in (None, "json"):
            raise ImproperlyConfigured(
                f"{where}: serializer={self.serializer!r}, and Windlass carries JSON and nothing else"
            )
        if asyncio.iscoroutinefunction(inspect.unwrap(self.run)):
            raise ImproperlyConfigured(
                f"{where}: an async function is no Celery task; declare it as Windlass's own, with @app.windlass.task"
            )
        self._signature = inspect.signature(self.run)
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        self._places = tuple(p.name for p in self._signature.parameters.values() if p.kind in kinds)
        self.on_bound(app)

    def options_for_windlass(self) -> dict[str, Any]:
        """This task's options in Windlass's words."""
        conf = self.app.conf
        for name in ("time_limit", "acks_late", "reject_on_worker_lost", "ignore_result"):
            if getattr(self, name) is None:
                setattr(self, name, conf[f"task_{name}"])
        hard = self.time_limit or None
        if self.soft_time_limit is None and (soft := conf.task_soft_time_limit) and not (hard and soft > hard):
            self.soft_time_limit = (
                soft  # a soft limit of the settings above the task's own hard limit would never take effect
            )
        soft = self.soft_time_limit or None
        if hard and soft and soft > hard:
            soft = None  # the call raises for it
        options: dict[str, Any] = {
            "name": self.name, "queue": self.own_queue or conf.task_default_queue, "timeout": hard,
            "soft_timeout": soft, "retries": MANY, "backoff": task_run.retry_in, "give_up_on": task_run.no_retry_asked,
            "result": not self.ignore_result,
        }  # fmt: skip
        said = self.rate_limit if self.rate_limit is not None else conf.task_default_rate_limit
        if (rate := rate_of(said, f"task {self.name}: rate_limit")) and not conf.worker_disable_rate_limits:
            options["rate"] = rate
        if prefork.is_used_by(self.app):
            options["runs_in"] = "process"
        if False in (self.acks_late, self.reject_on_worker_lost):
            options["on_crash"] = "fail"
        return options

    @property
    def own_queue(self) -> str | None:
        queue = self.queue
        return queue if queue is None or isinstance(queue, str) else getattr(queue, "name", str(queue))

    def function_for_windlass(self) -> Callable[..., Any]:
        """The function Windlass declares. It takes arguments by name, and by position from callers without
        the names.
        """

        def job(*args: Any, **kwargs: Any) -> Any:
            return task_run.run_job(self, list(args), kwargs)

        job.__name__ = job.__qualname__ = type(self).__name__
        job.__module__ = type(self).__module__
        if prefork.is_used_by(self.app):
            job.__module__, job.__qualname__ = prefork.CHILD, prefork.name_for(self.name)
        job.__doc__ = type(self).__doc__
        job.__signature__ = self._open_signature()  # type: ignore[attr-defined]
        return job

    def _open_signature(self) -> inspect.Signature:
        """A signature with all arguments optional and untyped, like Celery's messages; ``check_arguments`` does the
        checking.
        """
        if self.typing is False:
            places, others, extra = [], [], True
        else:
            parameters = list(self._signature.parameters.values())
            plain = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
            loose = [p.replace(default=_MISSING, annotation=p.empty) for p in plain]
            places = [p for p in loose if p.kind is not p.KEYWORD_ONLY]
            others = [p for p in loose if p.kind is p.KEYWORD_ONLY]
            extra = any(p.kind is p.VAR_KEYWORD for p in parameters)
        taken = {p.name for p in (*places, *others)}
        star = inspect.Parameter("args" if "args" not in taken else "args_", inspect.Parameter.VAR_POSITIONAL)
        stars = [inspect.Parameter("more_", inspect.Parameter.VAR_KEYWORD)] if extra else []
        self._places = tuple(p.name for p in places)
        return inspect.Signature([*places, star, *others, *stars])

    def check_arguments(self, args: Iterable[Any], kwargs: Mapping[str, Any]) -> None:
        """Raise TypeError if the call does not fit the function, as Celery does."""
        if self.typing is not False:
            try:
                self._signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{self.name}{self._signature}: {error}") from None

    def check_limits(self, options: Mapping[str, Any]) -> None:
        """Raise ValueError if the call's limits, or the task's, contradict each other, as Celery does."""
        hard, soft = (
            own if (own := options.get(name)) is not None else getattr(self, name)
            for name in ("time_limit", "soft_time_limit")
        )  # fmt: skip
        if hard and soft and soft > hard:
            raise ValueError(
                f"{self.name}: soft_time_limit={soft:g} is above time_limit={hard:g}, so it would never come"
            )

    def wanted_as_errback(self, args: Iterable[Any], kwargs: Mapping[str, Any]) -> int:
        """The arguments for the task as an error callback: (request, exc, traceback) if it takes them, else the failed
        id.
        """
        for wanted in (3, 1):
            try:
                self._signature.bind(*[None] * wanted, *args, **kwargs)
            except TypeError:
                continue
            return wanted
        return 3

    # -- calling

    def delay(self, *args: Any, **kwargs: Any) -> AsyncResult:
        return self.apply_async(args, kwargs)

    def apply_async(
        self, args: Any = None, kwargs: Any = None, task_id: str | None = None, producer: Any = None, link: Any = None,
        link_error: Any = None, shadow: str | None = None, **options: Any,
    ) -> AsyncResult:  # fmt: skip
        """Have it run by a worker; the result is a promise."""
        args, kwargs = several(args), named_ones(kwargs)
        if self.app.conf.task_always_eager:
            self.check_arguments(args, kwargs)
            args, kwargs = task_run.through_json(args, kwargs)
            return self.apply(args, kwargs, link=link, link_error=link_error, task_id=task_id, **options)
        given = {**options, "task_id": task_id, "link": link, "link_error": link_error}
        result: AsyncResult = self.app.send(
            self.name, args, kwargs, {name: value for name, value in given.items() if value is not None}
        )
        return result

    def apply(
        self, args: Any = None, kwargs: Any = None, link: Any = None, link_error: Any = None,
        task_id: str | None = None, retries: int = 0, throw: bool | None = None, headers: Any = None, **options: Any,
    ) -> EagerResult:  # fmt: skip
        """Run it here and now, with everything a worker would do around it."""
        from windlass.celery.eager import run_callbacks
        from windlass.celery.result import EagerResult

        args, kwargs, id = several(args), named_ones(kwargs), task_id or uuid()
        frame = _state.current_frame()
        parent = frame.request if frame is not None else None
        request = Context(
            id=id, task=self.name, args=args, kwargs=kwargs, retries=retries or 0, is_eager=True, called_directly=False,
            headers=headers, hostname=node_name(), parent_id=parent.id if parent else None,
            root_id=(parent.root_id if parent else None) or id, callbacks=link, errbacks=link_error,
            delivery_info={"is_eager": True, "routing_key": options.get("queue"), "priority": options.get("priority")},
            ignore_result=bool(self.ignore_result), time_limit=self.time_limit, soft_time_limit=self.soft_time_limit,
        )  # fmt: skip
        ended = task_run.run_here(self, request, *self._read(args, kwargs))
        result = EagerResult.of(self, request, ended)
        run_callbacks(self, request, result, link, link_error)
        throw = self.app.conf.task_eager_propagates if throw is None else throw
        if throw and isinstance(ended.value, Exception) and ended.state in states.PROPAGATE_STATES:
            raise ended.value
        return result

    def signature(self, args: Any = None, kwargs: Any = None, options: Any = None, **more: Any) -> Signature:
        from windlass.celery.canvas import Signature

        return Signature(self, args, kwargs, options, app=self.app, **more)

    subtask = signature

    def s(self, *args: Any, **kwargs: Any) -> Signature:
        return self.signature(args, kwargs)

    def si(self, *args: Any, **kwargs: Any) -> Signature:
        return self.signature(args, kwargs, immutable=True)

    def map(self, it: Iterable[Any]) -> xmap:
        from windlass.celery.canvas import xmap

        return xmap(self.s(), it, app=self.app)

    def starmap(self, it: Iterable[Any]) -> xstarmap:
        from windlass.celery.canvas import xstarmap

        return xstarmap(self.s(), it, app=self.app)

    def chunks(self, it: Iterable[Any], n: int) -> chunks:
        from windlass.celery.canvas import chunks

        return chunks(self.s(), it, n, app=self.app)

    def AsyncResult(self, task_id: str, **options: Any) -> AsyncResult:
        return self.app.AsyncResult(task_id, **options)

    # -- inside a run

    def retry(
        self, args: Any = None, kwargs: Any = None, exc: Any = None, throw: bool = True, eta: datetime | None = None,
        countdown: float | None = None, max_retries: int | None = None, **options: Any,
    ) -> Retry:  # fmt: skip
        """Run again later. Raises ``Retry``, or the cause when there were too many; ``throw=False`` returns it."""
        request = self.request
        if isinstance(exc, str):
            exc = Exception(exc)
        if request.called_directly:
            raise exc or Retry("Task can be retried", None)
        if eta is None and countdown is None:
            countdown = self.default_retry_delay
        limit = self.max_retries if max_retries is None else max_retries
        request.update(retry_limit=max_retries)
        if limit is not None and request.retries + 1 > limit:
            if exc is not None:
                raise exc
            raise self.MaxRetriesExceededError(
                f"Can't retry {self.name}[{request.id}] args:{request.args} kwargs:{request.kwargs}",
                task_args=request.args, task_kwargs=request.kwargs,
            )  # fmt: skip
        when = self.app.instant(eta) if eta is not None else countdown
        asked = Retry(exc=exc, when=when, is_eager=request.is_eager, sig=self._again(args, kwargs, when, options))
        request.update(asked_to_retry=asked)
        if throw:
            raise asked
        return asked

    def _again(self, args: Any, kwargs: Any, when: Any, options: dict[str, Any]) -> Signature | None:
        """The call to make instead, if the retry changes anything; None if it is the same call."""
        from windlass.celery.compile import EXTRA

        request = self.request
        if args is None and kwargs is None and not options:
            return None
        args, kwargs = self._kept(args, kwargs)
        timing = {"countdown": when} if isinstance(when, int | float) else {"eta": when}
        sig = self.signature(args, kwargs, immutable=True).set(**timing, **options)
        sig.options[EXTRA] = {
            "retries": request.retries + 1, "id": request.id, "parent": request.parent_id, "root": request.root_id,
            "nesting": request.replaced_task_nesting, "properties": request.extra.properties,
            "group": request.group, "index": request.group_index, "headed": request.extra.headed,
        }  # fmt: skip
        return sig

    def _kept(self, args: Any, kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
        """The new arguments over the old ones. Given by position and by name together, they must still fit the
        function.
        """
        request = self.request
        old = self._signature.bind_partial(*(request.args or ()), **(request.kwargs or {}))
        if args is None:
            old.arguments.update({name: value for name, value in (kwargs or {}).items() if name in old.arguments})
            rest = {name: value for name, value in (kwargs or {}).items() if name not in old.arguments}
            return list(old.args), {**old.kwargs, **rest}
        if kwargs is None:
            # A record has arguments by name: those not given anew stay, like keyword arguments in Celery.
            new = self._places[: len(args)]
            kept = {name: value for name, value in old.arguments.items() if name in self._places}
            kept.update(request.kwargs or {})
            kwargs = {name: value for name, value in kept.items() if name not in new}
        return list(args), dict(kwargs)

    def update_state(
        self, task_id: str | None = None, state: str | None = None, meta: Any = None, **kwargs: Any
    ) -> None:
        """Set what the task is doing: a state of your own, and data about it."""
        from windlass import current

        request = self.request
        if request.called_directly or request.is_eager:
            request.update(told={"state": state, "meta": meta})
            return
        if task_id not in (None, request.id):
            raise ImproperlyConfigured("update_state(): a task can speak for itself alone, not for another task_id")
        task_run.tell(current(), request, state=state, meta=meta)

    def replace(self, sig: Signature) -> Any:
        """Let other work take this task's place: its value becomes this task's. On a worker this call does
        not return.
        """
        from windlass import current
        from windlass.celery.canvas import maybe_signature
        from windlass.celery.compile import work_of

        request, sig = self.request, maybe_signature(sig, self.app)
        if sig.is_empty and sig.subtask_type == "chain":  # the value of an empty group is the empty list
            raise ImproperlyConfigured(f"Cannot replace with an empty chain (task {self.name})")
        if request.is_eager or request.called_directly:
            with _state.waiting_allowed(True):
                return sig.apply().get()
        nesting = request.replaced_task_nesting + 1
        return current().replace(work_of(self.app, sig, parent=request.id, root=request.root_id, nesting=nesting))

    def add_to_chord(self, sig: Signature, lazy: bool = False) -> Any:
        """Add a task to the chord this one is in: the body gets its value after those of the header.

        The task is sent when this one ends, and the chord waits for it.
        """
        from windlass.celery.canvas import maybe_signature

        request, made = self.request, maybe_signature(sig, self.app).clone()
        if lazy:
            raise ImproperlyConfigured(
                "add_to_chord(lazy=True) has no counterpart: what is added is sent with this task"
            )
        if request.group is None or not request.extra.headed:
            raise ValueError("Current task is not member of any chord")
        result = made.freeze()
        request.__dict__.setdefault("added", []).append(made)
        return result

    def add_trail(self, result: Any) -> Any:
        if self.trail:
            self.request.children.append(result)
        return result

    def send_event(self, type_: str, **fields: Any) -> None:
        raise ImproperlyConfigured("events of your own have no counterpart yet; use self.update_state()")

    def __repr__(self) -> str:
        return f"<@task: {self.name} of {self.app.main}>"
