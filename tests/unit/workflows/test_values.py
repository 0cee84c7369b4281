"""Values put together from a graph's sources: order, shapes, splices, failures; by bytes, four nodes to a call."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

import msgspec
import pytest

from windlass.core.graph import Input, because
from windlass.core.job import ErrorInfo, Job, State
from windlass.core.links import Inject, Links, Shape
from windlass.handles import results as values
from windlass.handles.results import Failure, decode, failure_of, read_value
from windlass.store.base import Store

OK, FAILED = State.SUCCEEDED, State.FAILED


class Nodes:
    """A store of which only reading is there. It counts the calls, and how many are under way at a time."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.sources: dict[str, list[Input]] = {}
        self.calls = 0

    def job(self, id: str, state: State = OK, shape: Shape = Shape.CALL, **given: Any) -> None:
        task = "t.job" if shape is Shape.CALL else ""
        self.jobs[id] = Job(
            id=id, task=task, version=1, queue="", priority=5, state=state, payload=b"{}", meta=b"{}",
            links=Links(shape=shape), **given,
        )  # fmt: skip

    def join(self, id: str, *sources: Input, shape: Shape = Shape.MANY, **given: Any) -> None:
        self.job(id, shape=shape, **given)
        self.sources[id] = list(sources)

    async def get(self, ids: Sequence[str]) -> list[Job | None]:
        return [self.jobs.get(id) for id in ids]

    async def inputs(self, ids: Sequence[str]) -> list[list[Input]]:
        self.calls += 1
        assert 0 < len(ids) <= 4
        return [self.sources[id] for id in ids]

    async def read(self, id: str) -> Any:
        return json.loads(await read_value(cast("Store", self), id))


def given(id: str, result: Any = None, inject: Inject = Inject.RESULT, **more: Any) -> Input:
    data = None if result is None else json.dumps(result, separators=(",", ":")).encode()
    return Input(id, "t.job", OK, inject, Shape.CALL, data, **more)


def bad(id: str, state: State = FAILED, inject: Inject = Inject.RESULT, task: str = "t.job", **more: Any) -> Input:
    return Input(id, task, state, inject, Shape.CALL if task else Shape.MANY, None, **more)


def join(id: str, inject: Inject = Inject.RESULT, shape: Shape = Shape.MANY) -> Input:
    return Input(id, "", OK, inject, shape)


ERROR = msgspec.json.encode(ErrorInfo("ValueError", "no money", "Traceback …"))


async def test_a_job_has_its_own_result_and_nothing_where_it_kept_none() -> None:
    nodes = Nodes()
    nodes.job("a", result=b'{"x":1}')
    nodes.job("b")
    assert await nodes.read("a") == {"x": 1}
    assert await nodes.read("b") is None


async def test_a_list_has_its_items_in_order_and_nested_lists_stay_nested() -> None:
    nodes = Nodes()
    nodes.join("all", given("a", 1), join("inner"), given("b"), given("c", [2, 3]))
    nodes.join("inner", given("d", "x"), given("e", "y"))
    assert await nodes.read("all") == [1, ["x", "y"], None, [2, 3]]


async def test_an_empty_join_is_an_empty_list() -> None:
    nodes = Nodes()
    nodes.join("none")
    assert await nodes.read("none") == []


async def test_spliced_parts_lie_in_their_place() -> None:
    nodes = Nodes()
    part = Inject.SPLICE
    nodes.join("all", given("a", 1), join("p", part), join("empty", part), given("z", [8, 9], part), given("b", 2))
    nodes.join("p", given("c", [3]), join("q", part))
    nodes.join("q", given("d", 4))
    nodes.join("empty")
    assert await nodes.read("all") == [1, [3], 4, 8, 9, 2]


async def test_a_join_that_passes_one_value_on_is_that_value_however_many_lie_behind_each_other() -> None:
    nodes = Nodes()
    nodes.join("one", join("two", shape=Shape.ONE), shape=Shape.ONE)
    nodes.join("two", join("many"), shape=Shape.ONE)
    nodes.join("many", given("a", 1))
    assert await nodes.read("one") == [1]


async def test_a_join_that_kept_its_value_is_not_asked_for_inputs() -> None:
    nodes = Nodes()
    nodes.join("one", shape=Shape.ONE, result=b"7")
    assert await nodes.read("one") == 7
    assert nodes.calls == 0


