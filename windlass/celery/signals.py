"""Celery's signals: functions that are called when something happens in this process.

The ones below are sent; the names of Celery's others are refused with the reason when they are imported, because a
receiver that is never called is worse than none. Windlass's own way is middleware, hooks and the event stream.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from typing import Any

log = logging.getLogger("celery.signals")

Receiver = Callable[..., Any]


class Signal:
    """``@signal.connect`` or ``@signal.connect(sender=task)`` registers ``receiver(sender=..., **kwargs)``."""

    def __init__(self, name: str, providing_args: set[str] | None = None) -> None:
        self.name, self.providing_args = name, providing_args or set()
        self._receivers: list[tuple[Any, Any, Callable[[], Receiver | None]]] = []

    def connect(
        self, receiver: Receiver | None = None, sender: Any = None, weak: bool = True, dispatch_uid: Any = None,
        retry: bool = False,
    ) -> Any:  # fmt: skip
        if receiver is None:
            return lambda found: self.connect(found, sender, weak, dispatch_uid)
        if not callable(receiver):
            raise TypeError(f"signal {self.name}: {receiver!r} cannot be called")
        uid = dispatch_uid or receiver
        self.disconnect(receiver, sender, dispatch_uid=dispatch_uid)
        self._receivers.append((uid, sender, _reference(receiver, weak)))
        return receiver

    def disconnect(
        self, receiver: Receiver | None = None, sender: Any = None, weak: bool | None = None, dispatch_uid: Any = None
    ) -> bool:
        uid = dispatch_uid or receiver
        kept = [entry for entry in self._receivers if not (entry[0] == uid and entry[1] is sender)]
        gone = len(kept) < len(self._receivers)
        self._receivers = kept
        return gone

    def has_listeners(self, sender: Any = None) -> bool:
        return bool(self._receivers)

    @property
    def receivers(self) -> list[Receiver]:
        return [found for _, _, get in self._receivers if (found := get()) is not None]

    def send(self, sender: Any, **named: Any) -> list[tuple[Receiver, Any]]:
        """Call every receiver of this sender. A receiver that raises is logged and does no harm."""
        answers: list[tuple[Receiver, Any]] = []
        for _, wanted, get in list(self._receivers):
            receiver = get()
            if receiver is None or not _same(wanted, sender):
                continue
            try:
                answers.append((receiver, receiver(signal=self, sender=sender, **named)))
            except Exception as error:
                log.exception("a receiver of %s raised: %r", self.name, receiver)
                answers.append((receiver, error))
        return answers

    def __repr__(self) -> str:
        return f"<Signal: {self.name}>"


def _reference(receiver: Receiver, weak: bool) -> Callable[[], Receiver | None]:
    if weak and hasattr(receiver, "__self__") and hasattr(receiver, "__func__"):
        return weakref.WeakMethod(receiver)
    # A plain function is held strongly, or one defined inside another would be collected and never called.
    return lambda: receiver


def _same(wanted: Any, sender: Any) -> bool:
    """Whether these are the same sender. A sender may be given as the object, or a task by its name."""
    return wanted is None or wanted is sender or wanted == sender or wanted == getattr(sender, "name", None)


before_task_publish = Signal("before_task_publish", {"body", "headers", "routing_key", "properties"})
after_task_publish = Signal("after_task_publish", {"body", "headers", "routing_key"})
task_received = Signal(
    "task_received", {"request"}
)  # sent just before task_prerun: no task is received before a slot is free
task_prerun = Signal("task_prerun", {"task_id", "task", "args", "kwargs"})
task_postrun = Signal("task_postrun", {"task_id", "task", "args", "kwargs", "retval", "state"})
task_success = Signal("task_success", {"result"})
task_retry = Signal("task_retry", {"request", "reason", "einfo"})
task_failure = Signal("task_failure", {"task_id", "exception", "args", "kwargs", "traceback", "einfo"})
task_revoked = Signal("task_revoked", {"request", "terminated", "signum", "expired"})
worker_init = Signal("worker_init")
worker_process_init = Signal("worker_process_init")
worker_ready = Signal("worker_ready")
worker_process_shutdown = Signal("worker_process_shutdown")
worker_shutdown = Signal("worker_shutdown")
setup_logging = Signal("setup_logging", {"loglevel", "logfile", "format", "colorize"})
after_setup_logger = Signal("after_setup_logger", {"logger", "loglevel", "format"})
after_setup_task_logger = Signal("after_setup_task_logger", {"logger", "loglevel", "format"})

_NOT_SENT = {
    "task_unknown": "a worker only takes tasks it declares",
    "task_rejected": "a worker only takes tasks it declares",
    "task_sent": "use after_task_publish",
    "import_modules": "name the modules in include=",
    "celeryd_init": "use worker_init",
    "celeryd_after_setup": "use worker_ready",
    "worker_before_create_process": "each worker process starts by itself: use worker_process_init",
    "beat_init": "there is no beat process",
    "beat_embedded_init": "there is no beat process",
    "eventlet_pool_started": "there is no eventlet pool",
    "user_preload_options": "the command line is Windlass's own",
    "task_internal_error": "use task_failure",
    "worker_shutting_down": "use worker_shutdown, sent when the running tasks are done",
    "heartbeat_sent": "a worker's lease is kept by a thread of its own",
}


def __getattr__(name: str) -> Any:
    if name in _NOT_SENT:
        raise ImportError(f"the signal {name} is not sent here: {_NOT_SENT[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
