"""Progress and logs of running jobs: fenced, numbered and bounded."""

from __future__ import annotations

import pytest

from windlass.core.job import Fence, LogLine
from windlass.store.jobs import Action, Note
from windlass.testing.conformance.bench import START, Bench, MakeBench
from windlass.testing.conformance.exchange import WRONG_FENCES, shifted
from windlass.testing.conformance.outcomes import BACK, DEAD


class NoteRules:
    """What ``note`` keeps and what it refuses."""

    async def test_the_last_progress_is_kept(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        claim = await worker.take("a")
        assert await worker.note(claim, progress=b'{"percent":10}')
        assert await worker.note(claim, progress=b'{"percent":20}')
        assert (await bench.job("a")).progress == b'{"percent":20}'

    async def test_a_note_without_progress_leaves_it_alone(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        claim = await worker.take("a")
        await worker.note(claim, progress=b"1")
        await worker.note(claim, "only a line")
        assert (await bench.job("a")).progress == b"1"

    async def test_progress_outlives_the_run(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        claim = await worker.take("a")
        await worker.note(claim, progress=b"1")
        await worker.finish(claim)
        assert (await bench.job("a")).progress == b"1"

    async def test_log_lines_are_numbered_and_timed(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        claim = await worker.take("a")
        await bench.store.note("w1", [Note("a", claim.fence, None, [("info", "one"), ("error", "two")])])
        bench.clock.advance(5)
        await worker.note(claim, "three")
        assert await bench.store.lines("a") == [
            LogLine(0, START, "info", "one"),
            LogLine(1, START, "error", "two"),
            LogLine(2, START + 5, "info", "three"),
        ]

    async def test_logs_are_read_in_pages(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        await worker.note(await worker.take("a"), *"abcdefg")
        assert [line.text for line in await bench.store.lines("a", limit=3)] == ["a", "b", "c"]
        assert [line.text for line in await bench.store.lines("a", after=2, limit=3)] == ["d", "e", "f"]
        assert [line.text for line in await bench.store.lines("a", after=5)] == ["g"]
        assert await bench.store.lines("a", after=6) == []

    async def test_logs_are_bounded_and_go_on_counting(self, make_bench: MakeBench) -> None:
        bench = await make_bench(logs_kept=3)
        await bench.add("a")
        worker = await bench.worker()
        claim = await worker.take("a")
        await worker.note(claim, *"abcde")
        await worker.note(claim, "f")
        assert [(line.n, line.text) for line in await bench.store.lines("a")] == [(3, "d"), (4, "e"), (5, "f")]

    async def test_logs_go_on_over_the_claims_of_a_job(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        for line in ("first", "second"):
            claim = await worker.take("a")
            await worker.note(claim, line)
            await worker.settle(claim, BACK)
        assert [(line.n, line.text) for line in await bench.store.lines("a")] == [(0, "first"), (1, "second")]

    async def test_a_deleted_job_has_no_logs_and_leaves_none_behind(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        claim = await worker.take("a")
        await worker.note(claim, "one")
        await worker.settle(claim, DEAD)
        await bench.change(Action.DELETE, "a")
        assert await bench.store.lines("a") == []
        await bench.add("a")
        assert await bench.store.lines("a") == []

    async def test_an_unknown_job_has_no_logs(self, bench: Bench) -> None:
        assert await bench.store.lines("never") == []

    @pytest.mark.parametrize("wrong", WRONG_FENCES.values(), ids=WRONG_FENCES.keys())
    async def test_a_note_under_another_fence_is_refused(self, bench: Bench, wrong: Fence) -> None:
        await bench.add("a")
        worker = await bench.worker()
        claim = await worker.take("a")
        assert not await worker.note(claim, "x", progress=b"1", fence=shifted(claim.fence, wrong))
        assert (await bench.job("a")).progress is None
        assert await bench.store.lines("a") == []

    async def test_a_note_of_another_worker_is_refused(self, bench: Bench) -> None:
        await bench.add("a")
        worker, thief = await bench.worker("w1"), await bench.worker("w2")
        claim = await worker.take("a")
        assert not await thief.note(claim, "x", progress=b"1")
        assert not await bench.store.lines("a")

    async def test_a_note_of_a_settled_claim_is_refused(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        claim = await worker.take("a")
        await worker.finish(claim)
        assert not await worker.note(claim, "x", progress=b"1")
        assert (await bench.job("a")).progress is None

    async def test_a_note_of_an_unknown_worker_is_refused(self, bench: Bench) -> None:
        assert await bench.store.note("never", [Note("a", Fence(1, 1, 1)), Note("b", Fence(1, 1, 1))]) == ["a", "b"]

    async def test_a_refused_note_does_not_harm_its_neighbours(self, bench: Bench) -> None:
        await bench.add("a", "b")
        worker = await bench.worker()
        a, b = await worker.claim()
        notes = [Note("a", Fence(9, 9, 9), b"1"), Note("b", b.fence, b"2"), Note("never", a.fence, b"3")]
        assert await bench.store.note("w1", notes) == ["a", "never"]
        assert [(await bench.job(id)).progress for id in ("a", "b")] == [None, b"2"]
