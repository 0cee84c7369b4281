"""Workflows end to end, with workers inside the test: every shape, every rule for failures, and the whole as one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.worker.graphs import Tasks, value_of
from tests.worker.helpers import Ledger, eventually, within
from windlass import JobCancelled, JobFailed, State, chain, chord, flow, group

pytestmark = pytest.mark.usefixtures("worker")


# -- shapes


async def test_a_chain_passes_results_on_through_every_place(t: Tasks) -> None:
    work = chain(t.add.s(1, 2), t.double.s(), t.square.s(), t.in_second.s(), t.add.s(10))
    assert await value_of(work) == 146


async def test_a_step_that_takes_nothing_is_given_nothing(t: Tasks) -> None:
    assert await value_of(chain(t.add.s(1, 2), t.double.si(5))) == 10
    assert await value_of(t.add.s(1, 2) | t.double.s()) == 6
    assert await value_of(chain(t.add.s(1, 2))) == 3


async def test_a_group_is_the_list_of_its_results_in_order(t: Tasks) -> None:
    assert await value_of(group(t.slow.s(1, 0.1), t.add.s(1, 1), t.square.s(3))) == [1, 2, 9]
    assert await value_of(group(t.add.s(1, 1))) == [2]
    assert await value_of(group([])) == []


async def test_a_chord_runs_its_body_with_the_list(t: Tasks) -> None:
    assert await value_of(chord([t.add.s(i, 1) for i in range(10)], t.total.s())) == 55
    assert await value_of(chord([t.double.s(i) for i in range(3)])(t.total_in_child.s())) == 6
    assert await value_of(chord([], t.echo.s())) == []
    assert await value_of(group(t.add.s(1, 1), t.add.s(2, 2)) | t.total.s()) == 6


async def test_any_nesting(t: Tasks) -> None:
    inner = chord([t.add.si(1, 1), t.add.si(2, 2)], t.total.s())
    work = chain(
        t.add.s(1, 1),
        group(t.double.s(), chain(t.add.s(1), t.double.s()), group(t.add.s(1), t.add.s(2))),
        t.echo.s(),
        group(t.echo.s(), inner),
    )
    assert await value_of(work) == [[4, 6, [3, 4]], 6]
    assert await value_of(chord([chord([t.add.s(1, 1)], t.total.s()), t.add.s(1, 2)], t.total.s())) == 5


async def test_a_group_behind_a_group_gets_the_whole_list_each(t: Tasks) -> None:
    assert await value_of(group(t.add.s(1, 1), t.add.s(2, 2)) | group(t.echo.s(), t.total.s())) == [[2, 4], 6]


async def test_maps_and_chunks(t: Tasks) -> None:
    assert await value_of(t.double.map([1, 2, 3])) == [2, 4, 6]
    assert await value_of(t.add.starmap([(1, 2), (3, 4)])) == [3, 7]
    assert await value_of(t.square.map([2, 3])) == [4, 9]
    assert await value_of(t.add.chunks([(i, 1) for i in range(5)], 2)) == [[1, 2], [3, 4], [5]]
    assert await value_of(chord([t.double.map([1, 2]), t.double.map([3])], t.echo.s())) == [[2, 4], [6]]


async def test_a_large_value_is_read_when_it_is_needed(t: Tasks) -> None:
    text = "x" * 100_000
    assert await value_of(chain(t.echo.s(text), t.echo.s(), group(t.echo.s(), t.echo.s()), t.echo.s())) == [text, text]


async def test_a_chord_of_two_thousand(t: Tasks) -> None:
    handle = await chord([t.add.s(i, 1) for i in range(2_000)], t.echo.s()).enqueue()
    assert await within(handle, 60) == list(range(1, 2_001))
    progress = await handle.progress()
    assert (progress.done, progress.total) == (2_001, 2_001)


# -- failures


async def test_a_failed_step_fails_the_workflow_and_skips_the_rest(t: Tasks) -> None:
    handle = await chain(t.add.s(1, 2), t.boom.s(), t.double.s()).enqueue()
    with pytest.raises(JobFailed, match=r"boom .* failed: ValueError: no money") as raised:
        await within(handle)
    assert raised.value.error_type == "ValueError"
    states = {job.task.rpartition(".")[2]: job.state for job in await handle.jobs()}
    assert states == {"add": State.SUCCEEDED, "boom": State.FAILED, "double": State.SKIPPED}


async def test_kept_errors_are_values(t: Tasks) -> None:
    work = chord(group(t.add.s(1, 1), t.boom.s(), t.add.s(2, 2)).keep_errors(), t.told.s())
    assert await value_of(work) == [2, "no money", 4]
    (ok, failure) = await value_of(group(t.add.s(1, 1), t.boom.s()).keep_errors())
    assert (ok, failure.type, failure.state) == (2, "ValueError", "failed")
    assert failure.task.endswith("boom")


async def test_at_least_so_many(t: Tasks) -> None:
    assert await value_of(group(t.add.s(1, 1), t.boom.s(), t.add.s(2, 2)).at_least(2) | t.told.s()) == [
        2,
        "no money",
        4,
    ]
    with pytest.raises(JobFailed):
        await value_of(group(t.add.s(1, 1), t.boom.s(), t.boom.s()).at_least(2) | t.told.s())


async def test_a_flow_runs_what_it_needs_first(t: Tasks) -> None:
    assert await value_of(flow(t.gathered.s(7), needs=[t.add.s(1, 1), t.in_second.s(1)])) == [7, [2, 101]]
    nested = flow(t.gathered.s(1), needs=[flow(t.gathered.s(2), needs=[t.double.s(4)]), t.double.s(5)])
    assert await value_of(nested) == [1, [[2, [8]], 10]]


async def test_what_a_flow_needs_may_fail_in_four_ways(t: Tasks) -> None:
    def needing(bad: Any) -> Any:
        return flow(t.gathered.s(1), needs=[t.add.s(1, 1), bad, t.add.s(2, 2)])

    with pytest.raises(JobFailed, match="no money"):
        await value_of(needing(t.boom.s()))
    assert await value_of(needing(t.boom.s().if_fails("ignore"))) == [1, [2, "ValueError", 4]]
    assert await value_of(needing(t.boom.s().if_fails("remove"))) == [1, [2, 4]]
    early = flow(t.gathered.s(1), needs=[t.slow.s(5, 0.5), t.boom.s().if_fails("continue")])
    handle = await early.enqueue()
    assert await within(handle) == [1, []]
    assert [job.state for job in await handle.jobs()].count(State.SUCCEEDED) == 2


async def test_callbacks_of_the_whole(t: Tasks, ledger: Ledger) -> None:
    def called(work: Any) -> Any:
        path = str(ledger.path)
        return (
            work.then(t.keep_value.s(path)).on_error(t.keep_value.s(path)).on_end(t.keep.s(path, "over"))
        )  # fmt: skip

    assert await value_of(called(chain(t.add.s(1, 2), t.double.s()))) == 6
    await eventually(lambda: sorted(line.what for line in ledger.lines()) == ["6", "over"])
    with pytest.raises(JobFailed):
        await value_of(called(group(t.add.s(1, 2), t.boom.s())))
    both = ["6", "ValueError: no money", "over", "over"]
    await eventually(lambda: sorted(line.what for line in ledger.lines()) == both)


async def test_callbacks_of_a_part(t: Tasks, ledger: Ledger) -> None:
    path = str(ledger.path)
    work = chain(t.add.s(1, 2).then(t.keep_value.s(path)), group(t.double.s(), t.double.s()).then(t.keep_value.s(path)))
    assert await value_of(work) == [6, 6]
    await eventually(lambda: sorted(line.what for line in ledger.lines()) == ["3", "[6, 6]"])


async def test_fail_fast_stops_what_has_not_started(t: Tasks) -> None:
    waiting = [t.add.s(i, 1).set(delay="1h") for i in range(5)]
    handle = await group(t.boom.s(), *waiting).fail_fast().enqueue()
    with pytest.raises(JobFailed, match="no money"):
        await within(handle)
    states = [job.state for job in await handle.jobs()]
    assert (states.count(State.CANCELLED), states.count(State.FAILED)) == (5, 1)


# -- as a whole


async def test_a_workflow_is_cancelled_as_a_whole(t: Tasks) -> None:
    handle = await chord([t.slow.s(1, 30), t.slow.s(2, 30)], t.total.s()).enqueue()
    await eventually(lambda: running(handle, 2))
    assert await handle.cancel("not needed")
    with pytest.raises(JobCancelled):
        await within(handle)
    await eventually(lambda: all_over(handle))
    assert {job.state for job in await handle.jobs()} <= {State.CANCELLED, State.SKIPPED}


async def running(handle: Any, count: int) -> bool:
    return [job.state for job in await handle.jobs()].count(State.RUNNING) == count


async def all_over(handle: Any) -> bool:
    return all(job.state.terminal for job in await handle.jobs())


async def test_only_what_failed_runs_again(t: Tasks, ledger: Ledger) -> None:
    first = t.keep.s(str(ledger.path), "ran")
    handle = await chain(group(first, t.fails_until.s(f"{ledger.path}.gate")), t.echo.s()).enqueue()
    with pytest.raises(JobFailed, match="not yet"):
        await within(handle)
    ledger.path.with_name("ledger.gate").write_text("open")
    assert await handle.retry()
    assert await within(handle) == [None, "at last"]
    assert len(ledger.lines("ran")) == 1


async def test_a_step_tries_again_by_its_own_rules(t: Tasks, ledger: Ledger) -> None:
    assert await value_of(chain(t.add.s(1, 2), t.flaky.s(str(ledger.path)), t.double.s())) == 6
    assert [line.what for line in ledger.lines()] == ["3", "3", "3"]