async def test_a_replaced_job_has_the_value_of_what_replaced_it() -> None:
    nodes = Nodes()
    nodes.job("a", replaced=True, awaits="g")
    nodes.sources["a"] = [join("g")]
    nodes.sources["g"] = [given("b", 1), given("c", 2)]
    assert await nodes.read("a") == [1, 2]


async def test_a_failure_says_who_and_why() -> None:
    nodes = Nodes()
    nodes.job("a", FAILED, error=ERROR)
    raw = await read_value(cast("Store", nodes), "a")
    assert decode(raw) == Failure("a", "t.job", "failed", "ValueError", "no money", "Traceback …")


async def test_failures_in_a_list_keep_their_place_without_tracebacks() -> None:
    nodes = Nodes()
    nodes.join("all", given("a", 1), bad("b", error=ERROR), bad("c", State.SKIPPED, reason="t.job b failed"))
    value = decode(await read_value(cast("Store", nodes), "all"))
    assert value == [
        1,
        Failure("b", "t.job", "failed", "ValueError", "no money"),
        Failure("c", "t.job", "skipped", "windlass.errors.JobSkipped", "t.job b failed"),
    ]


async def test_what_failed_or_has_not_ended_is_left_out_where_the_edge_says_so() -> None:
    nodes = Nodes()
    nodes.join(
        "all",
        bad("a", inject=Inject.IF_SUCCEEDED, error=ERROR),
        given("b", 2, Inject.IF_SUCCEEDED),
        bad("c", State.RUNNING, Inject.IF_SUCCEEDED),
        bad("d", State.WAITING),
    )
    assert await nodes.read("all") == [2]


async def test_a_job_that_is_gone_is_a_failure() -> None:
    value = decode(await read_value(cast("Store", Nodes()), "nowhere"))
    assert value.job == "nowhere"
    assert value.type == "windlass.errors.JobLost"


@pytest.mark.parametrize("state", [State.FAILED, State.CANCELLED])
def test_the_failure_of_a_join_names_its_culprit(state: State) -> None:
    node = bad("all", state, task="", error=ERROR, reason=because("shop.charge", "id1", state))
    assert (failure_of(node).job, failure_of(node).task) == ("id1", "shop.charge")


def test_the_failure_of_a_join_without_a_culprit_names_the_join() -> None:
    node = bad("all", State.CANCELLED, task="", reason="not needed any more")
    assert failure_of(node) == Failure(
        "all", "", "cancelled", "windlass.errors.JobCancelled", "not needed any more"
    )  # fmt: skip


def test_expired_is_told_from_cancelled() -> None:
    assert failure_of(bad("a", State.CANCELLED, reason="expired")).type == "windlass.errors.JobExpired"


async def test_wide_lists_are_read_four_joins_to_a_call() -> None:
    nodes = Nodes()
    nodes.join("all", *(join(f"p{part}", Inject.SPLICE) for part in range(40)))
    for part in range(40):
        nodes.sources[f"p{part}"] = [given(f"{part}-{n}", part * 250 + n) for n in range(250)]
    assert await nodes.read("all") == list(range(10_000))
    assert nodes.calls == 1 + 10


def test_failures_come_out_of_plain_values_at_any_depth() -> None:
    failure = Failure("a", "t", "failed", "E", "m")
    data = msgspec.json.encode({"x": [1, {"y": failure}], "z": failure})
    assert decode(data) == {"x": [1, {"y": failure}], "z": failure}


def test_what_only_looks_like_a_failure_is_left_alone() -> None:
    assert decode(b'{"windlass":"failure"}') == {"windlass": "failure"}
    assert decode(b'{"windlass":"failure","job":1}') == {"windlass": "failure", "job": 1}
    assert decode(b'["\\"windlass\\":\\"failure\\""]') == ['"windlass":"failure"']
    assert decode(None) is None


def test_a_failure_can_be_told_from_other_values_by_annotation() -> None:
    read = msgspec.json.decode(
        msgspec.json.encode([1, Failure("a", "t", "failed", "E", "m")]), type=list[int | Failure]
    )
    assert read == [1, Failure("a", "t", "failed", "E", "m")]


def test_the_mark_is_what_msgspec_writes() -> None:
    assert values.MARK in msgspec.json.encode(Failure("a", "t", "failed", "E", "m"))
