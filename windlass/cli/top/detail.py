"""One job for ``windlass top``, as text."""

from __future__ import annotations

from windlass.cli import output
from windlass.console.replies import JobDetail
from windlass.core.job import State

_LOGS = 12


def describe(job: JobDetail) -> str:
    """The job as text, the most important first: its state, why it waits, its error, then values and logs."""
    row = job.row
    lines = [f"{row.state}  {row.task}  in {row.queue}  priority {row.priority}"]
    lines += [f"why: {reason.text}" for reason in job.why if not State(row.state).terminal]
    if job.error is not None:
        lines += [f"error: {job.error.type}: {job.error.message}"]
    for attempt in job.attempts:
        when = output.hour(attempt.at) if attempt.at else ""
        lines.append(f"attempt {attempt.number}: {attempt.outcome} {when} {attempt.error} {attempt.message}".rstrip())
    if job.progress_text:
        lines.append(f"progress: {job.progress_text}")
    lines += ["", "arguments", *job.args.text.splitlines()[:10]]
    if job.result.text:
        lines += ["result", *job.result.text.splitlines()[:10]]
    lines += [f"{output.hour(line.at)} {line.level}: {line.text}" for line in job.logs[-_LOGS:]]
    if job.error is not None and job.error.traceback:
        lines += ["", *job.error.traceback.splitlines()]
    return "\n".join(lines)
