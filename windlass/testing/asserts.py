"""What a test says of its jobs, with failure texts that list what there was instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from windlass.calls.task import Task
from windlass.core.codec import decode_any
from windlass.core.duration import Duration, show_ms, to_ms
from windlass.core.job import NewJob, State
from windlass.errors import PayloadError
from windlass.handles.handle import JobInfo

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.testing.harness import Harness

ANYTHING: Final = object()
SHOWN = 20
AT_TOLERANCE = 1_000
"""``at=`` is computed by the real clock, so a delay made of it is matched to the second."""


class Enqueued:
    """One accepted call: ``args`` by name, as the task will get them; ``delay`` in milliseconds."""

    def __init__(self, app: Windlass, job: NewJob, now: int) -> None:
        self.job, self.id, self.task, self.queue, self.priority = job, job.id, job.task, job.queue, job.priority
        self.args = arguments(app, job)
        self.delay = max(job.delay, job.at - now, 0)

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.args.items())
        delay = f", in {show_ms(self.delay)}" if self.delay else ""
        return f"{self.task}({given}) in queue {self.queue}{delay}"


def arguments(app: Windlass, job: NewJob) -> dict[str, Any]:
    """A job's arguments: typed if the app declares the task, plain JSON if not."""
    plain: dict[str, Any] = decode_any(job.payload)
    task = app.tasks.get(job.task)
    if task is None or task.version != job.version:
        return plain
    try:
        args, kwargs = task.codec.decode(job.payload)
        bound = task.codec.signature.bind(*args, **kwargs)
    except (PayloadError, TypeError):
        return plain
    bound.apply_defaults()
    named = dict(bound.arguments)
    return {**named, **named.pop(task.codec.var_keyword, {})} if task.codec.var_keyword else named


def name_of(task: Task[Any, Any] | str) -> str:
    return task.name if isinstance(task, Task) else task


def assert_enqueued(
    harness: Harness, task: Task[Any, Any] | str, /, *, queue: str | None = None, count: int | None = None,
    delay: Duration | None = None, args: Mapping[str, Any] | None = None, **given: Any,
) -> list[Enqueued]:  # fmt: skip
    """The task was called with these arguments since the harness began, whatever became of the job.

    Arguments not named are not compared; ``args=`` holds those whose names are taken here. ``count`` says how often,
    exactly; without it once is enough. Answers the calls found.
    """
    wanted = {**(args or {}), **given}
    name = name_of(task)
    found = [call for call in list(harness.enqueued) if fits(call, name, queue, delay, wanted)]
    if len(found) != count if count is not None else not found:
        expected = describe(name, queue, delay, wanted)
        times = "at least one call" if count is None else f"{count} calls" if count != 1 else "one call"
        raise AssertionError(
            f"expected {times} of {expected}, found {len(found)}.\n{listing('Enqueued', harness.enqueued)}"
        )
    return found


def assert_not_enqueued(
    harness: Harness, task: Task[Any, Any] | str, /, *, queue: str | None = None, delay: Duration | None = None,
    args: Mapping[str, Any] | None = None, **given: Any,
) -> None:  # fmt: skip
    """No call of the task with these arguments was enqueued since the harness began."""
    assert_enqueued(harness, task, queue=queue, count=0, delay=delay, args=args, **given)


def fits(call: Enqueued, task: str, queue: str | None, delay: Duration | None, wanted: Mapping[str, Any]) -> bool:
    if call.task != task or queue not in (None, call.queue):
        return False
    tolerance = AT_TOLERANCE if call.job.at else 0
    if delay is not None and abs(call.delay - to_ms(delay, "delay")) > tolerance:
        return False
    return all(name in call.args and call.args[name] == value for name, value in wanted.items())


def describe(task: str, queue: str | None, delay: Duration | None, wanted: Mapping[str, Any]) -> str:
    given = ", ".join(f"{name}={value!r}" for name, value in wanted.items())
    where = f" in queue {queue}" if queue is not None else ""
    when = f" with delay {show_ms(to_ms(delay, 'delay'))}" if delay is not None else ""
    return f"{task}({given}){where}{when}" if wanted else f"{task}{where}{when}"


def listing(what: str, items: list[Any]) -> str:
    if not items:
        return f"{what} in this harness: nothing."
    lines = [f"  {item!r}" if isinstance(item, Enqueued) else f"  {show(item)}" for item in items[-SHOWN:]]
    more = f", the last {SHOWN}" if len(items) > SHOWN else ""
    return f"{what} in this harness ({len(items)}{more}):\n" + "\n".join(lines)


# -- what became of jobs


def assert_succeeded(
    harness: Harness, task: Task[Any, Any] | str, /, *, count: int | None = None, result: Any = ANYTHING
) -> list[JobInfo]:
    """Jobs of the task have succeeded, with this result if one is given."""
    wanted = f" with result {result!r}" if result is not ANYTHING else ""
    return ended(
        harness, task, State.SUCCEEDED, count, wanted, lambda job: result is ANYTHING or bool(job.result == result)
    )


def assert_dead_lettered(
    harness: Harness, task: Task[Any, Any] | str, /, *, count: int | None = None,
    error: str | type[BaseException] | None = None, match: str | None = None, reason: str | None = None,
) -> list[JobInfo]:  # fmt: skip
    """Jobs of the task have failed for good.

    ``error`` is the exception or its name, with or without its module; ``match`` a pattern searched in its message;
    ``reason`` why there was no further try, such as ``"no retries left"``.
    """
    name = error.__qualname__ if isinstance(error, type) else error
    given = {"error": name, "match": match, "reason": reason}
    wanted = "".join(f" with {key} {value!r}" for key, value in given.items() if value is not None)

    def matches(job: JobInfo) -> bool:
        kind, message = (job.error.type, job.error.message) if job.error else ("", "")
        return (
            (name is None or kind == name or kind.endswith(f".{name}"))
            and (match is None or re.search(match, message) is not None)
            and reason in (None, job.reason)
        )

    return ended(harness, task, State.FAILED, count, wanted, matches)


def assert_cancelled(
    harness: Harness, task: Task[Any, Any] | str, /, *, count: int | None = None, reason: str | None = None
) -> list[JobInfo]:
    """Jobs of the task were cancelled, or expired (``reason="expired"``)."""
    wanted = f" with reason {reason!r}" if reason is not None else ""
    return ended(harness, task, State.CANCELLED, count, wanted, lambda job: reason in (None, job.reason))


def ended(
    harness: Harness, task: Task[Any, Any] | str, state: State, count: int | None, wanted: str,
    matches: Callable[[JobInfo], bool],
) -> list[JobInfo]:  # fmt: skip
    name = name_of(task)
    found = [job for job in harness.jobs(name, state) if matches(job)]
    if len(found) != count if count is not None else not found:
        times = "at least one job" if count is None else f"{count} jobs" if count != 1 else "one job"
        raise AssertionError(
            f"expected {times} of {name} to be {state}{wanted}, found {len(found)}.\n{listing('Jobs', harness.jobs())}"
        )
    return found


def show(job: JobInfo) -> str:
    """One line about a job."""
    text = f"{job.task}({', '.join(f'{name}={value!r}' for name, value in job.args.items())}) is {job.state}"
    if job.reason:
        text += f" ({job.reason})"
    if job.error is not None:
        text += f", {job.error.type}: {job.error.message}"
    return f"{text}, {job.attempts} failed attempt(s)" if job.attempts else text
