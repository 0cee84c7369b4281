"""Why a job does not run: every reason, from facts alone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from windlass.core.job import Job, State
from windlass.core.limits import Limits, parse_rate
from windlass.core.terms import Terms
from windlass.handles.why import Facts, Why, explain
from windlass.store.flow import GateInfo, Hold, HoldKind
from windlass.store.jobs import Declared, Presence
from windlass.store.reads import QueueInfo, WorkerInfo

NOW = 1_893_456_000_000


def at(ms: int) -> datetime:
    return datetime.fromtimestamp((NOW + ms) / 1000, UTC)


def job(state: State = State.READY, **more: Any) -> Job:
    kept: dict[str, Any] = {"id": "j", "task": "send", "version": 1, "queue": "mail", "priority": 5, **more}
    return Job(**kept, state=state, payload=b"{}", meta=b"{}")


def worker(queues: tuple[str, ...] = ("mail",), **declares: tuple[int, ...]) -> WorkerInfo:
    known = {name: Declared(versions) for name, versions in (declares or {"send": (1,)}).items()}
    presence = Presence(id="w", queues=list(queues), declares=known, concurrency=10)
    return WorkerInfo(presence=presence, beat_age=0, alive=True, running=10, idle=False)


def gate(name: str, limits: Limits | None = None, **more: Any) -> GateInfo:
    return GateInfo(name=name, version=1, declared=limits or Limits(), **more)


def why(record: Job | None, hold: Hold | None = None, *gates: GateInfo, **more: Any) -> Why:
    more.setdefault("workers", [worker()])
    return explain(Facts(id="j", now=NOW, job=record, hold=hold, gates={one.name: one for one in gates}, **more))


def codes(answer: Why) -> list[str]:
    return [reason.code for reason in answer.reasons]


@pytest.mark.parametrize(
    ("answer", "code", "text", "by", "until"),
    [
        (why(None), "missing", "job j: the store has no record of it", "", None),
        (why(job(State.FAILED, reason="boom")), "over", "it is over: failed (boom)", "", None),
        (why(job(State.SUCCEEDED)), "over", "it is over: succeeded", "", None),
        (
            why(job(State.RUNNING, worker="w7", started_at=NOW - 5_000, cancel_requested=True)),
            "running", "it has been running for 5s on worker w7; a cancel was requested", "w7", None,
        ),
        (why(job(State.SCHEDULED, due_at=NOW + 90_000)), "scheduled", "it is due in 1m 30s", "", 90_000),
        (why(job(State.SCHEDULED, due_at=NOW + 1_000, attempt=2)), "scheduled", "retry 2 is due in 1s", "", 1_000),
        (
            why(job(), None, gate("queue:mail", Limits(paused=True))),
            "paused_queue", "queue 'mail' is paused", "mail", None,
        ),
        (
            why(job(), None, gate("task:send", Limits(paused=True))),
            "paused_task", "task 'send' is paused", "send", None,
        ),
        (
            why(job(), None, gate("task:send", Limits(limit=3), held=3)),
            "limit_reached", "task 'send' has its limit: 3 of 3 run", "send", None,
        ),
        (
            why(job(), None, gate("queue:mail", Limits(rate=parse_rate("10/m")), opens_in=2_000)),
            "rate_limited", "queue 'mail' is limited to 10/m; the next may start in 2s", "mail", 2_000,
        ),
        (
            why(job(terms=Terms(breaker="stripe")), None, gate("breaker:stripe", closed_for=30_000)),
            "breaker_open", "breaker 'stripe' is open for 30s more", "stripe", 30_000,
        ),
        (
            why(job(terms=Terms(key="ann")), Hold(kind=HoldKind.LANE, lane="kann", gate="key:mail:ann", opens_in=500)),
            "key_limited", "the limit of key 'ann' in queue 'mail' is reached; it opens in 500ms", "ann", 500,
        ),
        (
            why(job(terms=Terms(key="ann")), Hold(kind=HoldKind.LANE, lane="kann", gate="key:mail:ann")),
            "key_limited", "the limit of key 'ann' in queue 'mail' is reached", "ann", None,
        ),
        (
            why(
                job(terms=Terms(key="ann", ordered=True)),
                Hold(kind=HoldKind.LANE, lane="oann", holder="first", ahead=3),
            ),
            "lane_held", "job first comes first: the jobs of key 'ann' run in order", "first", None,
        ),
        (
            why(job(terms=Terms(key="a", seq=3)), Hold(kind=HoldKind.LANE, lane="sa", missing=2, opens_in=1_000)),
            "lane_gap", "number 2 of key 'a' has not come and is waited for, 1s more", "a", 1_000,
        ),
        (why(job(), Hold(kind=HoldKind.SOLO)), "alone", "its workers died under it: it must run alone", "", None),
        (
            why(job(), Hold(kind=HoldKind.LANE, lane="ka", ahead=1)),
            "behind", "1 job of its lane is before it", "", None,
        ),
        (why(job(), workers=[]), "no_worker", "no live worker takes jobs from queue 'mail'", "mail", None),
        (why(job(), workers=[worker(("other",))]), "no_worker", "no live worker takes jobs from", "mail", None),
        (
            why(job(version=2), Hold(kind=HoldKind.ASIDE)),
            "undeclared", "no live worker of queue 'mail' declares task 'send' version 2", "send", None,
        ),
        (
            why(job(), queue=QueueInfo(name="mail", counts={"ready": 1_200})),
            "behind", "it waits for its turn: 1,200 jobs of queue 'mail' are ready, 10 of 10 slots", "mail", None,
        ),
        (
            why(job(State.WAITING), Hold(kind=HoldKind.SUCCESSOR, holder="h")),
            "unique_successor", "it starts when job h, which has its unique key, is over", "h", None,
        ),
        (why(job(State.WAITING, awaits="g")), "waiting_for", "it waits for workflow g, which it started", "g", None),
        (
            why(job(State.WAITING), sources=[job(State.RUNNING, id=f"s{n}") for n in range(7)]),
            "waiting_for", "it waits for s0 (send, running), s1 (send, running)", "s0", None,
        ),
    ],
)  # fmt: skip
def test_the_main_reason(answer: Why, code: str, text: str, by: str, until: int | None) -> None:
    main = answer.main
    assert (main.code, main.by, main.until) == (code, by, None if until is None else at(until))
    assert main.text.startswith(text), main.text
    assert str(answer).splitlines()[0] == main.text


def test_many_sources_are_counted() -> None:
    answer = why(job(State.WAITING), sources=[job(State.READY, id=f"s{n}") for n in range(7)])
    assert answer.main.text.endswith("and 2 more")


def test_a_handler_for_all_names_of_a_queue_declares_every_task() -> None:
    known = WorkerInfo(
        presence=Presence(id="w", queues=["mail"], declares={"*mail": Declared()}), beat_age=0, alive=True, running=0,
        idle=True,
    )  # fmt: skip
    assert codes(why(job(task="any", version=9), workers=[known])) == ["behind"]


def test_all_reasons_are_said_and_the_main_one_comes_first() -> None:
    answer = why(
        job(State.SCHEDULED, due_at=NOW + 5, terms=Terms(breaker="b", units=4)), None,
        gate("queue:mail", Limits(paused=True, limit=1), held=1), gate("task:send", Limits(limit=5), held=3),
        gate("breaker:b", closed_for=9), workers=[],
    )  # fmt: skip
    assert codes(answer) == ["scheduled", "paused_queue", "no_worker", "limit_reached", "breaker_open"]
    assert len(str(answer).splitlines()) == 5


def test_what_weighs_more_than_the_limit_runs_when_nothing_else_does() -> None:
    heavy = job(terms=Terms(units=9))
    assert codes(why(heavy, None, gate("task:send", Limits(limit=3), held=0))) == ["behind"]
    assert codes(why(heavy, None, gate("task:send", Limits(limit=3), held=1))) == ["limit_reached"]
