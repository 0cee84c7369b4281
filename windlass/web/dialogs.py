"""The words of all dialogs, in one table: what a dialog asks, what its button does, and what the other button leaves as
it is.

The acting button names the action by verb and object, the other one says what stays: beside "Cancel job", a button
"Cancel" could mean either. Templates and scripts take these words and write none of their own.
"""

from __future__ import annotations

import msgspec


class Dialog(msgspec.Struct, frozen=True, kw_only=True):
    """``go``: the label of the acting button; ``keep``: that of the other one, empty where there is nothing to decide.

    In a title, ``{what}`` stands for a name and ``{jobs}`` for a number of jobs, which the script fills in. ``danger``:
    the action takes something away.
    """

    title: str
    go: str
    keep: str
    text: str = ""
    danger: bool = False


LATER = "Jobs that have not started will not run; those that run are asked to stop."

DIALOGS: dict[str, Dialog] = {
    # -- one job
    "cancel_running": Dialog(
        title="Cancel this job?", go="Cancel job", keep="Keep running", danger=True,
        text="It is asked to stop. What it has done already is not undone.",
    ),
    "cancel_job": Dialog(
        title="Cancel this job?", go="Cancel job", keep="Keep job", danger=True, text="It will not run."
    ),
    "delete_job": Dialog(
        title="Delete this job?", go="Delete job", keep="Keep job", danger=True,
        text="Its record and its logs are gone then. This cannot be undone.",
    ),
    "edit_job": Dialog(title="Edit the arguments", go="Save arguments", keep="Keep as they are"),
    # -- many jobs
    "retry_jobs": Dialog(title="Retry {jobs}?", go="Retry jobs", keep="Keep as they are"),
    "promote_jobs": Dialog(title="Run {jobs} now?", go="Run jobs now", keep="Keep their times"),
    "cancel_jobs": Dialog(title="Cancel {jobs}?", go="Cancel jobs", keep="Keep jobs", danger=True, text=LATER),
    "delete_jobs": Dialog(
        title="Delete {jobs}?", go="Delete jobs", keep="Keep jobs", danger=True, text="This cannot be undone."
    ),
    "reprioritise_jobs": Dialog(title="Change the priority of {jobs}?", go="Change priority", keep="Keep priority"),
    "reschedule_jobs": Dialog(title="Change the time of {jobs}?", go="Change time", keep="Keep time"),
    "move_jobs": Dialog(title="Move {jobs}?", go="Move jobs", keep="Keep in their queue"),
    "ask_move": Dialog(title="Move to another queue", go="Change queue", keep="Keep queue"),
    "ask_reprioritise": Dialog(title="Change the priority", go="Change priority", keep="Keep priority"),
    "ask_reschedule": Dialog(title="Change the time", go="Change time", keep="Keep time"),
    # -- queues, tasks, breakers
    "drain_queue": Dialog(
        title="Take no new jobs into this queue?", go="Drain queue", keep="Keep it open",
        text="New jobs are refused until it is resumed. Those in it go on.",
    ),
    "purge_queue": Dialog(
        title="Delete what waits in this queue?", go="Delete jobs", keep="Keep jobs", danger=True,
        text="All its jobs that have not started: ready, scheduled and waiting. This cannot be undone.",
    ),
    "move_queue": Dialog(title="Move all jobs that have not started", go="Move jobs", keep="Keep in this queue"),
    "limits": Dialog(title="Limits of {what}", go="Change limits", keep="Keep limits"),
    "open_breaker": Dialog(
        title="Open this breaker?", go="Open breaker", keep="Keep as it is", danger=True,
        text="Its jobs wait until it is closed or left to itself.",
    ),
    # -- schedules, workflows, workers
    "edit_schedule": Dialog(title="When to run {what}", go="Change times", keep="Keep times"),
    "remove_schedule": Dialog(
        title="Remove this schedule?", go="Remove schedule", keep="Keep schedule", danger=True,
        text="It runs no more. Jobs it has made stay.",
    ),
    "remove_declared": Dialog(
        title="Remove this schedule?", go="Remove schedule", keep="Keep schedule", danger=True,
        text="The code declares it: it comes back with the next worker that starts.",
    ),
    "cancel_workflow": Dialog(
        title="Cancel this workflow with all its jobs?", go="Cancel workflow", keep="Keep running", danger=True,
        text=LATER,
    ),
    "quiet_worker": Dialog(
        title="Quiet worker {what}", go="Quiet worker", keep="Keep claiming",
        text="It claims no more jobs and finishes those it runs. It stays, and can be resumed.",
    ),
    "stop_worker": Dialog(
        title="Stop worker {what}", go="Stop worker", keep="Keep worker", danger=True,
        text="It finishes what it runs, within its grace, and ends. Nobody here can start it again.",
    ),
    # -- what is shown
    "mute_warning": Dialog(
        title="Mute this warning", go="Mute warning", keep="Keep warning",
        text="It is shown as muted and nobody is notified of it, until the time is over.",
    ),
    "save_view": Dialog(title="Save this view", go="Save view", keep="Keep unsaved"),
    "drop_view": Dialog(
        title="Drop the saved view “{what}”?", go="Drop view", keep="Keep view", danger=True,
        text="It goes for all users.",
    ),
    "help": Dialog(title="Keyboard", go="Close help", keep=""),
}  # fmt: skip
