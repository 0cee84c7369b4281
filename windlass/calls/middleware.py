"""The two extension points around a job: around enqueue, and around run. Plain callables, first added is outermost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from windlass.calls.context import Current
from windlass.core.draft import Draft
from windlass.store.answers import Answer

Submit = Callable[[list[Draft]], Coroutine[Any, Any, list[Answer]]]
AroundEnqueue = Callable[[list[Draft], Submit], Awaitable[list[Answer]]]
"""Gets the drafts of one call and the next step; may change headers, refuse by raising, or look at the answers."""

Run = Callable[[], Awaitable[Any]]
AroundRun = Callable[[Current, Run], Awaitable[Any]]
"""Gets the running job and the next step; what it returns is the job's result, what it raises is the job's error.

It runs on the worker's loop, around tasks of every kind. A thread's exception arrives as it was raised; one that was
raised in a child process arrives as ``JobFailed`` with its type and text. A job that goes on as a workflow leaves by
``HandOver``, which is no error and no ``Exception``: let it pass.
"""


def around_enqueue(layers: Sequence[AroundEnqueue], submit: Submit) -> Submit:
    """``submit`` with the layers around it; without any, ``submit`` itself."""
    for layer in reversed(layers):
        submit = partial(_enqueue_layer, layer, submit)
    return submit


async def _enqueue_layer(layer: AroundEnqueue, following: Submit, drafts: list[Draft]) -> list[Answer]:
    return await layer(drafts, following)


def around_run(layers: Sequence[AroundRun], running: Current, run: Run) -> Run:
    """``run`` with the layers around it."""
    for layer in reversed(layers):
        run = partial(layer, running, run)
    return run
