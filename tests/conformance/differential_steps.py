"""The steps of random lives that engines are compared in: what happens, how often, and with which values."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from hypothesis import strategies as st

from windlass.core.job import State
from windlass.core.lifecycle import Crashed, Outcome
from windlass.core.limits import Limits, Rate
from windlass.core.terms import Policy, Terms
from windlass.store.jobs import Action
from windlass.testing.conformance.outcomes import EVERY, OOPS

OUTCOMES: list[Outcome] = [*EVERY.values(), Crashed(OOPS, 2)]

IDS = [f"j{n}" for n in range(15)]


# ---- the steps ------------------------------------------------------------------------------------------------


class Insert(NamedTuple):
    jobs: list[dict[str, Any]]


class Beat(NamedTuple):
    worker: int
    acked_less: int
    forgets: int
    claims_too_much: bool
    declares: int


class Exchange(NamedTuple):
    worker: int
    outcomes: list[int]
    forged: bool
    caps: tuple[int, int]
    total: int
    sent: int


class Leave(NamedTuple):
    worker: int
    crashed: bool


class Note(NamedTuple):
    worker: int
    text: str
    forged: bool


class Alter(NamedTuple):
    action: Action
    ids: list[str]
    by_query: bool
    queue: str
    priority: int
    limit: int


class Advance(NamedTuple):
    ms: int


class Wait(NamedTuple):
    steps: int
    beating: int


class Sweep(NamedTuple):
    limit: int


class Watch(NamedTuple):
    ids: list[str]


class Tune(NamedTuple):
    gate: str
    side: str
    limits: Limits
    closed_for: int


Step = Insert | Beat | Exchange | Leave | Note | Alter | Advance | Wait | Sweep | Watch | Tune


class Some(NamedTuple):
    """A list of values."""

    of: Any
    least: int
    most: int


class Weighed(NamedTuple):
    """A step, the values each of its fields is chosen from, and how often it comes."""

    weight: int
    kind: type
    fields: dict[str, Any]


_WORKER = [0, 0, 1, 1, 2]

_JOB = {
    "id": IDS,
    "task": ["t", "t", "u"],
    "queue": ["q", "q", "r"],
    "payload": [b"[1]", b"[1]", b"[1]", b"[2]"],
    "version": [1, 1, 1, 1, 1, 2],
    "priority": [5, 5, 0, 9],
    "delay": [0, 0, 0, 1, 2_000],
    "expires_in": [0, 0, 0, 0, 3_000],
    "expire_to": [State.CANCELLED, State.FAILED],
    "max_crashes": [2, 1, 2, 3],
    "crash_delay": [0, 0, 1_000],
    "keep_done": ["", "", "1|-1|k"],
    "keep_failed": ["", "", "0|-1|k"],
}

_CAPS = [(3, 2), (3, 2), (1, 1), (0, 2), (2, 0)]

LIFE = [
    Weighed(3, Insert, {"jobs": Some(_JOB, 1, 4)}),
    Weighed(
        9,
        Exchange,
        {
            "worker": _WORKER,
            "outcomes": Some(range(len(OUTCOMES)), 0, 3),
            "forged": [False] * 6 + [True],
            "caps": _CAPS,
            "total": [4, 4, 2, 1, 0],
            "sent": [1, 1, 2],
        },
    ),
    Weighed(
        2,
        Beat,
        {
            "worker": _WORKER,
            "acked_less": [0, 0, 1],
            "forgets": [0, 0, 0, 1, 2],
            "claims_too_much": [False, False, True],
            "declares": [0, 1, 1, 1, 2, 3],
        },
    ),
    Weighed(
        2,
        Alter,
        {
            "action": list(Action),
            "ids": Some(IDS, 1, 3),
            "by_query": [False, False, True],
            "queue": ["q", "r"],
            "priority": [1, 9],
            "limit": [1, 2, 1_000],
        },
    ),
    Weighed(1, Leave, {"worker": _WORKER, "crashed": [False, True]}),
    Weighed(1, Note, {"worker": _WORKER, "text": ["a", "b"], "forged": [False, False, True]}),
    Weighed(1, Watch, {"ids": Some(IDS, 1, 3)}),
    Weighed(2, Advance, {"ms": [1, 900, 2_000, 5_000, 6_000, 60_000, -30_000]}),
    Weighed(2, Wait, {"steps": [1, 2, 3, 4], "beating": [0, 0b111, 0b110, 0b010, 0b011]}),
    Weighed(2, Sweep, {"limit": [1_000, 1_000, 1, 2]}),
]

_TERMS = [
    None,
    None,
    None,
    Terms(key="a"),
    Terms(key="b", key_limit=1),
    Terms(key="c", key_rate=Rate(1_000_000, 1)),
    Terms(key="o", ordered=True),
    *[Terms(key="s", seq=seq, gap=2_000) for seq in (1, 2, 3)],
    Terms(breaker="b"),
    Terms(units=2),
    Terms(unique="one"),
    Terms(unique="two", policy=Policy.REPLACE, key="o", ordered=True),
    Terms(unique="two", policy=Policy.REPLACE),
    Terms(unique="three", policy=Policy.DEBOUNCE, most=4_000, window=6_000),
    Terms(max_ready=2),
    Terms(max_ready=2, drop_oldest=True),
]

_LIMITS = [
    Limits(),
    Limits(),
    Limits(limit=1),
    Limits(limit=2, key_limit=1),
    Limits(rate=Rate(1_000_000, 2)),
    Limits(paused=True),
    Limits(draining=True),
    Limits(max_ready=3),
    Limits(limit=0, rate=Rate(0, 0), key_limit=0, key_rate=Rate(0, 0), max_ready=0, paused=False, draining=False),
]

_SIDE = ["tuned", "tuned", "declared"]

_CLOSED_FOR = [-1, -1, -1, 0, 1_500]

_FLOW_JOB = _JOB | {"terms": _TERMS, "max_crashes": [99], "expires_in": [0], "payload": [b"[1]"]}

FLOW_LIFE = [
    Weighed(4, Insert, {"jobs": Some(_FLOW_JOB, 1, 4)}),
    *[one for one in LIFE if one.kind not in (Insert, Wait)],
    Weighed(2, Wait, {"steps": [1, 2, 3, 4], "beating": [0b111]}),
    Weighed(2, Tune, {"gate": ["queue:q", "queue:r"], "side": _SIDE, "limits": _LIMITS, "closed_for": _CLOSED_FOR}),
    Weighed(
        2,
        Tune,
        {
            "gate": ["task:t", "task:u", "breaker:b"],
            "side": _SIDE,
            "limits": [Limits(), Limits(paused=True), Limits(paused=False)],
            "closed_for": _CLOSED_FOR,
        },
    ),
]
"""Lives with lanes, gates and unique keys, as far as the rules settle who is granted first.

