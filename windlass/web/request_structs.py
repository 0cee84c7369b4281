"""What the API takes, as structs. Every text and list has a cap. Nothing here knows how an action is done."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

Name = Annotated[str, Meta(min_length=1, max_length=128)]
Maybe = Annotated[str, Meta(max_length=128)]
Id = Annotated[str, Meta(min_length=1, max_length=256)]
Filter = Annotated[str, Meta(max_length=4_000)]
Cursor = Annotated[str, Meta(max_length=1_000)]
Text = Annotated[str, Meta(max_length=1_000)]
Rows = Annotated[int, Meta(ge=1, le=200)]
Span = Literal["15m", "1h", "4h", "24h", "7d"]
State = Literal["waiting", "scheduled", "ready", "running", "succeeded", "failed", "cancelled", "skipped"]
States = Annotated[tuple[State, ...], Meta(min_length=1, max_length=8)]
Amount = Annotated[int, Meta(ge=1, le=1_000_000_000)]
Ids = Annotated[list[Id], Meta(min_length=1, max_length=500)]
Action = Literal["retry", "cancel", "delete", "promote", "reprioritise", "reschedule", "move"]


class OverviewQuery(msgspec.Struct, kw_only=True):
    span: Span = "1h"


class ChartQuery(msgspec.Struct, kw_only=True):
    span: Span = "1h"
    queue: Maybe = ""
    task: Maybe = ""


class JobsQuery(msgspec.Struct, kw_only=True):
    """``filter``: such as ``state:failed queue:emails since:1h``. ``after``: the cursor of the page before."""

    filter: Filter = ""
    after: Cursor = ""
    limit: Rows = 50


class FilterQuery(msgspec.Struct, kw_only=True):
    filter: Filter = ""


class SuggestQuery(msgspec.Struct, kw_only=True):
    """``at``: how many characters of the filter stand before the cursor; -1 for all."""

    filter: Filter = ""
    at: Annotated[int, Meta(ge=-1, le=4_000)] = -1


class ExportQuery(msgspec.Struct, kw_only=True):
    filter: Filter = ""
    limit: Annotated[int, Meta(ge=1, le=100_000)] = 10_000


class JobQuery(msgspec.Struct, kw_only=True):
    """``whole``: values are not cut."""

    whole: bool = False


class LogsQuery(msgspec.Struct, kw_only=True):
    """``after``: the number of the last line that is known already."""

    after: Annotated[int, Meta(ge=-1, le=1_000_000_000)] = -1
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 200


class WorkflowsQuery(msgspec.Struct, kw_only=True):
    """``state``: one or some, with commas."""

    state: Maybe = ""
    after: Cursor = ""
    limit: Rows = 50


class FaultsQuery(msgspec.Struct, kw_only=True):
    queue: Maybe = ""
    task: Maybe = ""


class TasksQuery(msgspec.Struct, kw_only=True):
    """``span``: with numbers over so long a time; empty: without."""

    span: Span | Literal[""] = "1h"


class AuditQuery(msgspec.Struct, kw_only=True):
    after: Cursor = ""
    limit: Rows = 100


class NewCall(msgspec.Struct, kw_only=True):
    """``options``: those of a call, such as queue, delay, priority, key, tags."""

    task: Name
    args: dict[str, Any] = {}
    options: dict[Name, Any] = {}


class ActionParams(msgspec.Struct, kw_only=True, omit_defaults=True):
    """``priority`` for reprioritise, ``queue`` for move, ``at`` (ISO 8601) or ``delay`` for reschedule."""

    priority: Annotated[int, Meta(ge=0, le=9)] | UnsetType = UNSET
    queue: Name | UnsetType = UNSET
    at: Text | UnsetType = UNSET
    delay: Text | UnsetType = UNSET
    reason: Text | UnsetType = UNSET


class JobAction(msgspec.Struct, kw_only=True):
    """Give ``ids``, or a ``filter`` to act on all that it finds, one step per call: go on with ``after`` = the answer's
    cursor until that is empty.
    """

    action: Action
    ids: Ids | UnsetType = UNSET
    filter: Filter | UnsetType = UNSET
    after: Cursor = ""
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 500
    params: ActionParams = msgspec.field(default_factory=ActionParams)


class NewArgs(msgspec.Struct, kw_only=True):
    """``requeue``: run the job again if it had ended."""

    args: dict[str, Any]
    requeue: bool = True


class Limits(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A field that is left out stays as it is; null means no limit."""

    limit: Amount | UnsetType | None = UNSET
    rate: Text | UnsetType | None = UNSET
    key_limit: Amount | UnsetType | None = UNSET
    key_rate: Text | UnsetType | None = UNSET
    max_ready: Amount | UnsetType | None = UNSET


class TaskLimits(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A field that is left out stays as it is; null means no limit."""

    limit: Amount | UnsetType | None = UNSET
    rate: Text | UnsetType | None = UNSET


class Purge(msgspec.Struct, kw_only=True):
    """``confirm``: the queue's name."""

    confirm: Name
    states: States = ("ready", "scheduled", "waiting")


class MoveAll(msgspec.Struct, kw_only=True):
    to: Name
    states: States = ("ready", "scheduled", "waiting")


class Why(msgspec.Struct, kw_only=True):
    reason: Text = ""


class NewTimes(msgspec.Struct, kw_only=True):
    """``spec``: ``cron 0 9 * * 1-5``, ``every 5m``, ``at 2026-11-01T10:00``. ``tz``: empty leaves it as it is."""

    spec: Text
    tz: Maybe = ""


class OpenFor(msgspec.Struct, kw_only=True):
    """``seconds``: null keeps it open until it is closed by hand."""

    seconds: Annotated[float, Meta(gt=0, le=31_536_000)] | None = None


class Warned(msgspec.Struct, kw_only=True):
    """``code`` and ``where`` as those of the warning."""

    code: Name
    where: Annotated[str, Meta(max_length=256)]


class NewMute(msgspec.Struct, kw_only=True):
    """``lasts``: ``30m``, ``2h``, ``1d``, from a minute to thirty days. ``reason``: not empty."""

    code: Name
    where: Annotated[str, Meta(max_length=256)]
    lasts: Annotated[str, Meta(min_length=1, max_length=40)]
    reason: Annotated[str, Meta(min_length=1, max_length=500)]


class NewView(msgspec.Struct, kw_only=True):
    name: Name
    filter: Filter


# -- answers that the console has no struct for


class Me(msgspec.Struct, kw_only=True):
    """The user, as the server knows them."""

    user: str
    rights: list[str]
    queues: list[str]


class Enqueued(msgspec.Struct):
    id: str


class Done(msgspec.Struct):
    done: bool = True


def given(asked: msgspec.Struct) -> dict[str, Any]:
    """The fields that the request gave."""
    return {name: value for name, value in msgspec.structs.asdict(asked).items() if value is not UNSET}
