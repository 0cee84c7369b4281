"""What Celery keeps per process and per running task: the current app, shared tasks, and the running task.

Windlass itself has no global app. Celery's code often names none, so this layer keeps one, and only here.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from windlass.celery.app import Celery
    from windlass.celery.request import Context
    from windlass.celery.task import Task

_lock = threading.RLock()
_current: list[Celery] = []
_apps: weakref.WeakSet[Celery] = weakref.WeakSet()
_shared: list[Callable[[Celery], Task]] = []


class Frame(NamedTuple):
    """A task that runs here, and its request. ``inner``: the frame of the task that called it in place."""

    task: Task
    request: Context
    inner: Frame | None = None


_frame: ContextVar[Frame | None] = ContextVar("windlass_celery_task", default=None)
_may_wait: ContextVar[bool] = ContextVar("windlass_celery_may_wait", default=True)


# -- apps


def add_app(app: Celery, current: bool) -> None:
    with _lock:
        _apps.add(app)
        if current:
            _current[:] = [app]


def set_current(app: Celery) -> None:
    with _lock:
        _current[:] = [app]


def get_current_app() -> Celery:
    """The app made last; a new one if there is none."""
    running = _frame.get()
    if running is not None:
        return running.task.app
    with _lock:
        if not _current:
            from windlass.celery.app import Celery

            Celery("celery")
        return _current[0]


def app_or_default(app: Celery | None) -> Celery:
    return app if app is not None else get_current_app()


# -- shared tasks


def add_shared(declare: Callable[[Celery], Task]) -> None:
    """Declare a task in every app, existing and future ones."""
    with _lock:
        _shared.append(declare)
        apps = list(_apps)
    for app in apps:
        declare(app)


def declare_shared(app: Celery) -> None:
    with _lock:
        shared = list(_shared)
    for declare in shared:
        declare(app)


# -- the running task


def current_frame() -> Frame | None:
    return _frame.get()


def frame_of(task: Task) -> Frame | None:
    """The innermost run of this very task."""
    frame = _frame.get()
    while frame is not None and frame.task is not task:
        frame = frame.inner
    return frame


@contextmanager
def running(task: Task, request: Context) -> Iterator[None]:
    token = _frame.set(Frame(task, request, _frame.get()))
    try:
        yield
    finally:
        _frame.reset(token)


# -- waiting inside tasks


def may_wait() -> bool:
    return _may_wait.get()


@contextmanager
def waiting_allowed(allowed: bool) -> Iterator[None]:
    token = _may_wait.set(allowed)
    try:
        yield
    finally:
        _may_wait.reset(token)


class Proxy:
    """A stand-in for an object that is looked up at each use."""

    __slots__ = ("_find",)

    def __init__(self, find: Callable[[], Any]) -> None:
        object.__setattr__(self, "_find", find)

    def _get_current_object(self) -> Any:
        return object.__getattribute__(self, "_find")()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._get_current_object(), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._get_current_object(), name, value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._get_current_object()(*args, **kwargs)

    def __bool__(self) -> bool:
        return bool(self._get_current_object())

    def __eq__(self, other: object) -> bool:
        return bool(self._get_current_object() == other)

    def __hash__(self) -> int:
        return hash(self._get_current_object())

    def __repr__(self) -> str:
        return repr(self._get_current_object())


current_app = Proxy(get_current_app)
current_task = Proxy(lambda: frame.task if (frame := _frame.get()) is not None else None)