All workers declare all, nothing must run alone and nothing expires: what is set aside goes back to its lane, and what
has expired ends, when somebody looks at it, and when that is is an engine's own affair. So is which lanes of several
queues are looked at for one unit of a task, and in which order a sweep gives back what dead workers held.
"""


def strategy(values: Any) -> st.SearchStrategy[Any]:
    """Hypothesis's way to choose."""
    if isinstance(values, Some):
        return st.lists(strategy(values.of), min_size=values.least, max_size=values.most)
    if isinstance(values, dict):
        return st.fixed_dictionaries({name: strategy(of) for name, of in values.items()})
    return st.sampled_from(values)


def chosen(values: Any, rng: random.Random) -> Any:
    """The same by dice, without Hypothesis's love of small examples: for long lives."""
    if isinstance(values, Some):
        return [chosen(values.of, rng) for _ in range(rng.randint(values.least, values.most))]
    if isinstance(values, dict):
        return {name: chosen(of, rng) for name, of in values.items()}
    return rng.choice(values)


def long_life(seed: int, steps: int, life: list[Weighed]) -> list[Step]:
    rng = random.Random(seed)
    picked = rng.choices(life, [one.weight for one in life], k=steps)
    return [one.kind(**chosen(one.fields, rng)) for one in picked]


def steps_of(life: list[Weighed]) -> st.SearchStrategy[Step]:
    # Not one_of(), which throws out the repeated ones and with them the weights.
    return st.sampled_from([one for one in life for _ in range(one.weight)]).flatmap(
        lambda one: st.builds(one.kind, **{name: strategy(of) for name, of in one.fields.items()})
    )
